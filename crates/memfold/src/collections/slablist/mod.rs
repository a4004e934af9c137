//! Slab lists: elements in slabs, with sublayers to find them; sorted, or in the order in which they are put.
//!
//! ```
//! use memfold::collections::SlabList;
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;
//! let mut list = SlabList::new(&session);
//! for number in [30u64, 10, 20, 10] {
//!     list.insert(&number)?;
//! }
//! assert!(list.contains(&20)? && list.len() == 3);
//! let all: Vec<u64> = list.iter().collect::<Result<_, _>>()?;
//! assert_eq!(all, [10, 20, 30]);
//!
//! let mut names = SlabList::<str>::new(&session);
//! names.insert("slab")?;
//! names.insert("list")?;
//! assert_eq!(names.first()?.as_deref(), Some("list"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A list of a few elements is in plain memory. A longer one is in the heap (`slabs`), in leaves of one of
//! two formats (`format`), to which sublayers refer (`slabs/layers.rs`).
//!
//! Invariants:
//! - Every element is in one leaf, at its place by the comparison, if that is an order. A comparison that is
//!   not may put elements anywhere, but all stay in the list, and nothing else is affected.
//! - Leaves belong to the list alone. An operation that fails has changed nothing, except `clear`.
//! - The program's code is called only while the list is consistent: if it panics, the operation has changed
//!   no content, but leaves may be packed differently. If an operation adds many elements, those added before
//!   the panic stay.

mod bulk;
mod cursor;
mod format;
mod found;
mod iter;
mod options;
mod order;
mod ordered;
mod probed;
#[cfg(feature = "serde")]
mod serial;
mod slabs;
mod sorted;
#[cfg(test)]
mod tests;

use std::borrow::{Borrow, ToOwned};
use std::boxed::Box;
use std::fmt;
use std::string::String;
use std::vec::Vec;

pub use bulk::Unconverted;
pub use cursor::Cursor;
use cursor::Cursors;
pub use format::Element;
use format::{Batch, Format};
pub use found::Found;
pub use iter::Iter;
pub use options::{Packing, Stats};
pub use order::{Compare, Natural, Ordered};
#[cfg(feature = "serde")]
pub use serial::Fill;
use slabs::{BatchOf, Making, PendingElement, Position, Slabs};

use crate::heap::{Error, Session};

/// A list of up to this many elements is in plain memory; if elements can have any length, they also have at
/// most this many bytes together.
const SMALL: usize = 60;
const SMALL_BYTES: usize = 4 << 10;
/// Bytes of a slab's elements: `bench-collections sets --only slab --per-slab N` compares others.
const SLAB_BYTES: usize = 1008;

/// What a list returns for an element.
pub type Owned<E> = <E as ToOwned>::Owned;

/// Where the elements are.
enum Body<E: ?Sized + Element> {
    /// In order.
    Small(Vec<Owned<E>>),
    Large(Box<Slabs<E>>),
}

impl<E: ?Sized + Element> Body<E> {
    fn len(&self) -> u64 {
        match self {
            Body::Small(elements) => elements.len() as u64,
            Body::Large(slabs) => slabs.len(),
        }
    }
}

/// A list of elements: see the module. `C` is their order: [`Natural`], a comparison of the program's own, or
/// [`Ordered`], which compares nothing.
pub struct SlabList<'s, E: ?Sized + Element, C = Natural> {
    session: &'s Session<'s>,
    body: Body<E>,
    cursors: Option<Box<Cursors>>,
    name: Option<Box<str>>,
    making: Making,
    /// Elements that compare equal may be in the list more than once.
    many: bool,
    circular: bool,
    order: C,
}

impl<E: ?Sized + Element, C> fmt::Debug for SlabList<'_, E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("SlabList");
        if let Some(name) = &self.name {
            all.field("name", name);
        }
        all.field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'s, E: ?Sized + Element + Ord> SlabList<'s, E> {
    /// An empty list, in which equal elements are stored once.
    pub fn new(session: &'s Session<'_>) -> Self {
        Self::by(session, Natural)
    }
}

impl<'s, E: ?Sized + Element> SlabList<'s, E, Ordered> {
    /// An empty list of elements that stay where they are put.
    ///
    /// ```
    /// # use memfold::collections::SlabList;
    /// # use memfold::heap::{Heap, Options};
    /// # let heap = Heap::new(Options::new())?;
    /// # let session = heap.session()?;
    /// let mut list = SlabList::<u32, _>::ordered(&session);
    /// list.push(&3)?;
    /// list.push(&1)?;
    /// list.insert_at(1, &2)?;
    /// assert_eq!(list.iter().collect::<Result<Vec<_>, _>>()?, [3, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ordered(session: &'s Session<'_>) -> Self {
        let mut list = Self::with_order(session, Ordered);
        list.many = true;
        list
    }
}

