//! Robust mutexes of threads that end.
//!
//! When a thread ends, the kernel walks the list of robust mutexes that it still holds, and marks each, so
//! that the next thread that locks it learns of it (`EOWNERDEAD`). No fault can be served then: at an evicted
//! or protected page the kernel gives up, and all mutexes from there on stay locked for ever. So their pages
//! are restored before, and never evicted again.
//!
//! ```text
//!   control block: │ ... │ head ─> next │ offset of locks │ pending │ ...       head alone: next is head
//!                                   └──> next in a mutex ──> next in another ──> ... ──> head
//! ```
//!
//! This is done by a destructor of thread-specific data. The C library calls those however a thread ends, if
//! it does not end by its own system call. Destructors of the program may come later, and lock or unlock
//! mutexes; so ours asks to be called in each of the C library's rounds.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::dlsym;
use super::threads::{known_control_block, thread_pointer};
use crate::kernel::addresses::END;
use crate::kernel::sys::PAGE;
use crate::memory::patience::Patience;
use crate::process::here;
use crate::runtime::{RUNTIME, Runtime};

/// The C library's rounds of destructors (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: usize = 4;
/// Values of keys below this one lie in the control block: setting them allocates nothing.
const KEYS: usize = 32;
/// The kernel marks no more mutexes than this (`ROBUST_LIST_LIMIT`).
const MOST: usize = 2048;
/// The lock of one of glibc's mutexes, relative to its place in the list.
const LOCK_AT: isize = -32;
/// How long an ending thread waits for evictions that are under way, in ns. On a busy machine, the threads
/// that evict may have to wait long for a CPU.
const WAITS: u64 = 10_000_000_000;

/// No key was made so far.
const UNKNOWN: usize = usize::MAX;
/// There is no key that can be used.
const NONE: usize = usize::MAX - 1;

/// The number of our key.
static KEY: AtomicUsize = AtomicUsize::new(UNKNOWN);
/// The C library's `pthread_setspecific`.
static SET: AtomicUsize = AtomicUsize::new(0);
/// The head of a thread's list, relative to its thread pointer; 0: not known.
static HEAD: AtomicUsize = AtomicUsize::new(0);

/// Asks the C library to call [`ending`] when the calling thread ends.
pub fn arm() {
    if KEY.load(Acquire) == UNKNOWN {
        prepare();
    }
    if KEY.load(Acquire) < KEYS {
        set(1);
    }
}

/// Makes the key, if the C library is one that is known here.
fn prepare() {
    let Some(head) = find_head() else { return };
    // SAFETY: looks names up.
    let [make, set] = [c"pthread_key_create", c"pthread_setspecific"]
        .map(|name| unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) } as usize);
    if make == 0 || set == 0 {
        return;
    }
    // SAFETY: the C library's function of this type.
    let make: extern "C" fn(*mut u32, extern "C" fn(*mut c_void)) -> c_int =
        unsafe { core::mem::transmute(make) };
    HEAD.store(head, Relaxed);
    SET.store(set, Relaxed);
    let mut number = 0;
    let made = make(&mut number, ending) == 0 && (number as usize) < KEYS;
    // A process has only 1024 keys, so this is tried once, whatever comes of it. If two threads get here at
    // the same time, one of the two keys remains unused.
    let key = if made { number as usize } else { NONE };
    let _ = KEY.compare_exchange(UNKNOWN, key, AcqRel, Acquire);
}

fn set(round: usize) {
    // SAFETY: the C library's function of this type.
    let set: extern "C" fn(u32, usize) -> c_int = unsafe { core::mem::transmute(SET.load(Relaxed)) };
    set(KEY.load(Acquire) as u32, round);
}

/// Looks for the head of the calling thread's list. The thread must hold no robust mutex: it has just begun.
fn find_head() -> Option<usize> {
    let (pointer, bytes) = (thread_pointer(), known_control_block()?);
    #[cfg(target_arch = "x86_64")]
    let from = pointer;
    #[cfg(target_arch = "aarch64")]
    let from = pointer - bytes;
    // SAFETY: the control block is readable, and the head lies in it as a whole.
    let word = |at: usize| unsafe { core::ptr::read_volatile(at as *const usize) };
    (from..from + bytes - 16)
        .step_by(8)
        .find(|&at| word(at) == at && word(at + 8) as isize == LOCK_AT && word(at + 16) == 0)
        .map(|at| at.wrapping_sub(pointer))
}

/// The destructor.
extern "C" fn ending(round: *mut c_void) {
    let round = round as usize;
    if round < ROUNDS {
        set(round + 1);
    }
    if here::is_managed() {
        RUNTIME.restore_robust(thread_pointer().wrapping_add(HEAD.load(Relaxed)));
    }
}

impl Runtime {
    /// Restores all mutexes of the list with this head, as far as the list is intact.
    fn restore_robust(&self, head: usize) {
        // SAFETY: the head lies in the control block of the calling thread.
        let [mut entry, offset, pending] =
            [0, 8, 16].map(|at| unsafe { core::ptr::read_volatile((head + at) as *const usize) });
        let mut patience = Patience::new(WAITS);
        for _ in 0..MOST {
            // The lowest bit says that the mutex inherits priorities.
            let at = entry & !1;
            if at == head || !self.restore_mutex(at, offset, &mut patience) {
                break;
            }
            // SAFETY: this word is readable.
            entry = unsafe { core::ptr::read_volatile(at as *const usize) };
        }
        if pending != 0 {
            self.restore_mutex(pending & !1, offset, &mut patience);
        }
    }

    /// Restores the mutex whose place in the list is `at`, and keeps it from being evicted. False if there is
    /// none: the program has unmapped it.
    fn restore_mutex(&self, at: usize, offset: usize, patience: &mut Patience) -> bool {
        let lock = at.wrapping_add(offset);
        if !at.is_multiple_of(8) || at.max(lock) >= END || at.abs_diff(lock) > PAGE {
            return false;
        }
        let (from, to) = (at.min(lock) & !(PAGE - 1), (at.max(lock) + 8).next_multiple_of(PAGE));
        if !self.pages.keep_out.add_pages(&self.arena, from, to) {
            return false;
        }
        // An eviction that has chosen these pages before holds this lock.
        self.pages.order.wait_for_holder(patience);
        self.restore_for_writes(from, to)
    }
}
