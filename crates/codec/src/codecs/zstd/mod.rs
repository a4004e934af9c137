//! `zstd:LEVEL`: the dense tier. It writes a Zstandard frame with the reference C library.
//!
//! The library works in static contexts in the caller's scratch, so it never allocates. A context stays there
//! between calls, since setting one up costs more than compressing a page with it.
//!
//! ```text
//! scratch of a compressor             scratch of a decompressor
//! +-----------------+---------+       +---------+
//! | result, bound() | context |       | context |
//! +-----------------+---------+       +---------+
//! 0            rounded up to 64       0
//! ```
//!
//! The compressor writes into the scratch unless `dst` has room for the worst case, because with less the
//! library may fail although the result would fit, or produce another, worse one. The result is then copied.
//!
//! # Format
//! One Zstandard frame (RFC 8878) without magic number, content size, checksum or dictionary id: the owner of
//! the block knows its length and has its own checksum. That leaves five bytes around the first block.
//!
//! ```text
//! +----+-------------+----------------------+---------+---
//! | 00 | window size | block header, 3 bytes | content | ... more blocks
//! +----+-------------+----------------------+---------+---
//! ```
//!
//! The library would also decode several frames in a row; [`is_one_frame`] checks that there is exactly one
//! and nothing after it.

#[cfg(feature = "dict")]
pub mod dict;

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use zstd_sys::ZSTD_cParameter as Compression;
use zstd_sys::{ZSTD_CCtx, ZSTD_DCtx, ZSTD_format_e};

use crate::scratch::Kept;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

/// The fastest level. Zstandard has faster ones, down to -131072, but they find next to nothing in a page.
pub(crate) const MIN_LEVEL: i32 = -50;

/// The densest level.
pub(crate) const MAX_LEVEL: i32 = 22;

/// The codec `zstd:LEVEL`.
pub(crate) struct Zstd {
    level: i32,
    name: &'static str,
}

macro_rules! levels {
    ($($level:literal),* $(,)?) => {
        [$(Zstd { level: $level, name: concat!("zstd:", $level) }),*]
    };
}

/// How many levels there are.
pub(crate) const COUNT: usize = 72;

/// All levels in ascending order. There is no level 0: for Zstandard it means
/// the default, which is 3.
#[rustfmt::skip]
pub(crate) static LEVELS: [Zstd; COUNT] = levels![
    -50, -49, -48, -47, -46, -45, -44, -43, -42, -41, -40, -39, -38, -37, -36, -35, -34, -33, -32, -31,
    -30, -29, -28, -27, -26, -25, -24, -23, -22, -21, -20, -19, -18, -17, -16, -15, -14, -13, -12, -11,
    -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
    18, 19, 20, 21, 22,
];

/// The codec of that level.
pub(crate) fn level(level: i32) -> Option<&'static Zstd> {
    let index = LEVELS.binary_search_by_key(&level, |codec| codec.level).ok()?;
    Some(&LEVELS[index])
}

#[cfg(zstd_untraced)]
mod untraced {
    //! Links `untraced.c` into every program that this crate is linked into: the library's weak references to
    //! its functions do not suffice for that.
    // SAFETY: declared as in `untraced.c`; it is never called from here.
    unsafe extern "C" {
        fn ZSTD_trace_compress_begin();
    }

    #[used]
    static ANCHOR: unsafe extern "C" fn() = ZSTD_trace_compress_begin;
}

/// The result of a library call: a size, or an error as a number just below zero.
pub(crate) fn result(code: usize) -> Result<usize, Malformed> {
    // SAFETY: looks at the number only.
    if unsafe { zstd_sys::ZSTD_isError(code) } == 0 { Ok(code) } else { Err(Malformed) }
}

/// For calls that can fail only if this module passes parameters that the library does not accept. Such a
/// failure must not look like a block that does not compress.
#[track_caller]
pub(crate) fn must(code: usize) {
    assert!(result(code).is_ok(), "zstd refuses its parameters");
}

