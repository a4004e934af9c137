//! The device compared with plain arrays, under concurrent use, and with damage.

mod backing;
mod damage;
mod model;
mod room;
mod threads;

use std::sync::Arc;

use crate::serve::status::About;
use crate::{Disk, Maintenance, Options, PAGE};

/// A random sequence (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Bytes as they occur on disks: text, numbers, repeated words, zeros, noise.
    pub fn fill(&mut self, dst: &mut [u8]) {
        match self.below(8) {
            0 => dst.fill(0),
            1 => {
                let word = self.next();
                let word = if self.below(2) == 0 { word } else { word & 0xffff_ffff | word << 32 };
                dst.chunks_mut(8).for_each(|part| part.copy_from_slice(&word.to_le_bytes()[..part.len()]));
            }
            2 => dst.chunks_mut(8).for_each(|part| {
                let noise = self.next();
                part.copy_from_slice(&noise.to_le_bytes()[..part.len()]);
            }),
            3 | 4 => {
                let begin = self.next() % 1000;
                dst.chunks_mut(4).zip(begin as u32..).for_each(|(part, i)| {
                    part.copy_from_slice(&(i * 3).to_le_bytes()[..part.len()]);
                });
            }
            _ => {
                const WORDS: [&[u8]; 8] = [
                    b"the ",
                    b"page ",
                    b"of ",
                    b"a block ",
                    b"is kept ",
                    b"in ",
                    b"memory, ",
                    b"compressed. ",
                ];
                let mut at = 0;
                while at < dst.len() {
                    let word = WORDS[self.below(8) as usize];
                    let len = word.len().min(dst.len() - at);
                    dst[at..at + len].copy_from_slice(&word[..len]);
                    at += len;
                }
            }
        }
    }
}

/// Fast codecs, because the tests compress a great deal.
pub fn options(size: u64) -> Options {
    let codec = |name| memfold_codec::codec(name).unwrap();
    let mut options = Options::new(size);
    (options.fast, options.dense) = (codec("lz4"), Some(codec("zstd:1")));
    options.cold = std::time::Duration::from_millis(300);
    options
}

pub fn kept(disk: Disk) -> (Arc<Disk>, Maintenance) {
    let disk = Arc::new(disk);
    let keeper = Maintenance::start(&disk, &about()).unwrap();
    (disk, keeper)
}

const P: u64 = PAGE as u64;

fn about() -> About {
    About { name: "tested".into(), door: "fuse", address: Some("/a/disk".into()) }
}
