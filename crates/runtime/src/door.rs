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
    areas: [Areas; DOORS],
}

/// An [`Area`], of which Rust knows nothing but the size: others write it.
#[repr(C)]
struct Areas([AtomicU64; size_of::<Area>() / 8]);

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

#[cfg(all(target_os = "linux", feature = "preload"))]
pub use inside::*;

/// The side of the process.
#[cfg(all(target_os = "linux", feature = "preload"))]
mod inside {
    use core::sync::atomic::Ordering::*;

    use super::*;

    /// The one of this process.
    pub static DOOR: Door = Door::new();

    /// Takes the right to start the keeper.
    pub fn claim() -> bool {
        DOOR.claim.compare_exchange(NOBODY, TAKEN, AcqRel, Relaxed).is_ok()
    }

    /// Makes sure that there never is a keeper; `false` if there is one.
    pub fn forbid() -> bool {
        match DOOR.claim.compare_exchange(NOBODY, NEVER, AcqRel, Relaxed) {
            Ok(_) => true,
            Err(now) => now == NEVER,
        }
    }

    /// Gives up a claim, or forgets the parent's in a forked child.
    pub fn release() {
        DOOR.claim.store(NOBODY, Release);
    }

    /// Lets those go on who wait behind doors: the keeper has had its first look, or ends.
    pub fn let_go() {
        if DOOR.begins.swap(0, AcqRel) != 0 {
            crate::sys::futex_wake(&DOOR.begins, crate::sys::ALL, false);
        }
    }

    /// Whether there is a keeper, or somebody starts one just now.
    pub fn has_keeper() -> bool {
        DOOR.claim.load(Acquire) == TAKEN
    }

    /// Ends the calling thread, the keeper. Another can be started as soon as it is gone, and uses its stack
    /// no more: the kernel says so.
    pub fn leave() -> ! {
        const SET_TID_ADDRESS: usize = crate::sys::nr::SET_TID_ADDRESS;
        // SAFETY: when the thread is gone the kernel writes a zero there, which is `NOBODY`.
        let _ =
            unsafe { crate::sys::syscall(SET_TID_ADDRESS, [DOOR.claim.as_ptr() as usize, 0, 0, 0, 0, 0]) };
        crate::thread::exit()
    }

    /// Opens the doors: a thread that comes through one lives with this stack and control block. The address
    /// for the slot; 0 where there are no doors.
    pub fn open(stack: usize, control_block: usize) -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            DOOR.stack.store(stack, Relaxed);
            DOOR.control_block.store(control_block, Relaxed);
            // SAFETY: the table is made below, and never changes.
            let table = unsafe { memfold_doors };
            for (to, door) in DOOR.doors.iter().zip(table) {
                to.store(door, Relaxed);
            }
            // In a forked child: nobody is on his way.
            DOOR.begins.store(0, Relaxed);
            let busy = offset_of!(Area, busy) / size_of::<u64>();
            DOOR.areas.iter().for_each(|area| area.0[busy].store(0, Relaxed));
            DOOR.magic.store(MAGIC, Release);
            &raw const DOOR as u64
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            // The last jump of a door needs a register, and all belong to the program.
            let _ = (stack, control_block);
            0
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe extern "C" {
        static memfold_doors: [u64; DOORS];
    }

    #[cfg(target_arch = "x86_64")]
    extern "C" fn behind_door() -> ! {
        crate::interpose::credentials::join_late();
        crate::watch::keeper(0)
    }

