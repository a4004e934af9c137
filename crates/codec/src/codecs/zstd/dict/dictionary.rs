//! One dictionary: its content, and the tables that the library builds from it.
//!
//! ```text
//! Dictionary   as long as blocks may refer to it     Encoder   as long as it compresses
//! +---------+----------------+                       +----------------------+
//! | content | decoder tables |  <------------------- | encoder tables       |
//! +---------+----------------+                       +----------------------+
//! at most 64 KiB      27 KiB                         40 KiB and more, by level
//! ```
//!
//! All of it is in memory that is allocated when the dictionary is made, so its size is known, and the
//! library allocates nothing. From then on the content and the tables, which refer to it, are read-only, so
//! any number of threads may share them.

use core::ffi::c_int;
use core::ptr::NonNull;
use std::boxed::Box;
use std::sync::Arc;

use zstd_sys::ZSTD_cParameter as Compression;
use zstd_sys::{
    ZSTD_CCtx, ZSTD_CDict, ZSTD_DDict, ZSTD_compressionParameters, ZSTD_dictAttachPref_e,
    ZSTD_dictContentType_e, ZSTD_dictLoadMethod_e, ZSTD_format_e,
};

use crate::codecs::zstd::{Zstd, decompress_context, is_one_frame, must, result};
use crate::scratch::Kept;
use crate::{Codec, CodecId, Malformed, Scratch, ScratchBuf};

/// The sizes of dictionaries.
pub(super) const SIZES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// The library chooses a dictionary's parameters as if blocks had this size; this is also its own default.
const TYPICAL_BLOCK: u64 = 513;

/// The part that decoding needs.
pub(super) struct Dictionary {
    pub(super) version: u32,
    content: Box<[u8]>,
    /// Holds `tables`.
    memory: ScratchBuf,
    tables: NonNull<ZSTD_DDict>,
}

// SAFETY: the tables are plain data of the library, which only reads them once they are made, and guarantees
// that threads may share them. The content that they refer to is owned together with them and does not
// change.
unsafe impl Send for Dictionary {}
// SAFETY: as above.
unsafe impl Sync for Dictionary {}

impl Dictionary {
    /// The dictionary with that content; `None` if it is not in the library's format.
    pub(super) fn new(version: u32, content: &[u8]) -> Option<Self> {
        if content.len() > SIZES[SIZES.len() - 1] {
            return None;
        }
        let content: Box<[u8]> = content.into();
        // SAFETY: computes with numbers.
        let size = unsafe { zstd_sys::ZSTD_estimateDDictSize(0, ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef) };
        let mut memory = ScratchBuf::with_size(size);
        let room = memory.scratch().take(size);
        // SAFETY: `room` has `size` bytes, aligned to 64, which nothing else uses before `memory` is dropped,
        // nor `content`. Any content is checked before it is used.
        let tables = unsafe {
            zstd_sys::ZSTD_initStaticDDict(
                room.as_ptr().cast(),
                size,
                content.as_ptr().cast(),
                content.len(),
                ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef,
                ZSTD_dictContentType_e::ZSTD_dct_fullDict,
            )
        };
        let tables = NonNull::new(tables.cast_mut())?;
        Some(Dictionary { version, content, memory, tables })
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// All memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.content.len() + self.memory.size()
    }

