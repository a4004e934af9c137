//! Probes as a listener sees them. `tests/probes` tests them with tracers, and in whole binaries.

use std::cell::Cell;
use std::collections::HashMap;
use std::vec::Vec;

use super::heard::{Fired, Listener};
use super::{ALL, PRESENT};
use crate::collections::SlabList;
use crate::heap::{Heap, Limit, Options};

fn small_heap() -> Heap {
    Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(4 << 10)).unwrap()
}

/// How often each probe fired, by name and, where it has one, by outcome or verdict.
fn counts(heard: &[Fired]) -> HashMap<(&'static str, u64), usize> {
    let mut counts = HashMap::new();
    for (name, arguments) in heard {
        let which = match *name {
            name if name.starts_with("test_") => arguments[1],
            "list_add" | "list_find" | "list_remove" => arguments[2],
            "heap_free" => arguments[1],
            _ => 0,
        };
        *counts.entry((*name, which)).or_default() += 1;
    }
    counts
}

#[test]
fn fires_only_while_somebody_listens() {
    let mut worked_out = 0;
    let mut argument = || {
        worked_out += 1;
        worked_out
    };
    crate::probe!(runtime_evict_begin, argument(), 2);
    {
        let listener = Listener::new(&["runtime_evict_begin"]);
        crate::probe!(runtime_evict_begin, argument(), 2);
        // In a build without probes nothing fires, and no argument is computed.
        let heard: &[_] = if PRESENT { &[("runtime_evict_begin", std::vec![1, 2])] } else { &[] };
        assert_eq!(listener.heard(), heard);
    }
    crate::probe!(runtime_evict_begin, argument(), 2);
    assert_eq!(worked_out, u64::from(PRESENT));
}

#[test]
fn names_are_different_and_short() {
    let mut names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    // No more arguments than all tracers can read.
    assert!(ALL.iter().all(|(name, arguments)| *arguments <= 6 && name.len() < 32));
}

#[test]
fn as_many_as_there_were_operations() {
    if !PRESENT {
        return;
    }
    let heap = small_heap();
    let session = heap.session().unwrap();
    let listener = Listener::new(&[
        "list_add_begin",
        "list_add",
        "list_remove",
        "list_find",
        "list_reap",
        "list_split",
        "slab_alloc",
        "slab_free",
        "heap_alloc",
        "heap_free",
        "heap_fault",
        "heap_evict",
        "heap_compress",
        "heap_decompress",
        "heap_block_make",
        "heap_block_vacate",
    ]);
    let mut list = SlabList::new(&session);
    for number in 0..3000u64 {
        list.insert(&(number * 7 % 2000)).unwrap();
    }
    (0..10).for_each(|number| assert!(list.contains(&(1995 + number)).is_ok()));
    (0..1000).for_each(|number| assert!(list.remove(&(number * 3)).is_ok()));
    list.reap().unwrap();
    drop(list);
    drop(session);
    let counts = counts(&listener.heard());
    let count = |name, which| counts.get(&(name, which)).copied().unwrap_or_default();
    assert_eq!((count("list_add_begin", 0), count("list_add", 1), count("list_add", 0)), (3000, 2000, 1000));
    assert_eq!((count("list_find", 1), count("list_find", 0)), (5, 5));
    assert_eq!((count("list_remove", 1), count("list_remove", 0)), (667, 333));
    assert_eq!(count("list_reap", 0), 1);
    assert!(count("list_split", 0) > 0);
    // All leaves were freed, and each was a node.
    assert!(count("slab_alloc", 0) > 10);
    assert_eq!(count("slab_alloc", 0), count("slab_free", 0));
    assert_eq!(count("slab_alloc", 0), count("heap_alloc", 0));
    assert_eq!(count("heap_free", 1), count("heap_alloc", 0));
    let stats = heap.stats();
    assert_eq!(count("heap_fault", 0) as u64, stats.faults);
    assert_eq!(count("heap_evict", 0) as u64, stats.evictions);
    assert_eq!(count("heap_compress", 0) as u64, stats.compressions);
    assert_eq!(count("heap_decompress", 0) as u64, stats.faults);
    assert!(stats.faults > 100);
    assert_eq!(count("heap_block_make", 0), count("heap_block_vacate", 0));
}

