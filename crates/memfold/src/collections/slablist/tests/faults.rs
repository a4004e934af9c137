//! Bugs of libslablist, version 1, from which these lists are derived: a test for each.

use std::cmp::Ordering;

use super::*;

/// Lists of all critical lengths: in plain memory, a full slab, several slabs, leaves, and sublayers above
/// them.
const LENGTHS: [u64; 8] = [1, 10, 60, 61, 126, 500, 5000, 60_000];

fn list_of<'s>(session: &'s Session<'_>, len: u64) -> SlabList<'s, u64> {
    let mut list = SlabList::new(session);
    assert_eq!(list.extend((0..len).map(|number| 2 * number)).unwrap(), len);
    list
}

/// Each list, and its length.
fn each(mut look: impl FnMut(SlabList<'_, u64>, u64)) {
    let heap = heap();
    let session = heap.session().unwrap();
    for len in LENGTHS {
        look(list_of(&session, len), len);
    }
}

/// Its binary search went one element past a full slab when the key to remove was greater than all of the
/// slab's.
#[test]
fn absent_elements_are_not_removed() {
    each(|mut list, len| {
        for absent in (0..len.min(300)).map(|number| 2 * number + 1).chain([2 * len, u64::MAX]) {
            assert_eq!(list.remove(&absent).unwrap(), None);
        }
        assert_eq!((list.len(), list.check()), (len, Ok(())));
    });
}

/// Its access by position mistook sublayers for slabs as soon as there were any.
#[test]
fn every_position_has_its_element() {
    each(|list, len| {
        for number in (0..len).step_by(1 + len as usize / 500).chain([len - 1]) {
            assert_eq!(list.at(number).unwrap(), Some(2 * number));
        }
        assert_eq!(list.at(len).unwrap(), None);
    });
}

/// Its comparison of two lists looked at the first one twice, and so found all lists equal.
#[test]
fn lists_that_differ_are_not_equal() {
    each(|list, len| {
        let mut other = list_of(list.session, len);
        assert_eq!(list.compare_with(&other, &Natural).unwrap(), Ordering::Equal);
        other.insert(&(2 * len)).unwrap();
        assert_eq!(list.compare_with(&other, &Natural).unwrap(), Ordering::Less);
        assert_eq!(other.compare_with(&list, &Natural).unwrap(), Ordering::Greater);
        other.remove(&0).unwrap();
        assert_eq!(list.compare_with(&other, &Natural).unwrap(), Ordering::Less);
    });
}

/// Iterating over a range that began and ended in one slab visited it twice.
#[test]
fn ranges_are_gone_over_once() {
    each(|list, len| {
        for (from, to) in [(0, 0), (0, 9), (3, 17), (100, 2 * len), (0, u64::MAX)] {
            let seen: Vec<_> = list.range(from..=to).unwrap().map(Result::unwrap).collect();
            let wanted: Vec<_> =
                (0..len).map(|number| 2 * number).filter(|x| (from..=to).contains(x)).collect();
            assert_eq!(seen, wanted);
        }
    });
}

/// Folding a range from its end dropped elements when the range's minimum was not in the list.
#[test]
fn folds_from_the_end_need_no_minimum() {
    each(|list, len| {
        let numbers = list.numbers(7..=2 * len).unwrap();
        let sum = list.rfold_slice(numbers, 0, |sum, element| sum + element).unwrap();
        assert_eq!(sum, (4..len).map(|number| 2 * number).sum::<u64>());
    });
}

/// Removing a range from a list in plain memory went on over nodes that it had already freed.
#[test]
fn ranges_are_removed_from_small_lists_too() {
    each(|mut list, len| {
        assert_eq!(list.remove_range(5..11).unwrap(), (3..6).filter(|number| *number < len).count() as u64);
        let left: Vec<_> = (0..len).map(|number| 2 * number).filter(|x| !(5..11).contains(x)).collect();
        assert_eq!((all(&list), list.check()), (left, Ok(())));
    });
}

/// Destroying a list never called the function that frees its elements: here those are the nodes of long
/// ones.
#[test]
fn nothing_is_left_of_a_list() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list = SlabList::<str>::new(&session);
    for number in 0..300 {
        list.insert(&std::format!("{number}").repeat(1 + number % 3 * 700)).unwrap();
    }
    assert!(heap.stats().nodes > 100);
    drop(list);
    assert_eq!(heap.stats().nodes, 0);
}

