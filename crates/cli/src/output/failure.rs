//! Failures that stop the command before a program starts, and messages to the user.

use std::fmt;
use std::io::Write;

/// memfold failed before the program started.
pub const FAILED: i32 = 125;
/// The program was found but cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// There is no such program.
pub const NOT_FOUND: i32 = 127;

/// A failure: one paragraph for the user, which names the remedy, and the exit status.
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
/// Names in the line may contain anything, including terminal control sequences, so they are escaped. Write
/// errors are ignored: a closed or full standard error is no reason to stop, and cannot be reported
/// elsewhere.
pub fn say(text: &str) {
    let mut line = String::with_capacity(text.len() + 12);
    line.push_str("memfold: ");
    line.push_str(&memfold_escape::line(text));
    line.push('\n');
    let _ = std::io::stderr().write_all(line.as_bytes());
}
