//! `memfold run` from the user's point of view: refusals, the program's environment, and the messages at the
//! end.

#[path = "../common/mod.rs"]
mod common;
mod exit_status;
mod limit;
#[path = "../common/program.rs"]
mod program;
mod refusals;
mod signals;
mod stats;
mod transparent;
mod tree;
