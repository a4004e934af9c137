//! `lz4hc:LEVEL`: LZ4's format, written by encoders of the same library that search longer. `lz4` reads their
//! output, so they share its number.
//!
//! ```text
//! scratch   +------------------+-------------+
//!           | result, bound()  | state       |
//!           +------------------+-------------+
//! ```
//!
//! The result goes through the scratch unless `dst` has room for the worst case: with less, the library
//! guarantees nothing.

use core::ffi::{c_char, c_int, c_void};

use super::staged::staged;
use crate::codecs::lz4::{Lz4, MAX_INPUT};
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

// SAFETY: the signatures are those of lz4hc.h 1.10, as in lz4.rs.
unsafe extern "C" {
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_size: c_int,
        dst_capacity: c_int,
        level: c_int,
    ) -> c_int;

    fn LZ4_sizeofStateHC() -> c_int;
}

/// The codec `lz4hc:LEVEL`.
pub(crate) struct Lz4Hc {
    level: c_int,
    name: &'static str,
}

macro_rules! levels {
    ($($level:literal),*) => {
        [$(Lz4Hc { level: $level, name: concat!("lz4hc:", $level) }),*]
    };
}

/// The levels that search hash chains.
pub(crate) static LEVELS: [Lz4Hc; 8] = levels![2, 3, 4, 5, 6, 7, 8, 9];

/// The levels that parse optimally. The library allocates memory for this, so not all callers can use them.
#[cfg(feature = "lz4hc-optimal")]
pub(crate) static OPTIMAL: [Lz4Hc; 3] = levels![10, 11, 12];

fn state_size() -> usize {
    // SAFETY: takes no arguments and returns a constant.
    usize::try_from(unsafe { LZ4_sizeofStateHC() }).expect("a size")
}

impl Codec for Lz4Hc {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::LZ4
    }

    fn bound(&self, len: usize) -> usize {
        Lz4.bound(len)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.bound(len).next_multiple_of(Scratch::ALIGN) + state_size() }
    }

    fn decompress_scratch(&self, _len: usize) -> usize {
        0
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let bound = self.bound(src.len());
        let room = room(dst, threshold, bound);
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        if src.len() > MAX_INPUT {
            return Compressed::Incompressible;
        }
        let memory = scratch.bytes(self.compress_scratch(src.len()));
        let (staging, state) = memory.split_at_mut(bound.next_multiple_of(Scratch::ALIGN));
        staged(dst, staging, (room, bound, threshold), |to| {
            // SAFETY: `state` has as many bytes as LZ4_sizeofStateHC() requires, aligned to 64; the lengths
            // are those of the slices and fit a c_int, since they are at most bound(MAX_INPUT). The library
            // stays within the slices.
            let size = unsafe {
                LZ4_compress_HC_extStateHC(
                    state.as_mut_ptr().cast(),
                    src.as_ptr().cast(),
                    to.as_mut_ptr().cast(),
                    src.len() as c_int,
                    to.len() as c_int,
                    self.level,
                )
            };
            let size = usize::try_from(size).ok().filter(|&size| size > 0);
            Some(size.expect("lz4hc compresses what has room for the worst case"))
        })
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        Lz4.decompress(src, dst, scratch)
    }
}
