//! The tools beside `memfold run`: their output and their refusals.

mod analyze;
mod bench;
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod escapes;
