//! Times the actions of users on a tree: open its widest directory, scroll there, sort, delete everything.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use memfold::heap::Session;
use memfold_du::Error;
use memfold_du::browse::{Browser, Options, ReadOnly, Sort, View};
use memfold_du::entry::Kind;
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::Tree;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::process::user;

/// The directory with the most entries, and their number.
pub fn widest(tree: &Tree<'_>) -> Result<(u32, u32), Error> {
    let mut widest = (ROOT, 0);
    for number in 0..tree.numbers() {
        let slots = tree.row(number)?.contents().slots;
        if slots > widest.1 {
            widest = (number, slots);
        }
    }
    Ok(widest)
}

/// Opens a directory and sorts it.
pub fn open<'s>(order: &'s Session<'_>, tree: &Tree<'_>, directory: u32) -> Result<View<'s>, Error> {
    View::open(order, tree, directory, Sort::default())
}

/// A browser with its own screen, in a directory.
pub struct Screen<'s, 'h, 't> {
    browser: Browser<'s, 'h>,
    terminal: Terminal<TestBackend>,
    tree: &'t dyn Source,
}

impl<'s, 'h, 't> Screen<'s, 'h, 't> {
    /// Walks down to a directory with keys, as a user would.
    pub fn new(order: &'s Session<'h>, tree: &'t dyn Source, directory: u32) -> Result<Self, Error> {
        let browser = Browser::new(order, tree, Options::default(), jiff::tz::TimeZone::UTC)?;
        let terminal = Terminal::new(TestBackend::new(120, 50)).unwrap_or_else(|error| match error {});
        let mut screen = Screen { browser, terminal, tree };
        let mut way = Vec::new();
        let mut at = directory;
        while at != ROOT {
            way.push(at);
            at = tree.above(at)?;
        }
        screen.draw();
        for number in way.into_iter().rev() {
            while screen.browser.selected_directory() != Some(number) {
                screen.press(KeyCode::Down);
            }
            screen.press(KeyCode::Enter);
        }
        Ok(screen)
    }

    fn draw(&mut self) {
        let size = ratatui::layout::Size::new(120, 50);
        self.browser.prepare(self.tree, size);
        let drawn = self.terminal.draw(|frame| self.browser.draw(frame));
        drawn.map(|_| ()).unwrap_or_else(|error| match error {});
    }

    /// Presses a key and waits until the screen is drawn.
    pub fn press(&mut self, key: KeyCode) -> Duration {
        let began = Instant::now();
        self.browser.key(&ReadOnly(self.tree), KeyEvent::new(key, KeyModifiers::NONE));
        self.draw();
        began.elapsed()
    }

    /// Presses a key this many times; returns the median and the longest time.
    pub fn press_often(&mut self, key: KeyCode, times: usize) -> (Duration, Duration) {
        let mut times: Vec<_> = (0..times).map(|_| self.press(key)).collect();
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1])
    }
}

/// Deletes everything in the root, one entry after the other, in memory; returns the user CPU time.
pub fn delete_all(tree: &mut Tree<'_>) -> Result<f64, Error> {
    let before = user();
    let slots = tree.row(ROOT)?.contents().slots;
    for slot in 0..slots {
        tree.remove(ROOT, slot)?;
    }
    let row = tree.row(ROOT)?;
    assert_eq!((row.items, row.size), (0, 0), "something was left");
    assert!(tree.entry(row.contents(), 0)?.kind == Kind::Gone, "something was left");
    Ok(user() - before)
}
