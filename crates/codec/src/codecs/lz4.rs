//! `lz4`: the fast tier. It writes the LZ4 block format, without a frame, with the reference C library.
//!
//! The library is called through the functions that take their state from the caller, so it never allocates.
//! The state is 16 KiB of hash table that the library zeroes at each call; nothing is worth keeping between
//! calls. Decompression needs no state.

use core::ffi::{c_char, c_int, c_void};

use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

// SAFETY: the library that build.rs links. The signatures are those of lz4.h 1.10; the first exists since
// 1.6, the others for longer.
unsafe extern "C" {
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_size: c_int,
        dst_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;

    fn LZ4_sizeofState() -> c_int;

    fn LZ4_decompress_safe(
        src: *const c_char,
        dst: *mut c_char,
        compressed_size: c_int,
        dst_capacity: c_int,
    ) -> c_int;
}

/// `LZ4_MAX_INPUT_SIZE`: the library refuses more.
pub(crate) const MAX_INPUT: usize = 0x7E00_0000;

/// The codec `lz4`.
pub(crate) struct Lz4;

impl Codec for Lz4 {
    fn name(&self) -> &str {
        "lz4"
    }

    fn id(&self) -> CodecId {
        CodecId::LZ4
    }

    /// `LZ4_COMPRESSBOUND`: one byte more for each 255 literals, plus a few.
    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(len / 255 + 16) }
    }

    fn compress_scratch(&self, _len: usize) -> usize {
        // SAFETY: takes no arguments and returns a constant.
        let size = unsafe { LZ4_sizeofState() };
        usize::try_from(size).expect("a size")
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
        let room = room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        if src.len() > MAX_INPUT || room == 0 {
            return Compressed::Incompressible;
        }
        let state = scratch.take(self.compress_scratch(src.len()));
        // SAFETY: `state` is as large as LZ4_sizeofState() requires and aligned to 64 bytes; the two lengths
        // are those of the slices or less, and fit a c_int because both are at most bound(MAX_INPUT), which
        // does. The library reads `src` and writes at most `room` bytes of `dst`.
        let size = unsafe {
            LZ4_compress_fast_extState(
                state.as_ptr().cast(),
                src.as_ptr().cast(),
                dst.as_mut_ptr().cast(),
                src.len() as c_int,
                room as c_int,
                1,
            )
        };
        // Zero means that the result does not fit into `room`, so `room` is the threshold: everything fits
        // into the bound. The library gives up only when the rest cannot fit.
        match usize::try_from(size) {
            Ok(size @ 1..) => Compressed::Fits(size),
            _ => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() {
            return if src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        if dst.len() > MAX_INPUT || src.is_empty() || src.len() > self.bound(dst.len()) {
            return Err(Malformed);
        }
        // SAFETY: both lengths are those of the slices and fit a c_int, see above. The library guarantees for
        // any input to read nothing outside of `src` and to write nothing outside of `dst`.
        let size = unsafe {
            LZ4_decompress_safe(
                src.as_ptr().cast(),
                dst.as_mut_ptr().cast(),
                src.len() as c_int,
                dst.len() as c_int,
            )
        };
        // The library itself refuses bytes after the end of the block.
        if usize::try_from(size) == Ok(dst.len()) { Ok(()) } else { Err(Malformed) }
    }
}
