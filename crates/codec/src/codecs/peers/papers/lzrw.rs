//! `lzrw1a`: R. Williams' LZRW1-A (1991), with which the CRAMES paper compares its own codec. It is LZ77 with
//! one candidate for each position: the last looked-up position whose three bytes have the same hash.
//!
//! ```text
//! | 0 | block                                   if the groups would be longer
//! | 1 | group | group | ...
//!
//! group  | control, 16 bits | 16 items; fewer in the last group |
//! item   | byte |                                 its bit of the control is 0
//!        | distance / 256, length - 3 | distance mod 256 |         it is 1
//!          high half    low half
//! ```
//!
//! A control is little endian, and its bits are used from the lowest on. A copy has 3 to 18 bytes and begins
//! 1 to 4095 bytes back.

use crate::bytes::Out;
use crate::scratch::parts::{Parts, part};
use crate::steps::{Standalone, Step};
use crate::{CodecId, Malformed, Scratch};

pub(crate) static LZRW1A: Standalone<Lzrw> = Standalone { step: Lzrw, id: CodecId::LZRW1A };

/// The codec `lzrw1a`.
pub(crate) struct Lzrw;

const RAW: u8 = 0;
const CODED: u8 = 1;
const TABLE: usize = 4096;
const SHORTEST: usize = 3;
const LONGEST: usize = 18;
const FAR: usize = 4095;
const ITEMS: u32 = 16;

fn hash(bytes: &[u8]) -> usize {
    let three = u32::from(bytes[0]) << 8 ^ u32::from(bytes[1]) << 4 ^ u32::from(bytes[2]);
    (40543_u32.wrapping_mul(three) >> 4) as usize % TABLE
}

fn encode(src: &[u8], out: &mut Out<'_>, table: &mut [u32]) -> Option<()> {
    let mut at = 0;
    while at < src.len() {
        let (place, mut control) = (out.len(), 0_u16);
        out.put([0, 0])?;
        for item in 0..ITEMS {
            let rest = &src[at..];
            if rest.is_empty() {
                break;
            }
            if rest.len() >= SHORTEST {
                // The table holds positions plus one, so that zero means none.
                let seen = core::mem::replace(&mut table[hash(rest)], at as u32 + 1) as usize;
                let distance = if seen > 0 { at + 1 - seen } else { 0 };
                if (1..=FAR).contains(&distance) {
                    let most = rest.len().min(LONGEST);
                    let same = rest.iter().zip(&src[at - distance..]).take(most).take_while(|(a, b)| a == b);
                    let len = same.count();
                    if len >= SHORTEST {
                        out.put([(distance >> 4) as u8 & 0xF0 | (len - SHORTEST) as u8, distance as u8])?;
                        control |= 1 << item;
                        at += len;
                        continue;
                    }
                }
            }
            out.put([rest[0]])?;
            at += 1;
        }
        out.all()[place..place + 2].copy_from_slice(&control.to_le_bytes());
    }
    Some(())
}

impl Step for Lzrw {
    fn name(&self) -> &'static str {
        "lzrw1a"
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(1)
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        part::<u32>(TABLE)
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let table = Parts::new(scratch.bytes(part::<u32>(TABLE))).take::<u32>(TABLE);
        table.fill(0);
        let room = dst.len().min(src.len() + 1);
        let mut out = Out::after(&mut dst[..room], 0)?;
        out.put([CODED])?;
        if encode(src, &mut out, table).is_some() {
            return Some(out.len());
        }
        let mut out = Out::after(dst, 0)?;
        out.put([RAW])?;
        out.put_all(src)?;
        Some(out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (&kind, mut rest) = src.split_first().ok_or(Malformed)?;
        match kind {
            RAW if rest.len() == dst.len() => {
                dst.copy_from_slice(rest);
                return Ok(());
            }
            CODED => {}
            _ => return Err(Malformed),
        }
        let mut at = 0;
        while at < dst.len() {
            let (control, after) = rest.split_first_chunk().ok_or(Malformed)?;
            rest = after;
            let control = u16::from_le_bytes(*control);
            for item in 0..ITEMS {
                if at == dst.len() {
                    break;
                }
                if control >> item & 1 == 0 {
                    let (&byte, after) = rest.split_first().ok_or(Malformed)?;
                    rest = after;
                    dst[at] = byte;
                    at += 1;
                    continue;
                }
                let (&[high, low], after) = rest.split_first_chunk().ok_or(Malformed)?;
                rest = after;
                let len = usize::from(high & 0x0F) + SHORTEST;
                let distance = usize::from(high & 0xF0) << 4 | usize::from(low);
                if distance == 0 || distance > at || len > dst.len() - at {
                    return Err(Malformed);
                }
                for i in at..at + len {
                    dst[i] = dst[i - distance];
                }
                at += len;
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
