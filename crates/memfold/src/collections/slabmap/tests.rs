//! Maps against the standard library's.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::collections::testing::{heaps, steps_that_fail};
use crate::heap::{Heap, Limit, Options};
use crate::random::Random;

fn heap() -> Heap {
    Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(4 << 10)).unwrap()
}

/// Random operations on a map and a model, with keys and values that `make` makes.
fn against_a_map<K, V>(turns: usize, make: impl Fn(&mut Random) -> (K::Owned, V::Owned))
where
    K: ?Sized + Key<V> + Ord,
    V: ?Sized + Element,
    K::Owned: Ord + Clone + fmt::Debug,
    V::Owned: PartialEq + Clone + fmt::Debug,
{
    let heap = heap();
    let session = heap.session().unwrap();
    let random = &mut Random(turns as u64);
    let mut map = SlabMap::<K, V>::new(&session);
    let mut model: BTreeMap<K::Owned, V::Owned> = BTreeMap::new();
    for turn in 0..turns {
        let (key, value) = make(random);
        match random.below(100) {
            0 => {
                let (to, _) = make(random);
                let (from, to) = if key < to { (key, to) } else { (to, key) };
                let range = (Bound::Excluded(from.borrow()), Bound::Included(to.borrow()));
                let inside: Vec<_> =
                    model.range::<K, _>(range).map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(map.range(range).unwrap().map(Result::unwrap).collect::<Vec<_>>(), inside);
                assert_eq!(map.range(range).unwrap().rev().count(), inside.len());
                let numbers = map.numbers(range).unwrap();
                assert_eq!(map.slice(numbers.clone()).map(Result::unwrap).collect::<Vec<_>>(), inside);
                if inside.len() == 1 {
                    assert_eq!(map.remove_slice(numbers.start..numbers.start).unwrap(), 0);
                    assert_eq!(map.remove_slice(numbers).unwrap(), 1);
                    assert!(model.remove::<K>(inside[0].0.borrow()).is_some());
                    continue;
                }
                if inside.len() < 50 {
                    assert_eq!(map.remove_range(range).unwrap(), inside.len() as u64);
                    inside.iter().for_each(|(key, _)| assert!(model.remove::<K>(key.borrow()).is_some()));
                }
            }
            1..55 => assert_eq!(map.insert(key.borrow(), value.borrow()).unwrap(), model.insert(key, value)),
            55..65 => {
                let known = map.entry(key.borrow()).unwrap().or_insert(value.borrow()).unwrap();
                assert_eq!(&known, model.entry(key).or_insert(value));
            }
            65..72 => {
                let (_, other) = make(random);
                let to = |known: &mut V::Owned| *known = value.borrow().to_owned();
                let entry = map.entry(key.borrow()).unwrap().and_modify(to).unwrap();
                let again = |known: &mut V::Owned| *known = other.borrow().to_owned();
                let known = entry.and_modify(again).unwrap().or_insert(value.borrow()).unwrap();
                let of_model = model.entry(key).and_modify(|known| *known = other.clone()).or_insert(value);
                assert_eq!(&known, of_model);
            }
            72..80 => assert_eq!(map.get(key.borrow()).unwrap().as_ref(), model.get::<K>(key.borrow())),
            80..85 => {
                assert_eq!(map.contains_key(key.borrow()).unwrap(), model.contains_key::<K>(key.borrow()))
            }
            _ => assert_eq!(map.remove(key.borrow()).unwrap(), model.remove::<K>(key.borrow())),
        }
        if turn % 1000 == 0 {
            assert_eq!(map.check(), Ok(()));
        }
    }
    assert!(model.len() > 200, "{}", model.len());
    assert!(map.iter().map(Result::unwrap).eq(model.clone()));
    assert_eq!(map.first().unwrap(), model.iter().next().map(|(key, value)| (key.clone(), value.clone())));
    drop(map);
    assert_eq!(heap.stats().nodes, 0);
}

