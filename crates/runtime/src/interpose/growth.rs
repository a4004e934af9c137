//! Functions by which a program gets much memory at once. What it gets is
//! fresh, so the runtime is told nothing when it is filled, until its mapping
//! is registered. While the limit is near, the thread that gets it waits for
//! that; from then on filling it waits for room, page by page (`fault.rs`).
//!
//! The allocator makes its heap larger by system calls of its own, in small
//! steps that are filled at once: registering what is there always comes too
//! late. So near the limit small requests are counted too, and after some of
//! them their thread waits for room itself. Far from it each request pays for one look.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use super::desk;
use super::next::{Next, is_paging, keeping_errno};
use crate::runtime::RUNTIME;
use crate::sys;

/// Requests below this make the heap grow, if anything: what it has grown by can't be watched, bytes.
const LARGE: usize = 64 << 10;
/// Nobody waits longer than this for room, ns.
const WAIT_NS: u64 = 2_000_000_000;
const PRIVATE: c_int = 2;
const ANONYMOUS: c_int = 0x20;
const FAILED: usize = usize::MAX;

static MMAP: Next = Next::call_of(c"mmap", sys::nr::MMAP);
static MMAP64: Next = Next::call_of(c"mmap64", sys::nr::MMAP);
static MALLOC: Next = Next::library(c"malloc");
static CALLOC: Next = Next::library(c"calloc");
static REALLOC: Next = Next::library(c"realloc");
static POSIX_MEMALIGN: Next = Next::library(c"posix_memalign");
static ALIGNED_ALLOC: Next = Next::library(c"aligned_alloc");

/// All of them.
pub static ALL: [&Next; 7] = [&MMAP, &MMAP64, &MALLOC, &CALLOC, &REALLOC, &POSIX_MEMALIGN, &ALIGNED_ALLOC];

/// The program has got memory that it may fill at once, if `done`.
#[inline(always)]
fn got(done: bool, bytes: usize) {
    if !done {
        return;
    }
    if RUNTIME.watches_growth.load(Relaxed) {
        got_near_limit(bytes);
    }
}

#[cold]
fn got_near_limit(bytes: usize) {
    let unseen = RUNTIME.unseen_growth.fetch_add(bytes, AcqRel) + bytes;
    let margin = RUNTIME.margin.load(Relaxed);
    if (unseen as i64) < margin / 8 || !is_paging() {
        return;
    }
    if bytes < LARGE && RUNTIME.debt.load(Relaxed) <= 0 {
        RUNTIME.unseen_growth.store(0, Relaxed);
        return;
    }
    keeping_errno(|| {
        desk::watch_growth();
        let begin = sys::now_ns();
        while RUNTIME.debt.load(Acquire) > margin
            && !RUNTIME.exhausted.load(Relaxed)
            && !RUNTIME.hopeless.load(Relaxed)
            && RUNTIME.pause.load(Relaxed) == 0
            && is_paging()
            && sys::now_ns() - begin < WAIT_NS
        {
            let seen = RUNTIME.room.now();
            RUNTIME.work.ring();
            RUNTIME.room.wait(seen, 1_000_000);
        }
    });
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    start: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: usize,
) -> usize {
    let given = [start, bytes, protection as usize, flags as usize, file as usize, offset];
    // SAFETY: passed on to the caller.
    let at = unsafe { MMAP.call(given) } as usize;
    mapped(at, bytes, protection, flags);
    at
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    start: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: usize,
) -> usize {
    let given = [start, bytes, protection as usize, flags as usize, file as usize, offset];
    // SAFETY: passed on to the caller.
    let at = unsafe { MMAP64.call(given) } as usize;
    mapped(at, bytes, protection, flags);
    at
}

#[inline(always)]
fn mapped(at: usize, bytes: usize, protection: c_int, flags: c_int) {
    let fresh = protection != 0 && flags & (PRIVATE | ANONYMOUS) == PRIVATE | ANONYMOUS;
    got(at != FAILED && fresh, bytes);
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> usize {
    // SAFETY: passed on to the caller.
    let at = unsafe { MALLOC.call([bytes]) } as usize;
    got(at != 0, bytes);
    at
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> usize {
    // SAFETY: passed on to the caller.
    let at = unsafe { CALLOC.call([count, bytes]) } as usize;
    got(at != 0, count.wrapping_mul(bytes));
    at
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: usize, bytes: usize) -> usize {
    // SAFETY: passed on to the caller.
    let at = unsafe { REALLOC.call([old, bytes]) } as usize;
    got(at != 0, bytes);
    at
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut usize, alignment: usize, bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    let failed = unsafe { POSIX_MEMALIGN.call([place as usize, alignment, bytes]) } as c_int;
    got(failed == 0, bytes);
    failed
}

/// As the C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> usize {
    // SAFETY: passed on to the caller.
    let at = unsafe { ALIGNED_ALLOC.call([alignment, bytes]) } as usize;
    got(at != 0, bytes);
    at
}
