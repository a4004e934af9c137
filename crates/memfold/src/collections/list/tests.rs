//! Lists of all kinds against a vector of the same elements with their cursors.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::*;
use crate::collections::testing::{Flaky, heaps, options};
use crate::heap::Heap;
use crate::random::Random;

/// The expected content of a list.
type Model<T> = Vec<(Cursor, <T as Content>::Owned)>;

/// Operations that only some kinds have.
type More<T, K> = fn(
    &mut List<'_, T, K>,
    &mut Model<T>,
    &mut Random,
    fn(u64) -> <T as Content>::Owned,
) -> Result<(), Error>;

fn number(number: u64) -> u64 {
    number
}

/// Empty, short, and sometimes longer than a block.
fn text(number: u64) -> String {
    let len = if number.is_multiple_of(199) { 9000 } else { number % 40 };
    (0..len).map(|i| if i == 0 { 'ß' } else { char::from(b'a' + (number % 20) as u8) }).collect()
}

fn contents<T: Content + ?Sized, K: Kind>(list: &List<'_, T, K>) -> Result<Model<T>, Error> {
    list.cursors().collect()
}

fn assert_is<T: Content + ?Sized, K: Kind>(list: &List<'_, T, K>, model: &Model<T>)
where
    T::Owned: PartialEq + Debug,
{
    assert_eq!(list.check(), Ok(()));
    assert_eq!(list.len(), model.len() as u64);
    assert!(contents(list).unwrap() == *model, "{list:?} is not as it should be");
    assert_eq!(list.first(), model.first().map(|(cursor, _)| *cursor));
    assert_eq!(list.last(), model.last().map(|(cursor, _)| *cursor));
}

/// An operation that all kinds have.
fn step<T: Content + ?Sized, K: Kind>(
    list: &mut List<'_, T, K>,
    model: &mut Model<T>,
    random: &mut Random,
    element: fn(u64) -> T::Owned,
) -> Result<(), Error>
where
    T::Owned: Borrow<T> + Ord + Debug + Clone,
{
    let new = element(random.below(2000));
    let at = random.index(model.len().max(1));
    let here = model.get(at).map(|(cursor, _)| *cursor);
    match (random.below(40), here) {
        (0..7, _) => model.insert(0, (list.push_front(new.borrow())?, new)),
        (7..15, _) | (_, None) => model.push((list.push_back(new.borrow())?, new)),
        (15..22, Some(here)) => model.insert(at + 1, (list.insert_after(here, new.borrow())?, new)),
        (22..25, _) => assert_eq!(list.pop_front()?, Some(model.remove(0).1)),
        (25..30, Some(here)) => {
            let gone = list.remove_after(here)?;
            assert_eq!(gone, (at + 1 < model.len()).then(|| model.remove(at + 1).1));
        }
        (30..32, Some(here)) => {
            assert_eq!(list.get(here)?, model[at].1);
            let next = model.get(at + 1).or(model.first().filter(|_| K::IS_RING)).map(|(cursor, _)| *cursor);
            assert_eq!(list.next(here)?, next);
        }
        (32..34, Some(here)) => match list.set(here, new.borrow()) {
            Err(Error::Mismatch { .. }) if T::FIXED.is_none() => {
                assert_ne!(new.borrow().bytes().len(), model[at].1.borrow().bytes().len());
            }
            done => {
                done?;
                model[at].1 = new;
            }
        },
        (34, _) => {
            list.reverse()?;
            model.reverse();
        }
        (35, _) => {
            list.sort()?;
            model.sort_by(|a, b| a.1.cmp(&b.1));
        }
        (36, _) => {
            let found = model.iter().find(|(_, element)| *element > new).map(|(cursor, _)| *cursor);
            assert_eq!(list.find(|element| *element > new)?, found);
        }
        (37.., Some(here)) => {
            let mut other = List::new(list.session);
            let mut more: Model<T> = Vec::new();
            for _ in 0..random.below(20) {
                let new = element(random.below(2000));
                more.push((other.push_back(new.borrow())?, new));
            }
            if random.below(2) == 0 {
                other.reverse()?;
                more.reverse();
            }
            let behind = if random.below(2) == 0 { model.len() } else { at + 1 };
            let done = match behind == model.len() {
                true => list.append(&mut other),
                false => list.splice_after(here, &mut other),
            };
            if done.is_err() {
                if !other.broken && !list.broken {
                    // The lists are unchanged; nodes that can't be freed now are freed in the end.
                    assert_eq!(other.len(), more.len() as u64);
                }
                other.clear()?;
                return done;
            }
            assert!(other.is_empty() && other.check().is_ok());
            model.splice(behind..behind, more);
        }
    }
    Ok(())
}

fn both_ways<T: Content + ?Sized, K: BothWays>(
    list: &mut List<'_, T, K>,
    model: &mut Model<T>,
    random: &mut Random,
    element: fn(u64) -> T::Owned,
) -> Result<(), Error>
where
    T::Owned: Borrow<T> + PartialEq + Debug,
{
    let new = element(random.below(2000));
    let at = random.index(model.len().max(1));
    let Some((here, _)) = model.get(at) else { return Ok(()) };
    let here = *here;
    match random.below(6) {
        0 | 1 => assert_eq!(list.remove(here)?, model.remove(at).1),
        2 => model.insert(at, (list.insert_before(here, new.borrow())?, new)),
        3 => model[at] = (list.replace(here, new.borrow())?, new),
        4 => {
            let before = at.checked_sub(1).or((K::IS_RING).then_some(model.len() - 1));
            assert_eq!(list.previous(here)?, before.map(|before| model[before].0));
        }
        _ => assert_eq!(list.pop_back()?, model.pop().map(|(_, element)| element)),
    }
    Ok(())
}

fn around<T: Content + ?Sized, K: Around>(
    list: &mut List<'_, T, K>,
    model: &mut Model<T>,
    random: &mut Random,
    _: fn(u64) -> T::Owned,
) -> Result<(), Error> {
    let by = random.below(10);
    list.rotate(by)?;
    if !model.is_empty() {
        let len = model.len();
        model.rotate_left(by as usize % len);
    }
    Ok(())
}

fn around_both_ways<T: Content + ?Sized, K: Around + BothWays>(
    list: &mut List<'_, T, K>,
    model: &mut Model<T>,
    random: &mut Random,
    element: fn(u64) -> T::Owned,
) -> Result<(), Error>
where
    T::Owned: Borrow<T> + PartialEq + Debug,
{
    match random.below(5) {
        0 => around(list, model, random, element),
        1 => {
            let by = random.below(10);
            list.rotate_back(by)?;
            if !model.is_empty() {
                let len = model.len();
                model.rotate_right(by as usize % len);
            }
            Ok(())
        }
        _ => both_ways(list, model, random, element),
    }
}

fn none<T: Content + ?Sized, K: Kind>(
    _: &mut List<'_, T, K>,
    _: &mut Model<T>,
    _: &mut Random,
    _: fn(u64) -> T::Owned,
) -> Result<(), Error> {
    Ok(())
}

fn against_a_vector<T: Content + ?Sized, K: Kind>(element: fn(u64) -> T::Owned, more: More<T, K>)
where
    T::Owned: Borrow<T> + Ord + Debug + Clone,
{
    for (heap, times) in heaps() {
        let session = heap.session().unwrap();
        let random = &mut Random(times as u64);
        let (mut list, mut model) = (List::<T, K>::new(&session), Vec::new());
        for _ in 0..times {
            for _ in 0..10 {
                step(&mut list, &mut model, random, element).unwrap();
                more(&mut list, &mut model, random, element).unwrap();
            }
            assert_is(&list, &model);
        }
        list.retain(|element| element.borrow().bytes().len() % 3 == 0 && random.below(2) == 0).unwrap();
        let kept = contents(&list).unwrap();
        model.retain(|one| kept.contains(one));
        assert_is(&list, &model);
        assert!(list.iter().map(Result::unwrap).eq(model.into_iter().map(|(_, element)| element)));
        drop(list);
        assert_eq!(heap.stats().nodes, 0);
    }
}

#[test]
fn singly_linked() {
    against_a_vector::<u64, Singly>(number, none);
    against_a_vector::<str, Singly>(text, none);
}

#[test]
fn doubly_linked() {
    against_a_vector::<u64, Doubly>(number, both_ways);
    against_a_vector::<str, Doubly>(text, both_ways);
}

#[test]
fn rings() {
    against_a_vector::<u64, Ring<Singly>>(number, around);
    against_a_vector::<str, Ring<Singly>>(text, around);
    against_a_vector::<u64, Ring<Doubly>>(number, around_both_ways);
    against_a_vector::<str, Ring<Doubly>>(text, around_both_ways);
}

/// One block can't be read just now: a failed operation has changed nothing.
fn with_failures<K: Kind>(more: More<u64, K>) {
    let (heap, flaky) = Flaky::heap();
    let session = heap.session().unwrap();
    let random = &mut Random(9);
    let (mut list, mut failed) = (List::<u64, K>::new(&session), 0);
    list.extend((0..800).map(|_| random.below(2000))).unwrap();
    let mut model = contents(&list).unwrap();
    for _ in 0..250 {
        for which in [step, more] {
            let before = random.below(4) * random.below(4);
            let done = flaky.with(before, 1, || which(&mut list, &mut model, random, number));
            assert!(matches!(done, Ok(()) | Err(Error::Damaged)), "{done:?}");
            if done.is_err() {
                failed += 1;
                assert_is(&list, &model);
            }
        }
    }
    assert_is(&list, &model);
    assert!(failed > 20, "{failed}");
}

/// From some moment on, no block can be read: a change that can't be undone breaks the list.
fn with_many_failures<K: Kind>(more: More<u64, K>) -> bool {
    let (heap, flaky) = Flaky::heap();
    let session = heap.session().unwrap();
    let random = &mut Random(9);
    let mut list = List::<u64, K>::new(&session);
    list.extend((0..800).map(|_| random.below(2000))).unwrap();
    let mut model = contents(&list).unwrap();
    for _ in 0..500 {
        let before = random.below(4) * random.below(4);
        let done = flaky.with(before, 1000, || {
            step(&mut list, &mut model, random, number)?;
            more(&mut list, &mut model, random, number)
        });
        assert!(matches!(done, Ok(()) | Err(Error::Damaged)), "{done:?}");
        if list.broken {
            break;
        }
        if done.is_err() {
            assert_is(&list, &model);
        }
    }
    if list.broken {
        assert!(list.check().is_err() && list.push_front(&1) == Err(Error::Damaged));
        assert_eq!(list.iter().next(), Some(Err(Error::Damaged)));
        assert_eq!(list.clear(), Err(Error::Damaged));
        assert!(list.push_front(&1).is_ok() && list.check().is_ok());
        return true;
    }
    false
}

#[test]
fn a_failed_operation_changes_nothing() {
    with_failures::<Singly>(none);
    with_failures::<Doubly>(both_ways);
    with_failures::<Ring<Singly>>(around);
    with_failures::<Ring<Doubly>>(around_both_ways);
}

#[test]
fn an_operation_that_cannot_be_undone_breaks_the_list() {
    assert!(with_many_failures::<Singly>(none));
    assert!(with_many_failures::<Ring<Doubly>>(around_both_ways));
}

#[test]
fn cursors_of_what_is_gone_or_elsewhere() {
    let heap = Heap::new(options().paranoid(true)).unwrap();
    let (session, another) = (heap.session().unwrap(), heap.session().unwrap());
    let (mut list, mut other): (List<u64>, List<u64>) = (List::new(&session), List::new(&session));
    let cursors: Vec<_> = (0..10).map(|number| list.push_back(&number).unwrap()).collect();
    let alone = other.push_back(&1).unwrap();
    list.remove(cursors[4]).unwrap();
    assert_eq!(list.remove(cursors[4]), Err(Error::Stale));
    assert_eq!(list.insert_after(cursors[4], &1), Err(Error::Stale));
    assert_eq!(list.insert_before(cursors[4], &1), Err(Error::Stale));
    assert_eq!(list.get(cursors[4]), Err(Error::Stale));
    // Ends of another list.
    assert_eq!(list.remove(alone), Err(Error::Stale));
    assert_eq!(list.insert_after(alone, &1), Err(Error::Stale));
    assert_eq!(other.remove(cursors[0]), Err(Error::Stale));
    assert_eq!(other.remove(cursors[9]), Err(Error::Stale));
    let mut of_another: List<u64> = List::new(&another);
    of_another.push_back(&1).unwrap();
    assert_eq!(list.append(&mut of_another), Err(Error::Stale));
    assert_eq!((list.len(), list.check(), other.check(), of_another.len()), (9, Ok(()), Ok(()), 1));
    assert_eq!(Cursor::from_bits(alone.to_bits()), Some(alone));
}

#[test]
fn a_link_less() {
    let heap = Heap::new(options()).unwrap();
    let session = heap.session().unwrap();
    let mut singly: List<u64, Singly> = List::new(&session);
    let mut doubly: List<u64, Ring<Doubly>> = List::new(&session);
    singly.extend(0..1000u64).unwrap();
    assert_eq!(heap.stats().node_bytes, 16 * 1000);
    doubly.extend(0..1000u64).unwrap();
    assert_eq!(heap.stats().node_bytes, 16 * 1000 + 24 * 1000);
    assert_eq!(format!("{singly:?} {:?}", doubly.iter()), "List { len: 1000, .. } Iter { left: 1000, .. }");
    let backwards: Vec<u64> = doubly.iter().rev().map(Result::unwrap).collect();
    assert!(backwards.into_iter().eq((0..1000).rev()));
    let mut ends = doubly.iter();
    let from_ends: Vec<u64> =
        (0..500).flat_map(|_| [ends.next(), ends.next_back()]).flatten().map(Result::unwrap).collect();
    assert!(
        from_ends.chunks(2).all(|two| two[0] + two[1] == 999)
            && ends.next().is_none()
            && ends.next_back().is_none()
    );
}

#[test]
fn nothing_and_values_of_no_bytes() {
    let heap = Heap::new(options()).unwrap();
    let session = heap.session().unwrap();
    let mut list: List<(), Singly> = List::new(&session);
    assert_eq!(
        (list.pop_front(), list.reverse(), list.sort(), list.check()),
        (Ok(None), Ok(()), Ok(()), Ok(()))
    );
    list.extend([(); 5]).unwrap();
    assert_eq!((list.len(), list.pop_front(), list.check()), (5, Ok(Some(())), Ok(())));
    let mut bytes: List<[u8], Ring<Doubly>> = List::new(&session);
    bytes.rotate(3).unwrap();
    bytes.push_back(&[]).unwrap();
    bytes.push_back(&[7; 100_000]).unwrap();
    assert_eq!(bytes.iter().map(|one| one.unwrap().len()).collect::<Vec<_>>(), [0, 100_000]);
    assert_eq!(bytes.clear(), Ok(()));
}

/// An error is injected at each step of each operation, and from then on into every free: nothing has
/// changed, and nothing is left behind.
fn with_faults<T: Content + ?Sized, K: Kind>(more: More<T, K>, element: fn(u64) -> T::Owned)
where
    T::Owned: Borrow<T> + Ord + Debug + Clone,
{
    let mut heap = Heap::new(options()).unwrap();
    {
        let session = heap.session().unwrap();
        let random = &mut Random(5);
        let (mut list, mut model, mut failed) = (List::<T, K>::new(&session), Model::<T>::new(), 0);
        for _ in 0..150 {
            for which in [step, more] {
                let (seed, mut before) = (random.0, 0);
                loop {
                    random.0 = seed;
                    let operation = || which(&mut list, &mut model, random, element);
                    let (done, _) = session.with_fault(before, operation);
                    if done.is_ok() {
                        break;
                    }
                    failed += 1;
                    assert_eq!(done, Err(Error::Pinned));
                    assert_is(&list, &model);
                    // Sorting changes each node: not every step is tried there.
                    before += 1 + before / 4;
                }
            }
        }
        assert!(failed > 150, "{failed}");
    }
    assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
}

#[test]
fn a_failed_operation_leaves_no_node() {
    with_faults::<u64, Singly>(none, number);
    with_faults::<str, Ring<Singly>>(around, text);
    with_faults::<str, Doubly>(both_ways, text);
    with_faults::<u64, Ring<Doubly>>(around_both_ways, number);
}
