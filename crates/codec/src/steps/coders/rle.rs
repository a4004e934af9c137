//! `rle`: runs of a byte.
//!
//! ```text
//! 00-7F   n + 1 bytes follow as they are
//! 80-FF   the next byte comes n - 0x80 + 3 times
//! ```

use crate::bytes::Out;
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The step `rle`.
pub(crate) struct Rle;

/// The shortest run worth two bytes among literals.
const SHORTEST: usize = 3;
const LONGEST: usize = SHORTEST + 0x7F;
/// The most bytes after one control byte.
const LITERALS: usize = 0x80;

impl Step for Rle {
    fn name(&self) -> &'static str {
        "rle"
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(len.div_ceil(LITERALS))
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Option<usize> {
        let mut out = Out::after(dst, 0)?;
        let (mut anchor, mut at) = (0, 0);
        while at < src.len() {
            let run = run(&src[at..]);
            if run < SHORTEST {
                at += run;
                continue;
            }
            literals(&src[anchor..at], &mut out)?;
            out.put([(run - SHORTEST) as u8 | 0x80, src[at]])?;
            at += run;
            anchor = at;
        }
        literals(&src[anchor..], &mut out)?;
        Some(out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (mut src, mut dst) = (src, dst);
        while let [control, rest @ ..] = src {
            let control = usize::from(*control);
            let len = if control < 0x80 { control + 1 } else { control - 0x80 + SHORTEST };
            let (now, after) = dst.split_at_mut_checked(len).ok_or(Malformed)?;
            dst = after;
            let used = if control < 0x80 { len } else { 1 };
            let (bytes, rest) = rest.split_at_checked(used).ok_or(Malformed)?;
            src = rest;
            if control < 0x80 { now.copy_from_slice(bytes) } else { now.fill(bytes[0]) }
        }
        if dst.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// How many bytes equal the first one, up to the longest run.
#[inline]
fn run(src: &[u8]) -> usize {
    let src = &src[..src.len().min(LONGEST)];
    src.iter().position(|&byte| byte != src[0]).unwrap_or(src.len())
}

fn literals(bytes: &[u8], out: &mut Out<'_>) -> Option<()> {
    for bytes in bytes.chunks(LITERALS) {
        out.put([(bytes.len() - 1) as u8])?;
        out.put_all(bytes)?;
    }
    Some(())
}
