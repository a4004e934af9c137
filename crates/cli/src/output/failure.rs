//! What stops the command before a program starts, and how the user is told.

use std::fmt;
use std::io::Write;

/// memfold failed before the program started.
pub const FAILED: i32 = 125;
/// The program was found but cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// There is no such program.
pub const NOT_FOUND: i32 = 127;

/// One paragraph for the user, which names the remedy, and the exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit status.
    pub status: i32,
    /// The paragraph, without prefix.
    pub text: String,
}

impl Failure {
    /// A failure of memfold itself.
    pub fn new(text: impl Into<String>) -> Self {
        Self::with(FAILED, text)
    }

    /// A failure with a status of its own.
    pub fn with(status: i32, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes one of memfold's lines to standard error.
///
/// Names in it may contain anything, including terminal control sequences, so they are escaped. A closed or full
/// standard error is no reason to stop, and there is nowhere else to report it, so write errors are dropped.
pub fn say(text: &str) {
    let mut line = String::with_capacity(text.len() + 12);
    line.push_str("memfold: ");
    line.push_str(&memfold_escape::line(text));
    line.push('\n');
    let _ = std::io::stderr().write_all(line.as_bytes());
}
