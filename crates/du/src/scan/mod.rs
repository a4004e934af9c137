//! Reads directories, several at once.
//!
//! ```text
//!   stack of directories ──> threads: read one, store its entries in the heap ──batches of rows──> the caller: tree, progress
//!            ^────────────────────────┘ if there are directories in it
//! ```
//!
//! Each thread takes the topmost directory, so the stack is only as deep as the tree. Few directories are
//! open: waiting directories are read from their parent's entries in the heap, part by part. Directories are
//! opened from their parents, never by path: a path may be longer than the system accepts, and a replacement
//! put in a directory's place meanwhile must not be followed.
//!
//! Errors of reading are recorded in the tree. A scan fails only on an error that makes all of it worthless:
//! the root cannot be read, or the heap is full.

pub(crate) mod clock;
mod directory;
pub mod exclude;
pub(crate) mod open;
mod stack;

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use memfold::heap::{Heap, Session};
use rustix::io::Errno;

use crate::Error;
use crate::source::{ROOT, Source};
use crate::tree::{Batch, Refresh, Tree};
use directory::Worker;
use exclude::Exclude;
use open::Open;
use stack::Stack;

/// The most batches that wait for the tree.
const WAITING: usize = 16;
/// The interval at which the caller may show progress.
const TICK: Duration = Duration::from_millis(100);

/// What is scanned, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of reading threads.
    pub threads: usize,
    /// Leaves out file systems other than the root's.
    pub one_file_system: bool,
    /// Names that are left out.
    pub exclude: Exclude,
    /// Leaves out directories that are tagged as caches.
    pub exclude_caches: bool,
    /// Leaves out file systems whose contents the kernel generates.
    pub exclude_kernel: bool,
    /// Symbolic links to files count as their targets.
    pub follow_links: bool,
    /// Keeps times, owners and permissions.
    pub extended: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: 1,
            one_file_system: false,
            exclude: Exclude::default(),
            exclude_caches: false,
            exclude_kernel: false,
            follow_links: false,
            extended: false,
        }
    }
}

/// The progress of a scan.
#[derive(Debug, Default)]
pub struct Progress {
    /// Names read.
    pub items: AtomicU64,
    /// The space that they take, in units of 512 bytes, counting each name separately.
    pub blocks: AtomicU64,
    /// Failures to read.
    pub failures: AtomicU64,
    /// Where one of the threads is.
    pub path: Mutex<Vec<u8>>,
    wants_path: AtomicBool,
}

/// State that the threads share.
struct Shared<'a> {
    options: &'a Options,
    progress: &'a Progress,
    stack: Stack,
    /// The next directory's number.
    next: AtomicU64,
    /// File systems; a number in the tree is an index into them.
    devices: Mutex<Vec<u64>>,
    /// The root's.
    device: u64,
}

/// Reads everything below `path`. `tick` is called several times a second; if it returns false, the scan ends.
pub fn scan<'s>(
    path: &Path,
    options: &Options,
    heap: &'s Heap,
    session: &'s Session<'_>,
    progress: &Progress,
    tick: impl FnMut(&Progress) -> bool,
) -> Result<Tree<'s>, Error> {
    let (root, entry) = Open::root(path, options.extended).map_err(Error::Root)?;
    let mut tree = Tree::new(heap, session, entry)?;
    tree.set_origin(root.identity());
    if options.follow_links {
        tree.set_follows_links();
    }
    let device = root.device;
    let start = Start { open: Arc::new(root), device, above: ROOT, slot: 0, next: 1, devices: vec![device] };
    let devices = read(start, options, heap, progress, tick, &mut tree)?;
    tree.set_devices(devices);
    tree.sum_up()?;
    Ok(tree)
}

/// Opens a directory of a scanned tree, name by name from the root. The root must be the same directory that
/// was scanned, since anyone who may write above it can put a link to anywhere in its place.
pub(crate) fn open(tree: &Tree<'_>, directory: u32) -> Result<Open, Error> {
    let root = &tree.root().name;
    let (mut open, _) = Open::root(Path::new(OsStr::from_bytes(root)), false)
        .map_err(|error| Error::Directory(root.clone(), error))?;
    if tree.origin() != Some(open.identity()) {
        return Err(Error::OtherRoot(root.clone()));
    }
    let (mut names, mut at) = (Vec::new(), directory);
    while at != ROOT {
        names.push((at, CString::new(tree.own_entry(at)?.name).map_err(|_| Error::Damaged)?));
        at = tree.above(at)?;
    }
    for (number, name) in names.into_iter().rev() {
        // The directories on the way are closed again, since there may be many.
        let above = Arc::new(open);
        open = match above.below(name, number) {
            Ok(open) => open,
            Err(error) => return Err(Error::Directory(tree.path(number)?, error.into())),
        };
        above.close();
    }
    Ok(open)
}

