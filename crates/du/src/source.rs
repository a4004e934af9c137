//! A source of entries: a tree in the heap or in a file.

use crate::Error;
use crate::entry::{Entry, OwnEntry};
use crate::part::{MOST, Reader};
use crate::tree::listing::Contents;
use crate::tree::row::{Name, Row};

/// The number of the root directory.
pub const ROOT: u32 = 0;

/// The most bytes of the root's path, and the most file systems of a tree, in any source or format.
pub const LONGEST_PATH: usize = 1 << 20;
#[allow(missing_docs)]
pub const MOST_DEVICES: usize = 1 << 16;

/// A tree, wherever it is kept.
pub trait Source {
    /// The root's entry, whose name is its path.
    fn root(&self) -> &OwnEntry;

    /// Numbers of directories are less than this.
    fn numbers(&self) -> u32;

    /// Numbers of file systems; a row's [`device`](Row::device) is an index into them.
    fn devices(&self) -> &[u64];

    /// What is known about a directory.
    fn row(&self, number: u32) -> Result<Row, Error>;

    /// The number of a directory's parent, which is smaller; the root is its own parent.
    fn above(&self, number: u32) -> Result<u32, Error>;

    /// The slot of a directory in its parent.
    fn slot(&self, number: u32) -> Result<u32, Error>;

    /// Whether a directory's own record agrees that it is the entry in a slot. Only a forged file can
    /// disagree, in which a path could be endless.
    fn is_at(&self, directory: u32, above: u32, slot: u32) -> Result<bool, Error> {
        let _ = (directory, above, slot);
        Ok(true)
    }

    /// The bytes of one part of a directory's entries ([`part`](crate::part)).
    fn part(&self, contents: Contents, number: usize, to: &mut Vec<u8>) -> Result<(), Error>;

    /// All names in the tree of a file that has several, given the file's inode and the number of its file
    /// system.
    fn names(&self, inode: u64, device: u32) -> Result<Vec<Name>, Error>;

    /// Calls `look` with all names of files that have several, in the order of their files.
    fn each_name(&self, look: &mut dyn FnMut(&Name) -> Result<(), Error>) -> Result<(), Error>;

    /// Calls `look` with the entries of a directory, in the order of their names' bytes, including those in empty
    /// slots.
    fn each(
        &self,
        contents: Contents,
        look: &mut dyn FnMut(u32, &Entry<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut bytes, mut name, mut slot) = (Vec::new(), Vec::new(), 0);
        for number in 0..contents.parts() {
            self.part(contents, number, &mut bytes)?;
            let mut entries = Reader::with(&bytes, name)?;
            while let Some(entry) = entries.read()? {
                look(slot, &entry)?;
                slot += 1;
            }
            name = entries.into_name();
        }
        if slot == contents.slots { Ok(()) } else { Err(Error::Damaged) }
    }

    /// The entry in a slot.
    fn entry(&self, contents: Contents, slot: u32) -> Result<OwnEntry, Error> {
        let mut bytes = Vec::new();
        self.part(contents, slot as usize / MOST, &mut bytes)?;
        let mut entries = Reader::new(&bytes)?;
        for _ in 0..slot as usize % MOST {
            entries.read()?;
        }
        Ok(entries.read()?.ok_or(Error::Damaged)?.into())
    }

    /// A directory's own entry; the root's name is its path.
    fn own_entry(&self, directory: u32) -> Result<OwnEntry, Error> {
        if directory == ROOT {
            return Ok(self.root().clone());
        }
        self.entry(self.row(self.above(directory)?)?.contents(), self.slot(directory)?)
    }

    /// The path of a directory, beginning with the root's path.
    fn path(&self, mut directory: u32) -> Result<Vec<u8>, Error> {
        let mut names = Vec::new();
        while directory != ROOT {
            names.push(self.own_entry(directory)?.name);
            let above = self.above(directory)?;
            if above >= directory {
                return Err(Error::Damaged);
            }
            directory = above;
        }
        let mut path = self.root().name.clone();
        for name in names.iter().rev() {
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Ok(path)
    }
}
