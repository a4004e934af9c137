//! Slab lists and maps of elements of one size.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::{Number, at_each_call, call, each_heap, with_panic_at};
use crate::collections::{Natural, Ordered, SlabList, SlabMap};
use crate::random::Random;

fn numbers<C>(list: &SlabList<'_, Number, C>) -> Vec<u64> {
    list.iter().map(|number| number.unwrap().0).collect()
}

/// Checks that a list is unchanged; a complete check is made once in `rarely` panics.
fn is_as_it_was(list: &SlabList<'_, Number>, model: &BTreeSet<u64>, random: &mut Random) {
    assert_eq!(list.len(), model.len() as u64);
    if random.below(8) == 0 {
        assert_eq!(list.check(), Ok(()));
        assert!(numbers(list).iter().eq(model));
    }
}

#[test]
fn orders_of_numbers() {
    each_heap(|heap, turns| {
        let session = heap.session().unwrap();
        let random = &mut Random(1);
        let (mut list, mut model) = (SlabList::<Number>::new(&session), BTreeSet::new());
        let mut panics = 0;
        for turn in 0..40 * turns {
            // It grows to several leaves, and shrinks.
            let (number, adds) = (random.below(3000), 4 + 4 * u64::from(turn < 25 * turns));
            let look = &mut Random(turn as u64);
            let see = |list: &mut SlabList<'_, Number>| is_as_it_was(list, &model, look);
            let one = Number(number);
            panics += match random.below(10) {
                0 => at_each_call(&mut list, |list| list.contains(&one).unwrap(), see).1,
                1 => at_each_call(&mut list, |list| list.cursor_of(&one).map(drop).unwrap(), see).1,
                2 => {
                    let (old, panics) = at_each_call(&mut list, |list| list.replace(&one).unwrap(), see);
                    assert_eq!(old.is_none(), model.insert(number));
                    panics
                }
                what if what < adds => {
                    let (is_new, panics) = at_each_call(&mut list, |list| list.insert(&one).unwrap(), see);
                    assert_eq!(is_new, model.insert(number));
                    panics
                }
                _ => {
                    let (gone, panics) = at_each_call(&mut list, |list| list.remove(&one).unwrap(), see);
                    assert_eq!(gone.is_some(), model.remove(&number));
                    panics
                }
            };
        }
        assert!(panics > 100 * turns as u64, "{panics}");
        assert_eq!(list.check(), Ok(()));
        let (from, to) = (Number(500), Number(900));
        let see = |list: &mut SlabList<'_, Number>| assert!(numbers(list).iter().eq(&model));
        let (taken, panics) = at_each_call(&mut list, |list| list.extract(from..to).unwrap(), see);
        assert!(panics > 0 && numbers(&taken).iter().eq(model.range(500..900)));
        let (count, panics) = at_each_call(&mut list, |list| list.remove_range(to..).unwrap(), |_| {});
        assert!(panics > 0 && count == model.range(900..).count() as u64);
        assert!(numbers(&list).iter().eq(model.range(..500)));
        assert_eq!((list.check(), taken.check()), (Ok(()), Ok(())));
    });
}

/// Lists in plain memory, of one leaf, of several, and of several that are sorted in runs.
const LENGTHS: [u64; 4] = [5, 61, 300, 1100];

#[test]
fn sorting() {
    each_heap(|heap, turns| {
        let session = heap.session().unwrap();
        for len in LENGTHS.into_iter().filter(|len| turns > 10 || *len < 300) {
            let mut list = SlabList::<Number, _>::ordered(&session);
            (0..len).for_each(|number| list.push(&Number(number * 7919 % 2003)).unwrap());
            let before = numbers(&list);
            // Only some of the panics: there are ten thousand comparisons.
            let mut n = 1;
            while with_panic_at(n, || list.sort().unwrap()).is_none() {
                assert_eq!((list.check_leaves(), numbers(&list)), (Ok(()), before.clone()));
                n += 1 + n / 20;
            }
            let mut sorted = before.clone();
            sorted.sort_unstable();
            assert!(n > 3 && numbers(&list) == sorted);
            let mut n = 1;
            // Elements that were moved away are also dropped.
            loop {
                let mut given = SlabList::<Number, _>::ordered(&session);
                before.iter().for_each(|number| given.push(&Number(*number)).unwrap());
                if let Some(list) = with_panic_at(n, || given.into_sorted(Natural).unwrap()) {
                    assert_eq!((list.check(), numbers(&list)), (Ok(()), sorted));
                    break;
                }
                n += 1 + n / 4;
            }
        }
    });
}

