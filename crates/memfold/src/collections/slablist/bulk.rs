//! Operations on many elements at once.
//!
//! Sorting does not need all elements in plain memory: runs of [`RUN`] bytes are sorted there, become lists
//! of their own, and are merged.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::{Range, RangeBounds};
use std::vec::Vec;

use super::format::Element;
use super::order::{Compare, Natural, Ordered};
use super::slabs::Making;
use super::{Owned, SlabList};
use crate::collections::sorted::sort_numbered;
use crate::heap::Error;
use crate::room::{gather, push, room};

/// Why a list could not be converted, and the list, which still has all its elements.
///
/// Where the list is not needed any more, `?` makes an [`Error`] of it.
pub struct Unconverted<L> {
    list: L,
    error: Error,
}

impl<L> Unconverted<L> {
    /// The error.
    pub fn error(&self) -> Error {
        self.error
    }

    /// The list as it was.
    pub fn into_list(self) -> L {
        self.list
    }
}

impl<L> From<Unconverted<L>> for Error {
    fn from(unconverted: Unconverted<L>) -> Self {
        unconverted.error
    }
}

impl<L> fmt::Debug for Unconverted<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unconverted").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<L> fmt::Display for Unconverted<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the list could not be converted: {}", self.error)
    }
}

impl<L> std::error::Error for Unconverted<L> {}

/// Bytes of elements that are sorted in plain memory at a time.
const RUN: usize = if cfg!(test) { 4 << 10 } else { 4 << 20 };

impl<'s, E: ?Sized + Element, C> SlabList<'s, E, C> {
    /// A list of the results of `f` for each element, in this order.
    pub fn map<F: ?Sized + Element>(
        &self,
        mut f: impl FnMut(Owned<E>) -> Owned<F>,
    ) -> Result<SlabList<'s, F, Ordered>, Error> {
        let mut list = SlabList::ordered(self.session);
        for element in self.iter() {
            list.append(f(element?).borrow())?;
        }
        Ok(list)
    }

    /// Moves the elements with these numbers to a list of their own with this order.
    fn extract_to<D>(
        &mut self,
        numbers: Range<u64>,
        order: D,
        natural: bool,
    ) -> Result<SlabList<'s, E, D>, Error> {
        let mut list = self.another(order);
        list.making.natural = natural;
        for element in self.slice(numbers.clone()) {
            list.append(element?.borrow())?;
        }
        self.remove_slice(numbers)?;
        Ok(list)
    }

    /// Moves the elements with these numbers to a list of their own.
    pub fn extract_slice(&mut self, numbers: Range<u64>) -> Result<SlabList<'s, E, C>, Error>
    where
        C: Clone,
    {
        self.extract_to(numbers, self.order.clone(), self.making.natural)
    }
}

impl<'s, E: ?Sized + Element, C: Compare<E>> SlabList<'s, E, C> {
    /// Moves the elements of a range to a list of their own.
    pub fn extract(&mut self, range: impl RangeBounds<E>) -> Result<SlabList<'s, E, C>, Error>
    where
        C: Clone,
    {
        let numbers = self.numbers(range)?;
        self.extract_slice(numbers)
    }

    /// Adds elements; returns how many were added. Elements that come in order and belong after all others
    /// are added fastest.
    pub fn extend<B: Borrow<E>>(&mut self, elements: impl IntoIterator<Item = B>) -> Result<u64, Error> {
        elements
            .into_iter()
            .try_fold(0, |added, element| self.insert(element.borrow()).map(|is| added + u64::from(is)))
    }

    /// Converts the list to one in which elements stay where they are put; they keep their present order.
    pub fn into_ordered(mut self) -> Result<SlabList<'s, E, Ordered>, Unconverted<Self>> {
        let numbers = 0..self.len();
        match self.extract_to(numbers, Ordered, false) {
            Ok(mut list) => {
                list.many = true;
                Ok(list)
            }
            Err(error) => Err(Unconverted { list: self, error }),
        }
    }
}

impl<'s, E: ?Sized + Element> SlabList<'s, E, Ordered> {
    /// Adds elements at the end.
    pub fn push_all<B: Borrow<E>>(&mut self, elements: impl IntoIterator<Item = B>) -> Result<(), Error> {
        elements.into_iter().try_for_each(|element| self.append(element.borrow()))
    }

    /// Sorts the elements; the sort is stable. Cursors keep their numbers, which other elements have
    /// afterwards. Meanwhile up to three copies of each element exist, two of them compressed if necessary.
    ///
    /// ```
    /// # use memfold::collections::SlabList;
    /// # use memfold::heap::{Heap, Options};
    /// # let heap = Heap::new(Options::new())?;
    /// # let session = heap.session()?;
    /// let mut list = SlabList::<str, _>::ordered(&session);
    /// list.push_all(["slab", "heap", "list"])?;
    /// list.sort()?;
    /// assert_eq!(list.iter().collect::<Result<Vec<_>, _>>()?, ["heap", "list", "slab"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sort(&mut self) -> Result<(), Error>
    where
        E: Ord,
    {
        self.sort_by(&Natural)
    }

