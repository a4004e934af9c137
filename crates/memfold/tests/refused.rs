//! The system refuses memory while a collection is checked: the check says so, and the program goes on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use memfold::collections::table::Columns;
use memfold::collections::tree::At;
use memfold::collections::{Table, Tree};
use memfold::heap::{Heap, Limit, Options};

/// Allocations of this many bytes or more are large: a heap with small blocks makes none while it is read.
const LARGE: usize = 64 << 10;

thread_local! {
    /// Large allocations that this thread still gets before all further ones are refused.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The system's allocator, except that it refuses large allocations when told to.
struct Refusing;

fn is_refused(bytes: usize) -> bool {
    let Some(left) = LEFT.get().filter(|_| bytes >= LARGE) else { return false };
    LEFT.set(Some(left.saturating_sub(1)));
    left == 0
}

// SAFETY: the system's allocator serves every call that is not refused, and a refusal is null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller guarantees.
        if is_refused(layout.size()) { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller guarantees.
        if is_refused(bytes) { null_mut() } else { unsafe { System.realloc(start, layout, bytes) } }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Calls `look` with ever more large allocations granted, until it succeeds. Returns how often memory was
/// refused.
fn refusals(look: impl Fn() -> Result<(), String>) -> u64 {
    let mut granted = 0;
    loop {
        LEFT.set(Some(granted));
        let looked = look();
        LEFT.set(None);
        match looked {
            Ok(()) => return granted,
            Err(what) => {
                assert!(what.ends_with("can't be looked at: the system has no more memory"), "{what}")
            }
        }
        granted += 1;
    }
}

fn heap() -> Heap {
    Heap::new(Options::new().limit(Limit::Blocks(8)).block_size(4 << 10)).unwrap()
}

#[test]
fn a_table_that_can_not_be_looked_at() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut columns = Columns::new();
    let (number, name) = (columns.add::<u64>(), columns.add::<str>());
    let mut table = Table::new(&session, &columns);
    for at in 0..20_000u64 {
        let row = table.add_row().unwrap();
        table.set(row, number, &at).unwrap();
        table.set(row, name, "name").unwrap();
    }
    assert_eq!(table.check(), Ok(()));
    // The check lists the rows, and then the names: each list grows several times.
    let refused = refusals(|| table.check());
    assert!(refused >= 4, "{refused}");
    assert_eq!((table.len(), table.check()), (20_000, Ok(())));
}

#[test]
fn a_tree_that_can_not_be_looked_at() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut tree: Tree<'_, u64> = Tree::new(&session);
    for size in 0..10_000 {
        let (a, b) = (tree.add(At::Last(None), &size, b"a"), tree.add(At::Last(None), &size, b"b"));
        assert_eq!(tree.link(a.unwrap(), b.unwrap()), Ok(true));
    }
    assert_eq!(tree.check(), Ok(()));
    // The check lists entries, and the entries to which they link.
    let refused = refusals(|| tree.check());
    assert!(refused >= 4, "{refused}");
    assert_eq!((tree.len(), tree.check()), (20_000, Ok(())));
}
