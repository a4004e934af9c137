//! The door: by which the supervisor gives a process its keeper.
//!
//! A process that is far from its limit has no thread of memfold, and may come near it by touching memory
//! alone, which calls no function of the library. So the supervisor, which watches it from outside, stops one
//! of its threads for a moment (ptrace), writes down where that one was, and lets it go on at one of the
//! doors: code that starts the keeper by a raw `clone` and then goes on where the thread was, with all its
//! registers as they were.
//!
//! ```text
//!  thread of the program ── ptrace stop ──┐                     ┌── goes on, as if nothing had been
//!                                         └─> door i ── clone ──┤
//!                            (registers are in areas[i])        └── keeper
//! ```
//!
//! Why no signal: it would wait while it is blocked, the program may have a handler of its own (Go has, for
//! every signal), and it would make system calls return `EINTR`.
//!
//! A new keeper needs a millisecond or two of CPU time, and on a busy machine it waits for a CPU first. A
//! thread that went on at once would fill memory that nobody evicts yet. So near the limit it waits behind the
//! door until the keeper has looked once. It waits 100 ms at most, because it may hold a lock that the keeper
//! wants.
//!
//! Invariants:
//! - Once the supervisor has changed where the thread goes on, it is not needed any more: it may end at any
//!   moment.
//! - A door uses no stack, so a signal may come in the middle of it. It leaves all but the registers in its
//!   area as they are.
//! - A thread is sent through a door that no other is in, and never from inside of one: it would come back into
//!   it, for ever once it is the same door. Threads that are stopped at the same time go through different doors.
//! - A door's last instruction reads where to go on from its area, after it has said that the area is free. A
//!   thread can be held up right there. So an area is not written again for ten seconds after a thread was sent.
//! - Whoever starts the keeper has changed `claim` from [`NOBODY`] to [`TAKEN`], a door too.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// Doors of a process.
pub const DOORS: usize = 8;
/// [`Door::magic`] once the doors may be used.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mf door2");
/// In the place of a door's address, for a process that is built with a sanitizer: no thread of memfold may
/// live there.
pub const SANITIZER: u64 = 1;
/// What is said of such a process when its limit comes near.
pub const SANITIZED: &str =
    "it is built with a sanitizer (-fsanitize=address, leak, thread ...): this process is not managed";
/// [`Door::claim`]: there is no keeper. (The kernel writes it when a keeper has ended.)
pub const NOBODY: u32 = 0;
/// There is one, or somebody starts it now.
pub const TAKEN: u32 = 1;
/// There must never be one.
pub const NEVER: u32 = 2;

/// What a thread had when it was sent through a door, and has again behind it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Area {
    /// Where it goes on.
    pub rip: u64,
    /// Its arithmetic flags: see [`packed_flags`].
    pub flags: u64,
    /// The registers that a door uses.
    pub rax: u64,
    /// See `rax`.
    pub rcx: u64,
    /// See `rax`.
    pub rdx: u64,
    /// See `rax`.
    pub rsi: u64,
    /// See `rax`.
    pub rdi: u64,
    /// See `rax`.
    pub r8: u64,
    /// See `rax`.
    pub r10: u64,
    /// See `rax`.
    pub r11: u64,
    /// Its signal mask; the door writes it.
    pub mask: u64,
    /// A thread was sent through, and has not read the last of this yet; the door clears it.
    pub busy: u64,
    /// When that was, ns of the monotonic clock; the door leaves it as it is.
    pub sent_ns: u64,
    /// 1: it waits until the keeper has had its first look; 0: it goes on at once.
    pub waits: u64,
}

/// What the supervisor reads and writes in a process. All fields are plain numbers.
#[repr(C)]
pub struct Door {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`NOBODY`], [`TAKEN`] or [`NEVER`].
    pub claim: AtomicU32,
    /// The last error of a door's `clone`, negative.
    pub error: AtomicU32,
    /// 1 until a keeper that was started by a door has had its first look: a futex of threads behind doors.
    pub begins: AtomicU32,
    /// Where the keeper's stack begins, and its control block.
    pub stack: AtomicUsize,
    /// See `stack`.
    pub control_block: AtomicUsize,
    /// Addresses of the doors.
    pub doors: [AtomicU64; DOORS],
    /// An area for each door.
    pub areas: [Areas; DOORS],
}

/// An [`Area`], of which Rust knows nothing but the size: others write it.
#[repr(C)]
pub struct Areas(pub [AtomicU64; size_of::<Area>() / 8]);

impl Door {
    /// Before the process begins: nobody goes through.
    pub const fn new() -> Self {
        Door {
            magic: AtomicU64::new(0),
            claim: AtomicU32::new(NOBODY),
            error: AtomicU32::new(0),
            begins: AtomicU32::new(0),
            stack: AtomicUsize::new(0),
            control_block: AtomicUsize::new(0),
            doors: [const { AtomicU64::new(0) }; DOORS],
            areas: [const { Areas([const { AtomicU64::new(0) }; size_of::<Area>() / 8]) }; DOORS],
        }
    }

    /// Where an area lies in it.
    pub fn area_offset(number: usize) -> usize {
        offset_of!(Door, areas) + number * size_of::<Area>()
    }
}

impl Default for Door {
    fn default() -> Self {
        Self::new()
    }
}

/// The flags of the processor that a door changes, as it sets them again: AH is what `sahf` takes, AL makes
/// the overflow flag.
pub fn packed_flags(rflags: u64) -> u64 {
    const OVERFLOW: u64 = 1 << 11;
    (rflags & 0xff) << 8 | u64::from(rflags & OVERFLOW != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_packed_as_the_door_unpacks_them() {
        // Carry, zero and sign; the bit that is always set; direction and interrupts are not touched by a door.
        assert_eq!(packed_flags(0xc3 | 1 << 9 | 1 << 10), 0xc300);
        assert_eq!(packed_flags(0x02 | 1 << 11), 0x0201);
    }

    #[test]
    fn areas_lie_beside_each_other() {
        assert_eq!(Door::area_offset(1) - Door::area_offset(0), 112);
        assert_eq!(Door::area_offset(DOORS), size_of::<Door>());
    }
}
