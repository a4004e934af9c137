//! How a program finds the shared page of its tree: what [`ENV_SHARED`] says.
//!
//! ```text
//! /proc/SUPERVISOR/fd/N;NAME;SECRET     by the path; where that can't be opened, from whoever listens under the
//!                                       abstract name, who answers those that know the secret
//! segment:NUMBER                        a segment of System V
//! ```
//!
//! The path is not open to other users' processes, nor to those with another `/proc`, nor after the supervisor
//! has ended.
//!
//! A slot carries the process's id as the supervisor knows it. In a pid namespace a process does not
//! know that: `/proc/self/status` says it where the path could be opened, because then `/proc` is the supervisor's;
//! otherwise who listens does.
//!
//! [`ENV_SHARED`]: crate::shared::ENV_SHARED

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

use crate::filters::{self, Status};
use crate::shared::{SEGMENT, Shared};
use crate::spill::area::Area;
use crate::sys::{self, Fd, o, socket};

/// An answer is waited for so long, ns.
const PATIENCE: u64 = 2_000_000_000;
/// The longest that the environment may say.
const LONGEST: usize = 200;

/// Where a process in another pid namespace learns its outer id.
static WAY: AtomicU32 = AtomicU32::new(SAME);
/// It has the same id here and there.
const SAME: u32 = 0;
const BY_STATUS: u32 = 1;
const BY_ASKING: u32 = 2;
/// A copy of the variable's value.
static SAID: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];

/// The page, as it was found.
pub struct Found {
    /// Where it is mapped.
    pub start: *mut u8,
    /// How much of it.
    pub bytes: usize,
    /// This process's id as the supervisor knows it.
    pub outer_pid: u32,
    way: u32,
}

/// Finds it. Under a filter only the path is tried, by calls that the loader has made before.
pub fn find(said: &CStr, status: Status) -> Option<Found> {
    let (bytes, is_free) = (said.to_bytes(), status.mode == 0);
    if let Some(number) = bytes.strip_prefix(SEGMENT.as_bytes()) {
        let number = core::str::from_utf8(number).ok()?.parse().ok()?;
        let (start, bytes) = is_free.then(|| sys::attach_segment(number).ok())??;
        let found = Found { start, bytes, outer_pid: status.pid, way: BY_STATUS };
        return (bytes >= Shared::BYTES).then_some(found);
    }
    let path = bytes.split(|byte| *byte == b';').next()?;
    let mut name = [0; LONGEST];
    name.get_mut(..path.len())?.copy_from_slice(path);
    let by_path =
        CStr::from_bytes_until_nul(&name).ok().and_then(|path| sys::open(path, o::RDWR | o::CLOEXEC).ok());
    SAID.iter().zip(bytes).for_each(|(place, byte)| place.store(*byte, Relaxed));
    if let Some((start, bytes)) = by_path.and_then(map) {
        return Some(Found { start, bytes, outer_pid: status.pid, way: BY_STATUS });
    }
    let (page, outer_pid) = is_free.then(|| ask(bytes))??;
    let (start, mapped) = map(page)?;
    Some(Found { start, bytes: mapped, outer_pid, way: BY_ASKING })
}

impl Found {
    /// Remembers how the outer id of this process's children is found, unless it is their own.
    pub fn settle(&self, own_pid: u32) {
        if self.outer_pid != own_pid {
            WAY.store(self.way, Relaxed);
        }
    }
}

/// In a forked child: its id as the supervisor knows it.
pub fn outer_pid(own: u32) -> u32 {
    let outer = match WAY.load(Relaxed) {
        SAME if sys::getppid() != 0 => return own,
        // The first process of a new namespace: its parent is in none that it could name. It has its parent's /proc still;
        // its children will not.
        SAME => {
            WAY.store(BY_ASKING, Relaxed);
            Status::own().map(|status| status.pid)
        }
        BY_STATUS => Status::own().map(|status| status.pid),
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
    outer.filter(|pid| *pid != 0).unwrap_or(own)
}

fn map(file: Fd) -> Option<(*mut u8, usize)> {
    let size = sys::file_size(file);
    let bytes = if size >= Area::FILE_BYTES as u64 { Area::FILE_BYTES } else { Shared::BYTES };
    let mapped = (size >= Shared::BYTES as u64).then(|| sys::map_shared(file, bytes));
    sys::close(file);
    Some((mapped?.ok()?, bytes))
}

/// The page, and this process's id, from who listens.
fn ask(said: &[u8]) -> Option<(Fd, u32)> {
    let mut parts = said.split(|byte| *byte == b';').skip(1);
    let (name, secret) = (parts.next()?, parts.next()?);
    let stream = socket::connect(name).ok()?;
    let answer = socket::ask(stream, secret, PATIENCE);
    sys::close(stream);
    answer.ok()
}
