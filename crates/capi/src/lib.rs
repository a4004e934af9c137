//! The C interface of memfold: what the headers in `include/` declare.
//!
//! ```text
//!   heap/       heaps by their numbers, for all threads: options, codecs that are callbacks, files
//!   session/    sessions by their numbers, of each thread: nodes, pins, slab lists and slab maps
//!   bound.rs    a session together with its heap
//!   compll/     the interface of compll, on top of the same heap
//!   weft.rs     the codec for pages of heaps, alone
//!   error.rs, entry.rs    codes, texts, panics
//! ```
//!
//! Rules:
//! - C only has numbers, which are pointers by type alone: they are looked up and never followed. So a destroyed
//!   heap, a closed session and any number that C invents are detected. The numbers are addresses that no memory
//!   can have.
//! - Sessions, and with them their lists, are found in a table of the calling thread: no other thread can use
//!   them, and the lookup shares nothing.
//! - No panic reaches C: each function is an [`entry`](entry::entry). A heap in which one occurred is not touched
//!   any more, and never freed.
//! - Functions that fail change nothing.
#![expect(non_camel_case_types, reason = "types have the names that they have in C")]

mod bound;
mod compll;
mod entry;
mod error;
mod heap;
mod provoke;
mod session;
mod weft;

#[cfg(test)]
mod tests;

use std::ffi::c_char;

/// The version, with the null that C needs at the end.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the library that is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_version() -> *const c_char {
    VERSION.as_ptr().cast()
}