/// Closures that see each element, and iterators that supply some.
#[test]
fn folds_maps_and_iterators() {
    each_heap(|heap, turns| {
        let session = heap.session().unwrap();
        for len in LENGTHS.into_iter().filter(|len| turns > 10 || *len < 100) {
            let mut list = SlabList::<Number, _>::ordered(&session);
            let elements = || (0..len).inspect(|_| call()).map(Number);
            // Elements added before the panic stay.
            let mut n = 1;
            while with_panic_at(n, || list.push_all(elements()).unwrap()).is_none() {
                assert_eq!(list.check_leaves(), Ok(()));
                assert!(list.len() < n.min(len) && numbers(&list).into_iter().eq(0..list.len()));
                list.clear().unwrap();
                n += 1 + n / 4;
            }
            assert!(n > len && list.len() == len);
            let mut set = SlabList::<Number>::new(&session);
            while with_panic_at(n, || set.extend(elements()).unwrap()).is_none() {
                assert_eq!(set.check(), Ok(()));
                assert!(set.len() < len && numbers(&set).into_iter().eq(0..set.len()));
                n += n / 4;
            }
            let sum = len * (len - 1) / 2;
            let see = |list: &mut SlabList<'_, Number, Ordered>| assert_eq!(list.len(), len);
            let add = |sum: u64, number: Number| {
                call();
                sum + number.0
            };
            assert_eq!(at_each_call(&mut list, |list| list.fold(0, add).unwrap(), see), (sum, len));
            assert_eq!(at_each_call(&mut list, |list| list.rfold(0, add).unwrap(), see), (sum, len));
            let before = heap.stats().nodes;
            let mut n = 1;
            let twice = |number: Number| {
                call();
                Number(2 * number.0)
            };
            while with_panic_at(n, || drop(list.map::<Number>(twice).unwrap())).is_none() {
                assert_eq!(heap.stats().nodes, before);
                n += 1 + n / 4;
            }
            let order = |a: &Number, b: &Number| a.cmp(b);
            let (equal, panics) =
                at_each_call(&mut list, |list| list.compare_with(&set, &order).unwrap(), see);
            assert!(equal.is_eq() && panics == len);
            assert_eq!((list.check_leaves(), heap.stats().nodes), (Ok(()), before));
        }
    });
}

#[cfg(feature = "rayon")]
#[test]
fn in_parallel() {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    let mut heap = crate::heap::Heap::new(crate::collections::testing::options()).unwrap();
    {
        let session = heap.session().unwrap();
        let mut list = SlabList::<u64, _>::ordered(&session);
        list.push_all(0..20_000).unwrap();
        let nodes = heap.stats().nodes;
        for n in (0..13).map(|power| 3u64.pow(power)) {
            let left = AtomicU64::new(n);
            let call = || {
                if left.fetch_sub(1, Relaxed) == 1 {
                    resume_unwind(std::boxed::Box::new("as planned"));
                }
            };
            let one = |sum: u64, number: u64| {
                call();
                sum + number
            };
            let folded = catch_unwind(AssertUnwindSafe(|| list.par_fold(|| 0, one, |a, b| a + b).unwrap()));
            assert_eq!(folded.ok(), (n > 20_000).then_some(199_990_000));
            left.store(n, Relaxed);
            let same = |number: u64| {
                call();
                number
            };
            let mapped = catch_unwind(AssertUnwindSafe(|| drop(list.par_map::<u64>(same).unwrap())));
            assert_eq!(mapped.is_ok(), n > 20_000);
            assert_eq!(heap.stats().nodes, nodes);
        }
        assert_eq!(list.check_leaves(), Ok(()));
    }
    assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
}

#[test]
fn maps() {
    each_heap(|heap, turns| {
        let session = heap.session().unwrap();
        let random = &mut Random(2);
        let (mut map, mut model) = (SlabMap::<Number, u64>::new(&session), BTreeMap::new());
        for turn in 0..20 * turns {
            let number = random.below(500);
            let (key, value) = (Number(number), turn as u64);
            let look = &mut Random(value);
            let see = |map: &mut SlabMap<'_, Number, u64>| {
                assert_eq!(map.len(), model.len() as u64);
                if look.below(8) == 0 {
                    assert_eq!(map.check(), Ok(()));
                    let all = map.iter().map(Result::unwrap).map(|(key, value)| (key.0, value));
                    assert!(all.eq(model.iter().map(|(key, value)| (*key, *value))));
                }
            };
            match random.below(10) {
                0..5 => {
                    let (old, _) = at_each_call(&mut map, |map| map.insert(&key, &value).unwrap(), see);
                    assert_eq!(old, model.insert(number, value));
                }
                5..8 => {
                    // Only a copy is changed, which nobody sees before it is stored.
                    let enter = |map: &mut SlabMap<'_, Number, u64>| {
                        let entry = map.entry(&key).unwrap().and_modify(|value| {
                            *value += 1;
                            call();
                        });
                        entry.unwrap().value().copied()
                    };
                    let (new, _) = at_each_call(&mut map, enter, see);
                    assert_eq!(
                        new,
                        model.get_mut(&number).map(|value| {
                            *value += 1;
                            *value
                        })
                    );
                }
                _ => {
                    let (old, _) = at_each_call(&mut map, |map| map.remove(&key).unwrap(), see);
                    assert_eq!(old, model.remove(&number));
                }
            }
        }
        assert!(turns < 10 || model.len() > 100);
    });
}

#[cfg(feature = "serde")]
#[test]
fn serialized() {
    use crate::collections::slablist::Fill;
    use serde::de::DeserializeSeed;
    use serde::de::value::{Error, SeqDeserializer};

    each_heap(|heap, _| {
        let session = heap.session().unwrap();
        let mut list = SlabList::<u64, _>::ordered(&session);
        for n in 1..=100 {
            let given = SeqDeserializer::<_, Error>::new(0..100u64);
            let fill = Fill::<u64, _>::new(|element: &u64| {
                call();
                list.push(element)
            });
            assert!(with_panic_at(n, || fill.deserialize(given)).is_none());
            assert_eq!((list.check_leaves(), list.len()), (Ok(()), n - 1));
            list.clear().unwrap();
        }
    });
}
