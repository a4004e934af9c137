//! Functions by which a program gets much memory at once. The runtime does not notice that fresh memory is
//! filled until its mapping is registered. While the limit is near, the thread that gets the memory waits for
//! the registration; from then on, a thread that touches a new page waits in its fault until there is room
//! (see `faults`).
//!
//! The allocator enlarges its heap by system calls of its own, in small steps that are filled immediately:
//! registration always comes too late. So near the limit small requests are counted as well, and once they
//! add up to a certain amount, the thread itself waits for room. Two kinds of memory do not count. A block
//! that is in the page table and was not unmapped since it was registered needs no registration. Allocators
//! often hand out the same addresses again, so for requests of at least `LARGE` bytes a range that was
//! registered for an earlier request does not count until memory is unmapped or moved, or the process forks.
//! Far from the limit, a small request costs only a few loads and comparisons.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use memfold_shared::page::call;

use crate::interpose::desk;
use crate::interpose::mappings::populate;
use crate::interpose::mappings::ranges;
use crate::interpose::mappings::remembered::{note_watched, was_watched};
use crate::interpose::next::{Next, is_managed, is_paging, keeping_errno};
use crate::kernel::addresses::BLOCK;
use crate::kernel::sys::{self, PAGE, advice};
use crate::pages::table::Block;
use crate::process::begin::MUCH;
use crate::reclaim::hope::Waiting;
use crate::reclaim::watch;
use crate::runtime::RUNTIME;

/// A request of fewer bytes may enlarge the heap, whose new part cannot be registered in time.
pub const LARGE: usize = 64 << 10;
/// Requests of at least this many bytes usually get a mapping of their own.
const ASKED: usize = 128 << 10;
const PRIVATE: c_int = 2;
const FIXED: c_int = 0x10;
/// Usually address space that is only reserved, and never filled.
const NORESERVE: c_int = 0x4000;
const ANONYMOUS: c_int = 0x20;
const POPULATE: c_int = 0x8000;
/// With this flag MAP_POPULATE has no effect.
const NONBLOCK: c_int = 0x10000;
const LOCKED: c_int = 0x2000;
const HUGETLB: c_int = 0x40000;
pub const WRITABLE: c_int = 2;
const FAILED: usize = usize::MAX;

static MMAP: Next = Next::call_of(c"mmap", sys::nr::MMAP);
static MMAP64: Next = Next::call_of(c"mmap64", sys::nr::MMAP);
static MALLOC: Next = Next::library(c"malloc");
static CALLOC: Next = Next::library(c"calloc");
static REALLOC: Next = Next::library(c"realloc");
static POSIX_MEMALIGN: Next = Next::library(c"posix_memalign");
static ALIGNED_ALLOC: Next = Next::library(c"aligned_alloc");
static MEMALIGN: Next = Next::library(c"memalign");
static VALLOC: Next = Next::library(c"valloc");
static PVALLOC: Next = Next::library(c"pvalloc");
static SBRK: Next = Next::library(c"sbrk");
static BRK: Next = Next::library(c"brk");

/// All functions interposed here.
pub static ALL: [&Next; 12] = [
    &MMAP,
    &MMAP64,
    &MALLOC,
    &CALLOC,
    &REALLOC,
    &POSIX_MEMALIGN,
    &ALIGNED_ALLOC,
    &MEMALIGN,
    &VALLOC,
    &PVALLOC,
    &SBRK,
    &BRK,
];

/// Called when the program has requested memory, which it may fill immediately; `at` is 0 if the request
/// failed.
#[inline(always)]
fn got(at: usize, bytes: usize) {
    if at == 0 {
        return;
    }
    note_asked(at, bytes);
    let seen = |block: &Block| !block.stale.load(Relaxed);
    let is_new = || !RUNTIME.pages.table.block(at).is_some_and(seen);
    if RUNTIME.reclaim.watches_growth.load(Relaxed) {
        // For a request of a block or more, the table's block describes only the first part.
        if bytes >= BLOCK || is_new() {
            got_near_limit(at, bytes);
        }
    } else if bytes >= MUCH {
        got_much(at, bytes);
    } else if RUNTIME.reclaim.counts_growth.load(Relaxed) {
        if is_new() {
            got_far(at, bytes);
        }
    } else if RUNTIME.process.call() != call::FAR {
        got_unwatched(at, bytes);
    }
}

/// The same in a process that does not page yet; begins to page if it is time.
#[cold]
fn got_unwatched(at: usize, bytes: usize) {
    let process = &RUNTIME.process;
    let counts = bytes >= LARGE || process.call() == call::NOW || process.paging_wanted.load(Relaxed);
    if !is_managed() || !counts || !RUNTIME.must_begin(bytes) {
        return;
    }
    keeping_errno(|| {
        if RUNTIME.begin() {
            watch(at, bytes);
            wait_for_room();
        }
    });
}

