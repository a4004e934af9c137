//! Iterating over a list.

use std::fmt;
use std::marker::PhantomData;

use super::{BothWays, Content, Cursor, Ends, Kind, List};
use crate::heap::{Error, Handle, Session};

/// Elements with their cursors, in order; kinds that are linked both ways can be iterated from either end. An
/// element that can't be read is an error, and ends the iteration.
pub struct Cursors<'l, T: Content + ?Sized, K: Kind> {
    session: &'l Session<'l>,
    /// The next nodes, from either end.
    front: Option<Handle>,
    back: Option<Handle>,
    left: u64,
    next_at: usize,
    kind: PhantomData<fn(&T) -> K>,
}

/// Elements in order: see [`Cursors`].
pub struct Iter<'l, T: Content + ?Sized, K: Kind>(Cursors<'l, T, K>);

impl<T: Content + ?Sized, K: Kind> List<'_, T, K> {
    /// All elements with their cursors.
    pub fn cursors(&self) -> Cursors<'_, T, K> {
        let ends = self.ends;
        Cursors {
            session: self.session.borrowed(),
            front: ends.map(|Ends { first, .. }| first).filter(|_| !self.broken),
            back: ends.map(|Ends { last, .. }| last),
            left: self.len,
            next_at: self.next_at(),
            kind: PhantomData,
        }
    }

    /// All elements.
    pub fn iter(&self) -> Iter<'_, T, K> {
        Iter(self.cursors())
    }
}

impl<T: Content + ?Sized, K: Kind> Cursors<'_, T, K> {
    /// The element at `node`, and the value of one of its links.
    #[inline(always)]
    fn read(&mut self, node: Option<Handle>, at: usize) -> Result<(Cursor, T::Owned, Option<Handle>), Error> {
        let header = List::<T, K>::HEADER;
        // Fewer elements than there should be.
        let node = node.ok_or(Error::Damaged)?;
        let read = self.session.view(node, |node| {
            let len = node.len().checked_sub(header)?;
            Some((T::read(node, header, len)?, node.get::<u64>(at)?))
        })?;
        let (element, link) = read.ok_or(Error::Damaged)?;
        self.left -= 1;
        Ok((Cursor(node), element, Handle::from_bits(link)))
    }

    #[cold]
    fn fail<R>(&mut self, error: Error) -> Option<Result<R, Error>> {
        self.left = 0;
        Some(Err(error))
    }
}

impl<T: Content + ?Sized, K: Kind> Iterator for Cursors<'_, T, K> {
    type Item = Result<(Cursor, T::Owned), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        match self.read(self.front, self.next_at) {
            Ok((cursor, element, next)) => {
                self.front = next;
                Some(Ok((cursor, element)))
            }
            Err(error) => self.fail(error),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (0, left.ok())
    }
}

impl<T: Content + ?Sized, K: BothWays> DoubleEndedIterator for Cursors<'_, T, K> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        match self.read(self.back.filter(|_| self.front.is_some()), super::LINK - self.next_at) {
            Ok((cursor, element, previous)) => {
                self.back = previous;
                Some(Ok((cursor, element)))
            }
            Err(error) => self.fail(error),
        }
    }
}

impl<T: Content + ?Sized, K: Kind> Iterator for Iter<'_, T, K> {
    type Item = Result<T::Owned, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| entry.map(|(_, element)| element))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T: Content + ?Sized, K: BothWays> DoubleEndedIterator for Iter<'_, T, K> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|entry| entry.map(|(_, element)| element))
    }
}

impl<T: Content + ?Sized, K: Kind> fmt::Debug for Cursors<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursors").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<T: Content + ?Sized, K: Kind> fmt::Debug for Iter<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.0.left).finish_non_exhaustive()
    }
}
