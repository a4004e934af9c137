//! How a program finds the shared page of its tree: the contents of [`ENV_SHARED`].
//!
//! ```text
//! /proc/SUPERVISOR/fd/N;NAME;SECRET     by the path; if it cannot be opened, from the listener at the abstract
//!                                       name, which answers processes that know the secret
//! segment:NUMBER                        a System V segment
//! ```
//!
//! The path is not accessible to other users' processes, nor to those with another `/proc`, nor after the
//! supervisor has ended.
//!
//! A slot contains the process's id as the supervisor knows it. In a pid namespace a process does not know
//! that id. If the path could be opened, `/proc` is the supervisor's, and `/proc/self/status` says it;
//! otherwise the listener does.
//!
//! [`ENV_SHARED`]: memfold_shared::page::ENV_SHARED

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

use memfold_shared::filters::Status;
use memfold_shared::page::{MAGIC, SEGMENT, Shared, VERSION};
use memfold_shared::spill::Area;

use crate::kernel::filters;
use crate::kernel::sys::{self, Fd, o, socket};

/// How long to wait for an answer, ns.
const PATIENCE: u64 = 2_000_000_000;
/// Maximum length of the environment variable.
const LONGEST: usize = 200;

/// How a process in another pid namespace learns its outer id.
static WAY: AtomicU32 = AtomicU32::new(SAME);
/// The inner and the outer id are the same.
const SAME: u32 = 0;
const BY_STATUS: u32 = 1;
const BY_ASKING: u32 = 2;
/// A copy of the variable's value.
static SAID: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];

/// The page that was found.
pub struct Found {
    /// The address at which it is mapped.
    start: *mut u8,
    /// Number of mapped bytes.
    bytes: usize,
    /// Its file, until all of it is mapped.
    file: Option<Fd>,
    /// This process's id as the supervisor knows it.
    pub outer_pid: u32,
    way: u32,
}

/// Finds the page. Under a filter only the path is tried, with calls that the loader has made before.
pub fn find(said: &CStr, status: Status) -> Option<Found> {
    let (bytes, is_free) = (said.to_bytes(), status.mode == 0);
    if let Some(number) = bytes.strip_prefix(SEGMENT.as_bytes()) {
        let number = core::str::from_utf8(number).ok()?.parse().ok()?;
        let (start, bytes) = is_free.then(|| sys::attach_segment(number).ok())??;
        let found = Found { start, bytes, file: None, outer_pid: status.pid, way: BY_STATUS };
        return (bytes >= Shared::BYTES).then_some(found);
    }
    let path = bytes.split(|byte| *byte == b';').next()?;
    let mut name = [0; LONGEST];
    name.get_mut(..path.len())?.copy_from_slice(path);
    let by_path =
        CStr::from_bytes_until_nul(&name).ok().and_then(|path| sys::open(path, o::RDWR | o::CLOEXEC).ok());
    SAID.iter().zip(bytes).for_each(|(place, byte)| place.store(*byte, Relaxed));
    let by_path = by_path.filter(|file| if is_free { is_long_enough(*file) } else { is_page(*file) });
    let (file, outer_pid, way) = match by_path {
        Some(file) => (file, status.pid, BY_STATUS),
        None => is_free.then(|| ask(bytes)).flatten().map(|(file, pid)| (file, pid, BY_ASKING))?,
    };
    let start = sys::map_shared(file, Shared::BYTES).ok()?;
    Some(Found { start, bytes: Shared::BYTES, file: Some(file), outer_pid, way })
}

fn is_long_enough(file: Fd) -> bool {
    let is_it = sys::file_size(file) >= Shared::BYTES as u64;
    if !is_it {
        sys::close(file);
    }
    is_it
}

/// Under a filter: whether a file is a page of this version, which implies its length. The length is not
/// queried, because loaders differ in the call that they make for that.
fn is_page(file: Fd) -> bool {
    let mut head = [0u8; 12];
    let is_it = sys::read(file, &mut head) == Ok(head.len())
        && head[..8] == MAGIC.to_le_bytes()
        && head[8..] == VERSION.to_le_bytes();
    if !is_it {
        sys::close(file);
    }
    is_it
}

impl Found {
    /// Called when all system calls are allowed: maps what follows the page, if anything does.
    pub fn complete(&mut self) -> Option<()> {
        let Some(file) = self.file.take() else { return Some(()) };
        let whole = sys::file_size(file) >= Area::FILE_BYTES as u64;
        let mapped = whole.then(|| sys::map_shared(file, Area::FILE_BYTES));
        sys::close(file);
        if let Some(mapped) = mapped {
            // From now on the page is mapped twice, and the first mapping is forgotten.
            (self.start, self.bytes) = (mapped.ok()?, Area::FILE_BYTES);
        }
        Some(())
    }

    /// The page.
    pub fn page(&self) -> &'static Shared {
        // SAFETY: the mapping is at least as large and permanent; all fields are atomics.
        unsafe { &*(self.start as *const Shared) }
    }

    /// The spill area behind it, if there is one.
    pub fn area(&self) -> Option<&'static Area> {
        // SAFETY: as above, and the file is long enough for it.
        (self.bytes >= Area::FILE_BYTES).then(|| unsafe { &*(self.start.add(Area::OFFSET) as *const Area) })
    }

    /// Remembers how the outer id of this process's children is found, unless it equals the inner one.
    pub fn settle(&self, own_pid: u32) {
        if self.outer_pid != own_pid {
            WAY.store(self.way, Relaxed);
        }
    }
}

/// In a forked child: its id as the supervisor knows it. `None` if that cannot be found out. Its own id is no
/// substitute: outside, that may be the id of any other process.
pub fn outer_pid(own: u32) -> Option<u32> {
    let outer = match WAY.load(Relaxed) {
        SAME if sys::getppid() != 0 => return Some(own),
        // The first process of a new namespace: its parent's id is not visible in it. It still has its
        // parent's /proc; its children will not.
        SAME => {
            WAY.store(BY_ASKING, Relaxed);
            filters::own_status().map(|status| status.pid)
        }
        BY_STATUS => filters::own_status().map(|status| status.pid),
        _ if !filters::is_free() => None,
        _ => {
            let said = SAID.each_ref().map(|byte| byte.load(Relaxed));
            let length = said.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
            ask(&said[..length]).map(|(page, pid)| {
                sys::close(page);
                pid
            })
        }
    };
    outer.filter(|pid| *pid != 0)
}

/// The page, and this process's id, from the listener.
fn ask(said: &[u8]) -> Option<(Fd, u32)> {
    let mut parts = said.split(|byte| *byte == b';').skip(1);
    let (name, secret) = (parts.next()?, parts.next()?);
    let stream = socket::connect(name).ok()?;
    let answer = socket::ask(stream, secret, PATIENCE);
    sys::close(stream);
    answer.ok()
}
