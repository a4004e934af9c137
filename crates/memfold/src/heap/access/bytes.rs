//! Copying nodes that others may be writing to.
//!
//! What may be written at the same time is read by atomic operations: whole words, at addresses that eight divides. The first and the last word of a part
//! may reach beyond it, and beyond its node, but not beyond the frame, which begins and ends at multiples of 64; what does not belong to the part is
//! dropped. If somebody wrote meanwhile, what is copied is of no use, but it is something.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::vec::Vec;

use crate::heap::access::translation::NodeBytes;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The bytes of a node that others may be writing to.
#[derive(Clone, Copy)]
pub struct Bytes {
    spot: NodeBytes,
    /// It can be read by words: it begins at a multiple of eight, in a frame.
    has_words: bool,
}

impl Bytes {
    /// Those of a node in a frame.
    pub fn in_frame(spot: NodeBytes) -> Self {
        Bytes { spot, has_words: spot.bytes.addr().get().is_multiple_of(WORD) }
    }

    /// Those of a node in a frame that begins at a multiple of eight.
    #[inline(always)]
    pub fn in_words(spot: NodeBytes) -> Self {
        debug_assert!(spot.bytes.addr().get().is_multiple_of(WORD));
        Bytes { spot, has_words: true }
    }

    /// Those of a node that has memory of its own.
    pub fn alone(spot: NodeBytes) -> Self {
        Bytes { spot, has_words: false }
    }

    /// Where they are.
    pub fn spot(self) -> NodeBytes {
        self.spot
    }

    /// Whether they can be read by words.
    #[inline(always)]
    pub fn has_words(self) -> bool {
        self.has_words
    }

    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.spot.len
    }

    /// Copies those from `from` on, if there are as many; whether there are.
    pub fn copy_to(self, from: usize, to: &mut [u8]) -> bool {
        let fits = self.has(from, to.len());
        if fits && !self.copy_words(from, to) {
            self.copy_bytes(from, to);
        }
        fits
    }

    /// As `copy_to`, but false also if they have to be copied byte by byte.
    ///
    /// Where the compiler knows how many there are and where they begin, what remains is a load for each word, and two shifts if they begin in one.
    #[inline(always)]
    pub fn copy_words(self, from: usize, to: &mut [u8]) -> bool {
        if !self.has(from, to.len()) || !self.has_words {
            return false;
        }
        let (first, shift) = (from / WORD, from % WORD * 8);
        let (words, rest) = to.as_chunks_mut::<WORD>();
        let count = words.len();
        if shift == 0 {
            for (i, to) in words.iter_mut().enumerate() {
                *to = self.word(first + i).to_le_bytes();
            }
            if !rest.is_empty() {
                put(rest, self.word(first + count));
            }
        } else {
            for (i, to) in words.iter_mut().enumerate() {
                *to = self.straddling(first + i, shift).to_le_bytes();
            }
            if shift + 8 * rest.len() > 64 {
                put(rest, self.straddling(first + count, shift));
            } else if !rest.is_empty() {
                put(rest, self.word(first + count) >> shift);
            }
        }
        true
    }

    /// The word that begins so many bits, one to 63, after the beginning of another one, and ends within the node.
    #[inline(always)]
    fn straddling(self, number: usize, shift: usize) -> u64 {
        self.word(number) >> shift | self.word(number + 1) << (64 - shift)
    }

    /// Whether there are as many from `from` on.
    #[inline(always)]
    fn has(self, from: usize, count: usize) -> bool {
        from <= self.spot.len && count <= self.spot.len - from
    }

    /// Copies all of them to `to`, whose old contents go.
    #[inline]
    pub fn copy_all(self, to: &mut Vec<u8>) {
        let len = self.spot.len;
        to.clear();
        if !self.has_words {
            to.resize(len, 0);
            return self.copy_bytes(0, to);
        }
        // The last word is copied as a whole.
        let words = len.div_ceil(WORD);
        to.reserve(words * WORD);
        let room = to.spare_capacity_mut().as_mut_ptr().cast::<[u8; WORD]>();
        for i in 0..words {
            // SAFETY: room for all words was reserved.
            unsafe { room.add(i).write(self.word(i).to_le_bytes()) };
        }
        // SAFETY: that many bytes have just been written.
        unsafe { to.set_len(len) };
    }

    /// A word with some byte of the node, which has words; its first byte is the lowest.
    #[inline(always)]
    fn word(self, number: usize) -> u64 {
        debug_assert!(self.has_words && number * WORD < self.spot.len);
        // SAFETY: it begins within the node and ends within the frame.
        let word: &AtomicU64 = unsafe { self.spot.bytes.cast().add(number).as_ref() };
        u64::from_le(word.load(Relaxed))
    }

    /// Copies bytes that are the node's.
    fn copy_bytes(self, from: usize, to: &mut [u8]) {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: within the node.
            let byte: &AtomicU8 = unsafe { self.spot.bytes.add(from + i).cast().as_ref() };
            *to = byte.load(Relaxed);
        }
    }
}

/// The lowest bytes of a word, of which there are enough.
#[inline(always)]
fn put(to: &mut [u8], word: u64) {
    let bytes = word.to_le_bytes();
    let (mut at, len) = (0, to.len());
    // No call for a few bytes of which the compiler does not know how many.
    for size in [8, 4, 2, 1] {
        if len & size != 0 {
            to[at..at + size].copy_from_slice(&bytes[at..at + size]);
            at += size;
        }
    }
}
