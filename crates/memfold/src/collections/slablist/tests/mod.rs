//! Lists against the standard library's, operation by operation.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

use super::*;
use crate::heap::{Heap, Limit, Options};
use crate::random::Random;

mod failing;
mod faults;
mod models;
#[cfg(feature = "rayon")]
mod threads;

/// A heap with frames for three blocks.
fn heap() -> Heap {
    Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(4 << 10)).unwrap()
}

fn all<E: ?Sized + Element, C>(list: &SlabList<'_, E, C>) -> Vec<Owned<E>> {
    list.iter().collect::<Result<_, _>>().unwrap()
}

/// Random operations on a list and a set, over `range` numbers; `adds` of ten operations add.
fn against_a_set(
    list: &mut SlabList<'_, u64>,
    set: &mut BTreeSet<u64>,
    random: &mut Random,
    range: u64,
    add: u64,
    turns: usize,
) {
    for _ in 0..turns {
        let number = random.below(range);
        match random.below(10) {
            what if what < add => assert_eq!(list.insert(&number).unwrap(), set.insert(number)),
            8 => assert_eq!(list.contains(&number).unwrap(), set.contains(&number)),
            _ => assert_eq!(list.remove(&number).unwrap().is_some(), set.remove(&number)),
        }
    }
    assert_eq!(list.check(), Ok(()));
    assert!(all(list).iter().eq(set.iter()));
    assert!(list.iter().rev().map(Result::unwrap).eq(set.iter().rev().copied()));
    for at in [0, 1, 59, 60, 1000, set.len() as u64 / 2, set.len() as u64] {
        assert_eq!(list.at(at).unwrap(), set.iter().nth(at as usize).copied());
    }
    assert_eq!((list.first().unwrap(), list.last().unwrap()), (set.first().copied(), set.last().copied()));
}

#[test]
fn as_a_set() {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(7);
    for per_slab in [2, 3, 16, 64, 255] {
        let (mut list, mut set) = (SlabList::new(&session).per_slab(per_slab), BTreeSet::new());
        for (range, add, turns) in
            [(100, 5, 500), (1 << 40, 8, 4000), (1 << 40, 1, 500), (3000, 7, 8000), (3000, 2, 12000)]
        {
            against_a_set(&mut list, &mut set, random, range, add, turns);
        }
        list.reap().unwrap();
        assert_eq!(list.check(), Ok(()));
        assert!(all(&list).iter().eq(set.iter()));
        while let Some(last) = set.pop_last() {
            assert_eq!(list.remove(&last).unwrap(), Some(last));
        }
        assert!(list.is_empty() && all(&list).is_empty());
    }
    assert_eq!(heap.stats().nodes, 0);
}

/// How many more leaves there are than the elements need.
fn spare_leaves<E: ?Sized + Element, C>(list: &SlabList<'_, E, C>) -> usize {
    let Body::Large(slabs) = &list.body else { return 0 };
    slabs.layers.leaves() - (slabs.len() as usize).div_ceil(Format::<E>::room(slabs.format))
}

#[test]
fn in_order_and_against_it() {
    let heap = heap();
    let session = heap.session().unwrap();
    for step in [1i64, -1] {
        let mut list = SlabList::new(&session);
        for number in 0..20_000 {
            assert!(list.insert(&(number * step)).unwrap());
        }
        assert_eq!(list.check(), Ok(()));
        assert!(all(&list).windows(2).all(|two| two[0] + 1 == two[1]));
        assert!(spare_leaves(&list) <= 1, "{}", spare_leaves(&list));
    }
}

#[test]
fn stays_dense() {
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    let random = &mut Random(3);
    let mut list = SlabList::new(&session);
    let numbers: Vec<u64> = (0..300_000).map(|_| random.next()).collect();
    let full = |list: &SlabList<'_, u64>| {
        let Body::Large(slabs) = &list.body else { return 1.0 };
        slabs.len() as f64 / (slabs.layers.leaves() * Format::<u64>::room(slabs.format)) as f64
    };
    for number in &numbers {
        list.insert(number).unwrap();
    }
    assert!(full(&list) > 0.9, "{}", full(&list));
    for number in &numbers[..150_000] {
        list.remove(number).unwrap();
    }
    assert!(full(&list) > 0.9, "{}", full(&list));
    list.reap().unwrap();
    assert!(spare_leaves(&list) <= 1, "{}", spare_leaves(&list));
    assert_eq!(list.check(), Ok(()));
}

