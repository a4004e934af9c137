//! Training, by the library's fast cover algorithm. Only here does the library allocate.

use core::ffi::c_uint;
use std::sync::{Mutex, PoisonError};
use std::vec;
use std::vec::Vec;

use zstd_sys::{ZDICT_fastCover_params_t, ZDICT_params_t};

use super::samples::Blocks;

/// The library stores its verbosity in a global variable, without a lock.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The content of a dictionary of at most `size` bytes for blocks like these; `None` if there are too few, or
/// nothing in them repeats.
pub(super) fn train(blocks: &Blocks, size: usize, level: i32) -> Option<Vec<u8>> {
    let lens: Vec<usize> = blocks.iter().map(<[u8]>::len).collect();
    let mut content = vec![0; size];
    let parameters = ZDICT_fastCover_params_t {
        // Segments of 200 bytes with as many frequent substrings of 8 bytes as possible.
        k: 200,
        d: 8,
        f: 18,
        steps: 0,
        nbThreads: 0,
        splitPoint: 1.0,
        accel: 1,
        shrinkDict: 0,
        shrinkDictMaxRegression: 0,
        zParams: ZDICT_params_t { compressionLevel: level, notificationLevel: 0, dictID: 0 },
    };
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the blocks are adjacent and have the lengths in `lens`; `content` has `size` bytes.
    let len = unsafe {
        zstd_sys::ZDICT_trainFromBuffer_fastCover(
            content.as_mut_ptr().cast(),
            size,
            blocks.bytes().as_ptr().cast(),
            lens.as_ptr(),
            c_uint::try_from(lens.len()).ok()?,
            parameters,
        )
    };
    // SAFETY: looks at the number only.
    if unsafe { zstd_sys::ZDICT_isError(len) } != 0 {
        return None;
    }
    content.truncate(len);
    Some(content)
}
