//! Reordering a list, and joining lists: only links change, each element stays in its node.

use std::cmp::Ordering;

use super::{Around, BothWays, Content, Cursor, Ends, Kind, List};
use crate::collections::links::{LINK, Link, bits, change_all};
use crate::collections::sorted::{Sorted, sort_numbered};
use crate::heap::{Error, Handle, Session};
use crate::room::room;

impl<'s, T: Content + ?Sized, K: Kind> List<'s, T, K> {
    /// Moves all elements of another list to the end of this one; the other is empty afterwards. A few links
    /// change, however many elements there are. Only if exactly one of the lists was reversed, the links of
    /// all nodes of the shorter one change.
    ///
    /// Both lists must have been made with the same session; otherwise it is [`Error::Stale`].
    pub fn append(&mut self, other: &mut Self) -> Result<(), Error> {
        self.splice(self.ends.map(|ends| ends.last), None, other)
    }

    /// Moves all elements of another list after one of this list, as `append` does.
    pub fn splice_after(&mut self, at: Cursor, other: &mut Self) -> Result<(), Error> {
        let next = self.following(at.0)?;
        self.splice(Some(at.0), next, other)
    }

    fn splice(
        &mut self,
        before: Option<Handle>,
        after: Option<Handle>,
        other: &mut Self,
    ) -> Result<(), Error> {
        self.sound()?;
        other.sound()?;
        if !std::ptr::eq(self.session, other.session) {
            return Err(Error::Stale);
        }
        let Some(new) = other.ends else { return Ok(()) };
        if self.ends.is_none() {
            self.turned = other.turned;
        } else if self.turned != other.turned {
            let shorter = if self.len < other.len { &mut *self } else { &mut *other };
            shorter.turn()?;
        }
        let (back, on) = self.around(before, after);
        let (next_at, both) = (self.next_at(), K::LINKS > 1);
        let (old_next, old_previous) = (K::IS_RING.then_some(new.first), K::IS_RING.then_some(new.last));
        let link = |node, at, from, to| Some(Link { node, at, from: bits(from), to: bits(to) });
        let links = [
            on.and_then(|on| link(new.last, next_at, old_next, Some(on))),
            back.and_then(|back| link(back, next_at, on, Some(new.first))),
            back.filter(|_| both).and_then(|back| link(new.first, LINK - next_at, old_previous, Some(back))),
            on.filter(|_| both).and_then(|on| link(on, LINK - next_at, back, Some(new.last))),
        ];
        let done = change_all(self.session, links.len(), |number| links[number]);
        other.broken |= done.is_err_and(|failure| !failure.undone);
        self.noted(done)?;
        self.put_ends(new, before, after);
        self.len += other.len;
        (other.ends, other.len, other.turned) = (None, 0, false);
        Ok(())
    }

    /// Reverses the order. It touches no node if nodes have two links, otherwise all of them.
    pub fn reverse(&mut self) -> Result<(), Error> {
        self.sound()?;
        let Some(Ends { first, last }) = self.ends else { return Ok(()) };
        if K::LINKS > 1 {
            self.turned = !self.turned;
        } else {
            let end = bits(K::IS_RING.then_some(last));
            if let Err(Part { error, count, head, rest }) = self.turn_chain(first, self.len, end) {
                let undone = Handle::from_bits(head).map(|head| self.turn_chain(head, count, rest));
                self.broken |= count > 0 && !matches!(undone, Some(Ok(())));
                return Err(error);
            }
        }
        self.ends = Some(Ends { first: last, last: first });
        Ok(())
    }

    /// Makes each of `count` nodes from `first` on link to the one before it, and the first one to `end`.
    fn turn_chain(&self, first: Handle, count: u64, end: u64) -> Result<(), Part> {
        let (mut head, mut rest) = (end, first.to_bits());
        for number in 0..count {
            let turned = Handle::from_bits(rest).ok_or(Error::Damaged).and_then(|node| {
                self.session
                    .change_in_place(node, |bytes| {
                        bytes.first_chunk_mut().map(|link| std::mem::replace(link, head.to_ne_bytes()))
                    })?
                    .ok_or(Error::Damaged)
            });
            match turned {
                Ok(next) => (head, rest) = (rest, u64::from_ne_bytes(next)),
                Err(error) => return Err(Part { error, count: number, head, rest }),
            }
        }
        Ok(())
    }

