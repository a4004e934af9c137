//! The state of the browser: an opened directory, a selected row, and possibly a window in front.
//!
//! ```text
//!   rows      0   ..                  if there is a directory above
//!             1   first of the view
//!             :
//!           top   ─┐
//!             :    ├ loaded: what drawing needs
//!                 ─┘
//! ```
//!
//! Drawing does not read the tree: [`Browser::prepare`] has already read the rows that are on the screen, and
//! no others.

use jiff::tz::TimeZone;
use memfold::heap::Session;
use ratatui::layout::Size;

use super::options::Options;
use super::text::paths::path;
use super::view::item::Item;
use super::view::{Column, View};
use super::windows::Window;
use crate::Error;
use crate::source::{ROOT, Source};

/// The number of ancestors for which the position on the screen is remembered.
const REMEMBERED: usize = 256;

/// Lines that are not rows: head, path, foot.
pub(super) const LINES: u16 = 3;

/// What to select in a directory that is opened.
#[derive(Debug, Clone)]
pub(super) enum Select {
    /// The first row.
    First,
    /// This row, or the last one.
    Row(u64),
    /// The entry of a slot.
    Slot(u32),
    /// The entry of this name or, if there is none, the entry in this row.
    Name(Vec<u8>, u64),
}

/// What a row shows.
pub(super) enum Line<'b> {
    /// The directory above.
    Above,
    /// An entry.
    Item(&'b Item),
}

/// The browser; see the module.
pub struct Browser<'s, 'h> {
    session: &'s Session<'h>,
    pub(super) options: Options,
    pub(super) view: View<'s>,
    /// The opened directory itself.
    pub(super) own: Item,
    /// Its path, cut to the width of the screen.
    pub(super) path: (usize, String),
    pub(super) selected: u64,
    pub(super) top: u64,
    /// The loaded entries of the view, from a position on.
    loaded: Vec<Item>,
    loaded_at: Option<(u64, u64)>,
    pub(super) window: Window,
    /// The ancestors and their first rows on the screen.
    tops: Vec<(u32, u64)>,
    /// How many rows are on the screen.
    pub(super) height: u64,
    /// The size of the screen.
    pub(super) size: Size,
    /// Whether times are known.
    pub(super) has_times: bool,
    /// The user's time zone.
    pub(super) zone: TimeZone,
    /// The contents of the screen could not be read.
    pub(super) broken: bool,
}

impl<'s, 'h> Browser<'s, 'h> {
    /// Opens the root. `session` keeps the sorted lists; nothing else may use it.
    pub fn new(
        session: &'s Session<'h>,
        source: &dyn Source,
        mut options: Options,
        zone: TimeZone,
    ) -> Result<Self, Error> {
        let own = Item::new(source, source.root().clone())?;
        let has_times = own.entry.extended.is_some();
        if !has_times && options.sort.column == Column::Modified {
            options.sort = super::view::Sort::default();
        }
        let view = View::open(session, source, ROOT, options.sort)?;
        Ok(Browser {
            session,
            options,
            view,
            own,
            path: (0, String::new()),
            selected: 0,
            top: 0,
            loaded: Vec::new(),
            loaded_at: None,
            window: Window::None,
            tops: Vec::new(),
            height: 1,
            size: Size::default(),
            has_times,
            zone,
            broken: false,
        })
    }

    /// The number of the opened directory.
    pub fn directory(&self) -> u32 {
        self.view.directory
    }

    /// The number of the selected directory, if a directory is selected and on the screen.
    pub fn selected_directory(&self) -> Option<u32> {
        match self.item()?.entry.kind {
            crate::entry::Kind::Directory(number) => Some(number),
            _ => None,
        }
    }

    /// Rows before the first entry.
    fn above_rows(&self) -> u64 {
        u64::from(self.view.directory != ROOT)
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> u64 {
        self.view.len() + self.above_rows()
    }

    /// The selected position in the view, unless the row for the parent is selected.
    pub(super) fn position(&self) -> Option<u64> {
        let position = self.selected.checked_sub(self.above_rows())?;
        (position < self.view.len()).then_some(position)
    }

    /// The selected entry's slot.
    pub(super) fn slot(&self) -> Result<Option<u32>, Error> {
        self.position().map(|position| self.view.slot(position)).transpose()
    }

    /// The selected entry, if it is loaded; all entries on the screen are.
    pub(super) fn item(&self) -> Option<&Item> {
        let (from, _) = self.loaded_at?;
        self.loaded.get(usize::try_from(self.position()?.checked_sub(from)?).ok()?)
    }

    /// The rows on the screen and their numbers.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, Line<'_>)> {
        let above = (self.top < self.above_rows()).then_some((0, Line::Above));
        let first = self.loaded_at.map_or(0, |(from, _)| from) + self.above_rows();
        above.into_iter().chain((first..).zip(self.loaded.iter().map(Line::Item)))
    }

