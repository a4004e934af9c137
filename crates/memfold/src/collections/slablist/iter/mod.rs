//! Iterating over a list: a part of a leaf is copied at a time.

#[cfg(feature = "rayon")]
mod parallel;
mod range;

use std::borrow::{Borrow, ToOwned};
use std::fmt;

use super::Body;
use super::format::Element;
use super::format::{Batch, Format};
use super::slabs::layers::LeafIndex;
use super::slabs::{BatchOf, Slabs};
use crate::heap::{Error, Session};

/// Parts that are copied at a time from the front, after the first.
const PARTS: usize = 8;

/// What was copied at one end, and has not been returned yet.
struct End<E: ?Sized + Element> {
    /// The next part, of this leaf.
    spot: Option<LeafIndex>,
    part: usize,
    batch: BatchOf<E>,
    /// The remaining range of the batch.
    from: usize,
    to: usize,
}

impl<E: ?Sized + Element> End<E> {
    fn new() -> Self {
        End { spot: None, part: 0, batch: BatchOf::<E>::default(), from: 0, to: 0 }
    }
}

/// Elements in order, from either end. An element that can't be read is an error, and ends the iteration.
pub struct Iter<'l, E: ?Sized + Element> {
    session: &'l Session<'l>,
    body: &'l Body<E>,
    front: End<E>,
    back: End<E>,
    /// Numbers of the elements that have not been copied yet.
    from: u64,
    to: u64,
}

impl<E: ?Sized + Element> fmt::Debug for Iter<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.left()).finish_non_exhaustive()
    }
}

type Item<E> = Result<<E as ToOwned>::Owned, Error>;

impl<'l, E: ?Sized + Element> Iter<'l, E> {
    /// Over the elements with these numbers, which must exist.
    pub(super) fn new(session: &'l Session<'_>, body: &'l Body<E>, from: u64, to: u64) -> Self {
        Iter { session: session.borrowed(), body, front: End::new(), back: End::new(), from, to }
    }

    fn left(&self) -> u64 {
        self.to - self.from
            + (self.front.to - self.front.from) as u64
            + (self.back.to - self.back.from) as u64
    }

    /// Ends the iteration.
    fn stop(&mut self, error: Error) -> Option<Item<E>> {
        (self.from, self.to) = (0, 0);
        for end in [&mut self.front, &mut self.back] {
            (end.from, end.to) = (0, 0);
        }
        Some(Err(error))
    }

    /// Copies the next elements from the front; false if there are none.
    #[cold]
    #[inline(never)]
    fn fill_front(&mut self) -> Result<bool, Error> {
        let left = self.to - self.from;
        if left == 0 {
            // Use the rest of what was copied at the back.
            std::mem::swap(&mut self.front, &mut self.back);
            return Ok(self.front.from < self.front.to);
        }
        let end = &mut self.front;
        end.batch.clear();
        let copied = match self.body {
            Body::Small(elements) => {
                for element in &elements[self.from as usize..self.to as usize] {
                    end.batch.push(E::Format::inline(element.borrow()));
                }
                end.from = 0;
                left as usize
            }
            Body::Large(slabs) => Self::next_part(self.session, slabs, end, self.from)?,
        };
        end.to = copied.min(end.from + usize::try_from(left).unwrap_or(usize::MAX));
        self.from += (end.to - end.from) as u64;
        Ok(true)
    }

    /// Copies the part with the element of this number, which must exist: it is the end's next part, unless
    /// nothing was copied there yet. Returns how many elements it has.
    fn next_part(
        session: &Session<'_>,
        slabs: &Slabs<E>,
        end: &mut End<E>,
        number: u64,
    ) -> Result<usize, Error> {
        loop {
            let Some(spot) = end.spot else {
                let (spot, index) = slabs.layers.at(number).ok_or(Error::Damaged)?;
                let handle = slabs.layers.get(spot).handle;
                let (part, at) = session.view(handle, |leaf| slabs.format.part_of(leaf, index))?;
                (end.spot, end.part) = (Some(spot), part);
                // A caller that wants only a few elements does not wait for many.
                let copied = Self::copy(session, slabs, end, 1)?.filter(|copied| at < *copied);
                (end.part, end.from) = (part + 1, at);
                return copied.ok_or(Error::Damaged);
            };
            if let Some(copied) = Self::copy(session, slabs, end, PARTS)? {
                (end.part, end.from) = (end.part + PARTS, 0);
                return Ok(copied);
            }
            // Fewer elements than there should be.
            let next = slabs.layers.next(spot).ok_or(Error::Damaged)?;
            (end.spot, end.part) = (Some(next), 0);
        }
    }

