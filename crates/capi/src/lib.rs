//! The C interface of memfold: what `include/memfold.h` and `include/compll.h` declare.
//!
//! ```text
//!   heap.rs       heaps by their numbers, for all threads         compll/      the interface of compll, on top of the same heap
//!   session.rs    sessions by their numbers, of each thread       callbacks.rs codecs that are callbacks
//!   node.rs, pin.rs   what a session does                         options.rs   what C says about a new heap
//!   lists/        slab lists and slab maps of sessions            error.rs, entry.rs   codes, texts, panics
//!   bound.rs      a session together with its heap
//! ```
//!
//! What holds:
//! - What C has in its hands are numbers, pointers by their type alone: they are looked up and never followed. So a heap that was destroyed, a
//!   session that was closed, and any number that C invents are noticed. The numbers are addresses that no memory can have.
//! - Sessions, and with them their lists, are found in a table of the calling thread: no other thread can use them, and nothing is shared on the way.
//! - No panic gets to C: each function is an [`entry`](entry::entry). A heap in which there was one is not touched any more, and never given back.
//! - Functions that fail change nothing.
#![expect(non_camel_case_types, reason = "types have the names that they have in C")]

mod bound;
mod callbacks;
mod compll;
mod entry;
mod error;
mod file;
mod heap;
mod lists;
mod node;
mod options;
mod pin;
mod provoke;
mod session;

#[cfg(test)]
mod tests;

use std::ffi::c_char;

/// The version, with the null that C wants behind it.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the library that is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_version() -> *const c_char {
    VERSION.as_ptr().cast()
}