#[cold]
fn got_much(at: usize, bytes: usize) {
    if !is_paging() {
        return got_unwatched(at, bytes);
    }
    if was_watched(at, bytes) {
        return;
    }
    let shared = RUNTIME.shared();
    let unseen = RUNTIME.reclaim.much.fetch_add(bytes, AcqRel).saturating_add(bytes) as u64;
    let limit = shared.limit_bytes.load(Relaxed);
    if shared.tree_resident().saturating_add(unseen) > limit.saturating_sub(watch::room(limit)) {
        keeping_errno(|| watch(at, bytes));
    }
}

/// Adds up large requests. Begins to page if one system call could exceed the limit by filling them.
#[inline(always)]
fn note_asked(at: usize, bytes: usize) {
    if bytes >= ASKED {
        note_much_asked(at, bytes);
    }
}

#[cold]
fn note_much_asked(at: usize, bytes: usize) {
    if !is_managed() {
        return;
    }
    RUNTIME.slot().asked.fetch_add(bytes as u64, Relaxed);
    if RUNTIME.process.call() == call::FAR
        && let Some(untouched) = keeping_errno(|| RUNTIME.could_fill_too_much())
    {
        got_unwatched(at, untouched);
        if !is_paging() {
            // Paging cannot begin now: the next try comes after as many requests again.
            RUNTIME.slot().asked.store(0, Relaxed);
        }
    }
}

/// Has the keeper register all new mappings, and remembers that this range is among them.
fn watch(at: usize, bytes: usize) {
    let changes = RUNTIME.pages.changes.load(Acquire);
    if desk::watch_growth() {
        note_watched(at, bytes, changes);
    }
}

#[cold]
fn got_near_limit(at: usize, bytes: usize) {
    if bytes >= LARGE && was_watched(at, bytes) {
        return;
    }
    count(at, bytes, bytes >= LARGE);
}

/// The same for less than `MUCH` where the limit is not near.
#[cold]
fn got_far(at: usize, bytes: usize) {
    count(at, bytes, false);
}

/// Counts a request. If many were counted, and `always` or if the process owes memory, has new mappings
/// registered and waits for room.
fn count(at: usize, bytes: usize, always: bool) {
    let unseen = RUNTIME.reclaim.unseen_growth.fetch_add(bytes, AcqRel) + bytes;
    let is_much = unseen as i64 >= RUNTIME.reclaim.margin.load(Relaxed) / 8;
    if is_much && is_paging() && (always || owes_with_unseen()) {
        keeping_errno(|| {
            watch(at, bytes);
            wait_for_room();
        });
    }
}

/// If the keeper is late, adds the requests counted so far to the debt. Returns whether the process owes
/// memory.
fn owes_with_unseen() -> bool {
    let reclaim = &RUNTIME.reclaim;
    let (unseen, due) = (reclaim.unseen_growth.swap(0, AcqRel), reclaim.due_ns.load(Relaxed));
    if due != 0 && sys::now_ns() > due {
        reclaim.change_debt(unseen as i64);
    }
    reclaim.debt.load(Relaxed) > 0
}

pub fn wait_for_room() {
    let reclaim = &RUNTIME.reclaim;
    let has_room = || {
        reclaim.debt.load(Acquire) <= reclaim.margin.load(Relaxed) && !reclaim.waits_for_others.load(Relaxed)
    };
    if has_room() {
        return;
    }
    let begin = sys::now_ns();
    RUNTIME.faults.stall.enter(begin);
    let mut waiting = Waiting::new(&RUNTIME);
    while !has_room() && !waiting.is_hopeless(&RUNTIME) && !RUNTIME.forks.is_under_way() && is_paging() {
        let seen = RUNTIME.reclaim.room.now();
        RUNTIME.reclaim.work.ring();
        RUNTIME.reclaim.sleep_for_room(seen);
    }
    let end = sys::now_ns();
    let counters = &RUNTIME.slot().counters;
    counters.throttled_ns.fetch_add(end - begin, Relaxed);
    counters.stalled_ns.fetch_add(RUNTIME.faults.stall.leave(end), Relaxed);
}

/// Called when the program has mapped fresh memory.
pub fn mapped(at: usize, bytes: usize, is_reserved: bool) {
    if !is_reserved {
        note_asked(at, bytes);
    }
    if RUNTIME.reclaim.watches_growth.load(Relaxed) {
        got_near_limit(at, bytes);
    } else if bytes >= MUCH && (!is_reserved || RUNTIME.process.call() != call::FAR || is_paging()) {
        got_much(at, bytes);
    } else if RUNTIME.reclaim.counts_growth.load(Relaxed) {
        got_far(at, bytes);
    } else if RUNTIME.process.call() != call::FAR {
        got_unwatched(at, bytes);
    }
}

