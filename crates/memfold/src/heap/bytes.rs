//! Copying nodes that others may be writing to.

use std::ptr::NonNull;
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

    /// Copies those from `from` on, if there are as many.
    #[inline]
    pub fn copy_to(self, from: usize, to: &mut [u8]) {
        let Spot { bytes, len } = self.0;
        if from <= len && to.len() <= len - from {
            // SAFETY: within the node.
            copy_out(unsafe { bytes.add(from) }, to);
        }
    }
}

/// Copies a node that others may be writing to: then what is copied is of no use, but it is something.
#[inline]
fn copy_out(from: NonNull<u8>, to: &mut [u8]) {
    let from = from.as_ptr();
    // The most frequent one.
    if let (Ok(to), true) = (<&mut [u8; 8]>::try_from(&mut *to), from.addr().is_multiple_of(8)) {
        // SAFETY: as below.
        *to = unsafe { (*from.cast::<AtomicU64>()).load(Relaxed) }.to_ne_bytes();
        return;
    }
    // SAFETY: of all reads: within the image, words where eight divides the address; everything that may be written at the same time is
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
