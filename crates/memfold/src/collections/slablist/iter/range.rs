//! Parts of a list: elements between two others, or between two numbers.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Bound, Range, RangeBounds};
use std::vec::Vec;

use crate::collections::slablist::format::Element;
use crate::collections::slablist::order::Compare;
use crate::collections::slablist::{Body, Iter, Owned, SlabList};
use crate::heap::Error;

impl<'s, E: ?Sized + Element, C: Compare<E>> SlabList<'s, E, C> {
    /// How many elements are before `element`; with `behind`, plus how many are equal to it.
    fn rank(&self, element: &E, behind: bool) -> Result<u64, Error> {
        match &self.body {
            Body::Small(elements) => Ok(self.find_small(elements, element, behind) as u64),
            Body::Large(slabs) => {
                let (position, _) = slabs.find(self.session, &self.seek(element, behind))?;
                slabs.number(self.session, position)
            }
        }
    }

    /// The numbers of the elements of a range.
    ///
    /// ```
    /// # use memfold::collections::SlabList;
    /// # use memfold::heap::{Heap, Options};
    /// # let heap = Heap::new(Options::new())?;
    /// # let session = heap.session()?;
    /// let mut list = SlabList::new(&session);
    /// (0..1000u64).try_for_each(|number| list.insert(&(number * number)).map(|_| ()))?;
    /// assert_eq!(list.numbers(100..=400)?, 10..21);
    /// assert_eq!(list.range(90..120)?.collect::<Result<Vec<_>, _>>()?, [100]);
    /// assert_eq!(list.remove_range(..10_000)?, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn numbers(&self, range: impl RangeBounds<E>) -> Result<Range<u64>, Error> {
        let from = match range.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(element) => self.rank(element, false)?,
            Bound::Excluded(element) => self.rank(element, true)?,
        };
        let to = match range.end_bound() {
            Bound::Unbounded => self.len(),
            Bound::Included(element) => self.rank(element, true)?,
            Bound::Excluded(element) => self.rank(element, false)?,
        };
        // A range that ends before it begins is empty.
        Ok(from..to.max(from).min(self.len()))
    }

    /// The elements of a range.
    pub fn range(&self, range: impl RangeBounds<E>) -> Result<Iter<'_, E>, Error> {
        self.numbers(range).map(|numbers| self.slice(numbers))
    }

    /// Removes the elements of a range; returns how many there were.
    pub fn remove_range(&mut self, range: impl RangeBounds<E>) -> Result<u64, Error> {
        let numbers = self.numbers(range)?;
        self.remove_slice(numbers)
    }
}

impl<'s, E: ?Sized + Element, C> SlabList<'s, E, C> {
    /// The elements with these numbers, as far as they exist.
    pub fn slice(&self, numbers: Range<u64>) -> Iter<'_, E> {
        let to = numbers.end.min(self.len());
        Iter::new(self.session, &self.body, numbers.start.min(to), to)
    }

    pub(in crate::collections::slablist) fn remove_numbers(
        &mut self,
        numbers: Range<u64>,
    ) -> Result<u64, Error> {
        let to = numbers.end.min(self.len());
        let from = numbers.start.min(to);
        if from == to {
            return Ok(0);
        }
        match &mut self.body {
            Body::Small(elements) => drop(elements.drain(from as usize..to as usize)),
            Body::Large(slabs) => {
                slabs.remove_between(self.session, from, to)?;
                if slabs.len() == 0 {
                    self.body = Body::Small(Vec::new());
                }
            }
        }
        self.note_removed(from, to);
        Ok(to - from)
    }

    /// Calls `f` with all elements from the first to the last, and with the result so far.
    pub fn fold<A>(&self, init: A, f: impl FnMut(A, Owned<E>) -> A) -> Result<A, Error> {
        self.fold_slice(0..self.len(), init, f)
    }

    /// The same for the elements with these numbers.
    pub fn fold_slice<A>(
        &self,
        numbers: Range<u64>,
        init: A,
        mut f: impl FnMut(A, Owned<E>) -> A,
    ) -> Result<A, Error> {
        let mut failed = None;
        let all = self.slice(numbers).fold(init, |all, element| match element {
            Ok(element) => f(all, element),
            Err(error) => {
                failed = Some(error);
                all
            }
        });
        failed.map_or(Ok(all), Err)
    }

    /// Calls `f` with all elements from the last to the first, and with the result so far.
    pub fn rfold<A>(&self, init: A, f: impl FnMut(A, Owned<E>) -> A) -> Result<A, Error> {
        self.rfold_slice(0..self.len(), init, f)
    }

    /// The same for the elements with these numbers.
    pub fn rfold_slice<A>(
        &self,
        numbers: Range<u64>,
        init: A,
        mut f: impl FnMut(A, Owned<E>) -> A,
    ) -> Result<A, Error> {
        self.slice(numbers).rev().try_fold(init, |all, element| element.map(|element| f(all, element)))
    }

    /// Compares two lists lexicographically: the first elements that differ decide, otherwise the lengths.
    pub fn compare_with<D>(
        &self,
        other: &SlabList<'_, E, D>,
        order: &impl Compare<E>,
    ) -> Result<Ordering, Error> {
        let (mut mine, mut theirs) = (self.iter(), other.iter());
        loop {
            let order = match (mine.next().transpose()?, theirs.next().transpose()?) {
                (Some(a), Some(b)) => order.compare(a.borrow(), b.borrow()),
                (a, b) => return Ok(a.is_some().cmp(&b.is_some())),
            };
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
    }
}
