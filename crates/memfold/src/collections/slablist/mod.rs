//! Slab lists: sorted elements in slabs, with sublayers that lead to them.
//!
//! ```
//! use memfold::collections::SlabList;
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;
//! let mut list = SlabList::new(&session);
//! for number in [30u64, 10, 20, 10] {
//!     list.insert(number)?;
//! }
//! assert!(list.contains(&20)? && list.len() == 3);
//! let all: Vec<u64> = list.iter().collect::<Result<_, _>>()?;
//! assert_eq!(all, [10, 20, 30]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A list of a few elements keeps them in plain memory; a longer one in the heap (`slabs.rs`), in leaves (`leaf.rs`) to which sublayers lead (`layers.rs`).
//!
//! What holds:
//! - Every element stands in one leaf, in its place by the comparison, if that is an order. A comparison that is none, or that panics, makes elements lie anywhere, but
//!   all stay in the list, and nothing else is touched.
//! - Leaves are the list's alone. An operation that fails, `clear` excepted, changed nothing.

mod iter;
mod layers;
mod leaf;
mod slabs;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::vec::Vec;

pub use iter::Iter;
use slabs::{Position, Slabs};

use crate::heap::{Error, Plain, Session};

/// Elements up to which a list is kept in plain memory.
const SMALL: usize = 60;
/// Bytes of a slab's elements: `bench-collections sets --only slab --per-slab N` compares others.
const SLAB_BYTES: usize = 1008;

/// The order of a list.
pub trait Compare<T> {
    /// How `a` and `b` stand in it.
    fn compare(&self, a: &T, b: &T) -> Ordering;
}

/// The order that the type has by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Natural;

impl<T: Ord> Compare<T> for Natural {
    #[inline(always)]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        a.cmp(b)
    }
}

impl<T, F: Fn(&T, &T) -> Ordering> Compare<T> for F {
    #[inline(always)]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        self(a, b)
    }
}

/// Where the elements are.
enum Body<T> {
    /// In order.
    Small(Vec<T>),
    Large(std::boxed::Box<Slabs<T>>),
}

/// A sorted list of plain elements: see the module.
pub struct SlabList<'s, T: Plain + Copy, C = Natural> {
    session: &'s Session<'s>,
    body: Body<T>,
    per_slab: u8,
    /// Elements that compare equal may be there more than once.
    many: bool,
    order: C,
}

impl<T: Plain + Copy, C> fmt::Debug for SlabList<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabList").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'s, T: Plain + Copy + Ord> SlabList<'s, T> {
    /// An empty list, in which each element is once.
    pub fn new(session: &'s Session<'_>) -> Self {
        Self::by(session, Natural)
    }
}

impl<'s, T: Plain + Copy, C: Compare<T>> SlabList<'s, T, C> {
    /// The same, with an order of the program's own. It is asked only while nothing is being changed.
    pub fn by(session: &'s Session<'_>, order: C) -> Self {
        let per_slab = (SLAB_BYTES / size_of::<T>().max(1)).clamp(4, leaf::MOST_PER_SLAB) as u8;
        SlabList { session: session.borrowed(), body: Body::Small(Vec::new()), per_slab, many: false, order }
    }

    /// Elements that compare equal are all kept, in the order in which they came.
    pub fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// Elements that a slab has room for, 2 to 255.
    pub fn per_slab(mut self, elements: usize) -> Self {
        self.per_slab = elements.clamp(2, leaf::MOST_PER_SLAB) as u8;
        self
    }

    /// Whether `element` belongs before `other`.
    #[inline(always)]
    fn is_less(&self, element: &T, other: &T) -> bool {
        self.order.compare(element, other) == Ordering::Less
    }

    /// The position behind the last element that is not greater, and that element.
    #[inline(always)]
    fn find_in(&self, slabs: &Slabs<T>, element: &T) -> Result<(Position, Option<T>), Error> {
        let spot = slabs.layers.find(|first| !self.is_less(element, first));
        let handle = slabs.layers.get(spot).handle;
        let (place, last) = self
            .session
            .view(handle, |leaf| slabs.shape.find(leaf, |other| !self.is_less(element, &other)))?;
        Ok((Position { spot, place }, last))
    }

