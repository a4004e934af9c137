//! The library that `memfold run` preloads into programs: it pages whole processes into compressed memory, with
//! userfaultfd.
//!
//! It lives in processes of strangers. It therefore allocates nothing from them, takes no lock of theirs,
//! touches no memory of theirs, and calls nothing of the C library but `memcpy` and its like: its threads come
//! from raw clones, its memory from its own mappings, and it makes its own system calls.
//!
//! ```text
//!   preload      how it gets into a program        interpose   functions of the C library that it replaces
//!      │                                               │
//!   process      beginning, threads, forks, the end  <─┘
//!      │
//!   reclaim      making room: when, which, how       faults    bringing pages back
//!      │                      └──────> spill <─────────┘       what goes beyond this machine's memory
//!   pages        where each page is
//!      │
//!   memory, kernel       its own memory and locks; system calls
//! ```
//!
//! What the supervisor and the processes share is a crate of its own, `memfold-shared`.
//!
//! Without the feature `preload`, and outside of tests, this crate is empty: the command depends on it to find
//! its source, and builds the library from that.
#![no_std]
#![cfg(all(target_os = "linux", any(test, feature = "preload")))]
#![cfg_attr(not(feature = "preload"), allow(dead_code))]

#[cfg(test)]
extern crate std;

mod faults;
mod interpose;
mod kernel;
mod memory;
mod pages;
#[cfg(feature = "preload")]
mod preload;
mod process;
mod reclaim;
mod runtime;
mod spill;
