//! All tests of the crate that use it as others do: one program, since linking takes longer than most of them.

mod browser;
mod delete;
mod file;
mod json;
mod scan;
mod terminal;