    /// The same, with an order of the program's own.
    pub fn sort_by(&mut self, order: &impl Compare<E>) -> Result<(), Error> {
        let mut sorted = self.another(Ordered);
        self.merge_to(&mut sorted, order)?;
        self.take_body(&mut sorted);
        Ok(())
    }

    /// Converts the list to a sorted one, in which equal elements are all kept.
    pub fn into_sorted<C: Compare<E>>(self, order: C) -> Result<SlabList<'s, E, C>, Unconverted<Self>> {
        let mut sorted = SlabList::by(self.session, order).many();
        sorted.making = Making { natural: C::IS_NATURAL, ..self.making };
        let mut list = SlabList::with_order(self.session, Ordered);
        list.making = sorted.making;
        if let Err(error) = self.merge_to(&mut list, &sorted.order) {
            return Err(Unconverted { list: self, error });
        }
        sorted.take_body(&mut list);
        Ok(sorted)
    }

    /// Appends all elements, sorted, to a list.
    fn merge_to<C: Compare<E>>(&self, to: &mut SlabList<'s, E, Ordered>, order: &C) -> Result<(), Error> {
        let (mut runs, mut run, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut elements = self.iter();
        loop {
            let next = elements.next().transpose()?;
            if bytes >= RUN || next.is_none() {
                sort_run::<E, C>(&mut run, order)?;
                // All elements fit into one run: no list in between.
                if next.is_none() && runs.is_empty() {
                    return run.iter().try_for_each(|(element, _)| to.append(element.borrow()));
                }
                let mut list = self.another(Ordered);
                run.drain(..).try_for_each(|(element, _)| list.append(element.borrow()))?;
                push(&mut runs, list)?;
                bytes = 0;
            }
            let Some(element) = next else { break };
            bytes += size_of::<Numbered<E>>() + element.borrow().text().map_or(0, <[u8]>::len);
            let number = run.len() as u32;
            push(&mut run, (element, number))?;
        }
        let mut rest: Vec<_> = gather(runs.iter().map(SlabList::iter))?;
        let mut heads = BinaryHeap::from(room(rest.len())?);
        for (run, rest) in rest.iter_mut().enumerate() {
            if let Some(element) = rest.next() {
                heads.push(Head { element: element?, run, order });
            }
        }
        while let Some(Head { element, run, .. }) = heads.pop() {
            to.append(element.borrow())?;
            if let Some(element) = rest[run].next() {
                heads.push(Head { element: element?, run, order });
            }
        }
        Ok(())
    }
}

/// An element of a run, and its number there.
type Numbered<E> = (Owned<E>, u32);

/// Sorts a run. The standard library's sort may panic if a comparison is not an order. So runs with an order
/// of the program's own get a merge sort, which tolerates any answers.
fn sort_run<E: ?Sized + Element, C: Compare<E>>(run: &mut [Numbered<E>], order: &C) -> Result<(), Error> {
    let compare = |a: &Owned<E>, b: &Owned<E>| order.compare(a.borrow(), b.borrow());
    if C::IS_NATURAL {
        sort_numbered(run, compare);
        return Ok(());
    }
    let mut sorted: Vec<u32> = gather(0..run.len() as u32)?;
    let mut merged: Vec<u32> = room(run.len())?;
    let mut width = 1;
    while width < run.len() {
        for pair in sorted.chunks(2 * width) {
            let (mut a, mut b) = pair.split_at(width.min(pair.len()));
            while let (Some((first, rest_a)), Some((second, rest_b))) = (a.split_first(), b.split_first()) {
                // Equal elements keep their order.
                let is_before = compare(&run[*second as usize].0, &run[*first as usize].0).is_lt();
                merged.push(if is_before { *second } else { *first });
                if is_before { b = rest_b } else { a = rest_a }
            }
            merged.extend_from_slice(a);
            merged.extend_from_slice(b);
        }
        std::mem::swap(&mut sorted, &mut merged);
        merged.clear();
        width *= 2;
    }
    for (place, number) in (0..).zip(sorted) {
        run[number as usize].1 = place;
    }
    run.sort_unstable_by_key(|(_, place)| *place);
    Ok(())
}

/// The next element of a run; the one that comes first in the order compares as the greatest.
struct Head<'o, E: ?Sized + Element, C> {
    element: Owned<E>,
    run: usize,
    order: &'o C,
}

impl<E: ?Sized + Element, C: Compare<E>> Ord for Head<'_, E, C> {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.order.compare(other.element.borrow(), self.element.borrow());
        order.then(other.run.cmp(&self.run))
    }
}

impl<E: ?Sized + Element, C: Compare<E>> PartialOrd for Head<'_, E, C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E: ?Sized + Element, C: Compare<E>> PartialEq for Head<'_, E, C> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E: ?Sized + Element, C: Compare<E>> Eq for Head<'_, E, C> {}