    /// Opens a directory, or the same one again. If that fails, nothing changes.
    pub(super) fn open(&mut self, source: &dyn Source, directory: u32, select: Select) -> Result<(), Error> {
        self.forget();
        let is_other = directory != self.view.directory;
        let own = Item::new(source, source.own_entry(directory)?)?;
        self.view = View::open(self.session, source, directory, self.options.sort)?;
        self.own = own;
        self.path.0 = 0;
        let above = self.above_rows();
        let (position, row) = match select {
            // The row for the parent, as in ncdu: a repeated key that was meant for the directory itself has
            // no effect there.
            Select::First => (None, 0),
            Select::Row(row) => (None, row),
            Select::Slot(slot) => (self.view.position(source, slot)?, above),
            Select::Name(name, row) => (self.view.find(source, &name)?, row),
        };
        let row = position.map_or(row, |position| position + above);
        self.select(row);
        if is_other {
            self.top = 0;
        }
        if !self.is_on_screen() {
            self.top = self.selected.saturating_sub(self.height / 2);
        }
        Ok(())
    }

    fn is_on_screen(&self) -> bool {
        (self.top..self.top + self.height).contains(&self.selected)
    }

    /// Discards the loaded rows, so that they are read again before they are drawn.
    pub(super) fn forget(&mut self) {
        self.loaded_at = None;
    }

    /// Selects a row, or the last one.
    pub(super) fn select(&mut self, row: u64) {
        self.selected = row.min(self.rows().saturating_sub(1));
    }

    /// Opens the selected directory, or the parent if that is selected.
    pub(super) fn enter(&mut self, source: &dyn Source) -> Result<(), Error> {
        let Some(position) = self.position() else {
            return if self.above_rows() > self.selected { self.leave(source) } else { Ok(()) };
        };
        let crate::entry::Kind::Directory(number) = self.view.item(source, position)?.entry.kind else {
            return Ok(());
        };
        let from = (self.view.directory, self.top);
        self.open(source, number, Select::First)?;
        if self.tops.len() == REMEMBERED {
            self.tops.remove(0);
        }
        self.tops.push(from);
        Ok(())
    }

    /// Opens the parent.
    pub(super) fn leave(&mut self, source: &dyn Source) -> Result<(), Error> {
        let directory = self.view.directory;
        if directory == ROOT {
            return Ok(());
        }
        let above = source.above(directory)?;
        self.open(source, above, Select::Slot(source.slot(directory)?))?;
        match self.tops.pop() {
            Some((number, top)) if number == above => {
                self.top = top;
                if !self.is_on_screen() {
                    self.top = self.selected.saturating_sub(self.height / 2);
                }
            }
            _ => self.tops.clear(),
        }
        Ok(())
    }

    /// To be called after a change of the order or the filter: the same entry stays selected.
    pub(super) fn sort(&mut self, source: &dyn Source) -> Result<(), Error> {
        let select = match self.slot()? {
            Some(slot) => Select::Slot(slot),
            None => Select::Row(self.selected),
        };
        self.open(source, self.view.directory, select)
    }

    /// To be called after the tree was changed below the opened directory. The entry with this name stays
    /// selected; if it is gone, the one in its row is selected.
    pub(super) fn reopen(&mut self, source: &dyn Source, name: Vec<u8>) -> Result<(), Error> {
        self.open(source, self.view.directory, Select::Name(name, self.selected))
    }

    /// Reads the contents of a screen of this size. Errors are shown in a window.
    pub fn prepare(&mut self, source: &dyn Source, size: Size) {
        self.size = size;
        let result = self.read(source, size);
        self.broken = result.is_err();
        if let Err(error) = result {
            self.window = Window::error(&error);
        }
    }

    fn read(&mut self, source: &dyn Source, size: Size) -> Result<(), Error> {
        self.height = u64::from(size.height.saturating_sub(LINES)).max(1);
        if self.selected < self.top {
            self.top = self.selected;
        } else if self.selected >= self.top + self.height {
            self.top = self.selected + 1 - self.height;
        }
        // No line stays empty while there are rows to show.
        self.top = self.top.min(self.rows().saturating_sub(self.height));
        let from = self.top.saturating_sub(self.above_rows());
        let to = (self.top + self.height).saturating_sub(self.above_rows()).min(self.view.len());
        if self.loaded_at != Some((from, to)) {
            self.load(source, from, to)?;
        }
        if self.path.0 != usize::from(size.width) {
            let columns = usize::from(size.width).saturating_sub(8);
            self.path = (size.width.into(), path(source, self.view.directory, b"", columns)?);
        }
        let directory = self.view.directory;
        let mut window = std::mem::take(&mut self.window);
        let prepared = window.prepare(source, directory, self.item(), size);
        self.window = window;
        prepared
    }

    /// Loads rows; those loaded before are reused.
    fn load(&mut self, source: &dyn Source, from: u64, to: u64) -> Result<(), Error> {
        let before = self.loaded_at.take();
        let mut old: Vec<_> = std::mem::take(&mut self.loaded).into_iter().map(Some).collect();
        for position in from..to {
            let at = before.and_then(|(from, _)| usize::try_from(position.checked_sub(from)?).ok());
            match at.and_then(|at| old.get_mut(at)).and_then(Option::take) {
                Some(item) => self.loaded.push(item),
                None => self.loaded.push(self.view.item(source, position)?),
            }
        }
        self.loaded_at = Some((from, to));
        Ok(())
    }
}