    /// Adds an element; whether it was added: if the list has one that is equal, and keeps only one, that stays.
    pub fn insert(&mut self, element: T) -> Result<bool, Error> {
        let slabs = match &mut self.body {
            Body::Large(slabs) => slabs,
            Body::Small(_) => return self.insert_small(element),
        };
        // The comparison is asked before anything changes.
        loop {
            let spot = slabs.layers.find(|first| self.order.compare(&element, first) != Ordering::Less);
            let handle = slabs.layers.get(spot).handle;
            let shape = slabs.shape;
            let (place, last) = self.session.view(handle, |leaf| {
                shape.find(leaf, |other| self.order.compare(&element, &other) != Ordering::Less)
            })?;
            if !self.many && last.is_some_and(|last| self.order.compare(&last, &element) != Ordering::Less) {
                return Ok(false);
            }
            if slabs.insert(self.session, Position { spot, place }, &element)? {
                return Ok(true);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_small(&mut self, element: T) -> Result<bool, Error> {
        let Body::Small(elements) = &mut self.body else { return Ok(false) };
        let order = &self.order;
        let at = elements.partition_point(|other| order.compare(&element, other) != Ordering::Less);
        if !self.many && at > 0 && order.compare(&elements[at - 1], &element) != Ordering::Less {
            return Ok(false);
        }
        if elements.len() < SMALL {
            elements
                .try_reserve_exact(if elements.len() < 8 { 4 } else { 8 })
                .map_err(|_| Error::OutOfMemory)?;
            elements.insert(at, element);
            return Ok(true);
        }
        let mut all = elements.clone();
        all.insert(at, element);
        let slabs = Slabs::new(self.session, self.per_slab.into(), &all)?;
        self.body = Body::Large(slabs.into());
        Ok(true)
    }

    /// The last element that is equal.
    pub fn get(&self, element: &T) -> Result<Option<T>, Error> {
        let last = match &self.body {
            Body::Large(slabs) => self.find_in(slabs, element)?.1,
            Body::Small(elements) => {
                let at = elements.partition_point(|other| !self.is_less(element, other));
                at.checked_sub(1).map(|at| elements[at])
            }
        };
        Ok(last.filter(|last| !self.is_less(last, element)))
    }

    /// Whether there is an element that is equal.
    pub fn contains(&self, element: &T) -> Result<bool, Error> {
        Ok(self.get(element)?.is_some())
    }

    /// Takes out the last element that is equal, and gives it back.
    pub fn remove(&mut self, element: &T) -> Result<Option<T>, Error> {
        if let Body::Small(elements) = &mut self.body {
            let order = &self.order;
            let end = elements.partition_point(|other| order.compare(element, other) != Ordering::Less);
            let at = end.checked_sub(1).filter(|at| order.compare(&elements[*at], element) != Ordering::Less);
            return Ok(at.map(|at| elements.remove(at)));
        }
        let Body::Large(slabs) = &self.body else { return Ok(None) };
        let (mut position, last) = self.find_in(slabs, element)?;
        let Some(found) = last.filter(|last| !self.is_less(last, element)) else { return Ok(None) };
        position.place.at -= 1;
        self.remove_position(position)?;
        Ok(Some(found))
    }

    fn remove_position(&mut self, position: Position) -> Result<(), Error> {
        let Body::Large(slabs) = &mut self.body else { return Ok(()) };
        slabs.remove(self.session, position)?;
        if slabs.len() == 0 {
            self.body = Body::Small(Vec::new());
        }
        Ok(())
    }

    /// Packs all elements as close as they go. Returns how many leaves that spared.
    pub fn reap(&mut self) -> Result<usize, Error> {
        match &mut self.body {
            Body::Small(elements) => {
                elements.shrink_to_fit();
                Ok(0)
            }
            Body::Large(slabs) => slabs.pack(self.session),
        }
    }

    /// Looks at everything that the list knows of itself; what contradicts what, if anything does.
    pub fn check(&self) -> Result<(), std::string::String> {
        let sorted = |a: &T, b: &T| match self.order.compare(a, b) {
            Ordering::Less => true,
            Ordering::Equal => self.many,
            Ordering::Greater => false,
        };
        let mut last: Option<T> = None;
        let mut count = 0u64;
        for element in self.iter() {
            let element = element.map_err(|error| std::format!("element {count} can't be read: {error}"))?;
            if last.is_some_and(|last| !sorted(&last, &element)) {
                return Err(std::format!("element {count} is out of order"));
            }
            (last, count) = (Some(element), count + 1);
        }
        if count != self.len() {
            return Err(std::format!("{count} elements, not {}", self.len()));
        }
        match &self.body {
            Body::Small(_) => Ok(()),
            Body::Large(slabs) => slabs.check(self.session),
        }
    }
}

impl<T: Plain + Copy, C> SlabList<'_, T, C> {
    /// How many elements there are.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Small(elements) => elements.len() as u64,
            Body::Large(slabs) => slabs.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a position, from 0 on.
    pub fn at(&self, position: u64) -> Result<Option<T>, Error> {
        match &self.body {
            Body::Small(elements) => {
                Ok(usize::try_from(position).ok().and_then(|at| elements.get(at)).copied())
            }
            Body::Large(slabs) => slabs.get(self.session, position),
        }
    }

    /// The first element.
    pub fn first(&self) -> Result<Option<T>, Error> {
        self.at(0)
    }

    /// The last element.
    pub fn last(&self) -> Result<Option<T>, Error> {
        self.len().checked_sub(1).map_or(Ok(None), |at| self.at(at))
    }

    /// All elements in order, from either end.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self.session, &self.body)
    }

    /// Takes all elements out. The list is empty afterwards, also if one of its leaves could not be freed, which is an error.
    pub fn clear(&mut self) -> Result<(), Error> {
        let body = std::mem::replace(&mut self.body, Body::Small(Vec::new()));
        match body {
            Body::Small(_) => Ok(()),
            Body::Large(slabs) => slabs.free(self.session),
        }
    }

    /// Bytes of plain memory that the list takes beside the heap's.
    pub fn own_bytes(&self) -> usize {
        match &self.body {
            Body::Small(elements) => elements.capacity() * size_of::<T>(),
            Body::Large(slabs) => size_of::<Slabs<T>>() + slabs.layers.bytes(),
        }
    }
}

impl<T: Plain + Copy, C> Drop for SlabList<'_, T, C> {
    fn drop(&mut self) {
        // A leaf that can't be freed is damaged: the heap has said so to who read it.
        let _ = self.clear();
    }
}
