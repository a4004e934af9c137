//! Compares slab lists of all kinds of elements with the standard library's collections: sorted lists,
//! ordered lists, and cursors.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Bound;
use std::string::String;

use super::*;

/// Elements that can be made at random.
trait Made: Element<Owned: Clone + Debug + Ord> + Ord {
    fn make(random: &mut Random) -> Owned<Self>;
}

/// Few values, far apart, so that leaves are stored as ascending numbers and searched in that form.
impl Made for u64 {
    fn make(random: &mut Random) -> u64 {
        let number = random.below(5000);
        number << 50 | Random(number).next() >> 14
    }
}

/// The length of an element: mostly short, sometimes long, and sometimes longer than a block.
fn length(random: &mut Random) -> usize {
    match random.below(200) {
        0 => random.below(20_000) as usize,
        1..5 => random.below(700) as usize,
        _ => random.below(30) as usize,
    }
}

impl Made for str {
    fn make(random: &mut Random) -> String {
        let (head, len) = (random.below(4) as usize, length(random));
        let heads = ["", "user:", "a prefix that is as long as a leaf's can be, or longer/", "é"];
        let rest = (0..len).map(|_| if random.below(2) == 0 { 'a' } else { 'b' });
        heads[head].chars().chain(rest).collect()
    }
}

impl Made for [u8] {
    fn make(random: &mut Random) -> Vec<u8> {
        (0..length(random)).map(|_| random.below(3) as u8 * 127).collect()
    }
}

fn bounds<E: ?Sized + Made>(random: &mut Random) -> (Bound<Owned<E>>, Bound<Owned<E>>) {
    let mut bound = || {
        let element = E::make(random);
        match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(element),
            _ => Bound::Excluded(element),
        }
    };
    (bound(), bound())
}

fn borrowed<E: ?Sized + Made>(bound: &Bound<Owned<E>>) -> Bound<&E> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(element) => Bound::Included(element.borrow()),
        Bound::Excluded(element) => Bound::Excluded(element.borrow()),
    }
}

fn sorted_list<E: ?Sized + Made, C: Compare<E>>(order: C, backwards: bool, turns: usize) -> u64 {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(turns as u64);
    let mut list = SlabList::<E, C>::by(&session, order);
    let mut model: BTreeSet<Owned<E>> = BTreeSet::new();
    for turn in 0..turns {
        let element = E::make(random);
        let grows = turn / 1000 % 3 < 2;
        match random.below(100) {
            0 if !backwards => {
                let (from, to) = bounds::<E>(random);
                let range = (borrowed::<E>(&from), borrowed::<E>(&to));
                let inside =
                    |other: &&Owned<E>| std::ops::RangeBounds::contains(&range, Borrow::<E>::borrow(*other));
                let wanted: Vec<_> = model.iter().filter(inside).cloned().collect();
                let some: Vec<_> = list.range(range).unwrap().map(Result::unwrap).collect();
                assert_eq!(some, wanted);
                let mut some: Vec<_> = list.range(range).unwrap().rev().map(Result::unwrap).collect();
                some.reverse();
                assert_eq!(some, wanted);
                if wanted.len() < 200 || random.below(10) == 0 {
                    assert_eq!(list.remove_range(range).unwrap(), wanted.len() as u64);
                    wanted.iter().for_each(|element| assert!(model.remove::<E>(element.borrow())));
                }
            }
            1 => {
                let old = list.replace(element.borrow()).unwrap();
                assert_eq!(old, model.replace(element));
            }
            2..10 => {
                assert_eq!(list.contains(element.borrow()).unwrap(), model.contains::<E>(element.borrow()))
            }
            10..15 => {
                assert_eq!(list.get(element.borrow()).unwrap().as_ref(), model.get::<E>(element.borrow()))
            }
            15..17 if !backwards => {
                let number =
                    model.range::<E, _>((Bound::Unbounded, Bound::Excluded(element.borrow()))).count() as u64;
                let here = model.contains::<E>(element.borrow()).then_some(number);
                assert_eq!(list.find(element.borrow()).unwrap(), here);
                assert_eq!(list.at(number).unwrap().as_ref(), model.iter().nth(number as usize));
            }
            what if (what < 70) == grows => {
                assert_eq!(list.insert(element.borrow()).unwrap(), model.insert(element));
            }
            _ => assert_eq!(list.remove(element.borrow()).unwrap(), model.take::<E>(element.borrow())),
        }
        if turn % 500 == 0 {
            assert_eq!(list.check(), Ok(()));
        }
    }
    let mut all = all(&list);
    if backwards {
        all.reverse();
    }
    assert!(all.iter().eq(&model));
    assert!(list.len() > 60, "{}", list.len());
    drop(list);
    assert_eq!(heap.stats().nodes, 0);
    heap.stats().peeks
}