/// Called when the program has moved a mapping, or changed its size: what is new is at its end.
pub fn remapped(at: usize, before: usize, bytes: usize) {
    if bytes > before {
        mapped(at + before, bytes - before, false);
    }
}

/// Maps memory, with the arguments of `mmap`, by `map`.
///
/// # Safety
/// The same as for the system call.
pub unsafe fn map(given: [usize; 6], map: impl FnOnce([usize; 6]) -> usize) -> usize {
    let [start, bytes, protection, flags, ..] = given;
    let (protection, flags) = (protection as c_int, flags as c_int);
    let fresh = protection != 0 && flags & (PRIVATE | ANONYMOUS | HUGETLB) == PRIVATE | ANONYMOUS;
    let fill = fresh && flags & (POPULATE | NONBLOCK) == POPULATE && populate::could_exceed_limit(bytes);
    let flags = if fill { flags & !POPULATE } else { flags };
    let at = map([start, bytes, protection as usize, flags as usize, given[4], given[5]]);
    // What the program requested for an earlier mapping here (lock, DONTFORK, WIPEONFORK) does not apply to
    // the new one.
    if flags & FIXED != 0 && at != FAILED && ranges::is_any() {
        keeping_errno(|| ranges::forget(at, at + bytes.next_multiple_of(PAGE)));
    }
    if fresh && at != FAILED {
        mapped(at, bytes, flags & NORESERVE != 0);
    }
    if fresh && at != FAILED && flags & LOCKED != 0 && is_managed() {
        keeping_errno(|| crate::interpose::mappings::locked::note(at, bytes));
    }
    if fill && at != FAILED {
        let advice = if protection & WRITABLE != 0 { advice::POPULATE_WRITE } else { advice::POPULATE_READ };
        // SAFETY: the mapping was just made for the caller, which does not have it yet.
        let fill = |start, bytes| unsafe { sys::madvise(start, bytes, advice) }.is_ok();
        // As with MAP_POPULATE, failure is not reported.
        keeping_errno(|| populate::in_pieces(at, bytes, fill));
    }
    at
}

/// Defines functions that map memory.
macro_rules! maps {
    ($($name:ident is $next:ident;)+) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                start: usize,
                bytes: usize,
                protection: c_int,
                flags: c_int,
                file: c_int,
                offset: usize,
            ) -> usize {
                let given = [start, bytes, protection as usize, flags as usize, file as usize, offset];
                // SAFETY: the caller upholds the contract.
                unsafe { map(given, |given| $next.call(given) as usize) }
            }
        )+
    };
}

maps! {
    mmap is MMAP;
    mmap64 is MMAP64;
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { MALLOC.call([bytes]) } as usize;
    got(at, bytes);
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { CALLOC.call([count, bytes]) } as usize;
    got(at, count.wrapping_mul(bytes));
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: usize, bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { REALLOC.call([old, bytes]) } as usize;
    got(at, bytes);
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut usize, alignment: usize, bytes: usize) -> c_int {
    // SAFETY: the caller upholds the contract.
    let failed = unsafe { POSIX_MEMALIGN.call([place as usize, alignment, bytes]) } as c_int;
    // SAFETY: written by the call that succeeded.
    got(if failed == 0 { unsafe { *place } } else { 0 }, bytes);
    failed
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { ALIGNED_ALLOC.call([alignment, bytes]) } as usize;
    got(at, bytes);
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { MEMALIGN.call([alignment, bytes]) } as usize;
    got(at, bytes);
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { VALLOC.call([bytes]) } as usize;
    got(at, bytes);
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { PVALLOC.call([bytes]) } as usize;
    got(at, bytes);
    at
}

/// Replaces the C library's function, by which some allocators enlarge the heap. The C library's own
/// allocator does not call this one.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk(more: isize) -> usize {
    // SAFETY: the caller upholds the contract.
    let at = unsafe { SBRK.call([more as usize]) } as usize;
    if more > 0 && at != FAILED {
        got(at, more as usize);
    }
    at
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brk(end: usize) -> c_int {
    // SAFETY: changes nothing.
    let before = unsafe { SBRK.call([0]) } as usize;
    // SAFETY: the caller upholds the contract.
    let failed = unsafe { BRK.call([end]) } as c_int;
    if failed == 0 && before != FAILED && end > before {
        got(before, end - before);
    }
    failed
}
