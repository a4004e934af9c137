//! Heaps of which a tier loses blocks: their nodes can be freed, and the rest stays usable.

use std::collections::{HashMap, HashSet};
use std::string::ToString;
use std::sync::atomic::Ordering::Relaxed;
use std::vec;
use std::vec::Vec;

use super::away::{limited, noise, spilling};
use super::small;
use crate::collections::list::{self, Doubly};
use crate::collections::table::Columns;
use crate::collections::tree::At;
use crate::collections::{List, SlabList, SlabMap, Table, Tree};
use crate::heap::*;
use crate::random::Random;

/// Nodes of many sizes, of one size, of a block each, and of several blocks.
fn fill(heap: &Heap, nodes: u64) -> HashMap<Handle, Vec<u8>> {
    let mut session = heap.session().unwrap();
    let mut random = Random(nodes);
    (0..nodes)
        .map(|seed| {
            let len = match seed * 8 / nodes {
                0..3 => 1 + random.index(3000),
                3..6 => 160,
                6 if seed % 8 == 0 => session.longest(),
                7 if seed % 64 == 0 => 60_000 + random.index(200),
                _ => 5 + seed as usize % 3,
            };
            let bytes = noise(seed, len);
            (session.put_bytes(&bytes).unwrap(), bytes)
        })
        .collect()
}

/// The nodes that can't be read; checks that each is lost.
fn unreadable(heap: &Heap, model: &HashMap<Handle, Vec<u8>>) -> HashSet<Handle> {
    let session = heap.session().unwrap();
    let read = |(&handle, bytes): (&Handle, &Vec<u8>)| match session.read(handle) {
        Ok(read) => {
            assert_eq!(read, *bytes);
            None
        }
        Err(error) => {
            assert_eq!(error, Error::Lost);
            Some(handle)
        }
    };
    model.iter().filter_map(read).collect()
}

fn save(heap: &mut Heap) -> Result<Vec<u8>, SaveError> {
    let mut file = vec![];
    heap.save_to(&mut file).map(|()| file)
}

fn lost_of(heap: &mut Heap) -> Lost {
    match save(heap) {
        Err(SaveError::Lost(lost)) => lost,
        other => panic!("{:?}", other.map(|file| file.len())),
    }
}

