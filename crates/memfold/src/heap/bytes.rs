//! Copying nodes that others may be writing to.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

use super::way::Spot;

/// The bytes of a node that others may be writing to.
#[derive(Clone, Copy)]
pub struct Bytes(pub Spot);

impl Bytes {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len
    }

    /// Copies those from `from` on, if there are as many; whether there are.
    pub fn copy_to(self, from: usize, to: &mut [u8]) -> bool {
        let Spot { bytes, len } = self.0;
        let fits = from <= len && to.len() <= len - from;
        if fits {
            // SAFETY: within the node.
            copy_words(unsafe { bytes.add(from) }.as_ptr(), to);
        }
        fits
    }

    /// As `copy_to`, but false also if they are not a few words that lie at a multiple of eight.
    #[inline(always)]
    pub fn copy_short(self, from: usize, to: &mut [u8]) -> bool {
        let Spot { bytes, len } = self.0;
        if from > len || to.len() > len - from || to.len() > SHORT || !to.len().is_multiple_of(8) {
            return false;
        }
        // SAFETY: within the node.
        let start = unsafe { bytes.add(from) }.cast::<AtomicU64>();
        if !start.addr().get().is_multiple_of(8) {
            return false;
        }
        for (i, to) in to.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: as in `copy_words`.
            *to = unsafe { start.add(i).as_ref() }.load(Relaxed).to_ne_bytes();
        }
        true
    }
}

/// Bytes that are copied without more ado.
const SHORT: usize = 64;

/// Copies a node that others may be writing to: then what is copied is of no use, but it is something.
fn copy_words(from: *const u8, to: &mut [u8]) {
    // SAFETY: of all reads: within the node, words where eight divides the address; everything that may be written at the same time is
    // read by atomic operations.
    let byte = |i: usize| unsafe { (*from.add(i).cast::<AtomicU8>()).load(Relaxed) };
    let head = from.align_offset(8).min(to.len());
    for (i, to) in to[..head].iter_mut().enumerate() {
        *to = byte(i);
    }
    let (words, tail) = to[head..].as_chunks_mut::<8>();
    for (i, to) in words.iter_mut().enumerate() {
        // SAFETY: as above.
        *to = unsafe { (*from.add(head + 8 * i).cast::<AtomicU64>()).load(Relaxed) }.to_ne_bytes();
    }
    let done = head + 8 * words.len();
    for (i, to) in tail.iter_mut().enumerate() {
        *to = byte(done + i);
    }
}
