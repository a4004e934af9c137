//! Windows in front of the list: details of an entry, help, questions, errors.

use ratatui::layout::Size;

use super::help::lines;
use super::text::paths::path;
use super::text::shown;
use super::view::item::Item;
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
    /// Asks whether to quit.
    Quit,
    Message(Message),
}

/// The question before a deletion: exactly this entry will be deleted.
#[derive(Debug)]
pub(super) struct Delete {
    pub directory: u32,
    pub slot: u32,
    /// Its name in displayed form.
    pub name: String,
    pub is_directory: bool,
    pub answer: Answer,
}

/// The answer to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    Always,
}

impl Answer {
    pub const ALL: [Answer; 3] = [Answer::Yes, Answer::No, Answer::Always];

    /// The neighbouring answer.
    pub fn moved(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|answer| *answer == self).unwrap_or(1);
        Self::ALL[at.saturating_add_signed(by).min(2)]
    }
}

/// A text to read, until a key is pressed.
#[derive(Debug)]
pub(super) struct Message {
    pub title: &'static str,
    pub text: String,
}

/// Help about the keys and the display.
#[derive(Debug, Default)]
pub(super) struct Help {
    pub tab: usize,
    pub top: usize,
}

/// Details of the selected entry.
#[derive(Debug, Default)]
pub(super) struct Info {
    /// Its other names are shown.
    pub links: bool,
    /// The entry's file; its names are searched again only when another file is selected.
    pub of: Option<(u32, Link, Vec<u8>)>,
    pub names: Vec<Name>,
    /// The selected name.
    pub selected: usize,
    pub top: usize,
    /// Paths that are on the screen.
    pub paths: Vec<String>,
    /// The entry's path.
    pub path: String,
}

/// The size of the window with details.
pub(super) const INFO: Size = Size { width: 60, height: 15 };

/// The size of the help window.
pub(super) const HELP: Size = Size { width: 66, height: 18 };

/// Lines for other names on a screen of this size.
pub(super) fn links_height(size: Size) -> usize {
    usize::from(INFO.height.min(size.height)).saturating_sub(4)
}

/// Columns inside of the window on a screen of this size.
fn columns(size: Size) -> usize {
    usize::from(INFO.width.min(size.width)).saturating_sub(4)
}

impl Window {
    /// A window for an error.
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
            // There may be many names, so their memory is freed.
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
    /// A question about an entry.
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