/// Checks that the heap has all of the model, now and after it is saved and loaded.
fn is_whole(heap: &mut Heap, model: &HashMap<Handle, Vec<u8>>) {
    heap.check().unwrap();
    let mut loaded = Heap::load_from(&save(heap).unwrap()[..], Options::new()).unwrap();
    loaded.check().unwrap();
    for heap in [heap, &mut loaded] {
        assert_eq!(unreadable(heap, model), HashSet::new());
        let stats = heap.stats();
        assert_eq!(stats.nodes, model.len() as u64);
        assert_eq!(stats.node_bytes, model.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    }
}

#[test]
fn nodes_of_lost_blocks_can_be_freed_one_by_one() {
    for (what, (options, tier)) in [
        ("limited", limited()),
        ("paranoid", spilling(small(4096).paranoid(true))),
        ("with checks", limited()),
    ] {
        let mut heap = Heap::new(options).unwrap();
        let mut model = fill(&heap, if what == "paranoid" { 600 } else { 12_000 });
        if what == "with checks" {
            let session = heap.session().unwrap();
            let gone: Vec<Handle> = model.keys().copied().filter(|node| node.place() % 3 == 0).collect();
            for node in gone {
                session.free(node).unwrap();
                model.remove(&node);
            }
            drop(session);
            model.extend(fill(&heap, 12_001));
        }
        let copies = tier.lose(|number| number % 3 == 0);
        let unread = unreadable(&heap, &model);
        assert!(copies > 10 && unread.len() > 100 && unread.len() < model.len(), "{what} {copies}");
        let lost = lost_of(&mut heap);
        assert_eq!(heap.find_lost().unwrap(), lost);
        assert_eq!(heap.check().unwrap_err().to_string(), lost.to_string());
        assert!(lost.to_string().contains("the one with the handle 0x"), "{lost}");
        // Some of these copies belong to resident blocks.
        assert!((1..=copies).contains(&lost.blocks()), "{lost}");
        for &node in model.keys() {
            assert_eq!(lost.has(node), unread.contains(&node), "{what} {node:?}");
        }
        let named: Vec<Handle> = lost.handles().collect();
        let parts = named.iter().filter(|node| !model.contains_key(node)).count();
        assert!(named.len() >= lost.blocks() && named.iter().all(|node| lost.has(*node)));
        // The program has no handles of parts of long nodes.
        assert!(named.iter().any(|node| unread.contains(node)) && parts < named.len(), "{what}");
        let session = heap.session().unwrap();
        for node in &named {
            assert_eq!(session.read(*node), Err(Error::Lost));
        }
        for node in &unread {
            assert_eq!(session.free(*node), Ok(()), "{what} {node:?}");
            assert_eq!(session.free(*node), Err(Error::Stale), "{what} {node:?}");
            model.remove(node);
        }
        drop(session);
        is_whole(&mut heap, &model);
        assert_eq!(heap.free_lost().unwrap(), Lost::default());
        // The heap stays usable, and leaves nothing behind.
        model.extend(fill(&heap, 500));
        is_whole(&mut heap, &model);
        let session = heap.session().unwrap();
        model.keys().for_each(|node| session.free(*node).unwrap());
        drop(session);
        heap.check().unwrap();
        let stats = heap.stats();
        assert_eq!((stats.nodes, stats.node_bytes, stats.blocks, stats.spilled_bytes), (0, 0, 0, 0));
    }
}

#[test]
fn all_that_is_lost_can_be_freed_at_once() {
    for paranoid in [false, true] {
        let (options, tier) = if paranoid { spilling(small(4096).paranoid(true)) } else { limited() };
        let mut heap = Heap::new(options).unwrap();
        let mut model = fill(&heap, if paranoid { 600 } else { 12_000 });
        tier.lose(|number| number % 2 == 0);
        let unread = unreadable(&heap, &model);
        // A few of the lost nodes are freed first.
        let session = heap.session().unwrap();
        for node in unread.iter().take(unread.len() / 3) {
            session.free(*node).unwrap();
            model.remove(node);
        }
        drop(session);
        let lost = heap.find_lost().unwrap();
        assert_eq!(heap.free_lost().unwrap(), lost);
        let session = heap.session().unwrap();
        for node in unread {
            assert_eq!(session.read(node), Err(Error::Stale));
            model.remove(&node);
        }
        drop(session);
        is_whole(&mut heap, &model);
    }
}

/// If they were used, a program could not make nodes any more, and would be told that nodes of others are
/// lost.
#[test]
fn lost_blocks_with_room_are_not_used_for_new_nodes() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let model = fill(&heap, 12_000);
    let mut session = heap.session().unwrap();
    for (number, node) in model.keys().enumerate() {
        if number % 3 != 0 {
            session.free(*node).unwrap();
        }
    }
    for (number, (node, _)) in model.iter().enumerate() {
        if number % 3 == 0 {
            drop(session.write(*node).unwrap());
        }
    }
    // The blocks with the most room are evicted.
    (0..3000).for_each(|seed| assert!(session.put_bytes(&noise(seed, 3000)).is_ok()));
    assert!(tier.lose(|_| true) > 50);
    for seed in 0..200 {
        for len in [7, 100, 160, 3000, 60_000] {
            let bytes = noise(seed, len);
            let node = session.put_bytes(&bytes).unwrap();
            assert_eq!(session.read(node).unwrap(), bytes);
            session.free(node).unwrap();
        }
    }
    drop(session);
    heap.free_lost().unwrap();
    heap.check().unwrap();
}

#[test]
fn a_resident_block_is_saved_even_if_its_copy_is_lost_or_away() {
    for trouble in [2, 3] {
        let (options, tier) = limited();
        let mut heap = Heap::new(options).unwrap();
        let model = fill(&heap, 12_000);
        assert!(heap.stats().spilled_bytes > 1 << 20);
        // Everything is faulted in, and leaves its copies on the tier.
        heap.set_limit(Limit::Bytes(100 << 20)).unwrap();
        assert_eq!(unreadable(&heap, &model), HashSet::new());
        assert!(heap.stats().spilled_bytes > 1 << 20);
        tier.trouble.store(trouble, Relaxed);
        assert_eq!(heap.find_lost(), Ok(Lost::default()));
        is_whole(&mut heap, &model);
    }
}

