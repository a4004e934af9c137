//! Deletes in the file system what a tree shows, and nothing else.
//!
//! First everything is examined: the file system must contain what the tree has, name by name, with the same
//! attributes, and nothing may be mounted there. Then it is deleted, from the innermost directories outwards, and
//! each entry is examined once more just before. Directories are opened from their parents, beginning with the
//! very directory that was scanned, and links are never followed, so a replacement put in a directory's place
//! meanwhile is not entered. A directory into which something is put at the last moment cannot be deleted,
//! because it is not empty.
//!
//! The tree does not record the identity of directories, which would take memory, only the names in them and the
//! devices they are on.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use memfold_escape::shown;
use rustix::fs::{AtFlags, FileType, RawDir, Statx, StatxFlags, statx, unlinkat};
use rustix::io::Errno;

use crate::Error;
use crate::entry::{Entry, Kind};
use crate::part::{MOST, Reader};
use crate::scan::clock::{self, may_be_as_seen};
use crate::scan::open::{self, Open, mounted};
use crate::scan::{self, Options};
use crate::source::Source;
use crate::tree::{Contents, Tree, flags};

/// Why something was not deleted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The tree cannot be read.
    Tree(Error),
    /// The system refused: the path, and the operation.
    System(Vec<u8>, io::Error),
    /// It has changed since it was read: the path.
    Changed(Vec<u8>),
    /// It contains something that was not shown: the directory's path.
    NotShown(Vec<u8>),
    /// It could not be examined when it was read, so nobody knows what it is: the path.
    NotLooked(Vec<u8>, io::Error),
    /// Something is mounted there: the path.
    Mounted(Vec<u8>),
    /// The user stopped it.
    Stopped,
    /// Why it ended after something had already been deleted.
    Partly(Box<Failure>),
}

impl Failure {
    fn new(path: &[u8], error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::STALE => {
                Failure::Changed(path.to_vec())
            }
            Errno::NOTEMPTY | Errno::EXIST => Failure::NotShown(path.to_vec()),
            error => Failure::System(path.to_vec(), error.into()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Tree(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Tree(error) => error.fmt(f),
            Failure::System(at, error) => write!(f, "{}: {error}", shown(at)),
            Failure::Changed(at) => {
                write!(f, "{} has changed since it was read: refresh, and check again", shown(at))
            }
            Failure::NotShown(at) => write!(
                f,
                "{} contains something that was not shown (new, or excluded from the scan): refresh, or scan without exclusions",
                shown(at)
            ),
            Failure::NotLooked(at, error) => write!(
                f,
                "{} could not be examined ({error}), so its type is unknown: make its directory searchable (chmod u+x), and refresh",
                shown(at)
            ),
            Failure::Mounted(at) => {
                write!(f, "{} is a mount point: unmount it, or delete its contents", shown(at))
            }
            Failure::Stopped => f.write_str("stopped"),
            Failure::Partly(failure) => write!(f, "{failure}; what was deleted before stays deleted"),
        }
    }
}

impl std::error::Error for Failure {}

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
    /// The progress, now and then.
    Step(&'e Progress),
    /// Something cannot be examined or deleted. If the caller continues, it stays together with the directories
    /// that contain it, and the rest is deleted.
    Failed(&'e Failure),
}

/// A directory in another one.
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
    /// From the current part, the next one last.
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
    /// What could not be examined and was ignored: directories and slots.
    kept: BTreeSet<(u32, u32)>,
    /// Anything at all stays.
    stays: bool,
    /// The most directories that are open at a time.
    most: usize,
}

/// Deletes an entry of a directory, with everything below it, in the file system and then in the tree, which must
/// have been scanned with these options. `tell` says whether to continue.
///
/// Deleted entries are never left in the tree: if something remains, with or without a failure, it was read
/// again. A failure other than [`Failure::Partly`] means that nothing was deleted.
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
            // Stopping here would lose entries that were shown.
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

    /// Asks whether to continue without something. During the examination, a difference from what was shown ends
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

    /// The same, and remembers what is left out.
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
        // If it could not be opened then, nobody knows.
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

    /// Something stays, and so does the innermost of these directories.
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
            // Nobody has seen the contents of a directory that could not be read or was left out.
            let file = open.file().map_err(failed)?;
            let shown = self.shown(&self.tree.row(number)?.contents())?;
            if count(&file).map_err(failed)? != shown {
                return Err(Failure::NotShown(path));
            }
        }
        self.progress.path = path;
        Ok(open)
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
        if !self.is_same(&file, &name, entry, &stat, seen_until) {
            return Err(Failure::Changed(path_of(open, entry.name)));
        }
        if self.deletes {
            unlinkat(&file, &name, AtFlags::empty()).map_err(failed)?;
            self.progress.deleted += 1;
        }
        self.progress.seen += 1;
        Ok(())
    }

    /// Whether the entry is still what was read, as far as that is known.
    fn is_same(
        &self,
        directory: &OwnedFd,
        name: &CStr,
        entry: &Entry<'_>,
        stat: &Statx,
        seen_until: i64,
    ) -> bool {
        if entry.followed.is_none() {
            return is_as_read(entry, stat, seen_until);
        }
        // The link is deleted, but the known attributes are those of its target.
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Symlink {
            return false;
        }
        match look(directory, name, AtFlags::empty()) {
            Ok(target) => is_as_read(entry, &target, seen_until),
            // It may just have been deleted.
            Err(_) => self.deletes,
        }
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

fn look(directory: &OwnedFd, name: &CStr, flags: AtFlags) -> Result<Statx, Errno> {
    let flags = flags | AtFlags::STATX_SYNC_AS_STAT | AtFlags::NO_AUTOMOUNT;
    statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

/// A file written since it was read may have the same length, but it has a later time, and a file that had holes
/// takes more space. For links and other non-files, times tell nothing more.
fn is_as_read(entry: &Entry<'_>, stat: &Statx, seen_until: i64) -> bool {
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    let modified = clock::nanoseconds(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into());
    let is_kind = match entry.kind {
        Kind::File => kind == FileType::RegularFile,
        Kind::Other => !matches!(kind, FileType::RegularFile | FileType::Directory),
        _ => false,
    };
    is_kind
        && stat.stx_size == entry.size
        && stat.stx_blocks == entry.blocks
        && (kind != FileType::RegularFile || may_be_as_seen(modified, seen_until))
        && entry.link.is_none_or(|link| stat.stx_ino == link.inode)
        && entry.extended.is_none_or(|extended| {
            stat.stx_mtime.tv_sec == extended.modified
                && FileType::from_raw_mode(extended.mode.into()) == kind
        })
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
