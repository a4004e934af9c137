//! Deletes entries of a tree in the file system, and nothing that the tree does not show.
//!
//! First everything is examined: the file system must contain what the tree has, name by name, with the same
//! attributes, and nothing may be mounted there. Then it is deleted, from the innermost directories outwards,
//! and each entry is examined again just before. Directories are opened from their parents, beginning with
//! the same directory that was scanned, and links are never followed, so a replacement put in a directory's
//! place meanwhile is not entered. If something is put into a directory at the last moment, the directory is
//! not empty and cannot be deleted.
//!
//! To save memory, the tree does not record the identity of directories, only the names in them and their
//! devices.

mod examine;

pub use crate::error::Failure;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

use rustix::fs::{AtFlags, unlinkat};

use self::examine::{count, is_same, look};
use crate::Error;
use crate::entry::{Entry, Kind};
use crate::part::{MOST, Reader};
use crate::scan::open::{self, Open, mounted};
use crate::scan::{self, Options};
use crate::source::Source;
use crate::tree::{Contents, Tree, flags};

/// The progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Names that were examined, or read again at the end.
    pub seen: u64,
    /// Names that were deleted.
    pub deleted: u64,
    /// The current directory.
    pub path: Vec<u8>,
}

/// What is reported meanwhile.
#[derive(Debug)]
pub enum Event<'e> {
    /// The progress, reported from time to time.
    Step(&'e Progress),
    /// Something cannot be examined or deleted. If the caller continues, it stays, together with the
    /// directories that contain it, and the rest is deleted.
    Failed(&'e Failure),
}

/// A subdirectory that waits.
struct Below {
    slot: u32,
    number: u32,
    name: CString,
}

/// A directory on the way.
struct Level {
    open: Arc<Open>,
    contents: Contents,
    /// See [`Row`](crate::tree::Row).
    seen_until: i64,
    part: usize,
    /// Directories of the current part, the next one last.
    waiting: Vec<Below>,
    /// Something in it stays.
    stays: bool,
}

struct Work<'a, 't> {
    tree: &'a Tree<'t>,
    progress: Progress,
    /// Whether to continue.
    tell: &'a mut dyn FnMut(Event<'_>) -> bool,
    deletes: bool,
    /// The entries that could not be examined and were ignored, as directories and slots.
    kept: BTreeSet<(u32, u32)>,
    /// Anything at all stays.
    stays: bool,
    /// The most directories that are open at a time.
    most: usize,
}

