//! Linked lists: an element is a node of the heap, which stays in place while other elements are added and
//! removed.
//!
//! ```
//! use memfold::collections::List;
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;
//! let mut list: List<str> = List::new(&session);
//! let one = list.push_back("one")?;
//! list.push_back("three")?;
//! list.insert_after(one, "two")?;
//! assert_eq!(list.remove(one)?, "one");
//! let all: Vec<String> = list.iter().collect::<Result<_, _>>()?;
//! assert_eq!(all, ["two", "three"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!   a node of a Doubly:  | next, 8 | previous, 8 | element .. |     of a Singly:  | next, 8 | element .. |
//!                          a handle, or 0 at an end; in a Ring the other end
//! ```
//!
//! Reversing a doubly linked list touches no node: `turned` says that the two links have changed roles.
//!
//! Invariants:
//! - `first` links by `next` to `last` over `len` nodes, and, if doubly linked, `last` back to `first`.
//! - An operation that fails has changed nothing, except `clear` and `retain`. A link is changed only if it
//!   has the expected value. If some nodes were changed, another could not be, and the first ones could not
//!   be changed back, the list is **broken**: everything that changes it, or iterates over it, is
//!   [`Error::Damaged`] from then on.

mod both_ways;
mod iter;
mod kind;
mod nodes;
mod order;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::string::String;

pub use iter::{Cursors, Iter};
pub use kind::{Around, BothWays, Doubly, Kind, Ring, Singly};

use super::content::Content;
use super::links::{Failure, Few, LINK, bits};
use crate::heap::{Error, Handle, Session};

/// The name of an element in its list: it stays valid while other elements are added and removed, until the
/// element itself is removed. Then it is [`Error::Stale`], as a node's handle is.
///
/// A cursor belongs to the list of its element. Another list usually notices a foreign cursor, and returns
/// [`Error::Stale`]; it can't notice one in the middle of a list. Then the lengths of both lists become
/// wrong, which `check` finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor(Handle);

impl Cursor {
    /// The cursor as a number, to be stored in nodes: never zero.
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The cursor that a number stands for; `None` for zero.
    pub fn from_bits(bits: u64) -> Option<Self> {
        Handle::from_bits(bits).map(Cursor)
    }
}

/// The ends of a chain of linked nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    first: Handle,
    last: Handle,
}

/// A linked list: see the module. `T` is a plain value, `str` or `[u8]`; `K` says how nodes are linked.
pub struct List<'s, T: Content + ?Sized, K: Kind = Doubly> {
    session: &'s Session<'s>,
    ends: Option<Ends>,
    len: u64,
    turned: bool,
    broken: bool,
    kind: PhantomData<fn(&T) -> K>,
}

impl<T: Content + ?Sized, K: Kind> fmt::Debug for List<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'s, T: Content + ?Sized, K: Kind> List<'s, T, K> {
    /// Bytes of a node before its element.
    const HEADER: usize = K::LINKS * LINK;

