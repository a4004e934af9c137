//! Slab lists and maps of strings, of which some are so long that they have nodes of their own.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::string::String;
use std::vec::Vec;

use super::{at_each_call, by_text, call, each_heap, string, with_panic_at};
use crate::collections::{Ordered, SlabList, SlabMap};
use crate::heap::Heap;
use crate::random::Random;

type Texts<'s> = SlabList<'s, str, fn(&str, &str) -> Ordering>;

fn all<C>(list: &SlabList<'_, str, C>) -> Vec<String> {
    list.iter().map(Result::unwrap).collect()
}

/// A list of strings of which one in `rarely` is long.
fn orders(heap: &Heap, turns: usize, rarely: u64) {
    let session = heap.session().unwrap();
    let random = &mut Random(rarely);
    let order: fn(&str, &str) -> Ordering = by_text;
    let (mut list, mut model) = (SlabList::by(&session, order), BTreeSet::new());
    let mut panics = 0;
    for turn in 0..turns {
        let (element, adds) = (string(random.below(800), rarely), 3 + 5 * u64::from(turn < turns / 3 * 2));
        let look = &mut Random(turn as u64);
        let see = |list: &mut Texts<'_>| {
            assert_eq!(list.len(), model.len() as u64);
            if look.below(8) == 0 {
                assert_eq!(list.check(), Ok(()));
                assert!(all(list).iter().eq(&model));
            }
        };
        panics += match random.below(10) {
            0 => at_each_call(&mut list, |list| list.get(&element).map(drop).unwrap(), see).1,
            1 => {
                let (old, panics) = at_each_call(&mut list, |list| list.replace(&element).unwrap(), see);
                assert_eq!(old.is_none(), model.insert(element));
                panics
            }
            what if what < adds => {
                let (is_new, panics) = at_each_call(&mut list, |list| list.insert(&element).unwrap(), see);
                assert_eq!(is_new, model.insert(element));
                panics
            }
            _ => {
                let (gone, panics) = at_each_call(&mut list, |list| list.remove(&element).unwrap(), see);
                assert_eq!(gone.is_some(), model.remove(&element));
                panics
            }
        };
    }
    assert!(panics > turns as u64, "{panics}");
    let range = (Bound::Included("30"), Bound::Excluded("long 6"));
    let see = |list: &mut Texts<'_>| assert!(all(list).iter().eq(&model));
    let (taken, _) = at_each_call(&mut list, |list| list.extract(range).unwrap(), see);
    assert!(all(&taken).iter().eq(model.range::<str, _>(range)));
    assert_eq!((list.check(), taken.check()), (Ok(()), Ok(())));
}

#[test]
fn orders_of_strings() {
    each_heap(|heap, turns| orders(heap, 25 * turns, 10));
}

#[test]
fn sorting_strings() {
    each_heap(|heap, turns| {
        let session = heap.session().unwrap();
        for len in [5, 70, 200].into_iter().take(if turns > 10 { 3 } else { 1 }) {
            let mut list = SlabList::<str, _>::ordered(&session);
            let elements = || (0..len).inspect(|_| call()).map(|number| string(number * 7919 % 2003, 5));
            // Elements added before the panic stay.
            let mut n = 1;
            while with_panic_at(n, || list.push_all(elements()).unwrap()).is_none() {
                assert_eq!((list.check_leaves(), list.len()), (Ok(()), n - 1));
                list.clear().unwrap();
                assert_eq!(heap.stats().nodes, 0);
                n += 1 + n / 4;
            }
            let before = all(&list);
            let order: fn(&str, &str) -> Ordering = by_text;
            let (mut n, nodes) = (1, heap.stats().nodes);
            while with_panic_at(n, || list.sort_by(&order).unwrap()).is_none() {
                assert_eq!((list.check_leaves(), heap.stats().nodes), (Ok(()), nodes));
                assert_eq!(all(&list), before);
                n += 1 + n / 10;
            }
            let same = |element: String| {
                call();
                element
            };
            let (mut n, nodes) = (1, heap.stats().nodes);
            while with_panic_at(n, || drop(list.map::<str>(same).unwrap())).is_none() {
                assert_eq!(heap.stats().nodes, nodes);
                n += 1 + n / 10;
            }
            let longest = |most: usize, element: String| {
                call();
                most.max(element.len())
            };
            let see = |list: &mut SlabList<'_, str, Ordered>| assert_eq!(list.len(), len);
            assert!(at_each_call(&mut list, |list| list.fold(0, longest).unwrap(), see).0 > 4);
        }
    });
}

#[test]
fn maps_of_strings() {
    each_heap(|heap, turns| {
        let session = heap.session().unwrap();
        let random = &mut Random(3);
        let order: fn(&str, &str) -> Ordering = by_text;
        type Map<'s> = SlabMap<'s, str, str, fn(&str, &str) -> Ordering>;
        let (mut map, mut model): (Map<'_>, _) = (SlabMap::by(&session, order), BTreeMap::new());
        for turn in 0..15 * turns {
            let (key, value) = (string(random.below(300), 30), string(random.below(300), 4));
            let look = &mut Random(turn as u64);
            let see = |map: &mut Map<'_>| {
                assert_eq!(map.len(), model.len() as u64);
                if look.below(8) == 0 {
                    assert_eq!(map.check(), Ok(()));
                    assert!(map.iter().map(Result::unwrap).eq(model.clone()));
                }
            };
            match random.below(10) {
                0..5 => {
                    let (old, _) = at_each_call(&mut map, |map| map.insert(&key, &value).unwrap(), see);
                    assert_eq!(old, model.insert(key, value));
                }
                5..8 => {
                    let enter = |map: &mut Map<'_>| {
                        let entry = map.entry(&key).unwrap().and_modify(|old| {
                            old.clone_from(&value);
                            call();
                        });
                        entry.unwrap().or_insert(&value).unwrap()
                    };
                    at_each_call(&mut map, enter, see);
                    model.insert(key, value);
                }
                _ => {
                    let (old, _) = at_each_call(&mut map, |map| map.remove(&key).unwrap(), see);
                    assert_eq!(old, model.remove(&key));
                }
            }
        }
    });
}

/// For `make test-all`.
mod slow {
    use super::*;

    /// Leaves are also changed for elements that get nodes of their own, and then searched again.
    #[test]
    fn orders_of_long_strings() {
        each_heap(|heap, turns| orders(heap, 25 * turns, 2));
    }
}