/// Deletes an entry of a directory, with everything below it, in the file system and then in the tree, which must
/// have been scanned with these options. `tell` says whether to continue.
///
/// The tree never shows deleted entries: if something remains, with or without a failure, the directory is
/// read again. A failure other than [`Failure::Partly`] means that nothing was deleted.
pub fn delete(
    tree: &mut Tree<'_>,
    directory: u32,
    slot: u32,
    options: &Options,
    tell: &mut dyn FnMut(Event<'_>) -> bool,
) -> Result<(), Failure> {
    let entry = tree.entry(tree.row(directory)?.contents(), slot)?;
    let open = Arc::new(scan::open(tree, directory)?);
    let mut work = Work {
        tree,
        progress: Progress::default(),
        tell: &mut *tell,
        deletes: false,
        kept: BTreeSet::new(),
        stays: false,
        most: open::most(),
    };
    let done = work.both(&open, slot, &entry.entry());
    let Work { stays, progress: Progress { deleted, .. }, .. } = work;
    drop(open);
    if done.is_ok() && !stays {
        return Ok(tree.remove(directory, slot)?);
    }
    if deleted == 0 {
        return done;
    }
    let mut read = Ok(());
    if let Kind::Directory(number) = entry.kind {
        read = scan::read_what_is_left(tree, number, options, |read| {
            // Reading cannot be stopped here, which would lose entries that were shown.
            let path = read.path.lock().map(|path| path.clone()).unwrap_or_default();
            let seen = read.items.load(std::sync::atomic::Ordering::Relaxed);
            tell(Event::Step(&Progress { seen, deleted, path }));
        });
    }
    match done {
        Ok(()) => Ok(read?),
        Err(failure) => Err(Failure::Partly(Box::new(failure))),
    }
}

/// The path of a name in a directory.
fn path_of(open: &Open, name: &[u8]) -> Vec<u8> {
    let mut path = open.path();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

impl Work<'_, '_> {
    fn both(&mut self, above: &Arc<Open>, slot: u32, entry: &Entry<'_>) -> Result<(), Failure> {
        for open in std::iter::once(&**above).chain(above.above()) {
            self.must_be_there(open)?;
        }
        for deletes in [false, true] {
            self.deletes = deletes;
            self.progress.seen = 0;
            match entry.kind {
                Kind::Directory(number) => {
                    let name = CString::new(entry.name).map_err(|_| Error::Damaged)?;
                    self.directory(above, Below { slot, number, name })?;
                }
                _ => {
                    let seen_until = self.tree.row(above.number)?.seen_until;
                    self.stays = self.file(above, slot, entry, seen_until)?;
                }
            }
        }
        Ok(())
    }

    /// Asks whether to continue without something. During the examination, a difference from the tree ends
    /// the operation before anything is deleted.
    fn ask(&mut self, failure: Failure) -> Result<(), Failure> {
        let may_stay = match &failure {
            Failure::System(..) | Failure::NotLooked(..) => true,
            Failure::Changed(_) | Failure::NotShown(_) | Failure::Mounted(_) => self.deletes,
            Failure::Tree(_) | Failure::Stopped | Failure::Partly(_) => false,
        };
        if !may_stay {
            return Err(failure);
        }
        if (self.tell)(Event::Failed(&failure)) { Ok(()) } else { Err(Failure::Stopped) }
    }

    /// The same, and remembers the entry that is left out.
    fn ask_about(&mut self, directory: u32, slot: u32, failure: Failure) -> Result<(), Failure> {
        self.ask(failure)?;
        if !self.deletes {
            self.kept.insert((directory, slot));
        }
        Ok(())
    }

    /// Fails unless a directory is on the device where it was read.
    fn must_be_there(&self, open: &Open) -> Result<(), Failure> {
        let row = self.tree.row(open.number)?;
        // If it could not be opened when it was read, its device is unknown.
        let is_known = row.flags & flags::FAILED == 0;
        let device = self.tree.devices().get(row.device as usize);
        if is_known && device != Some(&open.device) { Err(Failure::Changed(open.path())) } else { Ok(()) }
    }

    fn directory(&mut self, above: &Arc<Open>, below: Below) -> Result<(), Failure> {
        let mut levels = Vec::new();
        self.enter(&mut levels, above, below)?;
        while let Some(level) = levels.last_mut() {
            if let Some(below) = level.waiting.pop() {
                let above = level.open.clone();
                self.enter(&mut levels, &above, below)?;
            } else if level.part < level.contents.parts() {
                self.part(level)?;
            } else {
                let Some(Level { open, mut stays, .. }) = levels.pop() else { break };
                open.leave();
                if !stays && let Err(failure) = self.leave(&open) {
                    self.ask(failure)?;
                    stays = true;
                }
                if stays {
                    self.stays_in(&mut levels);
                }
            }
        }
        Ok(())
    }

    /// Records that something stays, and so the innermost of these directories.
    fn stays_in(&mut self, levels: &mut [Level]) {
        match levels.last_mut() {
            Some(level) => level.stays = true,
            None => self.stays = true,
        }
    }

    fn enter(
        &mut self,
        levels: &mut Vec<Level>,
        above: &Arc<Open>,
        Below { slot, number, name }: Below,
    ) -> Result<(), Failure> {
        if self.kept.contains(&(above.number, slot)) {
            self.stays_in(levels);
            return Ok(());
        }
        let open = match self.open(above, name, number) {
            Ok(open) => Arc::new(open),
            Err(failure) => {
                self.ask_about(above.number, slot, failure)?;
                self.stays_in(levels);
                return Ok(());
            }
        };
        if levels.len() >= self.most {
            levels[levels.len() - self.most].open.close();
        }
        let row = self.tree.row(number)?;
        let (contents, seen_until) = (row.contents(), row.seen_until);
        levels.push(Level { open, contents, seen_until, part: 0, waiting: Vec::new(), stays: false });
        Ok(())
    }

    fn open(&mut self, above: &Arc<Open>, name: CString, number: u32) -> Result<Open, Failure> {
        let path = path_of(above, name.to_bytes());
        let failed = |error| Failure::new(&path, error);
        let open = above.below(name, number).map_err(failed)?;
        if open.is_mounted() {
            return Err(Failure::Mounted(path));
        }
        self.must_be_there(&open)?;
        if !self.deletes {
            // The contents of a directory that could not be read or was left out were never shown.
            let file = open.file().map_err(failed)?;
            let shown = self.shown(&self.tree.row(number)?.contents())?;
            if count(&file).map_err(failed)? != shown {
                return Err(Failure::NotShown(path));
            }
        }
        self.progress.path = path;
        Ok(open)
    }

    /// How many names of a directory the tree shows.
    fn shown(&self, contents: &Contents) -> Result<u64, Error> {
        let mut count = 0;
        self.tree.each(*contents, &mut |_, entry| {
            count += u64::from(entry.kind != Kind::Gone);
            Ok(())
        })?;
        Ok(count)
    }

    /// Examines or deletes the names in the next part; directories wait.
    fn part(&mut self, level: &mut Level) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        self.tree.part(level.contents, level.part, &mut bytes)?;
        let mut slot = (level.part * MOST) as u32;
        level.part += 1;
        let mut entries = Reader::new(&bytes).map_err(Error::from)?;
        while let Some(entry) = entries.read().map_err(Error::from)? {
            match entry.kind {
                Kind::Gone => (),
                Kind::Directory(number) => {
                    let name = CString::new(entry.name).map_err(|_| Error::Damaged)?;
                    level.waiting.push(Below { slot, number, name });
                }
                _ => level.stays |= self.file(&level.open, slot, &entry, level.seen_until)?,
            }
            slot += 1;
        }
        level.waiting.reverse();
        if (self.tell)(Event::Step(&self.progress)) { Ok(()) } else { Err(Failure::Stopped) }
    }

    /// Examines or deletes a file; returns whether it stays.
    fn file(&mut self, open: &Open, slot: u32, entry: &Entry<'_>, seen_until: i64) -> Result<bool, Failure> {
        if self.kept.contains(&(open.number, slot)) {
            return Ok(true);
        }
        let failure = match self.delete_file(open, entry, seen_until) {
            Ok(()) => return Ok(false),
            Err(failure) => failure,
        };
        self.ask_about(open.number, slot, failure)?;
        Ok(true)
    }

    fn delete_file(&mut self, open: &Open, entry: &Entry<'_>, seen_until: i64) -> Result<(), Failure> {
        let failed = |error| Failure::new(&path_of(open, entry.name), error);
        let name = CString::new(entry.name).map_err(|_| Error::Damaged)?;
        match entry.kind {
            Kind::File | Kind::Other => (),
            Kind::Failed(error) => {
                let error = io::Error::from_raw_os_error(error.into());
                return Err(Failure::NotLooked(path_of(open, entry.name), error));
            }
            _ => return Err(Failure::NotShown(open.path())),
        }
        let file = open.file().map_err(failed)?;
        let stat = look(&file, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if mounted(&stat) == Some(true) {
            return Err(Failure::Mounted(path_of(open, entry.name)));
        }
        if !is_same(&file, &name, entry, &stat, seen_until, self.deletes) {
            return Err(Failure::Changed(path_of(open, entry.name)));
        }
        if self.deletes {
            unlinkat(&file, &name, AtFlags::empty()).map_err(failed)?;
            self.progress.deleted += 1;
        }
        self.progress.seen += 1;
        Ok(())
    }

    /// Called after everything in the directory.
    fn leave(&mut self, open: &Open) -> Result<(), Failure> {
        self.progress.seen += 1;
        if self.deletes {
            open.remove().map_err(|error| Failure::new(&open.path(), error))?;
            self.progress.deleted += 1;
        }
        Ok(())
    }
}
