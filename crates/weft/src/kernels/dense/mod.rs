//! Dense pieces: see [`crate::dense`] for their form.
//!
//! ```text
//!   encode: codes, masks ──> parts ──> matches ──> tables ──> streams      decode: the same from right to left
//! ```

mod decode;
mod encode;
mod streams;

use super::kernel;
use super::steps::*;
use super::wide::Wide;
use crate::format::{LINES, WORDS};

/// Where the literals of each word go, by its code and mask.
#[repr(align(64))]
pub(super) struct Words {
    /// The mask of literals, without the two lowest bits where the word starts from its reference: those are
    /// in `low`, by line.
    pub(super) masks: [u8; WORDS],
    pub(super) low: [[u8; LINES]; 2],
    /// 0xff for words that start from their reference.
    pub(super) of_reference: [u8; WORDS],
    /// How many literals of R2, and of W.
    pub(super) r2: [u8; WORDS],
    pub(super) w: [u8; WORDS],
}

impl Words {
    pub(super) fn new() -> Self {
        Words {
            masks: [0; WORDS],
            low: [[0; LINES]; 2],
            of_reference: [0; WORDS],
            r2: [0; WORDS],
            w: [0; WORDS],
        }
    }

    /// Notes 32 words from `at` on, by their codes and masks.
    #[inline]
    #[kernel]
    pub(super) fn note(&mut self, at: usize, code: Wide, mask: Wide) {
        assert!(at <= WORDS - 32);
        let from_zero = from_zero(code);
        let of_reference = from_zero.clear(mask);
        let rest = from_zero.clear(Wide::all(3)).clear(mask);
        let count = ones(rest);
        let low = [of_reference.shl16::<7>().signs(), of_reference.shl16::<6>().signs()];
        for (rows, bits) in self.low.iter_mut().zip(low) {
            rows[at / 8..][..4].copy_from_slice(&bits.to_le_bytes());
        }
        // SAFETY: rows of as many words.
        unsafe {
            rest.store(self.masks.as_mut_ptr().add(at));
            from_zero.xor(Wide::all(0xff)).store(self.of_reference.as_mut_ptr().add(at));
            from_zero.clear(count).store(self.r2.as_mut_ptr().add(at));
            from_zero.and(count).store(self.w.as_mut_ptr().add(at));
        }
    }

    /// The lengths of the four parts.
    #[inline]
    #[kernel]
    pub(super) fn lengths(&self) -> [usize; 4] {
        let count = |counts: &[u8; WORDS]| {
            let mut lanes = Wide::zeros();
            for at in (0..WORDS).step_by(32) {
                // SAFETY: a row of as many words.
                let bytes = unsafe { Wide::load(counts.as_ptr().add(at)) };
                lanes = lanes.add64(bytes.sums());
            }
            sum(lanes)
        };
        let [r0, r1] = &self.low;
        [ones_of_lines(r0), ones_of_lines(r1), count(&self.r2), count(&self.w)]
    }
}

/// How many bits are set, of a byte for each line.
#[inline]
#[kernel]
fn ones_of_lines(bytes: &[u8; LINES]) -> usize {
    bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight).count_ones() as usize).sum()
}
