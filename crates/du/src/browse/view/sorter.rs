//! Sorts more elements than plain memory should hold.
//!
//! ```text
//!   elements ──> plain memory, until it is full ──> sorted runs in the heap ──> merged: a sorted list
//!                      └───────────── all of them ──────────────────────────────────^
//! ```
//!
//! A sorted list also takes elements in any order, but then each of its leaves changes repeatedly and must be
//! compressed each time.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memfold::collections::SlabList;
use memfold::collections::slablist::{Element, Ordered};
use memfold::heap::Session;

use crate::Error;

/// The number of elements that are sorted in plain memory, or of bytes if elements vary in length.
const RUN: usize = if cfg!(test) { 100 } else { 64 << 10 };
const RUN_BYTES: usize = 2 << 20;

/// Elements in plain memory.
pub(crate) trait Batch {
    type Element: ?Sized + Element + Ord;

    fn is_full(&self) -> bool;
    fn is_empty(&self) -> bool;
    fn sort(&mut self);
    fn each(
        &mut self,
        take: impl FnMut(&Self::Element) -> Result<(), memfold::heap::Error>,
    ) -> Result<(), memfold::heap::Error>;
}

/// Elements of equal size.
#[derive(Default)]
pub(crate) struct Values<T>(Vec<T>);

impl<T> Values<T> {
    pub fn push(&mut self, value: T) {
        self.0.push(value);
    }
}

impl<T: Element<Owned = T> + Ord + Copy> Batch for Values<T> {
    type Element = T;

    fn is_full(&self) -> bool {
        self.0.len() >= RUN
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn sort(&mut self) {
        self.0.sort_unstable();
    }

    fn each(
        &mut self,
        take: impl FnMut(&T) -> Result<(), memfold::heap::Error>,
    ) -> Result<(), memfold::heap::Error> {
        let result = self.0.iter().try_for_each(take);
        self.0.clear();
        result
    }
}

/// Elements of any size, one after the other.
#[derive(Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// The range of each.
    texts: Vec<(u32, u32)>,
}

fn text(bytes: &[u8], (from, to): (u32, u32)) -> &[u8] {
    &bytes[from as usize..to as usize]
}

impl Texts {
    /// Adds the bytes that `put` appends as an element.
    pub fn push(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let from = self.bytes.len();
        put(&mut self.bytes);
        self.texts.push((from as u32, self.bytes.len() as u32));
    }
}

impl Batch for Texts {
    type Element = [u8];

    fn is_full(&self) -> bool {
        self.texts.len() >= RUN || self.bytes.len() >= RUN_BYTES
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.texts.sort_unstable_by(|a, b| text(bytes, *a).cmp(text(bytes, *b)));
    }

    fn each(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), memfold::heap::Error>,
    ) -> Result<(), memfold::heap::Error> {
        let result = self.texts.iter().try_for_each(|at| take(text(&self.bytes, *at)));
        self.texts.clear();
        self.bytes.clear();
        result
    }
}

/// The sorter; see the module. No two elements may be equal.
pub(crate) struct Sorter<'s, 'h, B: Batch> {
    session: &'s Session<'h>,
    pub batch: B,
    runs: Vec<SlabList<'s, B::Element, Ordered>>,
}

impl<'s, 'h, B> Sorter<'s, 'h, B>
where
    B: Batch + Default,
    <B::Element as ToOwned>::Owned: Ord,
{
    pub fn new(session: &'s Session<'h>) -> Self {
        Sorter { session, batch: B::default(), runs: Vec::new() }
    }

    /// To be called after an element was put into the batch.
    pub fn added(&mut self) -> Result<(), Error> {
        if self.batch.is_full() { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.batch.sort();
        let mut run = SlabList::ordered(self.session);
        self.batch.each(|element| run.push(element))?;
        self.runs.push(run);
        Ok(())
    }

    /// All elements, sorted.
    pub fn finish(mut self) -> Result<SlabList<'s, B::Element>, Error> {
        let mut list = SlabList::new(self.session);
        if self.runs.is_empty() {
            self.batch.sort();
            self.batch.each(|element| list.insert(element).map(|_| ()))?;
            return Ok(list);
        }
        if !self.batch.is_empty() {
            self.spill()?;
        }
        // Its memory is no longer needed.
        self.batch = B::default();
        let mut rest: Vec<_> = self.runs.iter().map(SlabList::iter).collect();
        let mut next = BinaryHeap::with_capacity(rest.len());
        for (run, rest) in rest.iter_mut().enumerate() {
            if let Some(element) = rest.next() {
                next.push(Reverse((element?, run)));
            }
        }
        while let Some(Reverse((element, run))) = next.pop() {
            list.insert(Borrow::<B::Element>::borrow(&element))?;
            if let Some(element) = rest[run].next() {
                next.push(Reverse((element?, run)));
            }
        }
        Ok(list)
    }
}