    /// An empty list.
    pub fn new(session: &'s Session<'_>) -> Self {
        let session = session.borrowed();
        List { session, ends: None, len: 0, turned: false, broken: false, kind: PhantomData }
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first element.
    pub fn first(&self) -> Option<Cursor> {
        self.ends.map(|ends| Cursor(ends.first))
    }

    /// The last element.
    pub fn last(&self) -> Option<Cursor> {
        self.ends.map(|ends| Cursor(ends.last))
    }

    /// The element after `at`; `None` after the last, which in a ring is followed by the first.
    pub fn next(&self, at: Cursor) -> Result<Option<Cursor>, Error> {
        Ok(Handle::from_bits(self.link(at.0, self.next_at())?).map(Cursor))
    }

    /// The element at a cursor.
    pub fn get(&self, at: Cursor) -> Result<T::Owned, Error> {
        Ok(self.read(at.0)?.0)
    }

    /// Replaces an element in its node: [`Error::Mismatch`] if the new one has another length.
    pub fn set(&mut self, at: Cursor, element: &T) -> Result<(), Error> {
        let bytes = element.bytes();
        self.session.change_in_place(at.0, |node| {
            let (node_len, value) = (node.len(), Self::HEADER + bytes.len());
            if node_len != value {
                return Err(Error::Mismatch { node: node_len, value });
            }
            node[Self::HEADER..].copy_from_slice(bytes);
            Ok(())
        })?
    }

    /// Adds an element at the front.
    pub fn push_front(&mut self, element: &T) -> Result<Cursor, Error> {
        self.insert(element, None, self.ends.map(|ends| ends.first))
    }

    /// Adds an element at the back.
    pub fn push_back(&mut self, element: &T) -> Result<Cursor, Error> {
        self.insert(element, self.ends.map(|ends| ends.last), None)
    }

    /// Adds elements at the back. If one can't be added, those before it stay.
    pub fn extend<E: std::borrow::Borrow<T>>(
        &mut self,
        elements: impl IntoIterator<Item = E>,
    ) -> Result<(), Error> {
        elements.into_iter().try_for_each(|element| self.push_back(element.borrow()).map(|_| ()))
    }

    /// Adds an element after `at`.
    pub fn insert_after(&mut self, at: Cursor, element: &T) -> Result<Cursor, Error> {
        let next = self.following(at.0)?;
        self.insert(element, Some(at.0), next)
    }

    /// Removes and returns the first element.
    pub fn pop_front(&mut self) -> Result<Option<T::Owned>, Error> {
        let Some(Ends { first, last }) = self.ends else { return Ok(None) };
        self.take(first, K::IS_RING.then_some(last)).map(Some)
    }

    /// Removes and returns the element after `at`; `None` after the last, also in a ring.
    pub fn remove_after(&mut self, at: Cursor) -> Result<Option<T::Owned>, Error> {
        match self.following(at.0)? {
            Some(next) => self.take(next, Some(at.0)).map(Some),
            None => Ok(None),
        }
    }

    /// Keeps the elements for which `keep` holds. If one can't be read or removed, those after it stay.
    pub fn retain(&mut self, mut keep: impl FnMut(&T::Owned) -> bool) -> Result<(), Error> {
        let (mut before, mut next) = (None, self.ends.map(|ends| ends.first));
        for _ in 0..self.len {
            let node = next.ok_or(Error::Damaged)?;
            let (element, link) = self.read(node)?;
            next = Handle::from_bits(link);
            if keep(&element) {
                before = Some(node);
            } else {
                let ring_end = self.ends.filter(|_| K::IS_RING).map(|ends| ends.last);
                self.take(node, before.or(ring_end))?;
            }
        }
        Ok(())
    }

    /// The first element for which `is_it` holds.
    pub fn find(&self, mut is_it: impl FnMut(&T::Owned) -> bool) -> Result<Option<Cursor>, Error> {
        for entry in self.cursors() {
            let (cursor, element) = entry?;
            if is_it(&element) {
                return Ok(Some(cursor));
            }
        }
        Ok(None)
    }

    /// Removes all elements. The list is empty afterwards, even if a node could not be read; the result is
    /// then the error of the first such node. That node and all others that can be reached are freed, now or
    /// later: those before it and, in a doubly linked list, those after it. The others stay in the heap and
    /// can't be found any more: those after it or, in a doubly linked list, those between two nodes that
    /// can't be read. Nodes that can't be freed just now are an error, too, and are freed later.
    pub fn clear(&mut self) -> Result<(), Error> {
        let was = std::mem::replace(self, Self::new(self.session));
        // Dropping the old list would free its nodes again.
        let was = std::mem::ManuallyDrop::new(was);
        let freed = was.free_all();
        // A broken list has freed all nodes that are still linked.
        if was.broken { Err(Error::Damaged) } else { freed }
    }

    /// Frees all nodes that can be found.
    fn free_all(&self) -> Result<(), Error> {
        let Some(ends) = self.ends else { return Ok(()) };
        let mut left = self.len;
        let freed = self.free_from(ends.first, self.next_at(), &mut left);
        if left == 0 || K::LINKS == 1 {
            return freed;
        }
        // The others are found from the other end.
        freed.and(self.free_from(ends.last, self.previous_at(), &mut left))
    }

    /// Frees a node and those that follow it by the link at `at`, up to one that can't be read.
    fn free_from(&self, first: Handle, at: usize, left: &mut u64) -> Result<(), Error> {
        let (mut next, mut result) = (Some(first), Ok(()));
        while *left > 0 {
            let node = next.ok_or(Error::Damaged)?;
            let link = self.link(node, at);
            if link != Err(Error::Stale) {
                result = result.and(link.map(|_| ())).and(self.session.free_or_defer(node));
            }
            *left -= 1;
            next = Handle::from_bits(link?);
        }
        result
    }

    /// Checks every node; returns the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        if self.broken {
            return Err("an operation broke off, and could not be undone".into());
        }
        let Some(ends) = self.ends else {
            return if self.len == 0 { Ok(()) } else { Err(std::format!("{} nodes, not 0", self.len)) };
        };
        let (mut node, mut before) = (ends.first, K::IS_RING.then_some(ends.last));
        for number in 0..self.len {
            let of = |error| std::format!("node {number}: {error}");
            let (_, next) = self.read(node).map_err(of)?;
            if K::LINKS > 1 && self.link(node, self.previous_at()).map_err(of)? != bits(before) {
                return Err(std::format!("node {number} does not lead back"));
            }
            if number + 1 == self.len {
                let end = bits(K::IS_RING.then_some(ends.first));
                let is_last = node == ends.last && next == end;
                return if is_last { Ok(()) } else { Err("the last node is another one".into()) };
            }
            before = Some(node);
            node = Handle::from_bits(next)
                .ok_or_else(|| std::format!("{} nodes, not {}", number + 1, self.len))?;
        }
        Err("no nodes, but ends".into())
    }

    fn next_at(&self) -> usize {
        if self.turned { LINK } else { 0 }
    }

    /// The offset of `previous`, for kinds that have it.
    fn previous_at(&self) -> usize {
        LINK - self.next_at()
    }

    /// The value of a node's link.
    #[inline(always)]
    fn link(&self, node: Handle, at: usize) -> Result<u64, Error> {
        self.session.get_at(node, at).map_err(of_no_node)
    }

    /// An element and the link after it.
    #[inline(always)]
    fn read(&self, node: Handle) -> Result<(T::Owned, u64), Error> {
        let at = self.next_at();
        self.session
            .view(node, |node| {
                let len = node.len().checked_sub(Self::HEADER)?;
                Some((T::read(node, Self::HEADER, len)?, node.get::<u64>(at)?))
            })?
            .ok_or(Error::Stale)
    }

    /// Returns an error if the list is broken.
    fn sound(&self) -> Result<(), Error> {
        if self.broken { Err(Error::Damaged) } else { Ok(()) }
    }

    /// Notes whether the list is broken, after a change of links.
    fn noted(&mut self, done: Result<(), Failure>) -> Result<(), Error> {
        done.map_err(|failure| {
            self.broken |= !failure.undone;
            failure.error
        })
    }

    /// The node after `node`; `None` after the last, also in a ring.
    fn following(&self, node: Handle) -> Result<Option<Handle>, Error> {
        if self.ends.is_some_and(|ends| ends.last == node) {
            return Ok(None);
        }
        // A node that has no next one and is not the last belongs to another list.
        Handle::from_bits(self.link(node, self.next_at())?).ok_or(Error::Stale).map(Some)
    }
}

/// A node too short for the links of a list is not a node of the list.
fn of_no_node(error: Error) -> Error {
    if matches!(error, Error::Mismatch { .. }) { Error::Stale } else { error }
}

impl<T: Content + ?Sized, K: Kind> Drop for List<'_, T, K> {
    fn drop(&mut self) {
        // A node that can't be read is damaged: the heap has reported that to the reader.
        let _ = self.free_all();
    }
}
