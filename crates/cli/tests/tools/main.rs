//! The tools beside `memfold run`: what they print and write, and what they refuse.

mod analyze;
mod bench;
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod escapes;