#[test]
fn verdicts_of_sound_ones() {
    if !PRESENT {
        return;
    }
    let heap = small_heap();
    let mut session = heap.session().unwrap();
    let listener = Listener::new(&[
        "test_list_add",
        "test_list_remove",
        "test_list_remove_range",
        "test_list_set",
        "test_list_reap",
        "test_list_spread",
        "test_heap_alloc",
        "test_heap_free",
        "test_heap_resize",
    ]);
    {
        let mut list = SlabList::new(&session);
        (0..3000u64).for_each(|number| assert!(list.insert(&(number * 7 % 2500)).is_ok()));
        (0..200).for_each(|number| assert!(list.remove(&(number * 3)).is_ok()));
        list.reap().unwrap();
    }
    {
        let mut words = SlabList::<str>::new(&session);
        (0..600u64).for_each(|number| assert!(words.insert(&std::format!("word {number}")).is_ok()));
        let mut ordered = SlabList::<str, _>::ordered(&session);
        (0..600u64).for_each(|number| assert!(ordered.push(&std::format!("{number}")).is_ok()));
        ordered.insert_at(300, "three hundred").unwrap();
        ordered.set_at(7, "seven").unwrap();
        ordered.remove_slice(10..20).unwrap();
        ordered.pop().unwrap();
    }
    let mut nodes: Vec<_> = (1..60).map(|number| session.alloc(number * 37 % 300 + 1).unwrap()).collect();
    nodes[7] = session.resize(nodes[7], 500).unwrap();
    nodes[8] = session.resize(nodes[8], 20).unwrap();
    nodes.into_iter().for_each(|node| session.free(node).unwrap());
    let heard = listener.heard();
    let counts = counts(&heard);
    let wrong: Vec<_> = heard.iter().filter(|(_, arguments)| arguments[1] != 0).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!((counts[&("test_list_add", 0)], counts[&("test_list_remove", 0)]), (4201, 201));
    assert_eq!((counts[&("test_list_remove_range", 0)], counts[&("test_list_set", 0)]), (1, 1));
    assert_eq!((counts[&("test_list_reap", 0)], counts[&("test_heap_resize", 0)]), (1, 2));
    assert!(counts[&("test_list_spread", 0)] > 3);
    assert_eq!(counts[&("test_heap_alloc", 0)], counts[&("test_heap_free", 0)]);
}

#[test]
fn verdicts_of_lists_that_are_wrong() {
    if !PRESENT {
        return;
    }
    let (heap, upwards) = (small_heap(), Cell::new(true));
    let session = heap.session().unwrap();
    let mut list = SlabList::by(&session, |a: &u64, b: &u64| if upwards.get() { a.cmp(b) } else { b.cmp(a) });
    (0..200).for_each(|number| assert!(list.insert(&number).is_ok()));
    let listener = Listener::new(&["test_list_add", "test_list_remove"]);
    upwards.set(false);
    list.remove(&77).unwrap();
    list.insert(&1000).unwrap();
    upwards.set(true);
    let verdicts: Vec<_> = listener.heard().iter().map(|(name, arguments)| (*name, arguments[1])).collect();
    assert_eq!(verdicts, [("test_list_remove", 1), ("test_list_add", 1)]);
}

#[test]
fn heaps_that_are_wrong_or_not_alone() {
    if !PRESENT {
        return;
    }
    let heap = small_heap();
    let session = heap.session().unwrap();
    let (first, second) = (session.alloc(100).unwrap(), session.alloc(100).unwrap());
    let listener = Listener::new(&["test_heap_alloc", "test_heap_free"]);
    let verdict = || listener.heard().iter().map(|(_, arguments)| arguments[1]).collect::<Vec<_>>();
    session.alloc(10).unwrap();
    assert_eq!(verdict(), [0]);
    let other = heap.session().unwrap();
    session.alloc(10).unwrap();
    assert_eq!(verdict(), [2]);
    drop(other);
    let pin = session.pin(first).unwrap();
    session.alloc(10).unwrap();
    assert_eq!(verdict(), [2]);
    let end = pin.as_ptr().cast_mut();
    drop(pin);
    // The next node begins within the bytes that follow.
    assert!(first < second);
    for at in 100..110 {
        // SAFETY: within the frame of the block that both nodes are in. It has not been evicted: there is one
        // block, and there are three frames. The damage is intended.
        unsafe { end.add(at).write(0xff) };
    }
    session.alloc(10).unwrap();
    assert_eq!(verdict(), [1]);
}

/// The parts of a long node are made and freed while it is locked; the check once waited for that lock for ever.
#[test]
fn a_heap_with_a_long_node_that_is_being_changed() {
    if !PRESENT {
        return;
    }
    let heap = small_heap();
    let mut session = heap.session().unwrap();
    let listener = Listener::new(&["test_heap_alloc", "test_heap_free"]);
    let verdicts = || listener.heard().iter().map(|(_, arguments)| arguments[1]).collect::<Vec<_>>();
    let long = session.put_bytes(&[7; 20_000]).unwrap();
    assert!(verdicts().contains(&2));
    session.free(long).unwrap();
    assert!(!verdicts().contains(&1));
}
