//! Cursors: places in a list that stay where they are while elements come and go.
//!
//! A cursor knows the number of its element. Who changes the list moves the numbers of its cursors along; a list without cursors does not even look up which number
//! an element has that comes or goes.

use std::borrow::ToOwned;
use std::vec::Vec;

use super::element::{Compare, Element};
use super::slabs::Position;
use super::{Body, Owned, SlabList};
use crate::heap::Error;

/// Names a place of a list, in that list alone: at an element, or, if that was removed, between those that were beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    slot: u32,
    turn: u32,
}

#[derive(Debug, Clone, Copy)]
struct CursorSlot {
    /// Of the element, or of the one behind the gap.
    number: u64,
    is_gap: bool,
    /// How often the slot was given out, and whether it is.
    turn: u32,
    used: bool,
}

/// All of a list.
#[derive(Debug, Default)]
pub struct Cursors {
    spots: Vec<CursorSlot>,
}

impl Cursors {
    fn get(&mut self, cursor: Cursor) -> Option<&mut CursorSlot> {
        let spot = self.spots.get_mut(cursor.slot as usize)?;
        (spot.used && spot.turn == cursor.turn).then_some(spot)
    }

    fn used(&mut self) -> impl Iterator<Item = &mut CursorSlot> {
        self.spots.iter_mut().filter(|spot| spot.used)
    }
}

impl<E: ?Sized + Element, C> SlabList<'_, E, C> {
    /// A cursor at the element with a number, if there is one. It takes a few bytes until [`SlabList::drop_cursor`].
    ///
    /// ```
    /// # use memfold::collections::SlabList;
    /// # use memfold::heap::{Heap, Options};
    /// # let heap = Heap::new(Options::new())?;
    /// # let session = heap.session()?;
    /// let mut list = SlabList::new(&session);
    /// (0..100u64).try_for_each(|number| list.insert(&(10 * number)).map(|_| ()))?;
    /// let cursor = list.cursor_at(50).unwrap();
    /// list.insert(&5)?;
    /// list.remove(&500)?;
    /// assert_eq!(list.at_cursor(cursor)?, None);
    /// assert_eq!(list.next(cursor)?, Some(510));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor_at(&mut self, number: u64) -> Option<Cursor> {
        if number >= self.len() {
            return None;
        }
        let spots = &mut self.cursors.get_or_insert_default().spots;
        let slot = spots.iter().position(|spot| !spot.used).unwrap_or(spots.len());
        if slot == spots.len() {
            spots.push(CursorSlot { number, is_gap: false, turn: 0, used: false });
        }
        let turn = spots[slot].turn.wrapping_add(1);
        spots[slot] = CursorSlot { number, is_gap: false, turn, used: true };
        Some(Cursor { slot: slot as u32, turn })
    }

    /// The cursor is not needed any more.
    pub fn drop_cursor(&mut self, cursor: Cursor) {
        let Some(cursors) = &mut self.cursors else { return };
        if let Some(spot) = cursors.get(cursor) {
            spot.used = false;
        }
        if cursors.used().next().is_none() {
            // Numbers of turns are kept, so that an old cursor is none of a new one's.
            cursors.spots.shrink_to_fit();
        }
    }

    fn spot(&mut self, cursor: Cursor) -> Option<&mut CursorSlot> {
        self.cursors.as_mut()?.get(cursor)
    }

    /// The element at a cursor; `None` if it was removed, or the cursor is none of this list.
    pub fn at_cursor(&self, cursor: Cursor) -> Result<Option<Owned<E>>, Error> {
        match self.number_of(cursor) {
            Some(number) => self.at(number),
            None => Ok(None),
        }
    }

    /// The number of the element at a cursor.
    pub fn number_of(&self, cursor: Cursor) -> Option<u64> {
        let spot = self.cursors.as_ref()?.spots.get(cursor.slot as usize)?;
        (spot.used && spot.turn == cursor.turn && !spot.is_gap).then_some(spot.number)
    }

    /// Moves a cursor to the next element, which comes back; behind the last one it stays, and `None` comes back, unless the list is circular.
    pub fn next(&mut self, cursor: Cursor) -> Result<Option<Owned<E>>, Error> {
        let (len, circular) = (self.len(), self.circular);
        let Some(spot) = self.spot(cursor) else { return Ok(None) };
        let next = spot.number + u64::from(!spot.is_gap);
        self.go_to(
            cursor,
            if circular && len > 0 { Some(next % len) } else { Some(next).filter(|next| *next < len) },
        )
    }

    /// The same to the element before.
    pub fn previous(&mut self, cursor: Cursor) -> Result<Option<Owned<E>>, Error> {
        let (len, circular) = (self.len(), self.circular);
        let Some(spot) = self.spot(cursor) else { return Ok(None) };
        let before = spot.number.checked_sub(1);
        self.go_to(cursor, if circular && len > 0 { before.or(Some(len - 1)) } else { before })
    }

    fn go_to(&mut self, cursor: Cursor, number: Option<u64>) -> Result<Option<Owned<E>>, Error> {
        let Some(number) = number else { return Ok(None) };
        let element = self.at(number)?;
        if let Some(spot) = self.spot(cursor) {
            (spot.number, spot.is_gap) = (number, false);
        }
        Ok(element)
    }

    /// The number that an element at a position has or gets, if somebody wants to know.
    #[inline]
    pub(super) fn number_for_cursors(&self, position: Position) -> Result<Option<u64>, Error> {
        match (&self.cursors, &self.body) {
            (Some(_), Body::Large(slabs)) => slabs.number(self.session, position).map(Some),
            _ => Ok(None),
        }
    }

    /// An element came that has this number.
    #[inline]
    pub(super) fn note_inserted(&mut self, number: Option<u64>) {
        if let (Some(cursors), Some(number)) = (&mut self.cursors, number) {
            // What comes into a gap comes behind the cursor.
            let behind =
                |spot: &&mut CursorSlot| number < spot.number || number == spot.number && !spot.is_gap;
            cursors.used().filter(behind).for_each(|spot| spot.number += 1);
        }
    }

    /// The elements with these numbers went.
    #[inline]
    pub(super) fn note_removed(&mut self, from: u64, to: u64) {
        for spot in self.cursors.iter_mut().flat_map(|cursors| cursors.used()) {
            if spot.number >= to {
                spot.number -= to - from;
            } else if spot.number >= from {
                // A gap at the first of them is between what is left.
                spot.is_gap |= true;
                spot.number = from;
            }
        }
    }

    /// Elements have changed their numbers: each has what it lacked to the last one.
    pub(super) fn note_reversed(&mut self) {
        let len = self.len();
        for spot in self.cursors.iter_mut().flat_map(|cursors| cursors.used()) {
            spot.number = len.saturating_sub(spot.number + u64::from(!spot.is_gap));
        }
    }
}

impl<E: ?Sized + Element + ToOwned, C: Compare<E>> SlabList<'_, E, C> {
    /// A cursor at the last element that is equal, if there is one.
    pub fn cursor_of(&mut self, element: &E) -> Result<Option<Cursor>, Error> {
        Ok(self.find(element)?.and_then(|number| self.cursor_at(number)))
    }
}