/// Adding to a list in plain memory kept the old element although it should have been replaced.
#[test]
fn small_lists_replace_too() {
    let heap = heap();
    let session = heap.session().unwrap();
    for len in LENGTHS {
        let mut list = SlabList::by(&session, |a: &[u64; 2], b: &[u64; 2]| a[0].cmp(&b[0]));
        list.extend((0..len).map(|number| [number, 0])).unwrap();
        assert_eq!(list.replace(&[len / 2, 1]).unwrap(), Some([len / 2, 0]));
        assert_eq!(list.get(&[len / 2, 0]).unwrap(), Some([len / 2, 1]));
        assert!(!list.insert(&[len / 2, 2]).unwrap());
        assert_eq!(list.get(&[len / 2, 0]).unwrap(), Some([len / 2, 1]));
        assert_eq!((list.len(), list.replace(&[len, 3]).unwrap(), list.check()), (len, None, Ok(())));
    }
}

/// Sorting a list in plain memory lost it; and after a reversal, its first and last element were still the
/// old ones.
#[test]
fn sorting_and_reversing_keep_all() {
    let heap = heap();
    let session = heap.session().unwrap();
    for len in LENGTHS {
        let mut list = SlabList::<u64, _>::ordered(&session);
        list.push_all((0..len).map(|number| (number * 7919) % 100_003)).unwrap();
        let mut model = all(&list);
        list.sort().unwrap();
        model.sort_unstable();
        assert_eq!(all(&list), model);
        list.reverse().unwrap();
        model.reverse();
        assert_eq!(all(&list), model);
        assert_eq!(
            (list.first().unwrap(), list.last().unwrap()),
            (model.first().copied(), model.last().copied())
        );
        let mut sorted = list.into_sorted(Natural).unwrap();
        assert_eq!(sorted.check(), Ok(()));
        assert_eq!(sorted.remove(&model[0]).unwrap(), Some(model[0]));
    }
}

/// After a change of the list, a bookmark pointed nowhere, or to freed memory. Here, elements with cursors
/// are removed; see also the cursors in `models.rs`.
#[test]
fn cursors_outlive_their_elements() {
    each(|mut list, len| {
        let cursors: Vec<_> = (0..len.min(200)).map(|number| list.cursor_at(number).unwrap()).collect();
        list.remove_range(1..).unwrap();
        assert_eq!(list.at_cursor(cursors[0]).unwrap(), Some(0));
        for cursor in &cursors[1..] {
            assert_eq!((list.at_cursor(*cursor).unwrap(), list.next(*cursor).unwrap()), (None, None));
            assert_eq!(list.previous(*cursor).unwrap(), Some(0));
        }
    });
}

/// The conditions for a list that packs all at once, as libslablist did: at least this many slabs, and at
/// least this part of all.
#[test]
fn reaps_at_thresholds() {
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    let packing = Packing::AtOnce { least_slabs: 100, least_percent: 30 };
    let mut list = SlabList::new(&session).packing(packing);
    list.extend(0..200_000u64).unwrap();
    let packs = |list: &SlabList<'_, u64>| list.stats().packs;
    let before = packs(&list);
    for number in 0..50_000 {
        list.remove(&(4 * number)).unwrap();
    }
    assert_eq!(packs(&list), before, "a quarter is less than is asked for");
    for number in 0..25_000 {
        list.remove(&(8 * number + 1)).unwrap();
    }
    assert!(packs(&list) > before && spare_leaves(&list) <= 20, "{}", spare_leaves(&list));
    assert_eq!((list.len(), list.check()), (125_000, Ok(())));
}

/// An error is injected at each step of each operation, and from then on into every free: nothing has
/// changed, and nothing is left behind.
#[test]
fn a_failed_operation_leaves_no_node() {
    let mut heap = heap();
    {
        let session = heap.session().unwrap();
        let random = &mut Random(5);
        let (mut list, mut set, mut failed) = (SlabList::<str>::new(&session), BTreeSet::new(), 0);
        for _ in 0..1500 {
            let (number, what) = (random.below(400), random.below(10));
            let text = std::format!("{number}").repeat(if number % 3 == 0 { 500 } else { 3 });
            for before in 0.. {
                let (done, _) = session.with_fault(before, || match what {
                    0..6 => list.insert(&text).map(|_| true),
                    6 => list.replace(&text).map(|_| true),
                    _ => list.remove(&text).map(|_| false),
                });
                match done {
                    Ok(true) => drop(set.insert(text)),
                    Ok(false) => drop(set.remove(&text)),
                    Err(error) => {
                        failed += 1;
                        assert_eq!((error, list.len()), (crate::heap::Error::Pinned, set.len() as u64));
                        assert!(failed % 8 > 0 || all(&list).iter().eq(&set));
                        continue;
                    }
                }
                break;
            }
        }
        assert!(failed > 500 && all(&list).iter().eq(&set), "{failed}");
        assert_eq!(list.check(), Ok(()));
    }
    assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
}