impl<'s, E: ?Sized + Element, C> SlabList<'s, E, C> {
    fn with_order(session: &'s Session<'_>, order: C) -> Self {
        let per_slab = (SLAB_BYTES / E::Format::ELEMENT.max(1)).clamp(4, format::fixed::MOST_PER_SLAB) as u8;
        let making = Making {
            per_slab,
            per_sublayer: slabs::layers::MOST as u16,
            natural: false,
            packing: Packing::default(),
        };
        SlabList {
            session: session.borrowed(),
            body: Body::Small(Vec::new()),
            cursors: None,
            name: None,
            making,
            many: false,
            circular: false,
            order,
        }
    }

    /// An empty list like this one.
    fn another<D>(&self, order: D) -> SlabList<'s, E, D> {
        let mut list = SlabList::with_order(self.session, order);
        (list.making, list.many, list.circular) = (self.making, self.many, self.circular);
        list
    }

    /// Keeps all elements that compare equal, in the order in which they were added.
    pub fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// The number of elements per slab, 2 to 255, if all have one size. For a list that is still empty.
    pub fn per_slab(mut self, elements: usize) -> Self {
        self.making.per_slab = elements.clamp(2, format::fixed::MOST_PER_SLAB) as u8;
        self
    }

    /// The most leaves, of some 30 slabs each, under one sublayer: 2 to 65,535. More leaves get further
    /// sublayers. For a list that is still empty.
    pub fn per_sublayer(mut self, leaves: usize) -> Self {
        self.making.per_sublayer = leaves.clamp(2, usize::from(u16::MAX)) as u16;
        self
    }

    /// When the space of removed elements is reclaimed. For a list that is still empty.
    pub fn packing(mut self, packing: Packing) -> Self {
        self.making.packing = packing;
        self
    }

    /// Makes cursors wrap around from the last element to the first one, and back.
    pub fn circular(mut self) -> Self {
        self.circular = true;
        self
    }

    /// Gives the list a name, for messages and probes.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Its name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element with a number, from 0 on.
    pub fn at(&self, number: u64) -> Result<Option<Owned<E>>, Error> {
        match &self.body {
            Body::Small(elements) => {
                let element = usize::try_from(number).ok().and_then(|at| elements.get(at));
                Ok(element.map(|element| element.borrow().to_owned()))
            }
            Body::Large(slabs) => slabs.at(self.session, number),
        }
    }

    /// The first element.
    pub fn first(&self) -> Result<Option<Owned<E>>, Error> {
        self.at(0)
    }

    /// The last element.
    pub fn last(&self) -> Result<Option<Owned<E>>, Error> {
        self.len().checked_sub(1).map_or(Ok(None), |at| self.at(at))
    }

    /// All elements in order, from either end.
    pub fn iter(&self) -> Iter<'_, E> {
        Iter::new(self.session, &self.body, 0, self.len())
    }

    fn remove_number(&mut self, number: u64) -> Result<Option<Owned<E>>, Error> {
        if number >= self.len() {
            return Ok(None);
        }
        let gone = match &mut self.body {
            Body::Small(elements) => elements.remove(number as usize),
            Body::Large(slabs) => {
                let position = slabs.position(self.session, number)?.ok_or(Error::Damaged)?;
                self.remove_position(position)?
            }
        };
        self.note_removed(number, number + 1);
        Ok(Some(gone))
    }

    /// Removes the element at a position; there must be one.
    fn remove_position(&mut self, position: Position) -> Result<Owned<E>, Error> {
        let Body::Large(slabs) = &mut self.body else { return Err(Error::Damaged) };
        let gone = slabs.remove(self.session, position)?;
        if slabs.len() == 0 {
            self.body = Body::Small(Vec::new());
        }
        Ok(gone)
    }

    /// Inserts an element with this number into the small list, which becomes a large one if it would be too
    /// long.
    fn insert_small(&mut self, at: usize, element: &E) -> Result<(), Error> {
        let Body::Small(elements) = &mut self.body else { return Err(Error::Damaged) };
        if elements.len() < SMALL && fits_small(self.session, elements.iter(), element) {
            if elements.is_empty() {
                // Leaves must be able to have such elements; this is noticed now, not when the list gets
                // long.
                Slabs::<E>::may_have(self.session, self.making)?;
            }
            let more = if elements.len() < 8 { 4 } else { 8 };
            if elements.len() == elements.capacity() {
                elements.try_reserve_exact(more).map_err(|_| Error::OutOfMemory)?;
            }
            elements.insert(at, element.to_owned());
            self.note_inserted(Some(at as u64));
            return Ok(());
        }
        let coming = PendingElement::new(self.session, element)?;
        let mut all = BatchOf::<E>::default();
        elements[..at].iter().for_each(|element| all.push(E::Format::inline(element.borrow())));
        all.push(coming.held());
        elements[at..].iter().for_each(|element| all.push(E::Format::inline(element.borrow())));
        let slabs = Slabs::new(self.session, self.making, &all)?;
        coming.arrived();
        self.body = Body::Large(slabs.into());
        self.note_inserted(Some(at as u64));
        Ok(())
    }

    /// Moves the list from plain memory to the heap; it must not be empty.
    fn enlarge(&mut self) -> Result<(), Error> {
        let Body::Small(elements) = &self.body else { return Ok(()) };
        let mut all = BatchOf::<E>::default();
        elements.iter().for_each(|element| all.push(E::Format::inline(element.borrow())));
        self.body = Body::Large(Slabs::new(self.session, self.making, &all)?.into());
        Ok(())
    }

    fn pack_all(&mut self) -> Result<usize, Error> {
        match &mut self.body {
            Body::Small(elements) => {
                elements.shrink_to_fit();
                Ok(0)
            }
            Body::Large(slabs) => slabs.pack(self.session),
        }
    }

    /// Removes all elements. The list is empty afterwards, even after an error. If a leaf can't be read, the
    /// long strings to which it refers stay in the heap. Nodes that can't be freed just now are freed later.
    pub fn clear(&mut self) -> Result<(), Error> {
        crate::probe!(list_clear, std::ptr::from_ref(self), self.len());
        self.note_removed(0, self.len());
        match std::mem::replace(&mut self.body, Body::Small(Vec::new())) {
            Body::Small(_) => Ok(()),
            Body::Large(slabs) => slabs.free(self.session),
        }
    }

    /// What the list has done since it got its first leaf; all 0 while it is in plain memory.
    pub fn stats(&self) -> Stats {
        match &self.body {
            Body::Small(_) => Stats::default(),
            Body::Large(slabs) => slabs.stats,
        }
    }

    /// Bytes of plain memory that the list takes in addition to the heap's.
    pub fn own_bytes(&self) -> usize {
        let of = |element: &Owned<E>| element.borrow().text().map_or(0, <[u8]>::len);
        match &self.body {
            Body::Small(elements) => {
                elements.capacity() * size_of::<Owned<E>>() + elements.iter().map(of).sum::<usize>()
            }
            Body::Large(slabs) => slabs.own_bytes(),
        }
    }

    /// Checks every invariant of the list except the order; returns the first contradiction.
    pub fn check_leaves(&self) -> Result<(), String> {
        let mut count = 0;
        for element in self.iter() {
            element.map_err(|error| std::format!("element {count} can't be read: {error}"))?;
            count += 1;
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

/// Whether an element fits into plain memory beside others.
fn fits_small<'e, E: ?Sized + Element + 'e>(
    session: &Session<'_>,
    others: impl Iterator<Item = &'e Owned<E>>,
    element: &E,
) -> bool
where
    Owned<E>: 'e,
{
    let bytes = |element: &E| element.text().map_or(0, <[u8]>::len);
    let all: usize = others.map(|element| bytes(element.borrow())).sum();
    E::Format::is_short(Slabs::<E>::longest(session), element) && all + bytes(element) <= SMALL_BYTES
}

/// Puts an element at a position; `find` finds it again if leaves have changed.
#[inline(always)]
fn insert_position<E: ?Sized + Element>(
    body: &mut Body<E>,
    session: &Session<'_>,
    mut position: Position,
    element: &E,
    find: impl Fn(&Slabs<E>, &Session<'_>) -> Result<Position, Error>,
) -> Result<(), Error> {
    let Body::Large(slabs) = body else { return Err(Error::Damaged) };
    let coming = PendingElement::new(session, element)?;
    let mut turn = 0;
    loop {
        if slabs.insert(session, position, coming.held(), turn)? {
            coming.arrived();
            return Ok(());
        }
        (position, turn) = (find(slabs, session)?, turn + 1);
    }
}

impl<'l, E: ?Sized + Element, C> IntoIterator for &'l SlabList<'_, E, C> {
    type Item = Result<Owned<E>, Error>;
    type IntoIter = Iter<'l, E>;

    fn into_iter(self) -> Iter<'l, E> {
        self.iter()
    }
}

impl<E: ?Sized + Element, C> Drop for SlabList<'_, E, C> {
    fn drop(&mut self) {
        // A leaf that can't be read is damaged: the heap has reported that to the reader.
        let _ = self.clear();
    }
}
