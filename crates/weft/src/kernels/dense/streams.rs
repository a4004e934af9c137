//! The bit streams.

use super::super::kernel;
use super::super::steps::{set_word, word};
use crate::dense::{
    MOST_STREAM, STREAMS,
    tables::{CODES, MOST_BITS, code},
};
use crate::scratch::SLACK;

/// Symbols that fit into a register of bits.
const AT_ONCE: usize = 56 / MOST_BITS;

/// Writes the symbols of a stream, and returns its size.
///
/// # Safety
/// All symbols are places in [`CODES`], and the stream has room for them.
#[inline]
#[kernel]
pub(super) unsafe fn write_stream(
    symbols: &[u16],
    stream: usize,
    to: &mut [u8; MOST_STREAM + SLACK],
) -> usize {
    let (mut bits, mut have) = (0u64, 0);
    let mut out = to.as_mut_ptr();
    let put = |bits: &mut u64, have: &mut u32, symbol: u16| {
        // SAFETY: the caller upholds the contract.
        let (length, code) = code(unsafe { *CODES.get_unchecked(usize::from(symbol)) });
        *bits |= code << *have;
        *have += length;
    };
    // SAFETY: room for all symbols, and eight bytes more.
    unsafe {
        let mut rest = symbols.chunks_exact(STREAMS * AT_ONCE);
        for some in &mut rest {
            for number in 0..AT_ONCE {
                put(&mut bits, &mut have, *some.get_unchecked(number * STREAMS + stream));
            }
            set_word(out, bits);
            out = out.add(have as usize / 8);
            bits >>= have & !7;
            have &= 7;
        }
        for some in rest.remainder().chunks_exact(STREAMS) {
            put(&mut bits, &mut have, *some.get_unchecked(stream));
        }
        set_word(out, bits);
        out.offset_from(to.as_ptr()) as usize + (have as usize).div_ceil(8)
    }
}

/// The streams of a piece that is being read: for each, the next bits below a bit that marks their end, and
/// where they come from.
#[derive(Clone, Copy)]
pub(super) struct Streams {
    pub(super) bits: [u64; STREAMS],
    pub(super) at: [*const u8; STREAMS],
}

impl Streams {
    pub(super) const MARK: u64 = 1 << 63;

    /// Bits that were used up.
    #[inline(always)]
    pub(super) fn used(&self, stream: usize) -> u32 {
        self.bits[stream].leading_zeros()
    }

    /// Makes at least 56 bits of each stream available.
    ///
    /// # Safety
    /// Eight bytes can be read behind what is used up.
    #[inline(always)]
    unsafe fn fill(&mut self) {
        for stream in 0..STREAMS {
            let used = self.used(stream);
            // SAFETY: the caller upholds the contract.
            unsafe {
                self.at[stream] = self.at[stream].add(used as usize / 8);
                self.bits[stream] = (word(self.at[stream]) | Self::MARK) >> (used % 8);
            }
        }
    }

    /// Reads `count` symbols.
    ///
    /// # Safety
    /// There is room for them, and as many bytes behind each stream as its part of the symbols can take.
    #[inline]
    #[kernel]
    pub(super) unsafe fn read(&mut self, table: &[u16; 1 << MOST_BITS], to: *mut u8, count: usize) {
        let mut streams = *self;
        let next = |streams: &mut Streams, stream: usize, to: *mut u8| {
            let entry = table[(streams.bits[stream] & ((1 << MOST_BITS) - 1)) as usize];
            streams.bits[stream] >>= entry & 63;
            // SAFETY: the caller upholds the contract.
            unsafe { to.write((entry >> 8) as u8) };
        };
        let mut at = 0;
        // SAFETY: the caller upholds the contract.
        unsafe {
            while at + STREAMS * AT_ONCE <= count {
                streams.fill();
                for round in 0..AT_ONCE {
                    for stream in 0..STREAMS {
                        next(&mut streams, stream, to.add(at + STREAMS * round + stream));
                    }
                }
                at += STREAMS * AT_ONCE;
            }
            if at < count {
                streams.fill();
                while at + STREAMS <= count {
                    for stream in 0..STREAMS {
                        next(&mut streams, stream, to.add(at + stream));
                    }
                    at += STREAMS;
                }
                for stream in 0..count - at {
                    next(&mut streams, stream, to.add(at + stream));
                }
            }
        }
        *self = streams;
    }
}
