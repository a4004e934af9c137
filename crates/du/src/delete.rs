//! Deletes in the file system what a tree shows, and nothing else.
//!
//! First all of it is looked at: what is there must be what the tree has, name by name, each of the kind and length that it had. Then it is deleted, from the innermost directories outwards. Directories are
//! opened from those above them and links never followed, so what is put in a directory's place meanwhile is not entered; a directory into which something is put at the last moment can't be
//! deleted, since it is not empty.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, RawDir, statat, unlinkat};
use rustix::io::Errno;

use crate::Error;
use crate::browse::shown;
use crate::entry::{Entry, Kind};
use crate::part::Reader;
use crate::scan::{self, open::Open};
use crate::source::Source;
use crate::tree::{Contents, Tree};

/// Directories that are open at a time.
const OPEN: usize = 200;

/// Why something was not deleted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The tree can't be read.
    Tree(Error),
    /// The system refused; with the path, and what was to be done there.
    System(Vec<u8>, io::Error),
    /// It is not as it was when it was read: the path.
    Changed(Vec<u8>),
    /// Something is there that was not shown: the path of its directory.
    NotShown(Vec<u8>),
    /// It was asked to stop.
    Stopped,
    /// Why it ended, when something had been deleted already.
    Partly(Box<Failure>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Tree(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |path: &Vec<u8>| shown(path);
        match self {
            Failure::Tree(error) => error.fmt(f),
            Failure::System(at, error) => write!(f, "{}: {error}", path(at)),
            Failure::Changed(at) => {
                write!(f, "{} has changed since it was read: refresh, and look again", path(at))
            }
            Failure::NotShown(at) => write!(
                f,
                "{} holds something that was not shown (new, or excluded from the scan): refresh, or scan without exclusions",
                path(at)
            ),
            Failure::Stopped => f.write_str("stopped"),
            Failure::Partly(failure) => write!(f, "{failure}; what was deleted before stays deleted"),
        }
    }
}

impl std::error::Error for Failure {}

/// How far it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Names that were looked at.
    pub seen: u64,
    /// Names that were deleted.
    pub deleted: u64,
    /// The directory.
    pub path: Vec<u8>,
}

/// A directory on the way.
struct Level {
    open: Arc<Open>,
    contents: Contents,
    part: usize,
    /// Of the part, the next one last.
    waiting: Vec<(u32, CString)>,
}

struct Work<'a, 't> {
    tree: &'a Tree<'t>,
    progress: Progress,
    /// Whether it may go on.
    tick: &'a mut dyn FnMut(&Progress) -> bool,
    deletes: bool,
}

/// Deletes an entry of a directory, with all below it, in the file system and then in the tree, which must have been scanned. `tick` is called now and then, and says whether to go on.
///
/// If it fails, nothing was deleted, but for [`Failure::Partly`]: then the tree still has what is gone, and the entry should be read again
/// ([`rescan`](crate::scan::rescan) of its directory).
pub fn delete(
    tree: &mut Tree<'_>,
    directory: u32,
    slot: u32,
    tick: &mut dyn FnMut(&Progress) -> bool,
) -> Result<(), Failure> {
    let entry = tree.entry(tree.row(directory)?.contents(), slot)?;
    let name = CString::new(entry.name.clone()).map_err(|_| Error::Damaged)?;
    let open = Arc::new(scan::open(tree, directory)?);
    for deletes in [false, true] {
        let mut work = Work { tree, progress: Progress::default(), tick: &mut *tick, deletes };
        let done = match entry.kind {
            Kind::Directory(number) => work.directory(&open, name.clone(), number),
            _ => work.file(&open, &entry.entry(), &name),
        };
        if let Err(failure) = done {
            return Err(if work.progress.deleted == 0 {
                failure
            } else {
                Failure::Partly(Box::new(failure))
            });
        }
    }
    Ok(tree.remove(directory, slot)?)
}

/// The path of a name in a directory.
fn path_of(open: &Open, name: &[u8]) -> Vec<u8> {
    [&open.path()[..], b"/", name].concat()
}

