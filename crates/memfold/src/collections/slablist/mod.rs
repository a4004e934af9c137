//! Slab lists: elements in slabs, with sublayers that lead to them; sorted, or in the order in which they are put.
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
//! A list of a few elements keeps them in plain memory; a longer one in the heap (`slabs.rs`), in leaves (`fixed`, `text`) to which sublayers lead (`layers.rs`).
//!
//! What holds:
//! - Every element stands in one leaf, in its place by the comparison, if that is an order. A comparison that is none, or that panics, makes elements lie anywhere, but
//!   all stay in the list, and nothing else is touched.
//! - Leaves are the list's alone. An operation that fails, `clear` excepted, changed nothing.

mod bulk;
mod cursor;
mod element;
mod fixed;
mod format;
mod iter;
mod layers;
mod options;
mod ordered;
#[cfg(feature = "rayon")]
mod parallel;
mod range;
mod seek;
#[cfg(feature = "serde")]
mod serial;
mod slabs;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::{Borrow, ToOwned};
use std::boxed::Box;
use std::cmp::Ordering;
use std::fmt;
use std::string::String;
use std::vec::Vec;

pub use cursor::Cursor;
use cursor::Cursors;
pub use element::{Compare, Element, Natural, Ordered};
use format::{Batch, Format};
pub use iter::Iter;
pub use options::{Packing, Stats};
use seek::Of;
#[cfg(feature = "serde")]
pub use serial::Fill;
use slabs::{BatchOf, Making, Position, Slabs};

use crate::heap::{Error, Session};

/// Elements up to which a list is kept in plain memory, and their bytes if they have any length.
const SMALL: usize = 60;
const SMALL_BYTES: usize = 4 << 10;
/// Bytes of a slab's elements: `bench-collections sets --only slab --per-slab N` compares others.
const SLAB_BYTES: usize = 1008;

/// What a list gives back of an element.
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