#[test]
fn equal_elements_keep_their_order() {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(9);
    let mut list = SlabList::by(&session, |a: &[u32; 2], b: &[u32; 2]| a[0].cmp(&b[0])).many();
    let mut model: Vec<[u32; 2]> = Vec::new();
    for number in 0..5000 {
        let element = [random.below(50) as u32, number];
        assert!(list.insert(&element).unwrap());
        model.push(element);
    }
    model.sort_by_key(|element| element[0]);
    assert_eq!(all(&list), model);
    for _ in 0..4000 {
        let key = random.below(50) as u32;
        let last = model.iter().rposition(|element| element[0] == key);
        assert_eq!(list.remove(&[key, 0]).unwrap(), last.map(|at| model.remove(at)));
    }
    assert_eq!(all(&list), model);
    assert_eq!(list.check(), Ok(()));
}

#[test]
fn orders_that_panic_or_lie() {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(11);
    let countdown = std::cell::Cell::new(0u64);
    let noise = std::cell::Cell::new(1u64);
    let mut list = SlabList::by(&session, |a: &u64, b: &u64| {
        countdown.set(countdown.get().wrapping_sub(1));
        assert!(countdown.get() != 0, "as planned");
        noise.set(noise.get().wrapping_mul(6364136223846793005).wrapping_add(1));
        if noise.get() >> 60 == 0 { b.cmp(a) } else { a.cmp(b) }
    });
    let (mut model, mut panics) = (Vec::new(), 0);
    for _ in 0..20_000 {
        countdown.set(random.below(200));
        let number = random.below(5000);
        let done = catch_unwind(AssertUnwindSafe(|| match random.below(3) {
            0 => (false, list.remove(&number).unwrap()),
            _ => (true, list.insert(&number).unwrap().then_some(number)),
        }));
        match done {
            Ok((true, added)) => model.extend(added),
            Ok((false, Some(gone))) => {
                let at = model.iter().position(|number| *number == gone).expect("it was added");
                model.swap_remove(at);
            }
            Ok((false, None)) => {}
            Err(_) => panics += 1,
        }
    }
    assert!(panics > 100, "{panics}");
    let Body::Large(slabs) = &list.body else { panic!("small") };
    assert_eq!(slabs.check(&session), Ok(()));
    let mut left = all(&list);
    left.sort_unstable();
    model.sort_unstable();
    assert_eq!(left, model);
    drop(list);
    assert_eq!(heap.stats().nodes, 0);
}

/// A comparison that searches another list, which evicts the blocks of the list being searched.
#[test]
fn orders_that_use_the_heap() {
    for (blocks, often) in [(1, 20), (2, 5), (3, 1)] {
        let options = Options::new().block_size(1024).limit(Limit::Blocks(blocks));
        let heap = Heap::new(options).unwrap();
        let session = heap.session().unwrap();
        let mut other = SlabList::new(&session);
        other.extend((0..2000u64).map(|number| 3 * number)).unwrap();
        let turn = std::cell::Cell::new(1u64);
        let mut list = SlabList::by(&session, |a: &u64, b: &u64| {
            turn.set(turn.get().wrapping_mul(6364136223846793005).wrapping_add(1));
            let number = (turn.get() >> 33) % 6000;
            if number.is_multiple_of(often) {
                assert_eq!(other.contains(&number), Ok(number.is_multiple_of(3)));
            }
            a.cmp(b)
        });
        let (mut model, random) = (BTreeSet::new(), &mut Random(blocks.into()));
        for _ in 0..3000 {
            let number = random.below(2000);
            match random.below(4) {
                0 => assert_eq!(list.remove(&number).unwrap(), model.take(&number)),
                1 => assert_eq!(list.contains(&number), Ok(model.contains(&number))),
                2 => assert_eq!(list.get(&number), Ok(model.get(&number).copied())),
                _ => assert_eq!(list.insert(&number), Ok(model.insert(number))),
            }
        }
        assert!(all(&list).iter().eq(model.iter()));
        assert_eq!(list.check(), Ok(()));
    }
}

