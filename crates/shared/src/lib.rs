//! What the supervisor of `memfold run` and the processes of its tree share: layouts, and rules on which both
//! sides must agree. The preload library and the command depend on it, and not on each other.
//!
//! - [`page`]: the shared page, with the settings, the gauges and counters of each process, and messages;
//! - [`trail`]: the trace buffer, events that processes leave for a report, in the same page;
//! - [`spill`]: the spill area behind it, through which batches go to the supervisor and come back;
//! - [`door`]: where the supervisor can make a thread of a process start the keeper;
//! - [`near`]: how near the limit must be for either side to act;
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
