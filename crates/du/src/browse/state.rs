//! What the browser shows, and where it is: an opened directory, a selected row, a window before it.
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
//! Drawing reads nothing: [`Browser::prepare`] has looked at the tree before, at those rows only that are on the screen.

use jiff::tz::TimeZone;
use memfold::heap::Session;
use ratatui::layout::Size;

use super::item::Item;
use super::options::Options;
use super::paths::path;
use super::view::{Column, View};
use super::windows::Window;
use crate::Error;
use crate::source::{ROOT, Source};

/// Directories above, of which is remembered what was on the screen.
const REMEMBERED: usize = 256;

/// Lines that are no rows: head, path, foot.
pub(super) const LINES: u16 = 3;

/// What is selected in a directory that is opened.
#[derive(Debug, Clone)]
pub(super) enum Select {
    /// The first row.
    First,
    /// This row, or the last one.
    Row(u64),
    /// The entry of a slot.
    Slot(u32),
    /// The entry of this name, or else what is in this row.
    Name(Vec<u8>, u64),
}

/// What a row stands for.
pub(super) enum Line<'b> {
    /// The directory above.
    Above,
    /// An entry.
    Item(&'b Item),
}

/// See the module.
pub struct Browser<'s, 'h> {
    session: &'s Session<'h>,
    pub(super) options: Options,
    pub(super) view: View<'s>,
    /// The opened directory itself.
    pub(super) own: Item,
    /// Its path, as wide as the screen.
    pub(super) path: (usize, String),
    pub(super) selected: u64,
    pub(super) top: u64,
    /// Of the view: those from a position on.
    loaded: Vec<Item>,
    loaded_at: Option<(u64, u64)>,
    pub(super) window: Window,
    /// Directories above, and their first rows on the screen.
    tops: Vec<(u32, u64)>,
    /// How many rows are on the screen.
    pub(super) height: u64,
    /// How large that is.
    pub(super) size: Size,
    /// Whether times are known.
    pub(super) has_times: bool,
    /// Where the user is.
    pub(super) zone: TimeZone,
    /// What is on the screen could not be read.
    pub(super) broken: bool,
}

impl<'s, 'h> Browser<'s, 'h> {
    /// Opens the root. What is in order is kept by `session`, which nothing else has to use.
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

    /// The number of the selected directory, if it is one, and on the screen.
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

    /// The position in the view that is selected, if it is not what leads up.
    pub(super) fn position(&self) -> Option<u64> {
        let position = self.selected.checked_sub(self.above_rows())?;
        (position < self.view.len()).then_some(position)
    }

    /// The selected entry's slot.
    pub(super) fn slot(&self) -> Result<Option<u32>, Error> {
        self.position().map(|position| self.view.slot(position)).transpose()
    }

    /// The selected entry, if it is loaded, as all is that is on the screen.
    pub(super) fn item(&self) -> Option<&Item> {
        let (from, _) = self.loaded_at?;
        self.loaded.get(usize::try_from(self.position()?.checked_sub(from)?).ok()?)
    }

    /// What is on the screen: rows and their numbers.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, Line<'_>)> {
        let above = (self.top < self.above_rows()).then_some((0, Line::Above));
        let first = self.loaded_at.map_or(0, |(from, _)| from) + self.above_rows();
        above.into_iter().chain((first..).zip(self.loaded.iter().map(Line::Item)))
    }

    /// Opens a directory, or the same again. If it can't be opened, all stays as it is.
    pub(super) fn open(&mut self, source: &dyn Source, directory: u32, select: Select) -> Result<(), Error> {
        self.forget();
        let is_other = directory != self.view.directory;
        let own = Item::new(source, source.own_entry(directory)?)?;
        self.view = View::open(self.session, source, directory, self.options.sort)?;
        self.own = own;
        self.path.0 = 0;
        let above = self.above_rows();
        let (position, row) = match select {
            // What leads up, as in ncdu: a key that was meant for the directory itself does nothing in it.
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

    /// What is on the screen is read again before it is drawn.
    pub(super) fn forget(&mut self) {
        self.loaded_at = None;
    }

    /// Selects a row, or the last one.
    pub(super) fn select(&mut self, row: u64) {
        self.selected = row.min(self.rows().saturating_sub(1));
    }

    /// Opens the selected directory, or the one above if that is selected.
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

    /// Opens the directory above.
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

    /// After the order or what is left out was changed: the same entry stays selected.
    pub(super) fn sort(&mut self, source: &dyn Source) -> Result<(), Error> {
        let select = match self.slot()? {
            Some(slot) => Select::Slot(slot),
            None => Select::Row(self.selected),
        };
        self.open(source, self.view.directory, select)
    }

    /// After the tree was changed below the opened directory: what has the name stays selected, or else what is in its row.
    pub(super) fn reopen(&mut self, source: &dyn Source, name: Vec<u8>) -> Result<(), Error> {
        self.open(source, self.view.directory, Select::Name(name, self.selected))
    }

    /// Reads what is on a screen of this size. What goes wrong is shown in a window.
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
        // No empty lines while there is something to show.
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

    /// Reads rows; those that were read before are taken from there.
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
