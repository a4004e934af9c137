//! The free memory that heaps share, and what a heap remembers of it: see `headroom.rs`.

use std::boxed::Box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{LazyLock, Mutex, OnceLock};
use std::time::Instant;
use std::vec::Vec;

use memfold_proc::memory::Room;

use crate::heap::options::Limit;
use crate::heap::sync::locked;

/// This part of all memory, within these bounds but no more than a quarter, is never used for frames.
const RESERVE: u64 = 16;
const LEAST_RESERVE: u64 = 16 << 20;
const MOST_RESERVE: u64 = 1 << 30;
/// This part of the reserve, up to this many bytes, is not used for compressed blocks either.
const FLOOR: u64 = 4;
const MOST_FLOOR: u64 = 32 << 20;
/// With [`Limit::Free`], this part of what is left beyond the reserve is for others, however much use a heap
/// could make of it.
const OTHERS: u64 = 4;
/// Frames may always have this part of free memory.
const LEAST_PART: u64 = 8;

type Look = dyn Fn() -> Option<Vec<Room>> + Send + Sync;

/// What is known of the memory that heaps share: that of this process or, in tests, invented memory.
pub struct Machine {
    pub rooms: Box<Look>,
    /// The number of heaps that follow free memory, and the bytes of their frames when each last looked.
    pub heaps: AtomicU64,
    pub frame_bytes: AtomicU64,
}

impl Machine {
    pub fn new(rooms: Box<Look>) -> Self {
        Machine { rooms, heaps: AtomicU64::new(0), frame_bytes: AtomicU64::new(0) }
    }

    fn current() -> &'static Self {
        static PROCESS: LazyLock<Machine> =
            LazyLock::new(|| Machine::new(Box::new(memfold_proc::memory::rooms)));
        #[cfg(test)]
        if let Some(made_up) = crate::heap::tests::free::machine() {
            return made_up;
        }
        &PROCESS
    }
}

/// The result of the last look at free memory.
pub struct Headroom {
    pub machine: &'static Machine,
    /// When the next look is due, in microseconds of [`now`].
    pub due: AtomicU64,
    /// The number of frames that are allowed,
    pub frames: AtomicU32,
    /// and how many more use may earn,
    pub more: AtomicU32,
    /// when everything else takes this many bytes.
    pub beside: AtomicU64,
    /// The most bytes that the whole heap may take until the next look.
    pub most: AtomicU64,
    /// Bytes of frames that are counted for this heap in `machine`; the holder of the lock looks at free
    /// memory.
    pub counted: Mutex<Option<u64>>,
}

/// Microseconds since the first heap was made.
pub fn now() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_micros() as u64
}

fn reserve(total: u64) -> u64 {
    (total / RESERVE).clamp(LEAST_RESERVE, MOST_RESERVE).min(total / 4)
}

/// Bytes that the frames of all heaps may have according to one bound; they have `frames` bytes now.
pub fn frame_bytes(limit: Limit, room: &Room, frames: u64) -> u64 {
    part(room, frames, |left| if limit == Limit::All { left } else { left / 2 })
}

/// The same if use has earned as many frames as it can.
pub fn most_frame_bytes(limit: Limit, room: &Room, frames: u64) -> u64 {
    part(room, frames, |left| if limit == Limit::All { left } else { left - left / OTHERS })
}

fn part(room: &Room, frames: u64, of: impl Fn(u64) -> u64) -> u64 {
    let sum = room.available + frames;
    of(sum.saturating_sub(reserve(room.total))).max(sum / LEAST_PART)
}

/// Bytes that may still be taken according to this bound.
pub fn left(room: &Room) -> u64 {
    room.available.saturating_sub((reserve(room.total) / FLOOR).min(MOST_FLOOR))
}

impl Headroom {
    pub fn new() -> Self {
        Headroom {
            machine: Machine::current(),
            due: AtomicU64::new(0),
            frames: AtomicU32::new(0),
            more: AtomicU32::new(0),
            beside: AtomicU64::new(0),
            most: AtomicU64::new(0),
            counted: Mutex::new(None),
        }
    }

    /// Discards what is known, since the limit has changed.
    pub fn forget(&self) {
        self.due.store(0, Relaxed);
        self.count(&mut locked(&self.counted), None);
    }

    /// Makes the next look due.
    #[cfg(test)]
    pub fn expire(&self) {
        self.due.store(0, Relaxed);
    }

    /// Counts this many bytes of frames for this heap; `None` if it does not follow free memory.
    pub fn count(&self, counted: &mut Option<u64>, bytes: Option<u64>) {
        let before = std::mem::replace(counted, bytes);
        let machine = self.machine;
        machine.heaps.fetch_add(u64::from(bytes.is_some()).wrapping_sub(before.is_some().into()), Relaxed);
        machine.frame_bytes.fetch_add(bytes.unwrap_or(0).wrapping_sub(before.unwrap_or(0)), Relaxed);
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        self.count(&mut locked(&self.counted), None);
    }
}
