//! Putting nodes between others, and taking them out.

use super::{Content, Cursor, Ends, Few, Kind, LINK, List, bits};
use crate::heap::{Error, Handle};

impl<T: Content + ?Sized, K: Kind> List<'_, T, K> {
    /// The links of a chain's ends and those to them, if the chain lies between two nodes of the list.
    pub(super) fn around(
        &self,
        before: Option<Handle>,
        after: Option<Handle>,
    ) -> (Option<Handle>, Option<Handle>) {
        let of_ring = self.ends.filter(|_| K::IS_RING);
        (before.or(of_ring.map(|ends| ends.last)), after.or(of_ring.map(|ends| ends.first)))
    }

    /// Adds an element between two adjacent nodes; `None` is an end of the list.
    pub(super) fn insert(
        &mut self,
        element: &T,
        before: Option<Handle>,
        after: Option<Handle>,
    ) -> Result<Cursor, Error> {
        self.sound()?;
        let (back, on) = self.around(before, after);
        // At an end, nodes are allocated in sequence anyway.
        let node = self.make(element, before.filter(|_| after.is_some()), back, on)?;
        let ends = Ends { first: node, last: node };
        if let Err(error) = self.join(ends, back, on) {
            self.session.discard(node);
            return Err(error);
        }
        self.put_ends(ends, before, after);
        self.len += 1;
        Ok(Cursor(node))
    }

    /// Makes a node, near `near` if there is room, that links to these nodes; in a ring without others, to
    /// itself.
    pub(super) fn make(
        &self,
        element: &T,
        near: Option<Handle>,
        back: Option<Handle>,
        on: Option<Handle>,
    ) -> Result<Handle, Error> {
        let bytes = element.bytes();
        let len = Self::HEADER.saturating_add(bytes.len());
        let node = match near {
            Some(near) => self.session.alloc_near(len, near)?,
            None => self.session.alloc(len)?,
        };
        let (next_at, alone) = (self.next_at(), K::IS_RING.then_some(node));
        let filled = self.session.change_in_place(node, |to| {
            to[next_at..next_at + LINK].copy_from_slice(&bits(on.or(alone)).to_ne_bytes());
            if K::LINKS > 1 {
                to[LINK - next_at..][..LINK].copy_from_slice(&bits(back.or(alone)).to_ne_bytes());
            }
            to[Self::HEADER..].copy_from_slice(bytes);
        });
        match filled {
            Ok(()) => Ok(node),
            Err(error) => {
                self.session.discard(node);
                Err(error)
            }
        }
    }

    /// Links the nodes on both sides to a chain between them.
    pub(super) fn join(&mut self, new: Ends, back: Option<Handle>, on: Option<Handle>) -> Result<(), Error> {
        let mut links = Few::new();
        if let Some(back) = back {
            links.add(back, self.next_at(), bits(on), new.first.to_bits());
        }
        if let Some(on) = on.filter(|_| K::LINKS > 1) {
            links.add(on, self.previous_at(), bits(back), new.last.to_bits());
        }
        let done = links.change(self.session);
        self.noted(done)
    }

    /// Updates the list's ends after a chain was put between two of its nodes.
    pub(super) fn put_ends(&mut self, new: Ends, before: Option<Handle>, after: Option<Handle>) {
        let old = self.ends.unwrap_or(new);
        let first = if before.is_none() { new.first } else { old.first };
        let last = if after.is_none() { new.last } else { old.last };
        self.ends = Some(Ends { first, last });
    }

    /// Removes a node to which `back` links, and returns its element.
    pub(super) fn take(&mut self, node: Handle, back: Option<Handle>) -> Result<T::Owned, Error> {
        self.sound()?;
        let Some(Ends { first, last }) = self.ends else { return Err(Error::Stale) };
        let (element, next) = self.read(node)?;
        let (alone, on) = (first == last, Handle::from_bits(next));
        // It belongs to another list, or to none.
        if alone && node != first || on.is_none() && node != last || back.is_none() && node != first {
            return Err(Error::Stale);
        }
        let mut links = Few::new();
        if !alone {
            if let Some(back) = back {
                links.add(back, self.next_at(), node.to_bits(), next);
            }
            if let Some(on) = on.filter(|_| K::LINKS > 1) {
                links.add(on, self.previous_at(), node.to_bits(), bits(back));
            }
        }
        let done = links.change_and(self.session, || self.session.free(node));
        self.noted(done)?;
        self.len -= 1;
        self.ends = match (alone, on, back) {
            (false, Some(on), _) if node == first => Some(Ends { first: on, last }),
            (false, _, Some(back)) if node == last => Some(Ends { first, last: back }),
            (false, ..) => Some(Ends { first, last }),
            (true, ..) => None,
        };
        Ok(element)
    }
}
