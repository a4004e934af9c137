//! Shows the progress of a scan or an import in one line, not on the full screen.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::browse::Step;
use crate::browse::text::format::{number, size};
use crate::browse::text::{cut, shown, width};

/// The interval between updates of the line.
const FAST: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_secs(2);
/// The width if it is unknown.
const COLUMNS: usize = 80;

/// A line at the bottom of a terminal, or of any other output.
pub struct ProgressLine<W: Write> {
    to: W,
    si: bool,
    columns: usize,
    every: Duration,
    last: Option<Instant>,
    /// Columns that the current text takes.
    shown: usize,
}

impl ProgressLine<io::Stderr> {
    /// A line on standard error; `None` if that is not a terminal.
    pub fn stderr(si: bool, slow: bool) -> Option<Self> {
        let columns = crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| columns.into());
        io::stderr().is_terminal().then(|| Self::new(io::stderr(), columns, si, slow))
    }
}

impl<W: Write> ProgressLine<W> {
    /// A line of this many columns.
    pub fn new(to: W, columns: usize, si: bool, slow: bool) -> Self {
        let every = if slow { SLOW } else { FAST };
        ProgressLine { to, si, columns: columns.max(2), every, last: None, shown: 0 }
    }

    /// Shows the progress, unless it is too early for another update.
    pub fn show(&mut self, step: impl FnOnce() -> Step) {
        if self.last.is_some_and(|last| last.elapsed() < self.every) {
            return;
        }
        self.last = Some(Instant::now());
        let Step { items, bytes, failures, path } = step();
        let mut text = format!("{} items, {}", number(items), size(bytes, self.si).trim_start());
        if failures > 0 {
            text.push_str(&format!(", {} not read", number(failures)));
        }
        // The last column stays free, because some terminals move to the next line there.
        let left = (self.columns - 1).saturating_sub(width(&text) + 1);
        text.push(' ');
        text.push_str(&cut(&shown(&path), left));
        let text = cut(&text, self.columns - 1);
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        let columns = width(text);
        // Erases the rest of a longer text.
        let rest = self.shown.saturating_sub(columns);
        self.shown = columns;
        // Failing to show progress does not matter.
        let _ = write!(self.to, "\r{text}{:rest$}", "").and_then(|()| self.to.flush());
    }

    /// Erases the line.
    pub fn end(&mut self) {
        if self.last.take().is_some() {
            self.write("");
            let _ = write!(self.to, "\r").and_then(|()| self.to.flush());
        }
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_terminal_and_is_erased() {
        let mut written = Vec::new();
        let mut line = ProgressLine::new(&mut written, 40, false, false);
        let step = Step {
            items: 1234,
            bytes: 4096,
            failures: 2,
            path: b"/a/very/long/path/to\n/something".to_vec(),
        };
        line.show(|| step);
        // Too early for another update.
        line.show(|| unreachable!("it was shown just now"));
        drop(line);
        let text = String::from_utf8(written).unwrap();
        let parts: Vec<_> = text.split('\r').collect();
        assert_eq!(parts, ["", "1,234 items, 4.0 KiB, 2 not read /...ng", &" ".repeat(39), ""]);
    }
}
