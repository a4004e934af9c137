//! One line that says how far it is.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_du::entry::BLOCK;
use memfold_du::scan::Progress;

use crate::size::Human;

/// How often it is written.
const EACH: Duration = Duration::from_millis(200);

/// A line on standard error that is written over and over, if that is a terminal.
pub struct Line {
    is_on: bool,
    last: Instant,
    len: usize,
}

impl Line {
    /// `is_on`: it is wanted.
    pub fn new(is_on: bool) -> Self {
        Line { is_on: is_on && std::io::stderr().is_terminal(), last: Instant::now(), len: 0 }
    }

    /// Shows it; always says to go on.
    pub fn show(&mut self, progress: &Progress) -> bool {
        if self.is_on && self.last.elapsed() >= EACH {
            self.last = Instant::now();
            let (items, blocks) = (progress.items.load(Relaxed), progress.blocks.load(Relaxed));
            let failures = match progress.failures.load(Relaxed) {
                0 => String::new(),
                failures => format!(", {failures} could not be read"),
            };
            let text = format!("{items} items, {}{failures}", Human(blocks.saturating_mul(BLOCK)));
            let _ = write!(std::io::stderr(), "\r{text}{:1$}", "", self.len.saturating_sub(text.len()));
            self.len = text.len();
        }
        true
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        if self.len > 0 {
            let _ = write!(std::io::stderr(), "\r{:1$}\r", "", self.len);
            self.len = 0;
        }
    }
}