#[test]
fn sorted_lists() {
    sorted_list::<str, _>(Natural, false, 12_000);
    sorted_list::<[u8], _>(Natural, false, 12_000);
    let peeks = sorted_list::<u64, _>(Natural, false, 12_000);
    assert!(peeks > 100, "{peeks}");
    sorted_list::<str, _>(|a: &str, b: &str| b.cmp(a), true, 6000);
}

/// A cursor and its expected position: the number of an element, or, if the flag is set, the gap before it.
type Known = (Cursor, u64, bool);

fn ordered_list<E: ?Sized + Made>(turns: usize) {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(turns as u64 + 1);
    let mut list = SlabList::<E, _>::ordered(&session);
    let (mut model, mut cursors): (Vec<Owned<E>>, Vec<Known>) = (Vec::new(), Vec::new());
    let gone = |cursors: &mut Vec<Known>, from: u64, to: u64| {
        for (_, number, is_gap) in cursors {
            if *number >= to {
                *number -= to - from;
            } else if *number >= from {
                (*number, *is_gap) = (from, true);
            }
        }
    };
    for turn in 0..turns {
        let element = E::make(random);
        let len = model.len() as u64;
        let number = random.below(len + 1);
        match random.below(100) {
            0 => {
                list.reverse().unwrap();
                model.reverse();
                for (_, number, is_gap) in &mut cursors {
                    *number = len - *number - u64::from(!*is_gap);
                }
            }
            1 if turn % 7 == 0 => {
                list.sort().unwrap();
                model.sort();
            }
            2 => {
                let to = (number + random.below(if turn % 50 == 0 { 300 } else { 20 })).min(len);
                assert_eq!(
                    list.remove_slice(number..if to == len { to + 5 } else { to }).unwrap(),
                    to - number
                );
                model.drain(number as usize..to as usize);
                if to > number {
                    gone(&mut cursors, number, to);
                }
            }
            3 => {
                let to = (number + random.below(if turn % 50 == 0 { 300 } else { 20 })).min(len);
                let part = list.extract_slice(number..to).unwrap();
                assert!(all(&part).into_iter().eq(model.drain(number as usize..to as usize)));
                if to > number {
                    gone(&mut cursors, number, to);
                }
            }
            4 if len > 0 && cursors.len() < 8 => {
                let number = number.min(len - 1);
                cursors.push((list.cursor_at(number).unwrap(), number, false));
            }
            5 if !cursors.is_empty() => {
                let (cursor, ..) = cursors.swap_remove(random.below(cursors.len() as u64) as usize);
                list.drop_cursor(cursor);
                assert_eq!(list.at_cursor(cursor).unwrap(), None);
            }
            6..20 if !cursors.is_empty() => {
                let at = random.below(cursors.len() as u64) as usize;
                let (cursor, number, is_gap) = &mut cursors[at];
                let here = if *is_gap { None } else { model.get(*number as usize) };
                assert_eq!(list.at_cursor(*cursor).unwrap().as_ref(), here);
                let forward = random.below(2) == 0;
                let next = if forward { Some(*number + u64::from(!*is_gap)) } else { number.checked_sub(1) };
                let next = next.filter(|next| *next < len);
                let moved = if forward { list.next(*cursor) } else { list.previous(*cursor) };
                assert_eq!(moved.unwrap().as_ref(), next.map(|next| &model[next as usize]));
                if let Some(next) = next {
                    (*number, *is_gap) = (next, false);
                }
            }
            20..25 => {
                let old = list.set_at(number, element.borrow()).unwrap();
                let slot = model.get_mut(number as usize);
                assert_eq!(old, slot.map(|slot| std::mem::replace(slot, element)));
            }
            25..40 => {
                let removed = list.remove_at(number).unwrap();
                if number < len {
                    assert_eq!(removed, Some(model.remove(number as usize)));
                    gone(&mut cursors, number, number + 1);
                } else {
                    assert_eq!(removed, None);
                }
            }
            40..60 => {
                list.push(element.borrow()).unwrap();
                model.push(element);
            }
            _ => {
                assert!(list.insert_at(number, element.borrow()).unwrap());
                model.insert(number as usize, element);
                for (_, at, is_gap) in &mut cursors {
                    *at += u64::from(number < *at || number == *at && !*is_gap);
                }
            }
        }
        if turn % 500 == 0 {
            assert_eq!(list.check_leaves(), Ok(()));
            assert_eq!(all(&list), model);
        }
    }
    assert_eq!(all(&list), model);
    assert!(model.len() > 300, "{}", model.len());
    assert!(list.slice(10..70).map(Result::unwrap).eq(model[10..70].iter().cloned()));
    assert!(
        list.slice(5..model.len() as u64 - 5)
            .rev()
            .map(Result::unwrap)
            .eq(model[5..model.len() - 5].iter().rev().cloned())
    );
    let sorted = list.into_sorted(Natural).unwrap();
    model.sort();
    assert_eq!((sorted.check(), all(&sorted)), (Ok(()), model));
    drop(sorted);
    assert_eq!(heap.stats().nodes, 0);
}

