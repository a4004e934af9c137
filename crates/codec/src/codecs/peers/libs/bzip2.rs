//! `bzip2`: a whole bzip2 stream, by libbz2-rs, the port of the library to Rust. The block size, 100 to 900
//! kB, is the smallest that holds the whole block, if one does.

use core::ffi::{c_int, c_void};

use libbz2_rs_sys::{
    BZ_FINISH, BZ_OK, BZ_STREAM_END, BZ2_bzCompress, BZ2_bzCompressEnd, BZ2_bzCompressInit, BZ2_bzDecompress,
    BZ2_bzDecompressEnd, BZ2_bzDecompressInit, bz_stream,
};

use super::super::staged::staged;
use super::arena::Arena;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

pub(crate) static BZIP2: Bzip2 = Bzip2;

/// The codec `bzip2`.
pub(crate) struct Bzip2;

/// Blocks have a multiple of this many bytes.
const UNIT: usize = 100_000;

/// In units.
fn block_size(len: usize) -> usize {
    len.div_ceil(UNIT).clamp(1, 9)
}

/// As the library documents it: 400 kB and eight times a block; plus the rounding of its pieces.
fn compress_memory(len: usize) -> usize {
    (512 << 10) + 8 * UNIT * block_size(len)
}

/// 100 kB and four times a block; the stream says how long a block is.
const DECOMPRESS_MEMORY: usize = (256 << 10) + 4 * UNIT * 9;

// SAFETY: only the library calls it, during the call that hands it the arena.
unsafe extern "C" fn alloc(opaque: *mut c_void, count: c_int, size: c_int) -> *mut c_void {
    let (Ok(count), Ok(size)) = (usize::try_from(count), usize::try_from(size)) else {
        return core::ptr::null_mut();
    };
    // SAFETY: `opaque` is the arena of the current call.
    unsafe { (*opaque.cast::<Arena>()).piece(count, size) }
}

unsafe extern "C" fn free(_opaque: *mut c_void, _piece: *mut c_void) {}

/// A stream from `src` to `dst`, each at most 4 GiB.
fn stream(src: &[u8], dst: &mut [u8], arena: &mut Arena) -> bz_stream {
    let mut stream = bz_stream::zeroed();
    stream.next_in = src.as_ptr().cast();
    stream.avail_in = src.len() as u32;
    stream.next_out = dst.as_mut_ptr().cast();
    stream.avail_out = dst.len() as u32;
    stream.bzalloc = Some(alloc);
    stream.bzfree = Some(free);
    stream.opaque = arena.opaque();
    stream
}

impl Codec for Bzip2 {
    fn name(&self) -> &str {
        "bzip2"
    }

    fn id(&self) -> CodecId {
        CodecId::BZIP2
    }

    /// 1 % and 600 bytes, according to its documentation.
    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(len / 100 + 600) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.bound(len).next_multiple_of(Scratch::ALIGN) + compress_memory(len) }
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { DECOMPRESS_MEMORY }
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
        if u32::try_from(bound).is_err() {
            return Compressed::Incompressible;
        }
        let memory = scratch.bytes(self.compress_scratch(src.len()));
        let (staging, memory) = memory.split_at_mut(bound.next_multiple_of(Scratch::ALIGN));
        staged(dst, staging, (room, bound, threshold), |to| {
            let mut arena = Arena::new(memory);
            let mut stream = stream(src, to, &mut arena);
            // SAFETY: the stream is on this stack, with slices and an allocator that live until its end, and
            // its functions are called in order.
            let done = unsafe {
                BZ2_bzCompressInit(&mut stream, block_size(src.len()) as c_int, 0, 0) == BZ_OK
                    && BZ2_bzCompress(&mut stream, BZ_FINISH) == BZ_STREAM_END
                    && BZ2_bzCompressEnd(&mut stream) == BZ_OK
            };
            assert!(done, "bzip2 fails to compress a block");
            Some(bound - stream.avail_out as usize)
        })
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        if u32::try_from(src.len().max(dst.len())).is_err() {
            return Err(Malformed);
        }
        let mut arena = Arena::new(scratch.bytes(DECOMPRESS_MEMORY));
        let mut stream = stream(src, dst, &mut arena);
        // SAFETY: as in `compress`. The library guarantees for any input to stay within the slices.
        let end = unsafe {
            if BZ2_bzDecompressInit(&mut stream, 0, 0) != BZ_OK {
                return Err(Malformed);
            }
            let end = BZ2_bzDecompress(&mut stream);
            BZ2_bzDecompressEnd(&mut stream);
            end
        };
        let whole = end == BZ_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
        if whole { Ok(()) } else { Err(Malformed) }
    }
}