    /// Exchanges the two links of every node of a doubly linked list: the order is the same, with `turned`
    /// inverted.
    fn turn(&mut self) -> Result<(), Error> {
        let Some(Ends { first, .. }) = self.ends else { return Ok(()) };
        let at = self.next_at();
        if let Err((done, error)) = swap_links(self.session, first, self.len, at) {
            self.broken |= swap_links(self.session, first, done, LINK - at).is_err();
            return Err(error);
        }
        self.turned = !self.turned;
        Ok(())
    }

    /// Sorts the elements by a comparison; the sort is stable. Elements are copied to plain memory for it,
    /// with 16 bytes for each. The comparison is called only before anything changes; then links are changed,
    /// in the old order of the elements.
    pub fn sort_by(&mut self, compare: impl FnMut(&T::Owned, &T::Owned) -> Ordering) -> Result<(), Error> {
        self.sound()?;
        let count = u32::try_from(self.len).map_err(|_| Error::OutOfMemory)? as usize;
        let (mut nodes, mut elements) = (room(count)?, room(count)?);
        for entry in self.cursors() {
            let (Cursor(node), element) = entry?;
            elements.push((element, nodes.len() as u32));
            nodes.push(node);
        }
        sort_numbered(&mut elements, compare);
        let mut order = room(count)?;
        order.extend(elements.into_iter().map(|(_, number)| number));
        let sorted = Sorted::new(nodes, order)?;
        let links = |number: usize| {
            let (number, is_next) = (number / K::LINKS, number.is_multiple_of(K::LINKS));
            let at = if is_next { self.next_at() } else { self.previous_at() };
            sorted.link(number, is_next, at, K::IS_RING, K::IS_RING)
        };
        let done = change_all(self.session, count * K::LINKS, links);
        self.noted(done)?;
        self.ends = sorted.first_and_last().map(|(first, last)| Ends { first, last });
        Ok(())
    }

    /// Sorts the elements in the order of their type.
    pub fn sort(&mut self) -> Result<(), Error>
    where
        T::Owned: Ord,
    {
        self.sort_by(T::Owned::cmp)
    }
}

impl<T: Content + ?Sized, K: Around> List<'_, T, K> {
    /// Makes the list begin `by` elements later. No node changes.
    pub fn rotate(&mut self, by: u64) -> Result<(), Error> {
        self.sound()?;
        let Some(mut ends) = self.ends else { return Ok(()) };
        for _ in 0..by % self.len {
            let next = Handle::from_bits(self.link(ends.first, self.next_at())?).ok_or(Error::Damaged)?;
            ends = Ends { first: next, last: ends.first };
        }
        self.ends = Some(ends);
        Ok(())
    }

    /// Makes the list begin `by` elements earlier.
    pub fn rotate_back(&mut self, by: u64) -> Result<(), Error>
    where
        K: BothWays,
    {
        self.sound()?;
        let Some(mut ends) = self.ends else { return Ok(()) };
        for _ in 0..by % self.len {
            let previous = Handle::from_bits(self.link(ends.last, self.previous_at())?);
            ends = Ends { first: ends.last, last: previous.ok_or(Error::Damaged)? };
        }
        self.ends = Some(ends);
        Ok(())
    }
}

/// A chain of which the first nodes are reversed.
struct Part {
    error: Error,
    /// How many nodes are reversed.
    count: u64,
    /// The last reversed node, and the first that is not.
    head: u64,
    rest: u64,
}

/// Exchanges both links of `count` nodes from `first` on; the link at `at` leads to the next one. On failure,
/// returns how many were changed.
fn swap_links(session: &Session<'_>, first: Handle, count: u64, at: usize) -> Result<(), (u64, Error)> {
    let mut node = Some(first);
    for number in 0..count {
        let swapped = node.ok_or(Error::Damaged).and_then(|node| {
            session
                .change_in_place(node, |bytes| {
                    let links: &mut [[u8; LINK]] = bytes.get_mut(..2 * LINK)?.as_chunks_mut().0;
                    let next = links[at / LINK];
                    links.swap(0, 1);
                    Some(u64::from_ne_bytes(next))
                })?
                .ok_or(Error::Damaged)
        });
        node = Handle::from_bits(swapped.map_err(|error| (number, error))?);
    }
    Ok(())
}
