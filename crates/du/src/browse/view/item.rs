//! What is shown of an entry: the entry itself and, for a directory, the sums below it.

use crate::Error;
use crate::entry::{Entry, Kind, Sum};
use crate::source::Source;
use crate::tree::{OwnEntry, Row, flags};

/// An entry together with the directory's row.
#[derive(Debug, Clone)]
pub struct Item {
    /// The entry.
    pub entry: OwnEntry,
    /// Set for a directory.
    pub row: Option<Row>,
}

impl Item {
    /// Makes one from an entry; looks up a directory's row.
    pub fn new(source: &dyn Source, entry: OwnEntry) -> Result<Item, Error> {
        let row = row(source, &entry.entry())?;
        Ok(Item { entry, row })
    }

    /// Its total size.
    pub fn sum(&self) -> Sum {
        sum(&self.entry.entry(), self.row.as_ref())
    }

    /// The part of it that has names elsewhere.
    pub fn shared(&self) -> Sum {
        match (&self.row, self.entry.link) {
            (Some(row), _) => row.shared(),
            (None, Some(_)) => self.entry.entry().sum(),
            (None, None) => Sum::default(),
        }
    }

    /// The rest of it.
    pub fn unique(&self) -> Sum {
        let (all, shared) = (self.sum(), self.shared());
        Sum { size: all.size.saturating_sub(shared.size), blocks: all.blocks.saturating_sub(shared.blocks) }
    }

    /// Names below it.
    pub fn items(&self) -> u64 {
        self.row.map_or(0, |row| row.items)
    }

    /// Its time, or the latest below it.
    pub fn modified(&self) -> Option<i64> {
        modified(&self.entry.entry(), self.row.as_ref())
    }

    /// A character for anything special about it.
    pub fn flag(&self) -> char {
        let has = |flag| self.row.is_some_and(|row| row.flags & flag != 0);
        match self.entry.kind {
            Kind::Excluded => '<',
            Kind::OtherFileSystem => '>',
            Kind::KernelFileSystem => '^',
            Kind::Failed(_) => '!',
            Kind::Directory(_) if has(flags::FAILED) => '!',
            Kind::Directory(_) if has(flags::CACHE) || has(flags::LOOP) => '<',
            Kind::Directory(_) if has(flags::KERNEL) => '^',
            Kind::Directory(_) if self.row.is_some_and(|row| row.failures > 0) => '.',
            Kind::Directory(_) if self.items() == 0 => 'e',
            Kind::Directory(_) => ' ',
            _ if self.entry.link.is_some() => 'H',
            Kind::Other => '@',
            Kind::File | Kind::Gone => ' ',
        }
    }

    /// A text that says why the contents of a directory are incomplete.
    pub fn trouble(&self) -> Option<String> {
        let of_row = |row: &Row| match row.flags {
            flag if flag & flags::FAILED != 0 => Some(format!("not read: {}", reason(row.error))),
            flag if flag & flags::KERNEL != 0 => Some(String::from("left out: kernel file system")),
            flag if flag & flags::CACHE != 0 => Some(String::from("left out: it is marked as a cache")),
            flag if flag & flags::LOOP != 0 => Some(String::from("left out: it is above itself")),
            _ if row.failures == 1 => Some(String::from("one thing below was not read")),
            _ if row.failures > 1 => Some(format!("{} things below were not read", row.failures)),
            _ => None,
        };
        match self.entry.kind {
            Kind::Failed(error) => Some(format!("not read: {}", reason(error))),
            Kind::Excluded => Some(String::from("left out by a pattern")),
            Kind::OtherFileSystem => Some(String::from("left out: another file system")),
            Kind::KernelFileSystem => Some(String::from("left out: kernel file system")),
            _ => self.row.as_ref().and_then(of_row),
        }
    }

    /// The kind of entry in a word.
    pub fn what(&self) -> &'static str {
        // The type from the file's mode, if that is known.
        let mode = self.entry.extended.map_or(0, |extended| extended.mode & 0o170_000);
        match (self.entry.kind, mode) {
            (Kind::Directory(_) | Kind::OtherFileSystem | Kind::KernelFileSystem, _) => "Directory",
            (Kind::File, _) => "File",
            (Kind::Other, 0o120_000) => "Symbolic link",
            (Kind::Other, 0o010_000) => "Pipe",
            (Kind::Other, 0o140_000) => "Socket",
            (Kind::Other, 0o020_000) => "Character device",
            (Kind::Other, 0o060_000) => "Block device",
            (Kind::Other, _) => "Neither file nor directory",
            (Kind::Excluded | Kind::Failed(_) | Kind::Gone, _) => "Unknown",
        }
    }
}

/// The system's text for an error number.
fn reason(error: u16) -> String {
    if error == 0 {
        return String::from("the reason is not known");
    }
    let text = std::io::Error::from_raw_os_error(error.into()).to_string();
    // The number adds no information.
    match text.split_once(" (os error") {
        Some((text, _)) => text.into(),
        None => text,
    }
}

/// The row of an entry that is a directory.
pub fn row(source: &dyn Source, entry: &Entry<'_>) -> Result<Option<Row>, Error> {
    match entry.kind {
        Kind::Directory(number) => source.row(number).map(Some),
        _ => Ok(None),
    }
}

/// The total size of an entry with everything below it.
pub fn sum(entry: &Entry<'_>, row: Option<&Row>) -> Sum {
    let (own, below) = (entry.sum(), row.map(Row::sum).unwrap_or_default());
    own.plus(below)
}

/// The latest change of an entry or of anything below it, if known.
pub fn modified(entry: &Entry<'_>, row: Option<&Row>) -> Option<i64> {
    let own = entry.extended?.modified;
    // A row without contents has no time.
    let below = row.filter(|row| row.items > 0).map_or(own, |row| row.modified);
    Some(own.max(below))
}

/// Whether the entry is shown only with the hidden ones: its name is hidden, or it was left out of the scan.
pub fn is_hidden(entry: &Entry<'_>, row: Option<&Row>) -> bool {
    entry.name.starts_with(b".")
        || entry.name.ends_with(b"~")
        || entry.kind == Kind::Excluded
        || row.is_some_and(|row| row.flags & flags::CACHE != 0)
}
