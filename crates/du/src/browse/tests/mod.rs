//! Trees and screens for the browser's tests.

mod order;
mod screens;
mod windows;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use memfold::heap::{Heap, Options as HeapOptions, Session};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;

use super::*;
use crate::Error;
use crate::entry::{Entry, Extended, Kind};
use crate::source::Source;
use crate::tree::{Builder, OwnEntry, Row, Tree};

/// An empty file.
const FILE: Entry<'static> =
    Entry { name: b"", kind: Kind::File, size: 0, blocks: 0, link: None, followed: None, extended: None };

fn file(name: &str, size: u64) -> Entry<'_> {
    Entry { name: name.as_bytes(), size, blocks: size.div_ceil(4096) * 8, ..FILE }
}

fn directory(name: &str) -> Entry<'_> {
    file(name, 4096)
}

/// A directory's row with an error.
fn row(flags: u16, error: u16) -> Row {
    let mut row = Row::default();
    (row.flags, row.error) = (flags, error);
    row
}

fn heap() -> Heap {
    Heap::new(HeapOptions::new()).unwrap()
}

/// A tree whose root is `/root`: `fill` adds everything below it.
fn tree<'s>(
    heap: &'s Heap,
    session: &'s Session<'_>,
    extended: Option<Extended>,
    fill: impl FnOnce(&mut Builder<'s>) -> Result<(), Error>,
) -> Tree<'s> {
    let root = Entry { name: b"/root", kind: Kind::Directory(0), extended, ..directory("") };
    let mut builder = Builder::new(heap, session, OwnEntry::from(root), Row::default()).unwrap();
    fill(&mut builder).unwrap();
    assert!(builder.end().unwrap());
    builder.finish(vec![0]).unwrap()
}

/// Allows every action, and records the requested ones.
struct Able<'a> {
    source: &'a dyn Source,
}

impl Actions for Able<'_> {
    fn source(&self) -> &dyn Source {
        self.source
    }
    fn no_delete(&self) -> Option<&str> {
        None
    }
    fn no_refresh(&self) -> Option<&str> {
        None
    }
    fn no_shell(&self) -> Option<&str> {
        None
    }
}

/// A browser without colours, and its screen.
struct Test<'s, 'h> {
    browser: Browser<'s, 'h>,
    actions: Able<'s>,
    terminal: Terminal<TestBackend>,
}

impl<'s, 'h> Test<'s, 'h> {
    fn new(session: &'s Session<'h>, source: &'s dyn Source, width: u16, height: u16) -> Self {
        let options = Options { colours: Colours::Off, ..Options::default() };
        let browser = Browser::new(session, source, options, TimeZone::UTC).unwrap();
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        Test { browser, actions: Able { source }, terminal }
    }

    /// Presses keys, and draws after each.
    fn press(&mut self, keys: impl IntoIterator<Item = KeyCode>) -> Act {
        let mut act = Act::Nothing;
        for key in keys {
            act = self.browser.key(&self.actions, KeyEvent::new(key, KeyModifiers::NONE));
            self.draw();
        }
        act
    }

    fn keys(&mut self, keys: &str) -> Act {
        self.press(keys.chars().map(KeyCode::Char))
    }

    fn draw(&mut self) {
        let size = self.terminal.size().unwrap();
        self.browser.prepare(self.actions.source, size);
        self.terminal.draw(|frame| self.browser.draw(frame)).unwrap();
    }

    /// Changes the size of the screen.
    fn resize(&mut self, Size { width, height }: Size) {
        self.terminal.backend_mut().resize(width, height);
        self.draw();
    }

    /// The contents of the screen: lines without trailing spaces.
    fn lines(&self) -> Vec<String> {
        let buffer = self.terminal.backend().buffer();
        let area = buffer.area;
        let line = |y| {
            // A wide character is followed by an empty cell.
            let (mut line, mut skip) = (String::new(), 0);
            for x in 0..area.width {
                let symbol = buffer[(x, y)].symbol();
                if skip == 0 {
                    line.push_str(symbol);
                    skip = super::text::width(symbol).max(1);
                }
                skip -= 1;
            }
            line.trim_end().to_string()
        };
        (0..area.height).map(line).collect()
    }

    /// The lines of entries.
    fn rows(&self) -> Vec<String> {
        let lines = self.lines();
        let rows = &lines[2..lines.len() - 1];
        rows.iter().filter(|line| !line.is_empty()).cloned().collect()
    }

    /// Their names.
    fn names(&self) -> Vec<String> {
        self.rows().iter().map(|row| row.rsplit(' ').next().unwrap_or_default().into()).collect()
    }

    /// The name of the selected entry.
    fn selected(&self) -> String {
        match self.browser.item() {
            Some(item) => memfold_escape::shown(&item.entry.name),
            None => String::from(".."),
        }
    }
}
