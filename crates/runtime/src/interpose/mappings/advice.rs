//! `madvise`, `munmap` and `mprotect`: advice about forks, which ends together with a mapping.
//!
//! A range under `MADV_WIPEONFORK` is empty in the child, and the kernel sees to that. So none of it may be
//! in the page table: the range is restored and kept out. `MADV_DONTFORK` is remembered, because the runtime
//! uses the same mark for its own purposes. Threads are counted while they discard memory: see
//! `Order::was_removed_lately`.
//!
//! Making guard pages discards the contents, but the kernel does not report that. So the contents are
//! discarded once more, in a way that is reported.
//!
//! Memory that becomes writable counts like memory that is mapped: allocators reserve address space without
//! access, and give the program parts of it.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use crate::interpose::desk;
use crate::interpose::mappings::growth::{self, WRITABLE};
use crate::interpose::mappings::populate;
use crate::interpose::mappings::ranges::{self, PROGRAM_DONTFORK, PROGRAM_WIPED};
use crate::interpose::next::{Next, is_managed, is_paging, keeping_errno};
use crate::kernel::sys::{self, PAGE, advice};
use crate::process::begin::MUCH;
use crate::runtime::RUNTIME;

const KEEPONFORK: usize = 19;
const FREE: usize = 8;
const DONTNEED_LOCKED: usize = 24;

static MADVISE: Next = Next::call_of(c"madvise", sys::nr::MADVISE);
static MUNMAP: Next = Next::call_of(c"munmap", sys::nr::MUNMAP);
static MPROTECT: Next = Next::call_of(c"mprotect", sys::nr::MPROTECT);

/// All functions interposed here.
pub static ALL: [&Next; 3] = [&MADVISE, &MUNMAP, &MPROTECT];

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(start: usize, bytes: usize, advice: c_int) -> c_int {
    let advice = advice as usize;
    let about_fork = matches!(advice, advice::WIPEONFORK | KEEPONFORK | advice::DONTFORK | advice::DOFORK);
    let discards = matches!(advice, advice::DONTNEED | FREE | DONTNEED_LOCKED | advice::GUARD_INSTALL);
    if discards {
        RUNTIME.pages.discarding.fetch_add(1, SeqCst);
    }
    let end = start.saturating_add(bytes).next_multiple_of(PAGE);
    // Before the call, since another thread may fork in between.
    if advice == advice::DONTFORK && is_managed() {
        keeping_errno(|| PROGRAM_DONTFORK.add(start, end));
    }
    // SAFETY: the caller upholds the contract.
    let advise = |start: usize, bytes: usize| unsafe { MADVISE.call([start, bytes, advice]) } as c_int;
    let fills = matches!(advice, advice::POPULATE_READ | advice::POPULATE_WRITE)
        && start.checked_add(bytes).is_some()
        && populate::could_exceed_limit(bytes)
        && populate::takes_memory(start);
    let result = if fills {
        populate::in_pieces(start, bytes, |start, bytes| advise(start, bytes) == 0) as c_int - 1
    } else {
        advise(start, bytes)
    };
    if advice == advice::GUARD_INSTALL && result == 0 && is_paging() {
        // An eviction that moves guards without noticing them recreates them in place, which must not happen
        // after the program has removed them. An eviction that begins from here on sees the guards and leaves
        // them alone.
        keeping_errno(desk::let_evictions_end);
        // A page that was just being restored may have arrived after the guards and replaced some, so install
        // them again.
        for again in [advice::DONTNEED, advice] {
            // SAFETY: the range holds only guards, and pages whose contents the guards have discarded.
            let _ = keeping_errno(|| unsafe { sys::madvise(start, bytes, again) });
        }
    }
    if discards {
        RUNTIME.pages.discarding.fetch_sub(1, SeqCst);
    }
    if about_fork && is_managed() {
        if result == 0 {
            keeping_errno(|| note(start, end, advice));
        } else if advice == advice::DONTFORK {
            keeping_errno(|| PROGRAM_DONTFORK.remove(start, end));
        }
    }
    result
}

#[cold]
fn note(start: usize, end: usize, advice: usize) {
    match advice {
        advice::WIPEONFORK => {
            PROGRAM_WIPED.add(start, end);
            if is_paging() {
                desk::let_evictions_end();
                RUNTIME.restore_range(start, end);
            }
        }
        KEEPONFORK => PROGRAM_WIPED.remove(start, end),
        advice::DOFORK => PROGRAM_DONTFORK.remove(start, end),
        _ => {}
    }
}

/// Replaces the C library's function. A later mapping at the same place must not inherit the marks of this one.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: usize, bytes: usize) -> c_int {
    // SAFETY: the caller upholds the contract.
    let result = unsafe { MUNMAP.call([start, bytes]) } as c_int;
    if result == 0 && ranges::is_any() {
        keeping_errno(|| ranges::forget(start, start + bytes.next_multiple_of(PAGE)));
    }
    result
}

/// Replaces the C library's function. Less than `MUCH` does not count: programs that generate code make small
/// pieces of it writable again and again.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: usize, bytes: usize, protection: c_int) -> c_int {
    // SAFETY: the caller upholds the contract.
    let result = unsafe { MPROTECT.call([start, bytes, protection as usize]) } as c_int;
    if bytes >= MUCH && protection & WRITABLE != 0 && result == 0 {
        growth::mapped(start, bytes, false);
    }
    result
}
