//! `memfold run` as its user sees it: what is refused, what the program finds, what is said in the end.

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
