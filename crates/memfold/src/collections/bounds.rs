//! Nodes, elements and strings about as long as the longest node that shares a block with others.

use std::format;
use std::string::{String, ToString};
use std::vec;

use super::list::{Doubly, Singly};
use super::table::Columns;
use super::tree::At;
use super::{List, SlabList, SlabMap, Table, Tree};
use crate::heap::{Error, Heap, Options};

/// Leaves have no room for elements of this length; the error must say so, and that no block size would help.
fn may_be_an_element<T>(result: Result<T, Error>, len: usize) {
    match result {
        Ok(_) => panic!("leaves are shorter than that"),
        Err(error) => {
            // A map's element consists of a key and a value.
            assert!(matches!(error, Error::Element(size) if size == len || size == len + 8), "{error:?}");
            let said = error.to_string();
            assert!(
                said.contains("whatever the size of the heap's blocks") && !said.contains("use blocks"),
                "{said}"
            );
        }
    }
}

fn elements<const N: usize>(heap: &Heap) {
    let session = heap.session().unwrap();
    let mut list: List<'_, [u8; N], Singly> = List::new(&session);
    list.push_back(&[3; N]).unwrap();
    let mut slabs: SlabList<'_, [u8; N]> = SlabList::new(&session);
    may_be_an_element((0..5).try_for_each(|byte| slabs.insert(&[byte; N]).map(|_| ())), N);
    let mut map: SlabMap<'_, u64, [u8; N]> = SlabMap::new(&session);
    may_be_an_element((0..5).try_for_each(|key| map.insert(&key, &[3; N]).map(|_| ())), N);
    let mut columns = Columns::new();
    let column = columns.add::<[u8; N]>();
    let mut table = Table::new(&session, &columns);
    let row = table.add_row().unwrap();
    assert!(table.set(row, column, &[3; N]).unwrap());
    let mut tree: Tree<'_, [u8; N]> = Tree::new(&session);
    tree.add(At::First(None), &[3; N], b"name").unwrap();
}

fn strings(heap: &Heap, len: usize) {
    let session = heap.session().unwrap();
    let text = |number: u64| -> String { format!("{number}{}", "x".repeat(len - 1)) };
    let mut list: List<'_, str, Doubly> = List::new(&session);
    list.push_back(&text(0)).unwrap();
    let mut slabs: SlabList<'_, str> = SlabList::new(&session);
    let (mut by_text, mut by_number) = (SlabMap::<'_, str, u64>::new(&session), SlabMap::new(&session));
    let mut texts: SlabMap<'_, str, str> = SlabMap::new(&session);
    for number in 0..5 {
        slabs.insert(text(number).as_str()).unwrap();
        by_text.insert(text(number).as_str(), &number).unwrap();
        by_number.insert(&number, text(number).as_str()).unwrap();
        texts.insert(text(number).as_str(), text(number).as_str()).unwrap();
    }
    assert_eq!(by_number.get(&3).unwrap(), Some(text(3)));
    let mut columns = Columns::new();
    let column = columns.add::<str>();
    let mut table = Table::new(&session, &columns);
    let row = table.add_row().unwrap();
    assert!(table.set(row, column, text(0).as_str()).unwrap());
    let mut tree: Tree<'_, u64> = Tree::new(&session);
    tree.add(At::First(None), &3, text(0).as_bytes()).unwrap();
}

#[test]
fn errors_of_long_elements_name_the_reason() {
    for (block, align) in [(1024, 8), (4096, 1), (32 << 10, 8), (64 << 10, 1), (64 << 10, 256), (1 << 20, 8)]
    {
        let heap = Heap::new(Options::new().block_size(block).alignment(align)).unwrap();
        for len in 32_765..=32_768 {
            let mut session = heap.session().unwrap();
            // So many nodes of one length that they might get blocks of their own.
            for _ in 0..40 {
                session.put_bytes(&vec![7; len]).unwrap();
            }
            let node = session.alloc(10).unwrap();
            let node = session.resize(node, len).unwrap();
            assert_eq!(session.size(node), Ok(len));
            session.alloc_near(len, node).unwrap();
            strings(&heap, len);
        }
        elements::<32_765>(&heap);
        elements::<32_766>(&heap);
        elements::<32_767>(&heap);
        elements::<32_768>(&heap);
    }
}
