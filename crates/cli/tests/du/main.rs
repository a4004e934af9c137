//! `memfold du`: as a command, and as a browser in a terminal.

mod browser;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod exclude;
mod refused;
#[path = "../../../du/tests/all/terminal.rs"]
mod terminal;