#[test]
fn against_the_standard_librarys() {
    against_a_map::<u64, u64>(10_000, |random| (random.below(3000), random.next()));
    against_a_map::<u16, [u8; 5]>(5000, |random| {
        (random.below(3000) as u16, random.next().to_le_bytes()[..5].try_into().unwrap())
    });
    let text = |random: &mut Random| {
        let more = if random.below(300) == 0 { 9000 } else { random.below(40) };
        "value ".repeat(more as usize)
    };
    against_a_map::<str, u32>(5000, |random| (format!("key {}", random.below(1000)), random.next() as u32));
    against_a_map::<i64, str>(5000, |random| (random.below(1000) as i64 - 500, text(random)));
    against_a_map::<str, str>(3000, |random| (format!("{}", random.below(1000)), text(random)));
    against_a_map::<[u8], [u8]>(3000, |random| {
        let key = (random.below(1000) as u16).to_le_bytes();
        (key[..1 + usize::from(key[1] > 0)].to_vec(), text(random).into_bytes())
    });
}

/// Keys made of the bytes that structure records, some a prefix of others, and values that look like keys.
#[test]
fn keys_of_any_bytes_are_in_order() {
    let bytes = |random: &mut Random, most: u64| -> Vec<u8> {
        (0..random.below(most)).map(|_| [0, 0, 1, 0xfe, 0xff][random.below(5) as usize]).collect()
    };
    against_a_map::<[u8], [u8]>(8000, |random| (bytes(random, 7), bytes(random, 12)));
    against_a_map::<[u8], u8>(8000, |random| (bytes(random, 9), random.below(2) as u8));
    // Many share a beginning longer than a leaf's prefix; keys, values or both are too long for a leaf.
    against_a_map::<[u8], [u8]>(4000, |random| {
        let begin = vec![0; [0, 3, 44, 60, 2000][random.below(5) as usize]];
        let value = vec![0xff; [0, 1, 50, 3000][random.below(4) as usize]];
        ([begin, bytes(random, 6)].concat(), value)
    });
    against_a_map::<str, str>(3000, |random| {
        let key: String =
            (0..random.below(6)).map(|_| ['\0', 'a', 'ÿ', '\u{10ffff}'][random.below(4) as usize]).collect();
        (key, "\0".repeat(random.below(400) as usize))
    });
}

#[test]
fn keys_in_an_order_of_the_programs_own() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut map = SlabMap::<str, u64, _>::by(&session, |a: &str, b: &str| b.cmp(a));
    let names: Vec<String> = (0..2000).map(|number| format!("name\0 {number:04}")).collect();
    for (number, name) in names.iter().enumerate() {
        map.insert(name, &(number as u64)).unwrap();
    }
    let entry = map.entry(&names[7]).unwrap().and_modify(|number| *number = 70).unwrap();
    assert_eq!(entry.or_insert(&1).unwrap(), 70);
    assert_eq!(map.get(&names[7]).unwrap(), Some(70));
    assert_eq!(map.first().unwrap(), Some((names[1999].clone(), 1999)));
    assert_eq!(map.check(), Ok(()));
}

#[test]
fn entries_are_changed() {
    let heap = heap();
    let session = heap.session().unwrap();
    let mut words = SlabMap::<str, u32>::new(&session);
    for word in "a b a c b a".split(' ') {
        words.entry(word).unwrap().and_modify(|count| *count += 1).unwrap().or_insert(&1).unwrap();
    }
    let all: Vec<(String, u32)> = words.iter().map(Result::unwrap).collect();
    assert_eq!(all, [("a".into(), 3), ("b".into(), 2), ("c".into(), 1)]);
    assert_eq!(format!("{words:?}"), "SlabMap { len: 3, .. }");
}

/// A map with its model.
struct Subject<'s, K: ?Sized + Key<V>, V: ?Sized + Element> {
    map: SlabMap<'s, K, V>,
    model: BTreeMap<K::Owned, V::Owned>,
    turn: u64,
}

