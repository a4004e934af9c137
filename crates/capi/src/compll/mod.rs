//! compll's interface: what `include/compll.h` declares.
//!
//! ```text
//!   thread A: blocks that it used last, pinned --+
//!   thread B: blocks that it used last, pinned --+--> the instance: one heap, uncomp_count frames or a few more
//! ```
//!
//! Rules:
//! - The pins of all threads together leave two frames for other blocks; if there are too many threads for that,
//!   calls fail.
//! - Functions return 0 and null where compll did; `memfold_last_error` says why.

mod instance;
mod member;

use std::ffi::{c_int, c_uint, c_ulonglong, c_ushort, c_void};
use std::ptr;

use crate::compll::instance::{Request, in_thread, init};
use crate::entry::{attempt, entry};
use crate::error::{Failure, report};
use crate::heap::callbacks::{compll_compress_callback, compll_decompress_callback};
use crate::session::node::handle;

/// As in `compll.h`.
pub type compll_t = c_ulonglong;

/// The value that a function returns if it fails.
fn or<R>(nothing: R, result: Result<R, Failure>) -> R {
    result.unwrap_or_else(|failure| {
        report(failure);
        nothing
    })
}

/// Must be called before everything else.
///
/// # Safety
/// The callbacks behave as `compll.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn compll_init(
    block_size: c_uint,
    alignment: c_ushort,
    uncomp_count: c_ushort,
    compress_cb: compll_compress_callback,
    decompress_cb: compll_decompress_callback,
) -> c_int {
    entry(|| {
        let request = Request {
            block_size: block_size as usize,
            alignment: alignment.into(),
            uncomp_count: uncomp_count.into(),
            compress: compress_cb,
            decompress: decompress_cb,
        };
        // SAFETY: as promised.
        unsafe { init(&request) }
    })
}

/// Allocates a node of `size` bytes, all zero.
#[unsafe(no_mangle)]
pub extern "C" fn compll_alloc(size: c_uint) -> compll_t {
    // In compll, a node without bytes was a node, too.
    let size = size.max(1) as usize;
    or(0, attempt(|| in_thread(|member, quota| Ok(member.alloc(size, quota)?.to_bits()))))
}

/// Frees a node.
#[unsafe(no_mangle)]
pub extern "C" fn compll_free(node: compll_t) {
    if node != 0 {
        or((), attempt(|| in_thread(|member, quota| Ok(member.free(handle(node)?, quota)?))));
    }
}

/// A pointer to a node's contents, for reading.
#[unsafe(no_mangle)]
pub extern "C" fn compll_read(node: compll_t) -> *const c_void {
    or(
        ptr::null(),
        attempt(|| {
            in_thread(|member, quota| Ok(member.pointer(handle(node)?, false, quota)?.cast_const().cast()))
        }),
    )
}

/// A pointer to a node's contents, for writing.
#[unsafe(no_mangle)]
pub extern "C" fn compll_write(node: compll_t) -> *mut c_void {
    or(
        ptr::null_mut(),
        attempt(|| in_thread(|member, quota| Ok(member.pointer(handle(node)?, true, quota)?.cast()))),
    )
}
