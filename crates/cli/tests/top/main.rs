//! `memfold top` with a running program: the screen, JSON, and text for Prometheus.

#[path = "../common/mod.rs"]
mod common;
mod exposition;
mod keys;
#[path = "../common/program.rs"]
mod program;
mod screen;
mod streams;
#[path = "../../../du/tests/all/terminal.rs"]
mod terminal;

use std::process::{Command, Stdio};

use common::{MEMFOLD, Said, finish};

const MIB: u64 = 1 << 20;

fn top(words: &[&str]) -> Said {
    let mut command = Command::new(MEMFOLD);
    command.arg("top").args(words).stdin(Stdio::null());
    finish(command)
}
