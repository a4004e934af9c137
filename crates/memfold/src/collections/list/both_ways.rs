//! Operations of lists whose nodes also link to the previous node.

use super::{BothWays, Content, Cursor, Ends, Few, List};
use crate::heap::{Error, Handle};

impl<T: Content + ?Sized, K: BothWays> List<'_, T, K> {
    /// The element before `at`. For the first element, this is the last one in a ring, otherwise `None`.
    pub fn previous(&self, at: Cursor) -> Result<Option<Cursor>, Error> {
        Ok(Handle::from_bits(self.link(at.0, self.previous_at())?).map(Cursor))
    }

    /// Adds an element before `at`.
    pub fn insert_before(&mut self, at: Cursor, element: &T) -> Result<Cursor, Error> {
        if self.ends.is_some_and(|ends| ends.first == at.0) {
            return self.push_front(element);
        }
        let before = Handle::from_bits(self.link(at.0, self.previous_at())?).ok_or(Error::Stale)?;
        self.insert(element, Some(before), Some(at.0))
    }

    /// Removes and returns the last element.
    pub fn pop_back(&mut self) -> Result<Option<T::Owned>, Error> {
        self.ends.map(|ends| self.remove(Cursor(ends.last))).transpose()
    }

    /// Removes and returns an element.
    pub fn remove(&mut self, at: Cursor) -> Result<T::Owned, Error> {
        let back = Handle::from_bits(self.link(at.0, self.previous_at())?);
        self.take(at.0, back)
    }

    /// Replaces an element with another of any length. Returns the new cursor; the old one becomes stale.
    pub fn replace(&mut self, at: Cursor, element: &T) -> Result<Cursor, Error> {
        self.sound()?;
        let Some(Ends { first, last }) = self.ends else { return Err(Error::Stale) };
        let (old, is_alone) = (at.0, first == last);
        let neighbour = |link: u64| Handle::from_bits(link).filter(|_| !is_alone);
        let back = neighbour(self.link(old, self.previous_at())?);
        let on = neighbour(self.link(old, self.next_at())?);
        if back.is_none() && old != first || on.is_none() && old != last {
            return Err(Error::Stale);
        }
        let new = self.make(element, Some(old), back, on)?;
        let mut links = Few::new();
        if let Some(back) = back {
            links.add(back, self.next_at(), old.to_bits(), new.to_bits());
        }
        if let Some(on) = on {
            links.add(on, self.previous_at(), old.to_bits(), new.to_bits());
        }
        let done = links.change_and(self.session, || self.session.free(old));
        if let Err(error) = self.noted(done) {
            self.session.discard(new);
            return Err(error);
        }
        let of = |end: Handle| if end == old { new } else { end };
        self.ends = Some(Ends { first: of(first), last: of(last) });
        Ok(Cursor(new))
    }
}
