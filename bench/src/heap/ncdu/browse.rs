//! The third operation: draws the browser's window a hundred times, one item further down each time.
//!
//! The window is a screen of 80 by 24 characters in memory. Everything drawn goes into a checksum.

use std::io::Write;

use super::{DIR, Dir, FLAGS, Link, NEXT, Nodes, PARENT, PREV, SUB, flags};
use crate::ncdu::check::Sum;
use crate::ncdu::open::Opened;

const COLUMNS: usize = 80;
const ROWS: usize = 24;
/// The number of rows that show items.
const ITEMS: usize = ROWS - 3;
/// How often the window is drawn.
pub const DRAWN: usize = 100;

struct Browser<'n, N> {
    nodes: &'n mut N,
    opened: Opened,
    /// The first item in the window.
    top: Link,
    screen: Vec<u8>,
    name: Vec<u8>,
}

/// Scrolls through a directory from its selected item on; returns the checksum of everything drawn.
pub fn browse<N: Nodes>(nodes: &mut N, opened: Opened) -> u64 {
    let mut browser = Browser { nodes, opened, top: opened.head, screen: Vec::new(), name: Vec::new() };
    let mut sum = Sum::default();
    for _ in 0..DRAWN {
        browser.down();
        browser.place();
        browser.draw();
        sum.add(&browser.screen);
    }
    sum.value()
}

/// A size as ncdu writes it.
fn readable(bytes: i64) -> (f32, &'static str) {
    let size = bytes as f32;
    match size {
        _ if size < 1000.0 => (size, "  B"),
        _ if size < 1023e3 => (size / 1024.0, "KiB"),
        _ if size < 1023e6 => (size / 1_048_576.0, "MiB"),
        _ if size < 1023e9 => (size / 1_073_741_824.0, "GiB"),
        _ => (size / 1_099_511_627_776.0, "TiB"),
    }
}

impl<N: Nodes> Browser<'_, N> {
    /// Selects the next item.
    fn down(&mut self) {
        let Some(next) = self.nodes.read(self.opened.selected, NEXT).some() else { return };
        self.nodes.change(self.opened.selected, FLAGS, |flags| *flags &= !flags::BSEL);
        self.nodes.change(next, FLAGS, |flags| *flags |= flags::BSEL);
        self.opened.selected = next;
    }

    /// Moves the window if the selected item is outside it.
    fn place(&mut self) {
        let mut at = self.opened.selected;
        for _ in 0..ITEMS {
            if at == self.top {
                return;
            }
            at = self.nodes.read(at, PREV);
            if at == Link::NONE {
                break;
            }
        }
        let mut top = self.opened.selected;
        for _ in 1..ITEMS {
            match self.nodes.read(top, PREV).some() {
                Some(before) => top = before,
                None => break,
            }
        }
        self.top = top;
    }

    fn draw(&mut self) {
        self.screen.clear();
        let above = self.nodes.read(self.opened.selected, PARENT);
        let path = self.path(above);
        let total: Dir = self.nodes.read(above, DIR);
        let width = COLUMNS - 8;
        let written = writeln!(
            self.screen,
            "ncdu ~ Use the arrow keys to navigate, press ? for help\n--- {:width$.width$}",
            String::from_utf8_lossy(&path)
        );
        written.expect("memory takes it");
        let (mut at, mut row) = (self.top, 0);
        while at != Link::NONE && row < ITEMS {
            at = self.item(at);
            row += 1;
        }
        let ((size, unit), (apparent, its), items) =
            (readable(total.size), readable(total.asize), total.items);
        let written = writeln!(
            self.screen,
            " Total disk usage: {size:5.1} {unit}  Apparent size: {apparent:5.1} {its}  Items: {items}"
        );
        written.expect("memory takes it");
    }

    /// The path of a directory: from it up to the root, and back.
    fn path(&mut self, directory: Link) -> Vec<u8> {
        let mut above = vec![directory];
        while let Some(parent) = self.nodes.read(above[above.len() - 1], PARENT).some() {
            above.push(parent);
        }
        let mut path = Vec::new();
        for &node in above.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(self.nodes.name(node, &mut self.name));
        }
        path
    }

    /// Draws an item and returns the next one.
    fn item(&mut self, node: Link) -> Link {
        let dir: Dir = self.nodes.read(node, DIR);
        let kind = match dir.flags {
            set if set & flags::ERR != 0 => '!',
            set if set & flags::SERR != 0 => '.',
            set if set & flags::HLNKC != 0 => 'H',
            set if set & (flags::FILE | flags::DIR) == 0 => '@',
            set if set & flags::DIR != 0 && self.nodes.read(node, SUB) == Link::NONE => 'e',
            _ => ' ',
        };
        let slash = if dir.flags & flags::DIR != 0 { '/' } else { ' ' };
        let filled = (10 * dir.size / self.opened.largest.max(1)) as usize;
        let ((size, unit), width) = (readable(dir.size), COLUMNS - 25);
        let name = self.nodes.name(node, &mut self.name);
        let chosen = if dir.flags & flags::BSEL != 0 { '>' } else { ' ' };
        let written = writeln!(
            self.screen,
            "{chosen}{kind} {size:5.1} {unit} [{:10}] {slash}{:width$.width$}",
            &"##########"[..filled.min(10)],
            String::from_utf8_lossy(name)
        );
        written.expect("memory takes it");
        dir.next
    }
}