#[test]
fn elements_that_no_block_has_room_for() {
    let heap = Heap::new(Options::new().block_size(1024)).unwrap();
    let session = heap.session().unwrap();
    let mut list = SlabList::new(&session);
    assert_eq!(list.insert(&[1u8; 600]), Err(crate::heap::Error::Element(600)));
    assert!(list.is_empty());
    let mut list = SlabList::new(&session);
    (0..200).for_each(|number: u8| assert_eq!(list.insert(&[number; 300]), Ok(true)));
    // As the error says, blocks longer than 64 KiB don't help.
    for (size, fits) in [(64 << 10, true), (1 << 20, false)] {
        let heap = Heap::new(Options::new().block_size(size)).unwrap();
        let session = heap.session().unwrap();
        assert_eq!(SlabList::new(&session).insert(&[1u8; 21_816]).is_ok(), fits);
        assert_eq!(SlabList::new(&session).insert(&[1u8; 21_817]), Err(crate::heap::Error::Element(21_817)));
    }
}

#[test]
fn elements_of_all_sizes() {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(5);
    let mut bytes = SlabList::new(&session);
    let mut model = BTreeSet::new();
    for _ in 0..3000 {
        let number: [u8; 3] = std::array::from_fn(|_| random.below(20) as u8);
        assert_eq!(bytes.insert(&number).unwrap(), model.insert(number));
    }
    assert!(all(&bytes).iter().eq(model.iter()));
    let mut long = SlabList::new(&session);
    let mut model = BTreeSet::new();
    for _ in 0..2000 {
        let number: [u64; 9] = std::array::from_fn(|_| random.below(4));
        assert_eq!(long.insert(&number).unwrap(), model.insert(number));
    }
    assert!(all(&long).iter().eq(model.iter()));
    assert_eq!((bytes.check(), long.check()), (Ok(()), Ok(())));
}

#[test]
fn a_few_elements_cost_little() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list = SlabList::new(&session);
    (0..10u64).for_each(|number| assert!(list.insert(&number).unwrap()));
    assert!(size_of_val(&list) + list.own_bytes() <= 200, "{} and {}", size_of_val(&list), list.own_bytes());
}

#[test]
fn in_blocks_of_all_sizes() {
    for size in [1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let heap = Heap::new(Options::new().block_size(size).limit(Limit::Blocks(3))).unwrap();
        let session = heap.session().unwrap();
        let (mut list, mut set) = (SlabList::new(&session), BTreeSet::new());
        let random = &mut Random(size as u64);
        against_a_set(&mut list, &mut set, random, 1 << 40, 8, 20_000);
        against_a_set(&mut list, &mut set, random, 1 << 40, 0, 1000);
    }
}

/// The record of the last element must be right after each leaf that is filled at the end.
#[test]
fn between_the_last_two() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list = SlabList::new(&session);
    for number in 1..20_000u64 {
        assert!(list.insert(&(10 * number)).unwrap());
        assert!(list.insert(&(10 * number - 5)).unwrap());
    }
    assert_eq!(list.check(), Ok(()));
    assert!(all(&list).into_iter().eq((1..20_000).flat_map(|number| [10 * number - 5, 10 * number])));
}

/// Only lists that are also small in bytes are in plain memory, however their elements were added.
#[test]
fn small_lists_of_long_strings() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list: SlabList<'_, str, Ordered> = SlabList::ordered(&session);
    for number in 0..100 {
        list.push("x").unwrap();
        let long = std::iter::repeat_n(char::from(b'a' + number % 26), 500).collect::<std::string::String>();
        list.set_at(number.into(), &long).unwrap();
    }
    assert!(matches!(list.body, Body::Large(_)));
    assert_eq!(list.check_leaves(), Ok(()));
    assert!(
        all(&list)
            .iter()
            .enumerate()
            .all(|(at, text)| text.len() == 500 && text.as_bytes()[7] == b'a' + at as u8 % 26)
    );
}

/// An empty string has no bytes and no place, whatever is added and removed around it.
#[test]
fn the_empty_string() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list = SlabList::<str>::new(&session);
    let texts: Vec<_> = (0..70).map(|number| std::format!("{number:03}")).collect();
    assert!(list.insert("").unwrap());
    texts.iter().for_each(|text| assert!(list.insert(text).unwrap()));
    // The last ones were added last, so they are lowest, and the empty one is below all others.
    let (first, last) = texts.split_at(60);
    for text in last.iter().rev().chain(first) {
        assert_eq!(list.remove(text.as_str()).unwrap().as_ref(), Some(text));
        assert_eq!(list.check(), Ok(()));
    }
    for text in &texts {
        assert!(list.insert(text).unwrap());
        assert_eq!(list.check(), Ok(()));
    }
    assert_eq!(list.remove("").unwrap().as_deref(), Some(""));
    assert_eq!(list.check(), Ok(()));
    assert_eq!(all(&list), texts);
}
