//! Sessions that are forgotten (`mem::forget`) keep little memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::forget;

use memfold::heap::{Heap, Options};

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

// SAFETY: the system's allocator serves every call.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The heap's own tables count, too.
#[test]
fn a_session_that_was_used_and_forgotten_keeps_about_a_kib() {
    let mut heap = Heap::new(Options::new()).unwrap();
    let node = heap.session().unwrap().put_bytes(&[1; 9000]).unwrap();
    let before = BYTES.get();
    for _ in 0..10_000 {
        let session = heap.session().unwrap();
        session.read_at(node, 0, &mut [0; 4]).unwrap();
        forget(session);
    }
    let each = (BYTES.get() - before) / 10_000;
    println!("{each} bytes for each session");
    assert!(each < 1200, "{each}");
    assert_eq!(heap.check(), Ok(()));
}