impl Zstd {
    #[cfg(feature = "dict")]
    pub(crate) const fn level(&self) -> i32 {
        self.level
    }

    /// Bytes before the context in the scratch of a compressor.
    pub(crate) fn staging(&self, len: usize) -> usize {
        self.bound(len).next_multiple_of(Scratch::ALIGN)
    }

    /// Bytes of a context that compresses blocks of `len` bytes.
    fn context_size(&self, len: usize) -> usize {
        // SAFETY: both compute with numbers only.
        let size = unsafe {
            let parameters = zstd_sys::ZSTD_getCParams(self.level, len as u64, 0);
            zstd_sys::ZSTD_estimateCCtxSize_usingCParams(parameters)
        };
        must(size);
        size
    }

    /// Makes a context for blocks of `len` bytes in `memory`. The library returns its address: the beginning
    /// of `memory`, except under AddressSanitizer.
    ///
    /// # Safety
    /// `memory` is aligned to 64 bytes and has `context_size(len)` bytes, which
    /// are borrowed exclusively.
    unsafe fn set_up_context(&self, memory: NonNull<u8>, len: usize) -> NonNull<u8> {
        // The size must be exact: the library reports an error if a static context stays much too large for
        // some time.
        let size = self.context_size(len);
        // SAFETY: as the caller guarantees.
        let context = unsafe { zstd_sys::ZSTD_initStaticCCtx(memory.as_ptr().cast(), size) };
        let context = NonNull::new(context).expect("zstd takes memory of the size it asked for");
        let magicless = ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int;
        for (parameter, value) in [
            (Compression::ZSTD_c_compressionLevel, self.level),
            // ZSTD_c_format
            (Compression::ZSTD_c_experimentalParam2, magicless),
            (Compression::ZSTD_c_contentSizeFlag, 0),
            (Compression::ZSTD_c_checksumFlag, 0),
            (Compression::ZSTD_c_dictIDFlag, 0),
        ] {
            // SAFETY: `context` was just made.
            must(unsafe { zstd_sys::ZSTD_CCtx_setParameter(context.as_ptr(), parameter, value) });
        }
        context.cast()
    }

    /// Where to put the result, and the context to make it with.
    fn compress_context(&self, len: usize, scratch: &mut Scratch<'_>) -> (NonNull<u8>, *mut ZSTD_CCtx) {
        let len = shared_len(len);
        let kept = Kept { codec: CodecId::ZSTD, compress: true, level: self.level, block_len: len };
        let set_up = |memory: NonNull<u8>| {
            // SAFETY: the scratch holds compress_scratch(len) bytes, which are
            // `staging`, a multiple of the alignment, and context_size(len).
            unsafe { self.set_up_context(memory.add(self.staging(len)), len) }
        };
        let (staging, context) = scratch.keep(kept, || self.compress_scratch(len), set_up);
        (staging, context.as_ptr().cast())
    }
}

/// The length for which the context of blocks of `len` bytes is set up. Setting up a context is costly, so
/// blocks of similar lengths share one: Zstandard's parameters are the same up to the next power of two, and
/// the library accepts a context that is less than twice too large.
fn shared_len(len: usize) -> usize {
    len.checked_next_power_of_two().filter(|_| len > 0).unwrap_or(len)
}

pub(crate) fn decompress_context(scratch: &mut Scratch<'_>) -> *mut ZSTD_DCtx {
    let kept = Kept { codec: CodecId::ZSTD, compress: false, level: 0, block_len: 0 };
    let size = decompress_context_size();
    let set_up = |memory: NonNull<u8>| {
        // SAFETY: the scratch holds `size` bytes, exclusively, aligned to 64.
        let context = unsafe { zstd_sys::ZSTD_initStaticDCtx(memory.as_ptr().cast(), size) };
        let context = NonNull::new(context).expect("zstd takes memory of the size it asked for");
        // ZSTD_d_format
        let format = zstd_sys::ZSTD_dParameter::ZSTD_d_experimentalParam1;
        let magicless = ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int;
        // SAFETY: `context` was just made.
        must(unsafe { zstd_sys::ZSTD_DCtx_setParameter(context.as_ptr(), format, magicless) });
        context.cast()
    };
    // The context is at the end of the scratch, where the codec alone and all pipelines share it: setting it
    // up takes two CPUID instructions, each of which exits a virtual machine.
    scratch.keep_last(kept, size, set_up).as_ptr().cast()
}

