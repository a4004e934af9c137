//! What the supervisor of `memfold run` and the processes of its tree share: layouts, and what both sides have to
//! agree on. The preload library and the command depend on it, and not on each other.
//!
//! - [`page`]: the shared page, with the settings, the gauges and counters of each process, and messages;
//! - [`trail`]: what processes leave for a report, in the same page;
//! - [`spill`]: the spill area behind it, by which batches go to the supervisor and come back;
//! - [`door`]: where in a process the supervisor can make a thread start the keeper;
//! - [`near`]: how near a limit has to be for something to be done, by either side;
//! - [`calls`] and [`filters`]: the system calls that the library makes, which seccomp filters must allow.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod calls;
pub mod door;
pub mod filters;
pub mod near;
pub mod page;
pub mod spill;
pub mod trail;
