//! The library that `memfold run` preloads into programs: it pages whole processes into compressed memory,
//! using userfaultfd.
//!
//! It runs inside programs that do not know about it. It therefore allocates nothing from them, takes none of
//! their locks and touches none of their memory. Its threads come from raw clones, and call nothing of the C
//! library but `memcpy` and its like: memory comes from its own mappings, and it makes its own system calls.
//!
//! ```text
//!   preload      how it gets into a program        interpose   functions of the C library that it replaces
//!      │                                               │
//!   process      start, threads, forks, end  <─────────┘
//!      │
//!   reclaim      making room: when, which, how       faults    restoring pages
//!      │                      └──────> spill <─────────┘       data beyond this machine's memory
//!   pages        where each page is
//!      │
//!   memory, kernel       its own memory and locks; system calls
//! ```
//!
//! The data shared by the supervisor and the processes are in a crate of their own, `memfold-shared`.
//!
//! Without the feature `preload`, and outside tests, this crate is empty: the command depends on it to find
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