type Both<K, V> = (<K as ToOwned>::Owned, <V as ToOwned>::Owned);

fn step<K, V>(
    subject: &mut Subject<'_, K, V>,
    random: &mut Random,
    entry: fn(u64, u64) -> Both<K, V>,
) -> Result<(), Error>
where
    K: ?Sized + Key<V> + Ord,
    V: ?Sized + Element,
    K::Owned: Ord + Clone + fmt::Debug,
    V::Owned: PartialEq + Clone + fmt::Debug,
{
    let Subject { map, model, turn } = subject;
    let (key, value) = entry(random.below(400), random.below(50));
    // It grows to several leaves, and shrinks.
    let adds = if *turn % 600 < 400 { 5 } else { 2 };
    match random.below(100) {
        0 => {
            let (from, len) = (random.below(map.len() + 1), map.len());
            let numbers = if random.below(6) == 0 { 0..len } else { from..len.min(from + random.below(40)) };
            assert_eq!(map.remove_slice(numbers.clone())?, numbers.end - numbers.start);
            let gone: Vec<_> = model.keys().take(numbers.end as usize).cloned().collect();
            gone.into_iter()
                .skip(numbers.start as usize)
                .for_each(|key| drop(model.remove::<K>(key.borrow())));
        }
        1 => drop(map.reap()?),
        2..10 => {
            let known = map.entry(key.borrow())?.or_insert(value.borrow())?;
            assert_eq!(&known, model.entry(key).or_insert(value));
        }
        10..20 => {
            let change = |known: &mut V::Owned| *known = value.clone();
            let is_there = map.entry(key.borrow())?.and_modify(change)?.value().is_some();
            assert_eq!(is_there, model.contains_key::<K>(key.borrow()));
            model.entry(key).and_modify(change);
        }
        what if what < 20 + adds * 10 => {
            assert_eq!(map.insert(key.borrow(), value.borrow())?, model.insert(key, value));
        }
        _ => assert_eq!(map.remove(key.borrow())?, model.remove::<K>(key.borrow())),
    }
    subject.turn += 1;
    Ok(())
}

/// An error is injected at each step of each operation, and from then on into every free: nothing has
/// changed, and nothing is left behind.
fn with_failures<K, V>(entry: fn(u64, u64) -> Both<K, V>)
where
    K: ?Sized + Key<V> + Ord,
    V: ?Sized + Element,
    K::Owned: Ord + Clone + fmt::Debug,
    V::Owned: PartialEq + Clone + fmt::Debug,
{
    for (mut heap, turns) in heaps() {
        {
            let session = heap.session().unwrap();
            let mut subject = Subject { map: SlabMap::new(&session), model: BTreeMap::new(), turn: 0 };
            let look = |subject: &mut Subject<'_, K, V>, failed: u64| {
                assert_eq!(subject.map.len(), subject.model.len() as u64);
                if failed.is_multiple_of(8) {
                    assert_eq!(subject.map.check(), Ok(()));
                    let all = subject.map.iter().map(Result::unwrap);
                    assert!(all.eq(subject.model.iter().map(|(key, value)| (key.clone(), value.clone()))));
                }
            };
            let step = |subject: &mut _, random: &mut _| step::<K, V>(subject, random, entry);
            let failed = steps_that_fail(&session, &mut subject, 40 * turns.max(15), step, look);
            assert!(failed > 50, "{failed}");
            look(&mut subject, 0);
        }
        assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
    }
}

#[test]
fn failures_leave_maps_as_they_were() {
    with_failures::<u64, u64>(|key, value| (key << 40, value));
    with_failures::<u32, str>(|key, value| (key as u32, "value ".repeat(value as usize * 3)));
    with_failures::<str, u64>(|key, value| (format!("key {key}").repeat(1 + key as usize % 5 * 60), value));
    with_failures::<str, str>(|key, value| (format!("{key}"), "value ".repeat(value as usize * 5)));
}
