//! What stands before the list: about an entry, help, questions, what went wrong.

use ratatui::layout::Size;

use super::help::lines;
use super::item::Item;
use super::paths::path;
use super::text::shown;
use crate::Error;
use crate::entry::Link;
use crate::source::Source;
use crate::tree::Name;

/// A window.
#[derive(Debug, Default)]
pub(super) enum Window {
    #[default]
    None,
    Info(Box<Info>),
    Help(Help),
    Delete(Delete),
    /// Whether it shall end.
    Quit,
    Message(Message),
}

/// What is asked before something is deleted: this, and nothing else, is.
#[derive(Debug)]
pub(super) struct Delete {
    pub directory: u32,
    pub slot: u32,
    /// Its name as it is shown.
    pub name: String,
    pub is_directory: bool,
    pub answer: Answer,
}

/// To the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    Always,
}

impl Answer {
    pub const ALL: [Answer; 3] = [Answer::Yes, Answer::No, Answer::Always];

    /// The one beside it.
    pub fn moved(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|answer| *answer == self).unwrap_or(1);
        Self::ALL[at.saturating_add_signed(by).min(2)]
    }
}

/// Something to be read, until a key is pressed.
#[derive(Debug)]
pub(super) struct Message {
    pub title: &'static str,
    pub text: String,
}

/// About the keys and what is shown.
#[derive(Debug, Default)]
pub(super) struct Help {
    pub tab: usize,
    pub top: usize,
}

/// About the selected entry.
#[derive(Debug, Default)]
pub(super) struct Info {
    /// Its other names are shown.
    pub links: bool,
    /// What it is about: a file's names are looked for when it is another one.
    pub of: Option<(u32, Link, Vec<u8>)>,
    pub names: Vec<Name>,
    /// Of the names.
    pub selected: usize,
    pub top: usize,
    /// Paths that are on the screen.
    pub paths: Vec<String>,
    /// Where the entry is.
    pub path: String,
}

/// How large the window about an entry is.
pub(super) const INFO: Size = Size { width: 60, height: 15 };

/// How large that with help is.
pub(super) const HELP: Size = Size { width: 66, height: 18 };

/// Lines of other names on a screen of this size.
pub(super) fn links_height(size: Size) -> usize {
    usize::from(INFO.height.min(size.height)).saturating_sub(4)
}

/// Columns inside of the window on a screen of this size.
fn columns(size: Size) -> usize {
    usize::from(INFO.width.min(size.width)).saturating_sub(4)
}

impl Window {
    /// Something went wrong.
    pub fn error(error: &impl ToString) -> Self {
        Window::Message(Message { title: "Error", text: error.to_string() })
    }

    /// Reads what it shows.
    pub fn prepare(
        &mut self,
        source: &dyn Source,
        directory: u32,
        item: Option<&Item>,
        size: Size,
    ) -> Result<(), Error> {
        match (&mut *self, item) {
            (Window::Info(info), Some(item)) => info.prepare(source, directory, item, size),
            (Window::Info(_), None) => {
                *self = Window::None;
                Ok(())
            }
            (Window::Help(help), _) => {
                let room = usize::from(HELP.height.min(size.height)).saturating_sub(3);
                help.top = help.top.min(lines(help.tab).len().saturating_sub(room));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Info {
    fn prepare(&mut self, source: &dyn Source, directory: u32, item: &Item, size: Size) -> Result<(), Error> {
        self.path = path(source, directory, b"", columns(size).saturating_sub(6))?;
        let of = item.entry.link.map(|link| (directory, link, item.entry.name.clone()));
        if self.of != of {
            *self = Info { links: self.links, path: std::mem::take(&mut self.path), of, ..Info::default() };
        }
        let Some((_, link, _)) = &self.of else {
            self.links = false;
            return Ok(());
        };
        if !self.links {
            // There may be many.
            (self.names, self.paths) = (Vec::new(), Vec::new());
            return Ok(());
        }
        if self.names.is_empty() {
            self.names = source.names(link.inode, link.device.unwrap_or(source.row(directory)?.device))?;
        }
        let height = links_height(size).max(1);
        self.selected = self.selected.min(self.names.len().saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(height));
        self.paths.clear();
        for name in self.names.iter().skip(self.top).take(height) {
            let entry = source.entry(source.row(name.directory)?.contents(), name.slot)?;
            self.paths.push(path(source, name.directory, &entry.name, columns(size))?);
        }
        Ok(())
    }
}

impl Delete {
    /// Asks about an entry.
    pub fn new(directory: u32, slot: u32, item: &Item) -> Self {
        Delete {
            directory,
            slot,
            name: shown(&item.entry.name),
            is_directory: item.row.is_some(),
            answer: Answer::No,
        }
    }
}