    /// Copies up to this many parts of a leaf, from the end's next part on; returns how many elements they
    /// have, if there is a part.
    fn copy(
        session: &Session<'_>,
        slabs: &Slabs<E>,
        end: &mut End<E>,
        parts: usize,
    ) -> Result<Option<usize>, Error> {
        let Some(spot) = end.spot else { return Ok(None) };
        session.view(slabs.layers.get(spot).handle, |leaf| {
            end.batch.clear();
            let mut copied = slabs.format.copy_part(leaf, end.part, &mut end.batch)?;
            for part in end.part + 1..end.part + parts {
                let Some(more) = slabs.format.copy_part(leaf, part, &mut end.batch) else { break };
                copied += more;
            }
            Some(copied)
        })
    }

    /// Copies the next elements from the back; false if there are none.
    #[cold]
    #[inline(never)]
    fn fill_back(&mut self) -> Result<bool, Error> {
        let left = self.to - self.from;
        if left == 0 {
            std::mem::swap(&mut self.front, &mut self.back);
            return Ok(self.back.from < self.back.to);
        }
        if let Body::Small(_) = self.body {
            let is_some = self.fill_front()?;
            std::mem::swap(&mut self.front, &mut self.back);
            return Ok(is_some);
        }
        let (Body::Large(slabs), end) = (self.body, &mut self.back) else { return Ok(false) };
        // The previous part, of this leaf or of the leaf before it.
        end.to = match end.spot {
            Some(_) if end.part > 0 => {
                end.part -= 1;
                Self::copy(self.session, slabs, end, 1)?.ok_or(Error::Damaged)?
            }
            _ => {
                let (spot, index) = slabs.layers.at(self.to - 1).ok_or(Error::Damaged)?;
                let handle = slabs.layers.get(spot).handle;
                let (part, at) = self.session.view(handle, |leaf| slabs.format.part_of(leaf, index))?;
                (end.spot, end.part) = (Some(spot), part);
                Self::copy(self.session, slabs, end, 1)?
                    .filter(|copied| at < *copied)
                    .ok_or(Error::Damaged)?;
                at + 1
            }
        };
        end.from = end.to.saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
        self.to -= (end.to - end.from) as u64;
        Ok(true)
    }
}

impl<E: ?Sized + Element> Iterator for Iter<'_, E> {
    type Item = Item<E>;

    #[inline]
    fn next(&mut self) -> Option<Item<E>> {
        if self.front.from >= self.front.to {
            match self.fill_front() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return self.stop(error),
            }
        }
        let element = self.front.batch.owned(self.session, self.front.from);
        self.front.from += 1;
        match element {
            Ok(element) => Some(Ok(element)),
            Err(error) => self.stop(error),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left());
        (left.unwrap_or(usize::MAX), left.ok())
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut f: F) -> B {
        let mut all = init;
        loop {
            for at in self.front.from..self.front.to {
                match self.front.batch.owned(self.session, at) {
                    Ok(element) => all = f(all, Ok(element)),
                    Err(error) => return f(all, Err(error)),
                }
            }
            self.front.from = self.front.to;
            match self.fill_front() {
                Ok(true) => {}
                Ok(false) => return all,
                Err(error) => return f(all, Err(error)),
            }
        }
    }
}

impl<E: ?Sized + Element> DoubleEndedIterator for Iter<'_, E> {
    #[inline]
    fn next_back(&mut self) -> Option<Item<E>> {
        if self.back.from >= self.back.to {
            match self.fill_back() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return self.stop(error),
            }
        }
        self.back.to -= 1;
        match self.back.batch.owned(self.session, self.back.to) {
            Ok(element) => Some(Ok(element)),
            Err(error) => self.stop(error),
        }
    }
}

impl<E: ?Sized + Element> std::iter::FusedIterator for Iter<'_, E> {}