    /// Fills `dst` from a frame that was made with this dictionary.
    pub(super) fn decompress(
        &self,
        frame: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Malformed> {
        if !is_one_frame(frame) {
            return Err(Malformed);
        }
        let context = decompress_context(scratch);
        // SAFETY: `context` is set up, and the tables live as long as `self`; the library guarantees for any
        // input to read nothing outside of `frame` and the content and to write nothing outside of `dst`.
        let size = unsafe {
            zstd_sys::ZSTD_decompress_usingDDict(
                context,
                dst.as_mut_ptr().cast(),
                dst.len(),
                frame.as_ptr().cast(),
                frame.len(),
                self.tables.as_ptr(),
            )
        };
        if result(size)? == dst.len() { Ok(()) } else { Err(Malformed) }
    }
}

/// The part that only compressing needs.
pub(super) struct Encoder {
    dictionary: Arc<Dictionary>,
    level: i32,
    /// The index in [`SIZES`] for which the tables are made.
    class: usize,
    memory: ScratchBuf,
    tables: NonNull<ZSTD_CDict>,
}

// SAFETY: as for `Dictionary`, which it keeps alive.
unsafe impl Send for Encoder {}
// SAFETY: as above.
unsafe impl Sync for Encoder {}

/// Parameters of the tables for dictionaries of a class.
fn parameters(level: i32, class: usize) -> ZSTD_compressionParameters {
    // SAFETY: computes with numbers.
    unsafe { zstd_sys::ZSTD_getCParams(level, TYPICAL_BLOCK, SIZES[class]) }
}

/// Bytes of a context that compresses blocks of `len` bytes with a dictionary of a class. Its tables are for
/// the block alone; those of the dictionary are attached to it.
fn context_size(level: i32, class: usize, len: usize) -> usize {
    // SAFETY: all only compute with numbers.
    let size = unsafe {
        // The library uses the window of its default level, not that of the dictionary.
        let window = zstd_sys::ZSTD_getCParams(0, len as u64, 0).windowLog;
        let mut parameters = zstd_sys::ZSTD_adjustCParams(parameters(level, class), len as u64, 0);
        parameters.windowLog = window;
        zstd_sys::ZSTD_estimateCCtxSize_usingCParams(parameters)
    };
    must(size);
    size
}

/// Bytes of scratch for blocks of `len` bytes, whatever the dictionary.
pub(super) fn compress_scratch(plain: &Zstd, len: usize) -> usize {
    let contexts = (0..SIZES.len()).map(|class| context_size(plain.level(), class, len));
    plain.staging(len) + contexts.max().unwrap_or(0)
}

impl Encoder {
    /// The tables for a dictionary; `None` if the library refuses it.
    pub(super) fn new(dictionary: Arc<Dictionary>, level: i32) -> Option<Self> {
        let content = dictionary.content();
        let class = SIZES.iter().position(|&size| content.len() <= size)?;
        let parameters = parameters(level, class);
        let by_reference = ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef;
        // SAFETY: computes with numbers.
        let size =
            unsafe { zstd_sys::ZSTD_estimateCDictSize_advanced(content.len(), parameters, by_reference) };
        let mut memory = ScratchBuf::with_size(size);
        let room = memory.scratch().take(size);
        // SAFETY: `room` has `size` bytes, aligned to 64, which nothing else uses before `memory` is dropped;
        // the content lives as long, since the dictionary does.
        let tables = unsafe {
            zstd_sys::ZSTD_initStaticCDict(
                room.as_ptr().cast(),
                size,
                content.as_ptr().cast(),
                content.len(),
                by_reference,
                ZSTD_dictContentType_e::ZSTD_dct_fullDict,
                parameters,
            )
        };
        let tables = NonNull::new(tables.cast_mut())?;
        Some(Encoder { dictionary, level, class, memory, tables })
    }

    pub(super) fn version(&self) -> u32 {
        self.dictionary.version
    }

    pub(super) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Bytes of memory, without the dictionary.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.memory.size()
    }

    /// The frame of a non-empty block, in the scratch. `None` only if the library fails, which it never
    /// should.
    pub(super) fn compress<'s>(
        &self,
        plain: &Zstd,
        src: &[u8],
        scratch: &'s mut Scratch<'_>,
    ) -> Option<&'s [u8]> {
        let (staging, bound) = (plain.staging(src.len()), plain.bound(src.len()));
        let size = || staging + context_size(self.level, self.class, src.len());
        let level = self.level * SIZES.len() as i32 + self.class as i32;
        let kept = Kept { codec: CodecId::ZSTD_DICT, compress: true, level, block_len: src.len() };
        let set_up = |memory: NonNull<u8>| {
            // SAFETY: the scratch has `size()` bytes, of which these are the last ones, aligned.
            unsafe { set_up(memory.add(staging), size() - staging) }
        };
        let (out, context) = scratch.keep(kept, size, set_up);
        let context: *mut ZSTD_CCtx = context.as_ptr().cast();
        // SAFETY: the context is set up for this length. It gets the tables anew for each block, and they
        // outlive the call, so it never uses those of a dropped dictionary. `out` has `bound` bytes before
        // the context.
        let size = unsafe {
            must(zstd_sys::ZSTD_CCtx_refCDict(context, self.tables.as_ptr()));
            zstd_sys::ZSTD_compress2(context, out.as_ptr().cast(), bound, src.as_ptr().cast(), src.len())
        };
        let size = result(size).ok()?;
        // SAFETY: the library has just written these bytes, in memory that is borrowed with the scratch.
        Some(unsafe { core::slice::from_raw_parts(out.as_ptr(), size) })
    }
}

/// Makes a context in `memory`.
///
/// # Safety
/// `memory` is aligned to 64 bytes and has `size` bytes, which are borrowed exclusively.
unsafe fn set_up(memory: NonNull<u8>, size: usize) -> NonNull<u8> {
    // SAFETY: as the caller guarantees.
    let context = unsafe { zstd_sys::ZSTD_initStaticCCtx(memory.as_ptr().cast(), size) };
    let context = NonNull::new(context).expect("zstd takes memory of the size it asked for");
    for (parameter, value) in [
        // ZSTD_c_format
        (Compression::ZSTD_c_experimentalParam2, ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int),
        // ZSTD_c_forceAttachDict: so that the context needs tables for the block alone, however long it is.
        (Compression::ZSTD_c_experimentalParam4, ZSTD_dictAttachPref_e::ZSTD_dictForceAttach as c_int),
        (Compression::ZSTD_c_contentSizeFlag, 0),
        (Compression::ZSTD_c_checksumFlag, 0),
        (Compression::ZSTD_c_dictIDFlag, 0),
    ] {
        // SAFETY: `context` was just made.
        must(unsafe { zstd_sys::ZSTD_CCtx_setParameter(context.as_ptr(), parameter, value) });
    }
    context.cast()
}
