//! All tests that use the crate from outside. They are one program, since linking takes longer than most of
//! them.

mod browser;
mod delete;
mod file;
mod json;
mod scan;
mod terminal;
