//! Copying nodes that others may be writing to.
//!
//! Bytes that may be written concurrently are read by atomic operations: whole words, at addresses divisible
//! by eight. The first and the last word of a part may reach beyond it, and beyond its node, but not beyond
//! the frame, which begins and ends at multiples of 64; bytes outside the part are dropped. If another thread
//! wrote meanwhile, the copy is useless, but reading it is defined.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::vec::Vec;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// A live node.
#[derive(Debug, Clone, Copy)]
pub struct NodeBytes {
    pub bytes: NonNull<u8>,
    pub len: usize,
}

/// The bytes of a node that others may be writing to.
#[derive(Clone, Copy)]
pub struct Bytes {
    spot: NodeBytes,
    /// The node can be read word by word: it begins at a multiple of eight, in a frame.
    has_words: bool,
}

impl Bytes {
    /// The bytes of a node in a frame.
    pub fn in_frame(spot: NodeBytes) -> Self {
        Bytes { spot, has_words: spot.bytes.addr().get().is_multiple_of(WORD) }
    }

    /// The bytes of a node in a frame that begins at a multiple of eight.
    #[inline(always)]
    pub fn in_words(spot: NodeBytes) -> Self {
        debug_assert!(spot.bytes.addr().get().is_multiple_of(WORD));
        Bytes { spot, has_words: true }
    }

    /// The bytes of a node with memory of its own.
    pub fn alone(spot: NodeBytes) -> Self {
        Bytes { spot, has_words: false }
    }

    /// Where the bytes are.
    pub fn spot(self) -> NodeBytes {
        self.spot
    }

    /// Whether the bytes can be read word by word.
    #[inline(always)]
    pub fn has_words(self) -> bool {
        self.has_words
    }

    /// The number of bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.spot.len
    }

    /// Copies the bytes from `from` on into `to`; returns false if there are too few.
    pub fn copy_to(self, from: usize, to: &mut [u8]) -> bool {
        let fits = self.has(from, to.len());
        if fits && !self.copy_words(from, to) {
            self.copy_bytes(from, to);
        }
        fits
    }

    /// As `copy_to`, but also returns false if the bytes have to be copied one by one.
    ///
    /// If the compiler knows how many bytes there are and where they begin, this compiles to one load per
    /// word, and two shifts if they begin inside a word.
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

    /// The word that begins `shift` bits (1 to 63) after the start of word `number`, and ends within the
    /// node.
    #[inline(always)]
    fn straddling(self, number: usize, shift: usize) -> u64 {
        self.word(number) >> shift | self.word(number + 1) << (64 - shift)
    }

    /// Whether there are `count` bytes from `from` on.
    #[inline(always)]
    fn has(self, from: usize, count: usize) -> bool {
        from <= self.spot.len && count <= self.spot.len - from
    }

    /// Copies all bytes to `to`, replacing its content.
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

    /// A word that contains a byte of the node, which can be read word by word; its first byte is the lowest.
    #[inline(always)]
    fn word(self, number: usize) -> u64 {
        debug_assert!(self.has_words && number * WORD < self.spot.len);
        // SAFETY: it begins within the node and ends within the frame.
        let word: &AtomicU64 = unsafe { self.spot.bytes.cast().add(number).as_ref() };
        u64::from_le(word.load(Relaxed))
    }

    /// Copies bytes that belong to the node.
    fn copy_bytes(self, from: usize, to: &mut [u8]) {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: within the node.
            let byte: &AtomicU8 = unsafe { self.spot.bytes.add(from + i).cast().as_ref() };
            *to = byte.load(Relaxed);
        }
    }
}

/// Copies the lowest bytes of a word, which has enough of them.
#[inline(always)]
fn put(to: &mut [u8], word: u64) {
    let bytes = word.to_le_bytes();
    let (mut at, len) = (0, to.len());
    // Avoids a call for a few bytes whose number the compiler does not know.
    for size in [8, 4, 2, 1] {
        if len & size != 0 {
            to[at..at + size].copy_from_slice(&bytes[at..at + size]);
            at += size;
        }
    }
}