/// Without another copy, nothing would be reported as lost now, but these blocks would be as soon as they are
/// evicted.
#[test]
fn a_resident_block_gets_a_new_copy_for_a_lost_one() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let mut model = fill(&heap, 12_000);
    heap.set_limit(Limit::Bytes(100 << 20)).unwrap();
    assert_eq!(unreadable(&heap, &model), HashSet::new());
    assert!(tier.lose(|_| true) > 50);
    assert_eq!(heap.find_lost(), Ok(Lost::default()));
    heap.set_limit(Limit::Bytes(4 << 20)).unwrap();
    model.extend(fill(&heap, 2000));
    assert_eq!(unreadable(&heap, &model), HashSet::new());
    is_whole(&mut heap, &model);
}

#[test]
fn a_long_node_that_is_in_one_piece_does_not_need_its_parts() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let long = session.put_bytes(&noise(1, 100_000)).unwrap();
    let mut guard = session.write(long).unwrap();
    guard.copy_from_slice(&noise(2, 100_000));
    // Its parts are spilled, and are lost.
    let mut other = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..8000).map(|seed| other.put_bytes(&noise(seed, 1000)).unwrap()).collect();
    assert!(tier.lose(|_| true) > 50);
    drop(guard);
    assert_eq!(session.read(long).unwrap(), noise(2, 100_000));
    nodes.iter().for_each(|node| other.free(*node).unwrap());
    drop((session, other));
    is_whole(&mut heap, &HashMap::from([(long, noise(2, 100_000))]));
}

/// Parts of a long node that are freed while the tier does not answer are released later.
#[test]
fn parts_wait_for_a_tier_that_does_not_answer() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let long = session.put_bytes(&noise(1, 1 << 20)).unwrap();
    let nodes: Vec<Handle> = (0..8000).map(|seed| session.put_bytes(&noise(seed, 1000)).unwrap()).collect();
    tier.trouble.store(3, Relaxed);
    session.free(long).unwrap();
    assert_eq!(session.read(long), Err(Error::Stale));
    // They do not delay a thread that makes a block meanwhile.
    let asked = tier.in_vain.load(Relaxed);
    assert!(asked > 0);
    (0..20).for_each(|_| heap.core().free_one_waiting(0));
    assert_eq!(tier.in_vain.load(Relaxed), asked);
    tier.trouble.store(0, Relaxed);
    nodes.iter().for_each(|node| session.free(*node).unwrap());
    drop(session);
    heap.check().unwrap();
    assert_eq!((heap.stats().nodes, heap.stats().blocks), (0, 0));
}

#[test]
fn collections_go_though_their_nodes_are_lost() {
    let (options, tier) = limited();
    let mut heap = Heap::new(options).unwrap();
    let session = heap.session().unwrap();
    let text = |seed: u64| noise(seed, 200).iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    let texts: Vec<std::string::String> = (0..6000).map(text).collect();
    let mut list: List<'_, [u64; 8]> = List::new(&session);
    let mut double: List<'_, [u64; 8], Doubly> = List::new(&session);
    let mut numbers: SlabList<'_, u64> = SlabList::new(&session);
    let mut strings: SlabList<'_, str> = SlabList::new(&session);
    let mut map: SlabMap<'_, u64, str> = SlabMap::new(&session);
    let mut columns = Columns::new();
    let (number, name) = (columns.add::<u64>(), columns.add::<str>());
    let mut table = Table::new(&session, &columns);
    let mut tree: Tree<'_, [u64; 8]> = Tree::new(&session);
    let root = tree.add(At::First(None), &[0; 8], b"top").unwrap();
    let mut random = Random(5);
    for (seed, text) in (0_u64..).zip(&texts) {
        let element = [0; 8].map(|_: u64| random.next());
        list.push_front(&element).unwrap();
        double.push_front(&element).unwrap();
        numbers.insert(&random.next()).unwrap();
        strings.insert(text.as_str()).unwrap();
        map.insert(&seed, text.as_str()).unwrap();
        let row = table.add_row().unwrap();
        table.set(row, number, &seed).unwrap();
        table.set(row, name, text.as_str()).unwrap();
        tree.add(At::First(Some(root)), &element, text.as_bytes()).unwrap();
    }
    let before = heap.stats();
    assert!(tier.lose(|number| number % 4 != 0) > 20);
    drop((list, double, numbers, strings, map, table, tree));
    drop(session);
    // Nodes to which only lost nodes referred stay, but no lost node does.
    let lost = heap.free_lost().unwrap();
    assert!(lost.nodes() < before.nodes / 2, "{lost}");
    heap.check().unwrap();
    Heap::load_from(&save(&mut heap).unwrap()[..], Options::new()).unwrap().check().unwrap();
}