/// Reads a directory of a scanned tree again, and everything below it. The tree stays unchanged if the
/// directory cannot be opened, if the root is now another directory, if reading is stopped, or if the new
/// contents do not fit into the heap beside the old ones.
pub fn rescan(
    tree: &mut Tree<'_>,
    directory: u32,
    options: &Options,
    progress: &Progress,
    tick: impl FnMut(&Progress) -> bool,
) -> Result<(), Error> {
    let mut open = open(tree, directory)?;
    let own = match open.entry(options.extended) {
        Ok(own) => own,
        Err(error) => return Err(Error::Directory(tree.path(directory)?, error.into())),
    };
    let device = open.above().last().map_or(open.device, |root| root.device);
    let (above, slot) = (tree.above(directory)?, tree.slot(directory)?);
    let (heap, devices) = (tree.heap(), tree.devices().to_vec());
    let mut refresh = tree.refresh(directory);
    open.number = refresh.first();
    let next = refresh.first().checked_add(1).ok_or(Error::TooMany)?;
    let start = Start { open: Arc::new(open), device, above, slot, next, devices };
    let read = read(start, options, heap, progress, tick, &mut refresh);
    match read.and_then(|devices| refresh.sum_up().map(|()| devices)) {
        Ok(devices) => refresh.finish(own, devices),
        Err(error) => {
            refresh.abandon()?;
            Err(match error {
                Error::Heap(memfold::heap::Error::Limit) => Error::NoRoom,
                error => error,
            })
        }
    }
}

/// The same after something in the directory was deleted, when the old contents are no longer wanted. If the
/// directory cannot be opened or does not fit, it is recorded in the tree as one that cannot be read.
pub(crate) fn read_what_is_left(
    tree: &mut Tree<'_>,
    directory: u32,
    options: &Options,
    mut tick: impl FnMut(&Progress),
) -> Result<(), Error> {
    let mut read = |tree: &mut Tree<'_>| {
        rescan(tree, directory, options, &Progress::default(), |read| {
            tick(read);
            true
        })
    };
    let error = match read(tree) {
        Ok(()) => return Ok(()),
        Err(Error::NoRoom) => {
            // Removing the old contents makes room.
            tree.lose(directory, Errno::NOMEM.raw_os_error() as u16)?;
            return read(tree);
        }
        Err(Error::Directory(_, error)) => error.raw_os_error().unwrap_or(0),
        Err(Error::OtherRoot(_)) => Errno::STALE.raw_os_error(),
        Err(error) => return Err(error),
    };
    tree.lose(directory, error as u16)
}

/// The receiver of batches.
trait Store {
    fn put(&mut self, batch: Batch) -> Result<(), Error>;
    /// For batches that arrive after a failure: frees their contents, which nothing else refers to.
    fn discard(&mut self, batch: &Batch) -> Result<(), Error>;
}

impl Store for Tree<'_> {
    fn put(&mut self, batch: Batch) -> Result<(), Error> {
        Tree::put(self, &batch)
    }

    fn discard(&mut self, batch: &Batch) -> Result<(), Error> {
        Tree::discard(self, &batch.directories)
    }
}

impl Store for Refresh<'_, '_> {
    fn put(&mut self, batch: Batch) -> Result<(), Error> {
        Refresh::put(self, batch)
    }

    fn discard(&mut self, batch: &Batch) -> Result<(), Error> {
        Refresh::discard(self, batch)
    }
}

/// Where reading starts.
struct Start {
    open: Arc<Open>,
    /// The root's file system.
    device: u64,
    /// The number of its parent in the tree.
    above: u32,
    slot: u32,
    /// Directories below it get numbers from this one on.
    next: u32,
    devices: Vec<u64>,
}

/// Reads everything below a directory into a store. Returns the file systems that were found.
fn read(
    start: Start,
    options: &Options,
    heap: &Heap,
    progress: &Progress,
    mut tick: impl FnMut(&Progress) -> bool,
    store: &mut dyn Store,
) -> Result<Vec<u64>, Error> {
    let shared = Shared {
        options,
        progress,
        device: start.device,
        next: AtomicU64::new(start.next.into()),
        devices: Mutex::new(start.devices),
        stack: Stack::new(start.open, start.above, start.slot),
    };
    let (send, receive) = sync_channel::<Batch>(WAITING);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..options.threads.clamp(1, open::most_threads()) {
            let (shared, send) = (&shared, send.clone());
            let work = move || {
                let result = Worker::new(shared, heap, send).and_then(|mut worker| worker.work());
                if result.is_err() {
                    shared.stack.stop();
                }
                result
            };
            let name = String::from("memfold-du");
            match thread::Builder::new().name(name).spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                // Fewer threads suffice.
                Err(_) if !workers.is_empty() => break,
                Err(error) => return Err(Error::Root(error)),
            }
        }
        drop(send);
        let mut result = Ok(());
        loop {
            match receive.recv_timeout(TICK) {
                Ok(batch) if result.is_ok() => result = store.put(batch),
                // Only the first failure is reported.
                Ok(batch) => drop(store.discard(&batch)),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if result.is_ok() && !tick(progress) {
                result = Err(Error::Stopped);
            }
            if result.is_err() {
                shared.stack.stop();
            }
            progress.wants_path.store(true, Relaxed);
        }
        for worker in workers {
            let worked = worker.join().unwrap_or(Err(Error::Damaged));
            result = result.and(worked);
        }
        result
    })?;
    Ok(shared.devices.into_inner().unwrap_or_default())
}