/// A list of elements: see the module. `C` is their order: [`Natural`], a comparison of the program's own, or [`Ordered`], which is none.
pub struct SlabList<'s, E: ?Sized + Element, C = Natural> {
    session: &'s Session<'s>,
    body: Body<E>,
    cursors: Option<Box<Cursors>>,
    name: Option<Box<str>>,
    making: Making,
    /// Elements that compare equal may be there more than once.
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
    /// An empty list, in which each element is once.
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
        let per_slab = (SLAB_BYTES / E::Format::ELEMENT.max(1)).clamp(4, fixed::MOST_PER_SLAB) as u8;
        let making = Making {
            per_slab,
            per_sublayer: layers::MOST as u16,
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

    /// Elements that compare equal are all kept, in the order in which they came.
    pub fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// Elements that a slab has room for, 2 to 255, if all have one size. For a list that is empty yet.
    pub fn per_slab(mut self, elements: usize) -> Self {
        self.making.per_slab = elements.clamp(2, fixed::MOST_PER_SLAB) as u8;
        self
    }

    /// Leaves of some 30 slabs each under one sublayer, 2 to 65,535; with more of them, there is one more of those sublayers. For a list that is empty yet.
    pub fn per_sublayer(mut self, leaves: usize) -> Self {
        self.making.per_sublayer = leaves.clamp(2, usize::from(u16::MAX)) as u16;
        self
    }

    /// When the room that removed elements left is closed. For a list that is empty yet.
    pub fn packing(mut self, packing: Packing) -> Self {
        self.making.packing = packing;
        self
    }

    /// Cursors go on from the last element to the first one, and back.
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

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether there is none.
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
            Body::Large(slabs) => match slabs.position(self.session, number)? {
                Some(position) if number < slabs.len() => slabs.get(self.session, position),
                _ => Ok(None),
            },
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

    /// Takes out the element with a number, and gives it back.
    pub fn remove_at(&mut self, number: u64) -> Result<Option<Owned<E>>, Error> {
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

    /// Takes out the element at a position, which there is.
    fn remove_position(&mut self, position: Position) -> Result<Owned<E>, Error> {
        let Body::Large(slabs) = &mut self.body else { return Err(Error::Damaged) };
        let gone = slabs.remove(self.session, position)?;
        if slabs.len() == 0 {
            // There may be nodes left that could not be freed before. If they can't be now, their blocks stay damaged.
            let _ = slabs.free(self.session);
            self.body = Body::Small(Vec::new());
        }
        Ok(gone)
    }

    /// The small list gets one element more, with this number; it becomes a large one if it may not be that long.
    fn insert_small(&mut self, at: usize, element: &E) -> Result<(), Error> {
        let Body::Small(elements) = &mut self.body else { return Err(Error::Damaged) };
        let bytes = |element: &E| element.text().map_or(0, <[u8]>::len);
        let all: usize = elements.iter().map(|element| bytes(element.borrow())).sum();
        let is_short = E::Format::is_short(Slabs::<E>::longest(self.session), element);
        if elements.len() < SMALL && is_short && all + bytes(element) <= SMALL_BYTES {
            let more = if elements.len() < 8 { 4 } else { 8 };
            if elements.len() == elements.capacity() {
                elements.try_reserve_exact(more).map_err(|_| Error::OutOfMemory)?;
            }
            elements.insert(at, element.to_owned());
            self.note_inserted(Some(at as u64));
            return Ok(());
        }
        let held = E::Format::hold(self.session, Slabs::<E>::longest(self.session), element)?;
        let mut all = BatchOf::<E>::default();
        elements[..at].iter().for_each(|element| all.push(E::Format::inline(element.borrow())));
        all.push(held);
        elements[at..].iter().for_each(|element| all.push(E::Format::inline(element.borrow())));
        match Slabs::new(self.session, self.making, &all) {
            Ok(slabs) => self.body = Body::Large(slabs.into()),
            Err(error) => {
                E::Format::let_go(self.session, held);
                return Err(error);
            }
        }
        self.note_inserted(Some(at as u64));
        Ok(())
    }

    /// Goes from plain memory to the heap; for a list that is not empty.
    fn enlarge(&mut self) -> Result<(), Error> {
        let Body::Small(elements) = &self.body else { return Ok(()) };
        let mut all = BatchOf::<E>::default();
        elements.iter().for_each(|element| all.push(E::Format::inline(element.borrow())));
        self.body = Body::Large(Slabs::new(self.session, self.making, &all)?.into());
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

    /// Takes all elements out. The list is empty afterwards, also if one of its leaves could not be freed, which is an error.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.note_removed(0, self.len());
        match std::mem::replace(&mut self.body, Body::Small(Vec::new())) {
            Body::Small(_) => Ok(()),
            Body::Large(slabs) => slabs.free(self.session),
        }
    }

    /// What the list did since it has leaves.
    pub fn stats(&self) -> Stats {
        match &self.body {
            Body::Small(_) => Stats::default(),
            Body::Large(slabs) => slabs.stats,
        }
    }

    /// Bytes of plain memory that the list takes beside the heap's.
    pub fn own_bytes(&self) -> usize {
        let of = |element: &Owned<E>| element.borrow().text().map_or(0, <[u8]>::len);
        match &self.body {
            Body::Small(elements) => {
                elements.capacity() * size_of::<Owned<E>>() + elements.iter().map(of).sum::<usize>()
            }
            Body::Large(slabs) => slabs.own_bytes(),
        }
    }

    /// Looks at everything that the list knows of itself but the order; what contradicts what, if anything does.
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

impl<'s, E: ?Sized + Element, C: Compare<E>> SlabList<'s, E, C> {
    /// As `new`, with an order of the program's own. It is asked only while nothing is being changed.
    pub fn by(session: &'s Session<'_>, order: C) -> Self {
        let mut list = Self::with_order(session, order);
        list.making.natural = C::IS_NATURAL;
        list
    }

    /// Where an element belongs: behind those that are equal, or before them.
    #[inline(always)]
    fn seek<'a>(&'a self, element: &'a E, behind: bool) -> Of<'a, E, C> {
        Of { element, order: &self.order, behind }
    }

    /// The number of the first of a small list's elements that is not before an element.
    fn find_small(&self, elements: &[Owned<E>], element: &E, behind: bool) -> usize {
        let seek = self.seek(element, behind);
        elements.partition_point(|other| format::Seek::is_before(&seek, other.borrow()))
    }

    /// Adds an element; whether it was added: if the list has one that is equal, and keeps only one, that stays.
    pub fn insert(&mut self, element: &E) -> Result<bool, Error> {
        let Body::Large(slabs) = &mut self.body else { return self.insert_first(element) };
        let (session, seek) = (self.session, Of { element, order: &self.order, behind: true });
        // The comparison is asked before anything changes.
        let (position, is_equal) = slabs.find_to_insert(session, &seek)?;
        if is_equal && !self.many {
            return Ok(false);
        }
        self.insert_found(position, element).map(|()| true)
    }

    /// Puts an element where it was found to belong.
    #[inline]
    fn insert_found(&mut self, position: Position, element: &E) -> Result<(), Error> {
        let number = self.number_for_cursors(position)?;
        insert_position(&mut self.body, self.session, position, element, |slabs, session| {
            slabs.find(session, &Of { element, order: &self.order, behind: true }).map(|found| found.0)
        })?;
        self.note_inserted(number);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn insert_first(&mut self, element: &E) -> Result<bool, Error> {
        let Body::Small(elements) = &self.body else { return Ok(false) };
        let at = self.find_small(elements, element, true);
        let is_equal = at > 0 && format::Seek::is_equal(&self.seek(element, true), elements[at - 1].borrow());
        if is_equal && !self.many {
            return Ok(false);
        }
        self.insert_small(at, element).map(|()| true)
    }

    /// Adds an element in place of one that is equal, which comes back; if there is none, it is added.
    pub fn replace(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        let Body::Large(slabs) = &mut self.body else {
            return match self.find(element)? {
                Some(number) => self.set_number(number, element),
                None => self.insert(element).map(|_| None),
            };
        };
        let (session, seek) = (self.session, Of { element, order: &self.order, behind: true });
        let find = |slabs: &Slabs<E>| {
            let (mut position, is_equal) = slabs.find(session, &seek)?;
            position.place.at -= usize::from(is_equal);
            Ok((position, is_equal))
        };
        let (position, is_equal) = slabs.find_to_insert(session, &seek)?;
        if !is_equal {
            return self.insert_found(position, element).map(|()| None);
        }
        let (position, _) = find(slabs)?;
        let old = slabs.get(session, position)?.ok_or(Error::Damaged)?;
        slabs.put(session, position, element, |slabs| find(slabs).map(|found| found.0))?;
        Ok(Some(old))
    }

    /// The number of the last element that is equal.
    pub fn find(&self, element: &E) -> Result<Option<u64>, Error> {
        match &self.body {
            Body::Small(elements) => {
                let at = self.find_small(elements, element, true).checked_sub(1);
                let seek = self.seek(element, true);
                let at = at.filter(|at| format::Seek::is_equal(&seek, elements[*at].borrow()));
                Ok(at.map(|at| at as u64))
            }
            Body::Large(slabs) => {
                let (position, is_equal) = slabs.find(self.session, &self.seek(element, true))?;
                if !is_equal {
                    return Ok(None);
                }
                Ok(slabs.number(self.session, position)?.checked_sub(1))
            }
        }
    }

    /// The last element that is equal.
    pub fn get(&self, element: &E) -> Result<Option<Owned<E>>, Error> {
        match &self.body {
            Body::Large(slabs) => {
                let (mut position, is_equal) = slabs.find(self.session, &self.seek(element, true))?;
                if !is_equal {
                    return Ok(None);
                }
                position.place.at -= 1;
                slabs.get(self.session, position)
            }
            Body::Small(_) => self.find(element)?.map_or(Ok(None), |at| self.at(at)),
        }
    }

    /// Whether there is an element that is equal.
    #[inline]
    pub fn contains(&self, element: &E) -> Result<bool, Error> {
        match &self.body {
            Body::Large(slabs) => Ok(slabs.find(self.session, &self.seek(element, true))?.1),
            Body::Small(_) => Ok(self.find(element)?.is_some()),
        }
    }

    /// Takes out the last element that is equal, and gives it back.
    pub fn remove(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        let Body::Large(slabs) = &self.body else {
            return match self.find(element)? {
                Some(at) => self.remove_at(at),
                None => Ok(None),
            };
        };
        let (mut position, is_equal) = slabs.find(self.session, &self.seek(element, true))?;
        if !is_equal {
            return Ok(None);
        }
        position.place.at -= 1;
        let number = self.number_for_cursors(position)?;
        let gone = self.remove_position(position)?;
        if let Some(number) = number {
            self.note_removed(number, number + 1);
        }
        Ok(Some(gone))
    }

    /// Looks at everything that the list knows of itself; what contradicts what, if anything does.
    pub fn check(&self) -> Result<(), String> {
        let mut last: Option<Owned<E>> = None;
        for (count, element) in self.iter().enumerate() {
            let element = element.map_err(|error| std::format!("element {count} can't be read: {error}"))?;
            if let Some(last) = &last {
                let order = self.order.compare(last.borrow(), element.borrow());
                if !(order == Ordering::Less || self.many && order == Ordering::Equal) {
                    return Err(std::format!("element {count} is out of order"));
                }
            }
            last = Some(element);
        }
        self.check_leaves()
    }
}

/// Puts an element at a position, which is found anew by `find` if leaves are others then.
#[inline(always)]
fn insert_position<E: ?Sized + Element>(
    body: &mut Body<E>,
    session: &Session<'_>,
    mut position: Position,
    element: &E,
    find: impl Fn(&Slabs<E>, &Session<'_>) -> Result<Position, Error>,
) -> Result<(), Error> {
    let Body::Large(slabs) = body else { return Err(Error::Damaged) };
    let held = E::Format::hold(session, Slabs::<E>::longest(session), element)?;
    let mut turn = 0;
    loop {
        let failed = match slabs.insert(session, position, held, turn) {
            Ok(true) => return Ok(()),
            Ok(false) => match find(slabs, session) {
                Ok(found) => {
                    (position, turn) = (found, turn + 1);
                    continue;
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        E::Format::let_go(session, held);
        return Err(failed);
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
        // A leaf that can't be freed is damaged: the heap has said so to who read it.
        let _ = self.clear();
    }
}
