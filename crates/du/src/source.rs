//! What can be looked at entry by entry: a tree in the heap, or one in a file.

use crate::Error;
use crate::entry::Entry;
use crate::part::{MOST, Reader};
use crate::tree::{Contents, Name, OwnEntry, Row};

/// The number of the directory from which all begins.
pub const ROOT: u32 = 0;

/// Bytes of the root's path at most, and file systems of a tree: whatever a tree comes from, and whatever it goes
/// to.
pub const LONGEST_PATH: usize = 1 << 20;
#[allow(missing_docs)]
pub const MOST_DEVICES: usize = 1 << 16;

/// A tree, wherever it is.
pub trait Source {
    /// The root's entry, whose name is its path.
    fn root(&self) -> &OwnEntry;

    /// Numbers of directories are less than this.
    fn numbers(&self) -> u32;

    /// Numbers of file systems; a row's [`device`](Row::device) is a place among them.
    fn devices(&self) -> &[u64];

    /// What is known of a directory.
    fn row(&self, number: u32) -> Result<Row, Error>;

    /// The number of the directory above one, which is smaller; the root is above itself.
    fn above(&self, number: u32) -> Result<u32, Error>;

    /// Which entry of the directory above it a directory is.
    fn slot(&self, number: u32) -> Result<u32, Error>;

    /// Whether a directory itself says to be the entry of a slot, too. Only in a file that somebody made up it may not, so that the way to it could be endless.
    fn is_at(&self, directory: u32, above: u32, slot: u32) -> Result<bool, Error> {
        let _ = (directory, above, slot);
        Ok(true)
    }

    /// Bytes of one of the parts of a directory's entries ([`part`](crate::part)).
    fn part(&self, contents: Contents, number: usize, to: &mut Vec<u8>) -> Result<(), Error>;

    /// All names of a file that has several, as far as they are in the tree: by the file's number, and the number in its directory's row of its file system.
    fn names(&self, inode: u64, device: u32) -> Result<Vec<Name>, Error>;

    /// Lets `look` look at all names of files that have several, in the order of their files.
    fn each_name(&self, look: &mut dyn FnMut(&Name) -> Result<(), Error>) -> Result<(), Error>;

    /// Lets `look` look at the entries of a directory, in the order of their names' bytes, those in empty slots too.
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

    /// The entry of a slot.
    fn entry(&self, contents: Contents, slot: u32) -> Result<OwnEntry, Error> {
        let mut bytes = Vec::new();
        self.part(contents, slot as usize / MOST, &mut bytes)?;
        let mut entries = Reader::new(&bytes)?;
        for _ in 0..slot as usize % MOST {
            entries.read()?;
        }
        Ok(entries.read()?.ok_or(Error::Damaged)?.into())
    }

    /// A directory's own entry; that of the root has its path for a name.
    fn own_entry(&self, directory: u32) -> Result<OwnEntry, Error> {
        if directory == ROOT {
            return Ok(self.root().clone());
        }
        self.entry(self.row(self.above(directory)?)?.contents(), self.slot(directory)?)
    }

    /// The path of a directory, which begins with the root's.
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
