//! The system refuses memory while a heap or a collection is checked, saved or sorted: that is an error, the program
//! goes on, and nothing has changed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use memfold::collections::list::Doubly;
use memfold::collections::table::Columns;
use memfold::collections::tree::At;
use memfold::collections::{List, SlabList, Table, Tree};
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
fn refusals(mut look: impl FnMut() -> Result<(), String>) -> u64 {
    let mut granted = 0;
    loop {
        LEFT.set(Some(granted));
        let looked = look();
        LEFT.set(None);
        match looked {
            Ok(()) => return granted,
            Err(what) => {
                let said = ["the system has no more memory", "out of memory"];
                assert!(said.iter().any(|end| what.ends_with(end)), "{what}")
            }
        }
        granted += 1;
    }
}

/// An operation's error as text.
fn text<R, E: ToString>(result: Result<R, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
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

#[test]
fn a_heap_that_can_not_be_checked_or_saved() {
    let mut heap = heap();
    let mut session = heap.session().unwrap();
    // Numbers of blocks without nodes are listed, too.
    let nodes: Vec<_> = (0..700_000_u64).map(|number| session.put(&[number; 15]).unwrap()).collect();
    nodes[30_000..].iter().for_each(|node| session.free(*node).unwrap());
    let long = session.put_bytes(&[7; 200_000]).unwrap();
    drop(session);
    let refused = refusals(|| text(heap.check()));
    assert!(refused >= 1, "{refused}");
    let refused = refusals(|| text(heap.save_to(std::io::sink())));
    assert!(refused >= 2, "{refused}");
    let session = heap.session().unwrap();
    assert_eq!(session.get::<[u64; 15]>(nodes[29_999]), Ok([29_999; 15]));
    assert_eq!(session.size(long), Ok(200_000));
}

#[test]
fn lists_and_trees_that_can_not_be_sorted() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mixed = |at: u64| at * 7919 % 20_011;
    let mut slabs = SlabList::<u64, _>::ordered(&session);
    let mut list = List::<u64, Doubly>::new(&session);
    let mut tree: Tree<'_, u64> = Tree::new(&session);
    for at in 0..20_000 {
        slabs.push(&mixed(at)).unwrap();
        list.push_back(&mixed(at)).unwrap();
        tree.add(At::Last(None), &mixed(at), b"").unwrap();
    }
    let sorted: Vec<u64> = {
        let mut all: Vec<_> = (0..20_000).map(mixed).collect();
        all.sort_unstable();
        all
    };
    let backwards = |a: &u64, b: &u64| b.cmp(a);
    let refused = [
        refusals(|| text(slabs.sort_by(&backwards))),
        refusals(|| text(slabs.sort())),
        refusals(|| text(list.sort())),
        refusals(|| text(tree.sort_children(None, |a, b| a.data.cmp(&b.data)))),
    ];
    assert!(refused.iter().all(|refused| *refused >= 2), "{refused:?}");
    assert!(slabs.iter().map(Result::unwrap).eq(sorted.iter().copied()));
    assert!(list.iter().map(Result::unwrap).eq(sorted.iter().copied()));
    let children = tree.children(None).map(|child| tree.entry(child.unwrap()).unwrap().data);
    assert!(children.eq(sorted.iter().copied()));
    assert_eq!((slabs.check_leaves(), list.check(), tree.check()), (Ok(()), Ok(()), Ok(())));

    let mut deepest = None;
    for at in 0..5000 {
        deepest = Some(tree.add(At::Last(deepest), &at, b"a name of twenty by").unwrap());
    }
    let refused = refusals(|| text(tree.path(deepest.unwrap(), b'/')));
    assert!(refused >= 1, "{refused}");
}