impl Work<'_, '_> {
    fn directory(&mut self, above: &Arc<Open>, name: CString, number: u32) -> Result<(), Failure> {
        let mut levels = Vec::new();
        self.enter(&mut levels, above, name, number)?;
        while let Some(level) = levels.last_mut() {
            if let Some((number, name)) = level.waiting.pop() {
                let above = level.open.clone();
                self.enter(&mut levels, &above, name, number)?;
            } else if level.part < level.contents.parts() {
                self.part(level)?;
            } else {
                let Some(Level { open, .. }) = levels.pop() else { break };
                open.leave();
                self.leave(&open)?;
            }
        }
        Ok(())
    }

    fn enter(
        &mut self,
        levels: &mut Vec<Level>,
        above: &Arc<Open>,
        name: CString,
        number: u32,
    ) -> Result<(), Failure> {
        let row = self.tree.row(number)?;
        let path = path_of(above, name.to_bytes());
        let opened = above.below(name, number).map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP | Errno::NOENT => Failure::Changed(path.clone()),
            error => Failure::System(path.clone(), error.into()),
        });
        let open = Arc::new(opened?);
        if !self.deletes {
            // Nobody has seen what is in a directory that could not be read, or was left out.
            let file = open.file().map_err(|error| Failure::System(path.clone(), error.into()))?;
            let shown = self.shown(&row.contents())?;
            if count(&file).map_err(|error| Failure::System(path.clone(), error.into()))? != shown {
                return Err(Failure::NotShown(path));
            }
        }
        self.progress.path = path;
        if levels.len() >= OPEN {
            levels[levels.len() - OPEN].open.close();
        }
        levels.push(Level { open, contents: row.contents(), part: 0, waiting: Vec::new() });
        Ok(())
    }

    /// How many names of a directory are shown.
    fn shown(&self, contents: &Contents) -> Result<u64, Error> {
        let mut count = 0;
        self.tree.each(*contents, &mut |_, entry| {
            count += u64::from(entry.kind != Kind::Gone);
            Ok(())
        })?;
        Ok(count)
    }

    /// Looks at the next part's names, or deletes them; directories wait.
    fn part(&mut self, level: &mut Level) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        self.tree.part(level.contents, level.part, &mut bytes)?;
        level.part += 1;
        let mut entries = Reader::new(&bytes).map_err(Error::from)?;
        while let Some(entry) = entries.read().map_err(Error::from)? {
            let name = CString::new(entry.name).map_err(|_| Error::Damaged)?;
            match entry.kind {
                Kind::Gone => (),
                Kind::Directory(number) => level.waiting.push((number, name)),
                _ => self.file(&level.open, &entry, &name)?,
            }
        }
        level.waiting.reverse();
        if (self.tick)(&self.progress) { Ok(()) } else { Err(Failure::Stopped) }
    }

    fn file(&mut self, open: &Open, entry: &Entry<'_>, name: &CStr) -> Result<(), Failure> {
        let path = || path_of(open, entry.name);
        let system = |error: Errno| Failure::System(path(), error.into());
        let file = open.file().map_err(system)?;
        let stat = match statat(&file, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Err(Failure::Changed(path())),
            Err(error) => return Err(system(error)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_same = match entry.kind {
            // With links followed, a link stands for its target.
            Kind::File => {
                kind == FileType::Symlink
                    || (kind == FileType::RegularFile && stat.st_size as u64 == entry.size)
            }
            Kind::Other => !matches!(kind, FileType::RegularFile | FileType::Directory),
            _ => return Err(Failure::NotShown(open.path())),
        };
        if !is_same {
            return Err(Failure::Changed(path()));
        }
        if self.deletes {
            unlinkat(&file, name, AtFlags::empty()).map_err(system)?;
            self.progress.deleted += 1;
        }
        self.progress.seen += 1;
        Ok(())
    }

    /// Behind all that was in a directory.
    fn leave(&mut self, open: &Open) -> Result<(), Failure> {
        self.progress.seen += 1;
        if !self.deletes {
            return Ok(());
        }
        match open.remove() {
            Ok(()) => {
                self.progress.deleted += 1;
                Ok(())
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Failure::NotShown(open.path())),
            Err(error) => Err(Failure::System(open.path(), error.into())),
        }
    }
}

/// How many names are in a directory.
fn count(directory: &OwnedFd) -> Result<u64, Errno> {
    let (mut buffer, mut count) = (Vec::with_capacity(32 << 10), 0);
    let mut names = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    while let Some(name) = names.next() {
        count += u64::from(!matches!(name?.file_name().to_bytes(), b"." | b".."));
    }
    Ok(count)
}
