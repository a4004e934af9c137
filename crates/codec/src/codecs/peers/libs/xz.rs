//! `xz:LEVEL`: LZMA2, by liblzma, without xz's container. The dictionary is as long as the block, whose
//! length the reader knows. All large memory is in the scratch; the library may still call `malloc` for small
//! pieces.

use core::ffi::c_void;
use core::mem::MaybeUninit;

use liblzma_sys::{
    LZMA_FILTER_LZMA2, LZMA_OK, LZMA_VLI_UNKNOWN, lzma_allocator, lzma_filter, lzma_lzma_preset,
    lzma_options_lzma, lzma_raw_buffer_decode, lzma_raw_buffer_encode, lzma_raw_decoder_memusage,
    lzma_raw_encoder_memusage,
};

use super::super::staged::staged;
use super::arena::Arena;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

/// The codec `xz:LEVEL`.
pub(crate) struct Xz {
    level: u32,
    name: &'static str,
}

macro_rules! levels {
    ($($level:literal),*) => {
        [$(Xz { level: $level, name: concat!("xz:", $level) }),*]
    };
}

/// All presets.
pub(crate) static LEVELS: [Xz; 10] = levels![0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

/// `LZMA_DICT_SIZE_MIN`.
const SMALLEST: usize = 4096;

/// A reserve, and what the arena loses to the alignment of pieces.
const SPARE: usize = 64 << 10;

extern "C" fn alloc(opaque: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: `opaque` is the arena of the current call.
    unsafe { (*opaque.cast::<Arena>()).piece(count, size) }
}

extern "C" fn free(_opaque: *mut c_void, _piece: *mut c_void) {}

fn allocator(arena: &mut Arena) -> lzma_allocator {
    lzma_allocator { alloc: Some(alloc), free: Some(free), opaque: arena.opaque() }
}

impl Xz {
    /// The library's options for blocks of `len` bytes.
    fn options(&self, len: usize) -> lzma_options_lzma {
        let mut options = MaybeUninit::<lzma_options_lzma>::zeroed();
        // SAFETY: the call fills the options, which are integers and pointers and may be zero.
        let mut options = unsafe {
            let unknown = lzma_lzma_preset(options.as_mut_ptr(), self.level);
            assert!(unknown == 0, "xz has the levels 0 to 9");
            options.assume_init()
        };
        options.dict_size = len.clamp(SMALLEST, 1 << 30) as u32;
        options
    }
}

/// The filter and the end of the list of filters.
fn filters(options: &mut lzma_options_lzma) -> [lzma_filter; 2] {
    [
        lzma_filter { id: LZMA_FILTER_LZMA2, options: (options as *mut lzma_options_lzma).cast() },
        lzma_filter { id: LZMA_VLI_UNKNOWN, options: core::ptr::null_mut() },
    ]
}

impl Codec for Xz {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::XZ
    }

    /// Incompressible data are stored with three bytes for each 64 KiB, and an end marker.
    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(6 * len.div_ceil(32 << 10) + 16) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        // SAFETY: the call reads the options, which live on this stack.
        let memory = unsafe { lzma_raw_encoder_memusage(filters(&mut self.options(len)).as_ptr()) };
        self.bound(len).next_multiple_of(Scratch::ALIGN) + memory as usize + SPARE
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        // SAFETY: the call reads the options, which live on this stack.
        let memory = unsafe { lzma_raw_decoder_memusage(filters(&mut self.options(len)).as_ptr()) };
        memory as usize + SPARE
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
        let memory = scratch.bytes(self.compress_scratch(src.len()));
        let (staging, memory) = memory.split_at_mut(bound.next_multiple_of(Scratch::ALIGN));
        staged(dst, staging, (room, bound, threshold), |to| {
            let (mut arena, mut options, mut size) = (Arena::new(memory), self.options(src.len()), 0);
            // SAFETY: filters, options and allocator live on this stack, the
            // lengths are those of the slices.
            let result = unsafe {
                lzma_raw_buffer_encode(
                    filters(&mut options).as_ptr(),
                    &allocator(&mut arena),
                    src.as_ptr(),
                    src.len(),
                    to.as_mut_ptr(),
                    &mut size,
                    to.len(),
                )
            };
            assert!(result == LZMA_OK, "xz fails to compress a block");
            Some(size)
        })
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        let mut arena = Arena::new(scratch.bytes(self.decompress_scratch(dst.len())));
        let mut options = self.options(dst.len());
        let (mut read, mut written) = (0, 0);
        // SAFETY: as in `compress`. The library guarantees for any input to stay within the slices.
        let result = unsafe {
            lzma_raw_buffer_decode(
                filters(&mut options).as_ptr(),
                &allocator(&mut arena),
                src.as_ptr(),
                &mut read,
                src.len(),
                dst.as_mut_ptr(),
                &mut written,
                dst.len(),
            )
        };
        let whole = result == LZMA_OK && read == src.len() && written == dst.len();
        if whole { Ok(()) } else { Err(Malformed) }
    }
}
