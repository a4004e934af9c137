//! Walking through a list: a slab is copied at a time.

use std::vec::Vec;

use super::Body;
use super::layers::Spot;
use super::slabs::Slabs;
use crate::heap::{Error, Plain, Session};

/// One end of what is left.
#[derive(Debug)]
struct End<T> {
    /// The slab that comes next, of this leaf.
    spot: Option<Spot>,
    slab: usize,
    /// What was copied and is not handed out yet: from `at` on, or, at the back, up to `at`.
    buffer: Vec<T>,
    at: usize,
}

impl<T> End<T> {
    fn new(spot: Option<Spot>, slab: usize) -> Self {
        End { spot, slab, buffer: Vec::new(), at: 0 }
    }
}

/// Elements in order, from either end. An element that can't be read is an error, and the last thing that comes.
#[derive(Debug)]
pub struct Iter<'l, T> {
    session: &'l Session<'l>,
    slabs: Option<&'l Slabs<T>>,
    front: End<T>,
    back: End<T>,
    /// Elements that are not handed out yet.
    left: u64,
}

impl<'l, T: Plain + Copy> Iter<'l, T> {
    pub(super) fn new(session: &'l Session<'_>, body: &'l Body<T>) -> Self {
        let session = session.borrowed();
        match body {
            Body::Small(elements) => {
                let front = End { buffer: elements.clone(), ..End::new(None, 0) };
                let back = End { buffer: elements.clone(), at: elements.len(), ..End::new(None, 0) };
                Iter { session, slabs: None, front, back, left: elements.len() as u64 }
            }
            Body::Large(slabs) => {
                let (front, back) =
                    (End::new(slabs.layers.first(), 0), End::new(slabs.layers.last(), usize::MAX));
                Iter { session, slabs: Some(slabs), front, back, left: slabs.len() }
            }
        }
    }

    /// Copies the next slab from the front.
    #[cold]
    #[inline(never)]
    fn fill_front(&mut self) -> Result<(), Error> {
        let (Some(slabs), end) = (self.slabs, &mut self.front) else { return Err(Error::Damaged) };
        while let Some(spot) = end.spot {
            let handle = slabs.layers.get(spot).handle;
            end.buffer.resize(slabs.shape.per_slab(), T::new_zeroed());
            let fill = self.session.view(handle, |leaf| {
                (end.slab < slabs.shape.used(leaf))
                    .then(|| slabs.shape.copy_slab(leaf, end.slab, &mut end.buffer))
            })?;
            match fill {
                Some(fill) => {
                    end.slab += 1;
                    end.at = 0;
                    end.buffer.truncate(fill);
                    if fill > 0 {
                        return Ok(());
                    }
                }
                None => (end.spot, end.slab) = (slabs.layers.next(spot), 0),
            }
        }
        // Fewer elements than there should be.
        Err(Error::Damaged)
    }

    /// Copies the next slab from the back.
    #[cold]
    #[inline(never)]
    fn fill_back(&mut self) -> Result<(), Error> {
        let (Some(slabs), end) = (self.slabs, &mut self.back) else { return Err(Error::Damaged) };
        while let Some(spot) = end.spot {
            let handle = slabs.layers.get(spot).handle;
            end.buffer.resize(slabs.shape.per_slab(), T::new_zeroed());
            let filled = self.session.view(handle, |leaf| {
                // How many slabs the leaf has is seen when it is come to.
                let slab = end.slab.min(slabs.shape.used(leaf)).checked_sub(1)?;
                Some((slab, slabs.shape.copy_slab(leaf, slab, &mut end.buffer)))
            })?;
            match filled {
                Some((slab, fill)) => {
                    (end.slab, end.at) = (slab, fill);
                    if fill > 0 {
                        return Ok(());
                    }
                }
                None => (end.spot, end.slab) = (slabs.layers.previous(spot), usize::MAX),
            }
        }
        Err(Error::Damaged)
    }
}

impl<T: Plain + Copy> Iterator for Iter<'_, T> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        if self.front.at >= self.front.buffer.len()
            && let Err(error) = self.fill_front()
        {
            self.left = 0;
            return Some(Err(error));
        }
        let element = self.front.buffer[self.front.at];
        self.front.at += 1;
        self.left -= 1;
        Some(Ok(element))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

impl<T: Plain + Copy> DoubleEndedIterator for Iter<'_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        if self.back.at == 0
            && let Err(error) = self.fill_back()
        {
            self.left = 0;
            return Some(Err(error));
        }
        self.back.at -= 1;
        self.left -= 1;
        Some(Ok(self.back.buffer[self.back.at]))
    }
}