fn decompress_context_size() -> usize {
    // SAFETY: takes no arguments and returns a constant.
    unsafe { zstd_sys::ZSTD_estimateDCtxSize() }
}

/// Whether `src` is one frame as this module makes them, from its first byte to its last. The library checks
/// the content of the blocks.
pub(crate) fn is_one_frame(src: &[u8]) -> bool {
    // The header: no flag set, then the window size.
    let [0, _, rest @ ..] = src else { return false };
    let mut rest = rest;
    loop {
        let [a, b, c, content @ ..] = rest else { return false };
        let header = u32::from_le_bytes([*a, *b, *c, 0]);
        let size = match header >> 1 & 3 {
            // One byte, repeated.
            1 => 1,
            // Stored, or compressed.
            0 | 2 => (header >> 3) as usize,
            _ => return false,
        };
        let Some(next) = content.get(size..) else { return false };
        if header & 1 == 1 {
            return next.is_empty();
        }
        rest = next;
    }
}

impl Codec for Zstd {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::ZSTD
    }

    /// `ZSTD_COMPRESSBOUND`: one byte more for each 256, plus a little for less than a block of Zstandard.
    fn bound(&self, len: usize) -> usize {
        const ZSTD_BLOCK: usize = 128 << 10;
        if len == 0 {
            return 0;
        }
        let margin = ZSTD_BLOCK.saturating_sub(len) >> 11;
        len.saturating_add((len >> 8) + margin)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        let len = shared_len(len);
        if len == 0 { 0 } else { self.staging(len) + self.context_size(len) }
    }

    /// Zstandard has parameters for four block size ranges. Within a range, longer blocks never need less.
    fn compress_scratch_up_to(&self, len: usize) -> usize {
        let longest = [16 << 10, 128 << 10, 256 << 10, len].map(|size| size.min(len));
        longest.into_iter().map(|len| self.compress_scratch(len)).max().unwrap_or(0)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { decompress_context_size() }
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
        let (staging, context) = self.compress_context(src.len(), scratch);
        let direct = room == bound;
        let to: *mut c_void = if direct { dst.as_mut_ptr().cast() } else { staging.as_ptr().cast() };
        // SAFETY: `context` is set up for this length; `to` has `bound` bytes,
        // either in `dst` or before the context in the scratch.
        let size = unsafe { zstd_sys::ZSTD_compress2(context, to, bound, src.as_ptr().cast(), src.len()) };
        // With room for the worst case nothing else may fail.
        let Ok(size) = result(size) else { panic!("zstd fails to compress a block") };
        if size > threshold {
            return Compressed::Incompressible;
        }
        if !direct {
            // SAFETY: the library has just written `size` bytes at `staging`, which has not been lent to
            // anything else.
            dst[..size].copy_from_slice(unsafe { core::slice::from_raw_parts(staging.as_ptr(), size) });
        }
        Compressed::Fits(size)
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() {
            return if src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        if !is_one_frame(src) {
            return Err(Malformed);
        }
        let context = decompress_context(scratch);
        // SAFETY: `context` is set up; the library guarantees for any input to read nothing outside of `src`
        // and to write nothing outside of `dst`.
        let size = unsafe {
            zstd_sys::ZSTD_decompressDCtx(
                context,
                dst.as_mut_ptr().cast(),
                dst.len(),
                src.as_ptr().cast(),
                src.len(),
            )
        };
        if result(size)? == dst.len() { Ok(()) } else { Err(Malformed) }
    }
}
