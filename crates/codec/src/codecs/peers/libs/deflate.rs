//! `deflate:LEVEL`: raw DEFLATE (RFC 1951), by libdeflate.
//!
//! ```text
//! scratch of a compressor             scratch of a decompressor
//! +-----------------+---------+       +---------+
//! | result, bound() | context |       | context |
//! +-----------------+---------+       +---------+
//! ```
//!
//! The library requests the memory of a context once, through a function that does not learn for which
//! context it allocates. So a thread-local variable holds the memory to hand out. A context has no other
//! memory, so it is never freed.

use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};
use std::cell::Cell;
use std::thread_local;

use libdeflate_sys::{
    libdeflate_alloc_compressor_ex, libdeflate_alloc_decompressor_ex, libdeflate_compressor,
    libdeflate_decompressor, libdeflate_deflate_compress, libdeflate_deflate_compress_bound,
    libdeflate_deflate_decompress_ex, libdeflate_options,
};

use super::super::staged::staged;
use crate::scratch::Kept;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

/// The codec `deflate:LEVEL`.
pub(crate) struct Deflate {
    level: c_int,
    name: &'static str,
}

macro_rules! levels {
    ($($level:literal),*) => {
        [$(Deflate { level: $level, name: concat!("deflate:", $level) }),*]
    };
}

/// All levels that compress.
pub(crate) static LEVELS: [Deflate; 12] = levels![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

thread_local! {
    /// The memory to hand out, and how much was requested last.
    static HANDED: Cell<(*mut u8, usize)> = const { Cell::new((null_mut(), 0)) };
}

// SAFETY: it requires nothing of its caller; `unsafe` is part of the type that the library expects.
unsafe extern "C" fn hand_out(size: usize) -> *mut c_void {
    let (memory, there) = HANDED.replace((null_mut(), size));
    if size <= there { memory.cast() } else { null_mut() }
}

// SAFETY: as above.
unsafe extern "C" fn free(_memory: *mut c_void) {}

const OPTIONS: libdeflate_options = libdeflate_options {
    sizeof_options: size_of::<libdeflate_options>(),
    malloc_func: Some(hand_out),
    free_func: Some(free),
};

/// Calls `make` while `size` bytes of `memory` can be handed out; returns its result, and how much it
/// requested.
fn with<T>(memory: *mut u8, size: usize, make: impl FnOnce() -> *mut T) -> (*mut T, usize) {
    HANDED.set((memory, size));
    let made = make();
    (made, HANDED.replace((null_mut(), 0)).1)
}

impl Deflate {
    fn make(&self, memory: *mut u8, size: usize) -> (*mut libdeflate_compressor, usize) {
        // SAFETY: the options are complete, and everything that they refer to lives for ever.
        with(memory, size, || unsafe { libdeflate_alloc_compressor_ex(self.level, &OPTIONS) })
    }

    /// Bytes of a context.
    fn context_size(&self) -> usize {
        self.make(null_mut(), 0).1
    }

    fn staging(&self, len: usize) -> usize {
        self.bound(len).next_multiple_of(Scratch::ALIGN)
    }
}

fn make_decompressor(memory: *mut u8, size: usize) -> (*mut libdeflate_decompressor, usize) {
    // SAFETY: the options are complete, and everything that they refer to lives for ever.
    with(memory, size, || unsafe { libdeflate_alloc_decompressor_ex(&OPTIONS) })
}

impl Codec for Deflate {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::DEFLATE
    }

    fn bound(&self, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        // SAFETY: without a compressor the function computes a bound for all levels.
        unsafe { libdeflate_deflate_compress_bound(null_mut(), len) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.staging(len) + self.context_size() }
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { make_decompressor(null_mut(), 0).1 }
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
        let kept = Kept { codec: CodecId::DEFLATE, compress: true, level: self.level, block_len: src.len() };
        let set_up = |memory: NonNull<u8>| {
            // SAFETY: the scratch has the staging and then context_size() bytes.
            let memory = unsafe { memory.add(self.staging(src.len())) };
            let (context, _) = self.make(memory.as_ptr(), self.context_size());
            NonNull::new(context).expect("libdeflate takes memory of the size it asked for").cast()
        };
        let (staging, context) = scratch.keep(kept, || self.compress_scratch(src.len()), set_up);
        // SAFETY: the scratch begins with this many bytes, which nothing else uses.
        let staging = unsafe { core::slice::from_raw_parts_mut(staging.as_ptr(), bound) };
        staged(dst, staging, (room, bound, threshold), |to| {
            // SAFETY: the context was set up; lengths are those of the slices.
            let size = unsafe {
                libdeflate_deflate_compress(
                    context.as_ptr().cast(),
                    src.as_ptr().cast(),
                    src.len(),
                    to.as_mut_ptr().cast(),
                    to.len(),
                )
            };
            assert!(size > 0, "libdeflate fails to compress a block");
            Some(size)
        })
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        let size = || self.decompress_scratch(dst.len());
        let kept = Kept { codec: CodecId::DEFLATE, compress: false, level: 0, block_len: 0 };
        let set_up = |memory: NonNull<u8>| {
            let (context, _) = make_decompressor(memory.as_ptr(), size());
            NonNull::new(context).expect("libdeflate takes memory of the size it asked for").cast()
        };
        let (_, context) = scratch.keep(kept, size, set_up);
        let mut read = 0;
        // SAFETY: the context was set up; lengths are those of the slices. The library guarantees for any
        // input to stay within them. Without a pointer for the actual length, the output must fill all of
        // `dst`.
        let result = unsafe {
            libdeflate_deflate_decompress_ex(
                context.as_ptr().cast(),
                src.as_ptr().cast(),
                src.len(),
                dst.as_mut_ptr().cast(),
                dst.len(),
                &mut read,
                null_mut(),
            )
        };
        if result == 0 && read == src.len() { Ok(()) } else { Err(Malformed) }
    }
}
