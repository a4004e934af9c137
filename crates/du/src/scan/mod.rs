//! Reads directories, several at once.
//!
//! ```text
//!   stack of directories ──> threads: read one, store its entries in the heap ──batches of rows──> the caller: tree, progress
//!            ^────────────────────────┘ if there are directories in it
//! ```
//!
//! Each thread takes the directory that is on top, so the stack is as deep as the tree, and few directories are open: what waits in a directory is read from its entries in the heap, part by part.
//! Directories are opened from their parents, never by path: a path may be longer than the system takes, and nothing is followed that has been put in a directory's place meanwhile.
//!
//! What can't be read stands in the tree. Only what makes all of it worthless ends a scan: the root can't be read, or the heap is full.

mod directory;
mod open;
mod stack;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use memfold::heap::{Heap, Session};

use crate::Error;
use crate::tree::{Batch, Tree};
use directory::Worker;
use open::Open;
use stack::Stack;

/// Batches that wait for the tree.
const WAITING: usize = 16;
/// How often the caller may show progress.
const TICK: Duration = Duration::from_millis(100);

/// What is scanned, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that read.
    pub threads: usize,
    /// Other file systems than the root's are left out.
    pub one_file_system: bool,
    /// Directories that say to be caches are left out.
    pub exclude_caches: bool,
    /// File systems that the kernel makes up are left out.
    pub exclude_kernel: bool,
    /// Symbolic links to files count as the files.
    pub follow_links: bool,
    /// Times, owners and permissions are kept.
    pub extended: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: 1,
            one_file_system: false,
            exclude_caches: false,
            exclude_kernel: false,
            follow_links: false,
            extended: false,
        }
    }
}

/// How far it is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Names that were read.
    pub items: AtomicU64,
    /// What they take, in units of 512 bytes, each name for itself.
    pub blocks: AtomicU64,
    /// What could not be read.
    pub failures: AtomicU64,
    /// Where a thread is.
    pub path: Mutex<Vec<u8>>,
    wants_path: AtomicBool,
}

/// What threads share.
struct Shared<'a> {
    options: &'a Options,
    progress: &'a Progress,
    stack: Stack,
    /// The next directory's number.
    next: AtomicU64,
    /// File systems; a number of the tree's is its place here.
    devices: Mutex<Vec<u64>>,
    /// The root's.
    device: u64,
}

/// Reads all below `path`. `tick` is called some times a second; if it says no, that is the end.
pub fn scan<'s>(
    path: &Path,
    options: &Options,
    heap: &'s Heap,
    session: &'s Session<'_>,
    progress: &Progress,
    mut tick: impl FnMut(&Progress) -> bool,
) -> Result<Tree<'s>, Error> {
    let (root, entry) = Open::root(path, options.extended).map_err(Error::Root)?;
    let mut tree = Tree::new(heap, session, entry)?;
    let shared = Shared {
        options,
        progress,
        device: root.device,
        stack: Stack::new(Arc::new(root)),
        next: AtomicU64::new(1),
        devices: Mutex::default(),
    };
    let (send, receive) = sync_channel::<Batch>(WAITING);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..options.threads.max(1) {
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
                // Fewer will do.
                Err(_) if !workers.is_empty() => break,
                Err(error) => return Err(Error::Root(error)),
            }
        }
        drop(send);
        let mut result = Ok(());
        loop {
            match receive.recv_timeout(TICK) {
                Ok(batch) if result.is_ok() => result = tree.put(&batch),
                Ok(_) => (),
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
    tree.set_devices(shared.devices.into_inner().unwrap_or_default());
    tree.sum_up()?;
    Ok(tree)
}
