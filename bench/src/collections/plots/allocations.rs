//! Counts a thread's calls to the system's allocator, to tell operations that allocated from those that did not.
//!
//! It counts in all runs of this program, for all structures in Rust alike; counting costs one addition per
//! allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has allocated so far.
#[inline(always)]
pub fn count() -> u64 {
    COUNT.get()
}

fn add() {
    // A thread that is ending may free and allocate after its locals have been destroyed.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all calls go to the system's allocator unchanged; the count neither allocates nor unwinds. There is no
// safe way to observe a program's allocations.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add();
        // SAFETY: the caller's guarantees are those that the system requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        add();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