/// Loses a copy on the tier that is neither the first nor the last.
fn lose_one(tier: &super::away::Memory) {
    let mut numbers = vec![];
    tier.lose(|number| {
        numbers.push(number);
        false
    });
    numbers.sort_unstable();
    assert!(numbers.len() > 4, "{numbers:?}");
    let lost = numbers[numbers.len() / 2];
    assert_eq!(tier.lose(|number| number == lost), 1);
}

/// Frees the lost nodes, and returns how many nodes are left.
fn left(heap: &mut Heap) -> u64 {
    assert!(heap.free_lost().unwrap().blocks() <= 1);
    heap.check().unwrap();
    heap.stats().nodes
}

/// Elements after a lost node are found from the other end, if links lead there.
#[test]
fn collections_are_cleared_though_nodes_are_lost() {
    let heap = || {
        let (options, tier) = spilling(small(1024).paranoid(true));
        (Heap::new(options).unwrap(), tier)
    };
    let ring = |turned: bool| {
        let (mut heap, tier) = heap();
        let session = heap.session().unwrap();
        let mut list: List<'_, [u64; 8], list::Ring<Doubly>> = List::new(&session);
        (0..200).for_each(|number| assert!(list.push_back(&[number; 8]).is_ok()));
        if turned {
            list.reverse().unwrap();
        }
        lose_one(&tier);
        assert_eq!((list.clear(), list.len()), (Err(Error::Lost), 0));
        assert_eq!(list.clear(), Ok(()));
        drop(list);
        drop(session);
        assert_eq!(left(&mut heap), 0);
    };
    ring(false);
    ring(true);
    // In a singly linked list, the elements after it can't be found any more.
    let (mut heap_of_list, tier) = heap();
    let session = heap_of_list.session().unwrap();
    let mut list: List<'_, [u64; 8], list::Singly> = List::new(&session);
    (0..200).for_each(|number| assert!(list.push_back(&[number; 8]).is_ok()));
    lose_one(&tier);
    assert_eq!((list.clear(), list.len()), (Err(Error::Lost), 0));
    drop(list);
    drop(session);
    let behind = left(&mut heap_of_list);
    assert!(behind > 20 && behind < 180, "{behind}");
    let (mut heap_of_tree, tier) = heap();
    let session = heap_of_tree.session().unwrap();
    let mut tree: Tree<'_, [u64; 4]> = Tree::new(&session);
    let root = tree.add(At::First(None), &[0; 4], b"top").unwrap();
    (0..100).for_each(|number| assert!(tree.add(At::Last(Some(root)), &[number; 4], b"below").is_ok()));
    lose_one(&tier);
    assert_eq!((tree.clear(), tree.len()), (Err(Error::Lost), 0));
    drop(tree);
    drop(session);
    assert_eq!(left(&mut heap_of_tree), 0);
    let (mut heap_of_slabs, tier) = heap();
    let session = heap_of_slabs.session().unwrap();
    let mut numbers: SlabList<'_, u64> = SlabList::new(&session);
    (0..3000).for_each(|number| assert!(numbers.insert(&number).is_ok()));
    lose_one(&tier);
    // No leaf of numbers is read.
    assert_eq!((numbers.clear(), numbers.len()), (Ok(()), 0));
    drop(numbers);
    drop(session);
    assert_eq!(left(&mut heap_of_slabs), 0);
}
