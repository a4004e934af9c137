//! Searching for an element, by the order or by its number.
//!
//! The sublayers say which leaf to look at, and the format where in the leaf. Searches that only read look at
//! the leaf through a [`View`], and only at parts of it if its block may stay compressed.

use super::layers::LeafIndex;
use super::parts::{Numbered, Sought};
use super::{MemoOf, Position, Slabs};
use crate::collections::slablist::format::{Element, Format, LeafPosition, Memo, Seek};
use crate::heap::{Error, Session, View};

/// The place of the element before this one, in the same slab.
#[inline(always)]
fn before(place: LeafPosition) -> LeafPosition {
    LeafPosition { at: place.at.wrapping_sub(1), ..place }
}

impl<E: ?Sized + Element> Slabs<E> {
    /// The leaf in which to search.
    #[inline(always)]
    fn leaf_with<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<LeafIndex, Error> {
        let mut failed = None;
        let spot = self.layers.find(|key| E::Format::key_is_before(session, key, seek, &mut failed));
        failed.map_or(Ok(spot), Err)
    }

    /// As `find`, only for reading: the result of `read` for what is there, if all elements have one size,
    /// and the leaf. A leaf that is not resident may stay so.
    #[inline(always)]
    pub fn look_up<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut read: impl FnMut(View<'_>, LeafPosition, bool) -> R,
    ) -> Result<(R, LeafIndex), Error> {
        let spot = self.leaf_with(session, seek)?;
        let look = |leaf: View<'_>| {
            let (place, is_equal) = self.format.find(leaf, seek, &mut Default::default());
            read(leaf, place, is_equal)
        };
        let parts = Sought::<E, S> { format: self.format, seek };
        Ok((session.view_parts(self.layers.get(spot).handle, look, &parts)?, spot))
    }

    /// The element with a number, in the same manner.
    pub fn at(&self, session: &Session<'_>, number: u64) -> Result<Option<E::Owned>, Error> {
        let Some((spot, index)) = self.layers.at(number) else { return Ok(None) };
        if E::Format::HAS_LONG {
            let at = self.position(session, number)?.ok_or(Error::Damaged)?;
            return self.get(session, at);
        }
        let look = |leaf: View<'_>| self.format.peek(leaf, self.format.place(leaf, index));
        let parts = Numbered::<E> { format: self.format, index };
        session.view_parts(self.layers.get(spot).handle, look, &parts)
    }

    /// The number of the element after which the sought one belongs, if they are equal.
    pub fn number_of<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<Option<u64>, Error> {
        if E::Format::HAS_LONG {
            let (position, is_equal) = self.find(session, seek)?;
            return if is_equal { Ok(self.number(session, position)?.checked_sub(1)) } else { Ok(None) };
        }
        let (index, spot) = self.look_up(session, seek, |leaf, place, is_equal| {
            if is_equal { self.format.index(leaf, place).checked_sub(1) } else { None }
        })?;
        Ok(index.map(|index| self.layers.before(spot) + index as u64))
    }

    /// What `look` sees in that element. It may be called more than once, also with bytes that are not an
    /// element any more: the last result counts.
    #[inline(always)]
    pub fn element<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut look: impl FnMut(&E) -> R,
    ) -> Result<Option<R>, Error> {
        if E::Format::HAS_LONG {
            return Ok(self.find_and_look(session, seek, look)?.2);
        }
        let mut memo = Default::default();
        let (element, _) = self.look_up(session, seek, |leaf, place, is_equal| {
            if is_equal { self.format.look(leaf, before(place), &mut memo, &mut look) } else { None }
        })?;
        Ok(element)
    }

    /// Whether there is an equal element.
    #[inline(always)]
    pub fn has<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<bool, Error> {
        if E::Format::HAS_LONG {
            return Ok(self.find(session, seek)?.1);
        }
        Ok(self.look_up(session, seek, |_, _, is_equal| is_equal)?.0)
    }

    /// The position after the last element before the target, and whether that element is equal to the
    /// target.
    #[inline(always)]
    pub fn find<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<(Position, bool), Error> {
        let find = |leaf: View<'_>, memo: &mut MemoOf<E>| self.format.find(leaf, seek, memo);
        let (spot, (place, is_equal)) = self.search(session, seek, find)?;
        Ok((Position { spot, place }, is_equal))
    }

    /// As `find`, with what `look` sees in that element if it is equal. `look` is called as by `element`.
    #[inline(always)]
    pub fn find_and_look<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut look: impl FnMut(&E) -> R,
    ) -> Result<(Position, bool, Option<R>), Error> {
        let find = |leaf: View<'_>, memo: &mut MemoOf<E>| {
            let (place, is_equal) = self.format.find(leaf, seek, memo);
            let seen = if is_equal { self.format.look(leaf, before(place), memo, &mut look) } else { None };
            (place, is_equal, seen)
        };
        let (spot, (place, is_equal, seen)) = self.search(session, seek, find)?;
        Ok((Position { spot, place }, is_equal, seen))
    }

    /// Searches the leaf, and reads the nodes that the search needs.
    #[inline(always)]
    fn search<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut find: impl FnMut(View<'_>, &mut MemoOf<E>) -> R,
    ) -> Result<(LeafIndex, R), Error> {
        let spot = self.leaf_with(session, seek)?;
        let handle = self.layers.get(spot).handle;
        let mut memo = MemoOf::<E>::default();
        loop {
            let found = session.view(handle, |leaf| find(leaf, &mut memo))?;
            if memo.is_damaged() {
                return Err(Error::Damaged);
            }
            match memo.wanted() {
                None => return Ok((spot, found)),
                Some(node) => memo.learn(node, session.read(node)?),
            }
        }
    }

    /// The position after all elements, if it is known without looking at a leaf that the sought element
    /// belongs there; and whether the last one is equal to it.
    #[inline(always)]
    pub(super) fn place_behind<S: Seek<E>>(
        &self,
        session: &Session<'_>,
        seek: &S,
    ) -> Result<Option<(Position, bool)>, Error> {
        let Some(last) = &self.last else { return Ok(None) };
        if !E::Format::key_is_before(session, last, seek, &mut None) {
            return Ok(None);
        }
        let end = self.end().ok_or(Error::Damaged)?;
        Ok(Some((end, E::Format::key_is_equal(last, seek))))
    }
}
