//! Any bytes as an export: reading them gives an error or a tree, within the heap's limit. A tree that was
//! read stays the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memfold::heap::{Error as Refused, Heap, Limit, Options, Session};
use memfold_du::Error;
use memfold_du::json::{Export, Import, ReadError, read, write};
use memfold_du::scan::Progress;
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::{Row, Tree};

fn heap() -> Heap {
    Heap::new(Options::new().block_size(4 << 10).limit(Limit::Bytes(2 << 20))).expect("the options are right")
}

fn tree<'s>(bytes: &[u8], heap: &'s Heap, session: &'s Session<'_>) -> Result<Tree<'s>, ReadError> {
    read(bytes, &Import::default(), heap, session, &Progress::default(), |_| true)
}

fn export(tree: &Tree<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = Export { timestamp: 0, extended: true };
    write(tree, &mut bytes, &options, |_| true).expect("what is in a tree can be written");
    bytes
}

fn sums(tree: &Tree<'_>) -> [u64; 7] {
    let Row { size, blocks, items, shared_size, shared_blocks, modified, failures, .. } = tree.row(ROOT).expect("there is a root");
    [size, blocks, items, shared_size, shared_blocks, modified as u64, failures.into()]
}

fuzz_target!(|data: &[u8]| {
    let first_heap = heap();
    let first_session = first_heap.session().expect("a heap has a session");
    let Ok(first) = tree(data, &first_heap, &first_session) else { return };
    let written = export(&first);
    let second_heap = heap();
    let second_session = second_heap.session().expect("a heap has a session");
    let second = match tree(&written, &second_heap, &second_session) {
        Ok(tree) => tree,
        // The order of entries may differ, so the tree may need a little more memory.
        Err(ReadError::Tree(Error::Heap(Refused::Limit))) => return,
        Err(error) => panic!("{error}: {}", written.escape_ascii()),
    };
    assert!(export(&second) == written, "{}", written.escape_ascii());
    assert_eq!(sums(&second), sums(&first), "{}", written.escape_ascii());
});