    // Block all signals; claim; clone; wait, if it is to; unblock; go on. The flags are restored without a stack:
    // `add` makes the overflow flag, `sahf` the others.
    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        ".macro memfold_door i",
        ".Lmemfold_door_\\i:",
        "mov edi, 2",
        "lea rsi, [rip + .Lmemfold_all_signals]",
        "lea rdx, [rip + {door} + {areas} + \\i * {size} + {mask}]",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "xor eax, eax",
        "mov ecx, {taken}",
        "lock cmpxchg dword ptr [rip + {door} + {claim}], ecx",
        "jne 4f",
        "mov dword ptr [rip + {door} + {begins}], 1",
        "mov edi, {flags}",
        "mov rsi, [rip + {door} + {stack}]",
        "xor edx, edx",
        "xor r10d, r10d",
        "mov r8, [rip + {door} + {control_block}]",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz .Lmemfold_behind_door",
        "jns 4f",
        "mov dword ptr [rip + {door} + {error}], eax",
        "mov dword ptr [rip + {door} + {begins}], 0",
        "mov dword ptr [rip + {door} + {claim}], {nobody}",
        "4:",
        "cmp qword ptr [rip + {door} + {areas} + \\i * {size} + {waits}], 0",
        "je 5f",
        "lea rdi, [rip + {door} + {begins}]",
        "mov esi, {futex_wait}",
        "mov edx, 1",
        "lea r10, [rip + .Lmemfold_longest]",
        "mov eax, {futex}",
        "syscall",
        "5:",
        "mov edi, 2",
        "lea rsi, [rip + {door} + {areas} + \\i * {size} + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "mov eax, dword ptr [rip + {door} + {areas} + \\i * {size} + {packed}]",
        "add al, 0x7f",
        "sahf",
        "mov rax, [rip + {door} + {areas} + \\i * {size} + {rax}]",
        "mov rcx, [rip + {door} + {areas} + \\i * {size} + {rcx}]",
        "mov rdx, [rip + {door} + {areas} + \\i * {size} + {rdx}]",
        "mov rsi, [rip + {door} + {areas} + \\i * {size} + {rsi}]",
        "mov rdi, [rip + {door} + {areas} + \\i * {size} + {rdi}]",
        "mov r8, [rip + {door} + {areas} + \\i * {size} + {r8}]",
        "mov r10, [rip + {door} + {areas} + \\i * {size} + {r10}]",
        "mov r11, [rip + {door} + {areas} + \\i * {size} + {r11}]",
        "mov qword ptr [rip + {door} + {areas} + \\i * {size} + {busy}], 0",
        "jmp qword ptr [rip + {door} + {areas} + \\i * {size} + {rip}]",
        ".endm",
        ".pushsection .text.memfold_doors, \"ax\", @progbits",
        "memfold_door 0",
        "memfold_door 1",
        "memfold_door 2",
        "memfold_door 3",
        "memfold_door 4",
        "memfold_door 5",
        "memfold_door 6",
        "memfold_door 7",
        // A new thread has the flags and the rounding of the one that was sent through the door.
        ".Lmemfold_behind_door:",
        "push 0x202",
        "popfq",
        "fninit",
        "push 0x1f80",
        "ldmxcsr [rsp]",
        "pop rax",
        "xor ebp, ebp",
        "call {behind}",
        "ud2",
        ".p2align 3",
        ".Lmemfold_all_signals:",
        ".quad -1",
        ".Lmemfold_longest:",
        ".quad 0, 100000000",
        ".popsection",
        ".pushsection .data.rel.ro.memfold_doors, \"aw\", @progbits",
        ".globl memfold_doors",
        ".hidden memfold_doors",
        ".p2align 3",
        "memfold_doors:",
        ".quad .Lmemfold_door_0, .Lmemfold_door_1, .Lmemfold_door_2, .Lmemfold_door_3",
        ".quad .Lmemfold_door_4, .Lmemfold_door_5, .Lmemfold_door_6, .Lmemfold_door_7",
        ".popsection",
        ".purgem memfold_door",
        door = sym DOOR,
        behind = sym behind_door,
        areas = const offset_of!(Door, areas),
        size = const size_of::<Area>(),
        mask = const offset_of!(Area, mask),
        busy = const offset_of!(Area, busy),
        packed = const offset_of!(Area, flags),
        rip = const offset_of!(Area, rip),
        rax = const offset_of!(Area, rax),
        rcx = const offset_of!(Area, rcx),
        rdx = const offset_of!(Area, rdx),
        rsi = const offset_of!(Area, rsi),
        rdi = const offset_of!(Area, rdi),
        r8 = const offset_of!(Area, r8),
        r10 = const offset_of!(Area, r10),
        r11 = const offset_of!(Area, r11),
        claim = const offset_of!(Door, claim),
        error = const offset_of!(Door, error),
        begins = const offset_of!(Door, begins),
        waits = const offset_of!(Area, waits),
        futex = const crate::sys::nr::FUTEX,
        futex_wait = const crate::sys::FUTEX_WAIT_PRIVATE,
        stack = const offset_of!(Door, stack),
        control_block = const offset_of!(Door, control_block),
        taken = const TAKEN,
        nobody = const NOBODY,
        flags = const crate::thread::OWN_FLAGS,
        clone = const crate::sys::nr::CLONE,
        sigprocmask = const crate::sys::nr::SIGPROCMASK,
    );
}

/// Without the library there is nobody to be started.
#[cfg(all(target_os = "linux", not(feature = "preload")))]
mod outside {
    /// See `inside`.
    pub fn claim() -> bool {
        false
    }
    /// See `inside`.
    pub fn forbid() -> bool {
        true
    }
    /// See `inside`.
    pub fn release() {}
    /// See `inside`.
    pub fn let_go() {}
    /// See `inside`.
    pub fn has_keeper() -> bool {
        false
    }
    /// See `inside`.
    pub fn leave() -> ! {
        crate::thread::exit()
    }
    /// See `inside`.
    pub fn open(_: usize, _: usize) -> u64 {
        0
    }
}
#[cfg(all(target_os = "linux", not(feature = "preload")))]
pub use outside::*;

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