#[test]
fn ordered_lists() {
    ordered_list::<u64>(12_000);
    ordered_list::<str>(6000);
    ordered_list::<[u8]>(6000);
}

/// The standard library's sort may panic if a comparison is not a total order; this one must not.
#[test]
fn sorting_by_an_inconsistent_comparison_keeps_all_elements() {
    let heap = heap();
    let session = heap.session().unwrap();
    let random = std::cell::RefCell::new(Random(3));
    let mut list = SlabList::<u64, _>::ordered(&session);
    list.push_all(0..20_000u64).unwrap();
    list.sort_by(&|a: &u64, b: &u64| match random.borrow_mut().below(3) {
        0 => a.cmp(b),
        1 => b.cmp(a),
        _ => Ordering::Less,
    })
    .unwrap();
    let mut left = all(&list);
    assert!(!left.is_sorted());
    left.sort_unstable();
    assert!(left.into_iter().eq(0..20_000));
    // With a consistent comparison, the sort is stable.
    list.sort().unwrap();
    list.sort_by(&|a: &u64, b: &u64| (b % 100).cmp(&(a % 100))).unwrap();
    let mut model: Vec<_> = (0..20_000u64).collect();
    model.sort_by_key(|number| 99 - number % 100);
    assert_eq!(all(&list), model);
}

#[test]
fn iteration_from_both_ends() {
    let heap = heap();
    let session = heap.session().unwrap();
    for len in [0, 1, 5, 59, 61, 200, 5000u64] {
        let mut list = SlabList::new(&session);
        assert_eq!(list.extend(0..len).unwrap(), len);
        let random = &mut Random(len);
        let (mut iter, mut model) = (list.iter(), 0..len);
        loop {
            let (a, b) = match random.below(10) {
                0..4 => (iter.next(), model.next()),
                4..8 => (iter.next_back(), model.next_back()),
                _ => {
                    assert_eq!(iter.size_hint().0 as u64, model.end - model.start);
                    continue;
                }
            };
            assert_eq!(a.transpose().unwrap(), b);
            if b.is_none() {
                break;
            }
        }
        assert!(iter.next().is_none() && iter.next_back().is_none());
        assert_eq!(list.fold(0, |all, number| all + number).unwrap(), len * len.saturating_sub(1) / 2);
    }
}

#[test]
fn a_circular_list_has_no_end() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list = SlabList::<u32, _>::ordered(&session).circular().named("ring");
    list.push_all([1, 2, 3]).unwrap();
    let cursor = list.cursor_at(1).unwrap();
    let seen: Vec<_> = (0..5).map(|_| list.next(cursor).unwrap().unwrap()).collect();
    assert_eq!(seen, [3, 1, 2, 3, 1]);
    assert_eq!(list.previous(cursor).unwrap(), Some(3));
    assert_eq!(std::format!("{list:?}"), "SlabList { name: \"ring\", len: 3, .. }");
}
