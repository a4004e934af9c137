//! The door: how the supervisor gives a process its keeper.
//!
//! A process that is far from its limit has no thread of memfold, and may approach the limit just by touching
//! memory, which calls no function of the library. So the supervisor, which watches it from outside, briefly
//! stops one of its threads (ptrace), records where the thread was, and lets it continue at one of the doors:
//! code that starts the keeper by a raw `clone` and then continues where the thread was, with all its
//! registers restored.
//!
//! ```text
//!  thread of the program ── ptrace stop ──┐                     ┌── goes on, as if nothing had happened
//!                                         └─> door i ── clone ──┤
//!                            (registers are in areas[i])        └── keeper
//! ```
//!
//! A signal would not do: it would wait while it is blocked, the program may have a handler of its own (Go
//! has one for every signal), and it would make system calls return `EINTR`.
//!
//! A new keeper needs a millisecond or two of CPU time, and on a busy machine it first waits for a CPU. A
//! thread that continued at once would fill memory that is not evicted yet. So near the limit it waits behind
//! the door until the keeper has looked once. It waits at most 100 ms, because it may hold a lock that the
//! keeper needs.
//!
//! Invariants:
//! - Once the supervisor has redirected the thread, the supervisor is not needed any more: it may end at any
//!   moment.
//! - A door uses no stack, so a signal may arrive in the middle of it. It changes no registers but those in
//!   its area.
//! - A thread is sent only through a door that no other thread is in, and never from inside a door: it would
//!   return into the door, for ever if it is the same one. Threads that are stopped at the same time go
//!   through different doors.
//! - A door's last instruction reads the return address from its area, after the area was marked free. A
//!   thread can be delayed right there. So an area is not written again within ten seconds after a thread was
//!   sent.
//! - A thread that starts the keeper, at a door too, has changed `claim` from [`NOBODY`] to [`TAKEN`].

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// Number of doors in a process.
pub const DOORS: usize = 8;
/// [`Door::magic`] once the doors may be used.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mf door2");
/// Stands in place of a door's address for a process that is built with a sanitizer: it cannot have threads
/// of memfold.
pub const SANITIZER: u64 = 1;
/// The message about such a process when its limit comes near.
pub const SANITIZED: &str =
    "it is built with a sanitizer (-fsanitize=address, leak, thread ...): this process is not managed";
/// [`Door::claim`]: there is no keeper. (The kernel writes this when a keeper has ended.)
pub const NOBODY: u32 = 0;
/// There is a keeper, or one is being started.
pub const TAKEN: u32 = 1;
/// There must never be a keeper.
pub const NEVER: u32 = 2;

/// The state of a thread when it was sent through a door, which is restored behind it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Area {
    /// The address at which it continues.
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
    /// A thread was sent through, and has not finished reading this yet; the door clears it.
    pub busy: u64,
    /// When it was sent, ns of the monotonic clock; the door does not change this.
    pub sent_ns: u64,
    /// 1: it waits until the keeper has had its first look; 0: it continues at once.
    pub waits: u64,
}

/// The part of a process that the supervisor reads and writes. All fields are plain numbers.
#[repr(C)]
pub struct Door {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`NOBODY`], [`TAKEN`] or [`NEVER`].
    pub claim: AtomicU32,
    /// The last error of a door's `clone`, negative.
    pub error: AtomicU32,
    /// 1 until a keeper that was started by a door has had its first look: a futex for threads behind doors.
    pub begins: AtomicU32,
    /// The start of the keeper's stack, and its control block.
    pub stack: AtomicUsize,
    /// See `stack`.
    pub control_block: AtomicUsize,
    /// Addresses of the doors.
    pub doors: [AtomicU64; DOORS],
    /// An area for each door.
    pub areas: [Areas; DOORS],
}

/// An [`Area`] as plain numbers, since the supervisor and the doors write it.
#[repr(C)]
pub struct Areas(pub [AtomicU64; size_of::<Area>() / 8]);

impl Door {
    /// The state before the process begins: no thread goes through.
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

    /// The offset of an area in it.
    pub fn area_offset(number: usize) -> usize {
        offset_of!(Door, areas) + number * size_of::<Area>()
    }
}

impl Default for Door {
    fn default() -> Self {
        Self::new()
    }
}

/// The processor flags that a door changes, in the form in which it restores them: AH is the operand of
/// `sahf`, AL produces the overflow flag.
pub fn packed_flags(rflags: u64) -> u64 {
    const OVERFLOW: u64 = 1 << 11;
    (rflags & 0xff) << 8 | u64::from(rflags & OVERFLOW != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_packed_as_the_door_unpacks_them() {
        // Carry, zero and sign, and the bit that is always set; a door does not change the direction and
        // interrupt flags.
        assert_eq!(packed_flags(0xc3 | 1 << 9 | 1 << 10), 0xc300);
        assert_eq!(packed_flags(0x02 | 1 << 11), 0x0201);
    }

    #[test]
    fn areas_lie_beside_each_other() {
        assert_eq!(Door::area_offset(1) - Door::area_offset(0), 112);
        assert_eq!(Door::area_offset(DOORS), size_of::<Door>());
    }
}
