//! Does known numbers of operations on slab lists in a small heap, and prints the numbers. `tests/probes`
//! compares them with the probes that fire; the scripts in `tools/` can be tried with it.
//!
//! `cargo run --release --example probes -- [ELEMENTS] [ROUNDS] [LIES]`: each round adds ELEMENTS numbers
//! (one in ten is already there), searches for all of them, removes half and packs the list. Afterwards a
//! range is removed, and a few operations are done on an ordered list. At the end, LIES elements are added to
//! a list while its comparison lies, which the test probes notice.

use std::cell::Cell;
use std::error::Error;

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};

/// Numbers in no order, at irregular distances.
fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let elements = arguments.next().transpose()?.unwrap_or(10_000);
    let rounds = arguments.next().transpose()?.unwrap_or(1);
    let lies = arguments.next().transpose()?.unwrap_or(0);
    let heap = Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(4 << 10))?;
    let (mut adds, mut added, mut finds, mut removes) = (0u64, 0u64, 0u64, 0u64);
    let session = heap.session()?;
    let mut list = SlabList::new(&session);
    for round in 0..rounds {
        for number in 0..elements {
            // Every tenth number equals the one before it.
            let number = number - u64::from(number % 10 == 9);
            added += u64::from(list.insert(&mixed(number + round * elements))?);
            adds += 1;
        }
        for number in 0..elements {
            list.contains(&mixed(number + round * elements))?;
            finds += 1;
        }
        for number in (0..elements).step_by(2) {
            list.remove(&mixed(number + round * elements))?;
            removes += 1;
        }
        list.reap()?;
    }
    list.remove_slice(0..10)?;
    list.check()?;
    drop(list);
    let mut ordered = SlabList::<u64, _>::ordered(&session);
    ordered.push_all([3, 1, 2])?;
    ordered.set_at(1, &7)?;
    ordered.pop()?;
    (adds, added, removes) = (adds + 3, added + 3, removes + 1);
    drop(ordered);
    let lying = Cell::new(false);
    let mut list = SlabList::by(&session, |a: &u64, b: &u64| if lying.get() { b.cmp(a) } else { a.cmp(b) });
    for number in 0..lies {
        // Two elements in the right order, and a third one by the opposite order.
        list.clear()?;
        lying.set(false);
        list.insert(&number)?;
        list.insert(&(number + 1))?;
        lying.set(true);
        list.insert(&(number + 2))?;
        (adds, added) = (adds + 3, added + 3);
    }
    drop(list);
    // Some nodes, one of which is freed twice.
    let mut nodes = Vec::new();
    for len in [1, 100, 1000] {
        nodes.push(session.alloc(len)?);
    }
    nodes.iter().try_for_each(|node| session.free(*node))?;
    let stale = session.free(nodes[0]).is_err();
    drop(session);
    let stats = heap.stats();
    println!("list_add_begin {adds}\nlist_add {adds}\nlist_add:1 {added}");
    println!("list_find_begin {finds}\nlist_find {finds}");
    println!(
        "list_remove_begin {removes}\nlist_remove {removes}\nlist_reap {rounds}\nlist_clear {}",
        3 + lies
    );
    println!("list_remove_range_begin 1\nlist_remove_range 1\nlist_set 1");
    println!("test_list_add:1 {lies}");
    println!("heap_free:2 {}", u64::from(stale));
    println!(
        "heap_fault {}\nheap_peek {}\nheap_evict {}\nheap_compress {}",
        stats.faults, stats.peeks, stats.evictions, stats.compressions
    );
    Ok(())
}
