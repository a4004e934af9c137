//! An error is injected at each step of each operation, and from then on into every free: nothing has
//! changed, and nothing is left behind.

use std::fmt::Debug;
use std::ops::Range;

use super::*;
use crate::collections::testing::{heaps, steps_that_fail};
use crate::heap::Error;

/// A list, its expected content, and a cursor with the number of its element.
struct Subject<'s, E: ?Sized + Element, C> {
    list: SlabList<'s, E, C>,
    model: Vec<Owned<E>>,
    cursor: Option<(Cursor, u64)>,
    turn: u64,
}

impl<'s, E: ?Sized + Element, C> Subject<'s, E, C>
where
    Owned<E>: PartialEq + Debug,
{
    fn new(list: SlabList<'s, E, C>) -> Self {
        Subject { list, model: Vec::new(), cursor: None, turn: 0 }
    }

    /// Moves the cursor to another element after the list has changed.
    fn changed(&mut self, number: u64) {
        if let Some((cursor, _)) = self.cursor.take() {
            self.list.drop_cursor(cursor);
        }
        self.cursor = self.list.cursor_at(number).map(|cursor| (cursor, number));
        self.turn += 1;
    }

    /// Checks that the list is unchanged after a failure; a complete check is made once in eight.
    fn look(&mut self, failed: u64) {
        assert_eq!(self.list.len(), self.model.len() as u64);
        if let Some((cursor, number)) = self.cursor {
            assert_eq!(self.list.number_of(cursor), Some(number));
        }
        if failed.is_multiple_of(8) {
            assert_eq!((self.list.check_leaves(), &all(&self.list)), (Ok(()), &self.model));
        }
    }

    /// Takes the elements with some numbers, or all, out of the list, and then out of the model.
    fn take<R>(
        &mut self,
        random: &mut Random,
        take: impl FnOnce(&mut SlabList<'s, E, C>, Range<u64>) -> Result<R, Error>,
    ) -> Result<(R, Vec<Owned<E>>), Error> {
        let len = self.list.len();
        let from = random.below(len + 1);
        let numbers = if random.below(8) == 0 { 0..len } else { from..len.min(from + random.below(40)) };
        let taken = take(&mut self.list, numbers.clone())?;
        Ok((taken, self.model.drain(numbers.start as usize..numbers.end as usize).collect()))
    }
}

/// The list grows to several leaves, and shrinks: this many of ten operations add.
fn adds(turn: u64) -> u64 {
    if turn % 800 < 500 { 8 } else { 2 }
}

fn sorted_step<E>(
    subject: &mut Subject<'_, E, Natural>,
    random: &mut Random,
    element: fn(u64) -> Owned<E>,
) -> Result<(), Error>
where
    E: ?Sized + Element + Ord,
    Owned<E>: Ord + Debug,
{
    let (one, adds, other) = (element(random.below(600)), adds(subject.turn), random.next());
    let place = subject.model.binary_search(&one);
    match random.below(100) {
        0 => {
            let (count, gone) = subject.take(random, SlabList::remove_slice)?;
            assert_eq!(count, gone.len() as u64);
        }
        1 => {
            let (taken, gone) = subject.take(random, SlabList::extract_slice)?;
            assert_eq!((taken.check(), all(&taken)), (Ok(()), gone));
        }
        2 => drop(subject.list.reap()?),
        3..10 => {
            assert_eq!(subject.list.replace(one.borrow())?.is_some(), place.is_ok());
            if let Err(at) = place {
                subject.model.insert(at, one);
            }
        }
        what if what / 10 < adds => {
            assert_eq!(subject.list.insert(one.borrow())?, place.is_err());
            if let Err(at) = place {
                subject.model.insert(at, one);
            }
        }
        _ => {
            assert_eq!(subject.list.remove(one.borrow())?.is_some(), place.is_ok());
            if let Ok(at) = place {
                subject.model.remove(at);
            }
        }
    }
    subject.changed(other % (subject.model.len() as u64 + 1));
    Ok(())
}

fn ordered_step<E>(
    subject: &mut Subject<'_, E, Ordered>,
    random: &mut Random,
    element: fn(u64) -> Owned<E>,
) -> Result<(), Error>
where
    E: ?Sized + Element + Ord,
    Owned<E>: Ord + Debug,
{
    let (one, adds, other) = (element(random.below(600)), adds(subject.turn), random.next());
    let at = random.below(subject.model.len() as u64 + 1);
    let is_there = at < subject.model.len() as u64;
    match random.below(200) {
        0 => {
            let (count, gone) = subject.take(random, SlabList::remove_slice)?;
            assert_eq!(count, gone.len() as u64);
        }
        1 => {
            let (taken, gone) = subject.take(random, SlabList::extract_slice)?;
            assert_eq!((taken.check_leaves(), all(&taken)), (Ok(()), gone));
        }
        2 => drop(subject.list.reap()?),
        3 => {
            subject.list.sort()?;
            subject.model.sort();
        }
        4 => {
            subject.list.reverse()?;
            subject.model.reverse();
        }
        5..10 => {
            let more: Vec<_> = (0..random.below(30)).map(element).collect();
            let pushed = more.iter().try_for_each(|one| subject.list.push_all([one.borrow()]));
            // Elements added before the failure stay.
            let count = subject.list.len() as usize - subject.model.len();
            assert!(count == more.len() || pushed.is_err());
            subject.model.extend(more.into_iter().take(count));
            pushed?;
        }
        10..30 => {
            assert_eq!(subject.list.set_at(at, one.borrow())?.is_some(), is_there);
            if let Some(old) = subject.model.get_mut(at as usize) {
                *old = one;
            }
        }
        what if what / 20 < adds => {
            assert!(subject.list.insert_at(at, one.borrow())?);
            subject.model.insert(at as usize, one);
        }
        what if what % 2 == 0 => {
            assert_eq!(subject.list.pop()?, subject.model.pop());
        }
        _ => {
            assert_eq!(subject.list.remove_at(at)?.is_some(), is_there);
            if is_there {
                subject.model.remove(at as usize);
            }
        }
    }
    subject.changed(other % (subject.model.len() as u64 + 1));
    Ok(())
}

/// Lists of elements in heaps of all kinds, in which nothing may be left.
fn with_failures<E>(element: fn(u64) -> Owned<E>)
where
    E: ?Sized + Element + Ord,
    Owned<E>: Ord + Debug,
{
    for (mut heap, turns) in heaps() {
        {
            let session = heap.session().unwrap();
            let mut sorted = Subject::new(SlabList::<E>::new(&session).per_slab(8));
            let step = |subject: &mut _, random: &mut _| sorted_step::<E>(subject, random, element);
            let failed = steps_that_fail(&session, &mut sorted, 30 * turns.max(20), step, Subject::look);
            assert!(failed > 50, "{failed}");
            assert_eq!((sorted.list.check(), all(&sorted.list)), (Ok(()), sorted.model));
            let mut ordered = Subject::new(SlabList::<E, _>::ordered(&session).per_slab(8));
            let step = |subject: &mut _, random: &mut _| ordered_step::<E>(subject, random, element);
            let failed = steps_that_fail(&session, &mut ordered, 30 * turns.max(20), step, Subject::look);
            assert!(failed > 50, "{failed}");
            assert_eq!((ordered.list.check_leaves(), all(&ordered.list)), (Ok(()), ordered.model));
        }
        assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
    }
}

#[test]
fn failures_leave_lists_of_numbers_as_they_were() {
    with_failures::<u64>(|number| number << 40 | Random(number).next() >> 30);
    with_failures::<[u8; 3]>(|number| number.to_be_bytes()[5..].try_into().unwrap());
}

#[test]
fn failures_leave_lists_of_strings_as_they_were() {
    with_failures::<str>(|number| {
        std::format!("{number}").repeat(if number.is_multiple_of(5) { 300 } else { 3 })
    });
}

/// A conversion that failed used to drop the list with all its elements.
#[test]
fn a_list_that_cannot_be_converted_is_returned() {
    for (heap, turns) in heaps() {
        let session = heap.session().unwrap();
        for len in [1, 61, 500, 1500].into_iter().filter(|len| turns > 10 || *len < 100) {
            let mut list = SlabList::<u64, _>::ordered(&session);
            list.push_all((0..len).map(|number| number * 7919 % 100_003)).unwrap();
            let mut model = all(&list);
            let mut sorted = until_converted(&session, list, &model, |list| list.into_sorted(Natural));
            assert_eq!(sorted.check(), Ok(()));
            model.sort_unstable();
            sorted.insert(&7).unwrap();
            model.insert(model.partition_point(|element| *element < 7), 7);
            let ordered = until_converted(&session, sorted, &model, SlabList::into_ordered);
            assert_eq!((ordered.check_leaves(), all(&ordered)), (Ok(()), model));
        }
    }
}

/// Converts a list, with a fault at each of its steps until it succeeds.
fn until_converted<'s, C, D>(
    session: &Session<'_>,
    mut list: SlabList<'s, u64, C>,
    model: &[u64],
    convert: impl Fn(SlabList<'s, u64, C>) -> Result<SlabList<'s, u64, D>, Unconverted<SlabList<'s, u64, C>>>,
) -> SlabList<'s, u64, D> {
    for before in 0.. {
        match session.with_fault(before, || convert(list)).0 {
            Ok(converted) => {
                // Short lists lie in plain memory.
                assert!(before > 0 || model.len() < 500);
                return converted;
            }
            Err(unconverted) => {
                assert_eq!(unconverted.error(), Error::Pinned);
                list = unconverted.into_list();
                assert_eq!((list.check_leaves(), all(&list).as_slice()), (Ok(()), model));
            }
        }
    }
    unreachable!()
}
