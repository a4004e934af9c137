//! Cursors: places in a list that stay in position while elements are added and removed.
//!
//! A cursor knows the number of its element. An operation that changes the list adjusts the numbers of its
//! cursors; a list without cursors does not even determine the number of an added or removed element.

use std::borrow::ToOwned;
use std::vec::Vec;

use super::format::Element;
use super::order::Compare;
use super::slabs::Position;
use super::{Body, Owned, SlabList};
use crate::heap::Error;

/// Names a place in one list: at an element, or, if that was removed, between its former neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    slot: u32,
    turn: u32,
}

#[derive(Debug, Clone, Copy)]
struct CursorSlot {
    /// The number of the element, or of the one after the gap.
    number: u64,
    is_gap: bool,
    /// How often the slot was given out, and whether it is in use.
    turn: u32,
    used: bool,
}

/// All cursors of a list.
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
    /// Makes a cursor at the element with a number, if there is one. It takes a few bytes until
    /// [`SlabList::drop_cursor`].
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

    /// Ends the use of a cursor.
    pub fn drop_cursor(&mut self, cursor: Cursor) {
        let Some(cursors) = &mut self.cursors else { return };
        if let Some(spot) = cursors.get(cursor) {
            spot.used = false;
        }
        if cursors.used().next().is_none() {
            // Turns are kept, so that an old cursor never matches a new one.
            cursors.spots.shrink_to_fit();
        }
    }

    fn spot(&mut self, cursor: Cursor) -> Option<&mut CursorSlot> {
        self.cursors.as_mut()?.get(cursor)
    }

    /// The element at a cursor; `None` if it was removed, or the cursor belongs to another list.
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

    /// Moves a cursor to the next element, and returns that. After the last one the cursor stays, and `None`
    /// is returned, unless the list is circular.
    pub fn next(&mut self, cursor: Cursor) -> Result<Option<Owned<E>>, Error> {
        let (len, circular) = (self.len(), self.circular);
        let Some(spot) = self.spot(cursor) else { return Ok(None) };
        let next = spot.number + u64::from(!spot.is_gap);
        self.go_to(
            cursor,
            if circular && len > 0 { Some(next % len) } else { Some(next).filter(|next| *next < len) },
        )
    }

    /// The same for the previous element.
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

    /// The number that an element at a position has or gets, if there are cursors.
    #[inline]
    pub(super) fn number_for_cursors(&self, position: Position) -> Result<Option<u64>, Error> {
        match (&self.cursors, &self.body) {
            (Some(_), Body::Large(slabs)) => slabs.number(self.session, position).map(Some),
            _ => Ok(None),
        }
    }

    /// Adjusts cursors after an element with this number was added.
    #[inline]
    pub(super) fn note_inserted(&mut self, number: Option<u64>) {
        if let (Some(cursors), Some(number)) = (&mut self.cursors, number) {
            // An element added in a gap comes after the cursor.
            let behind =
                |spot: &&mut CursorSlot| number < spot.number || number == spot.number && !spot.is_gap;
            cursors.used().filter(behind).for_each(|spot| spot.number += 1);
        }
    }

    /// Adjusts cursors after the elements with these numbers were removed.
    #[inline]
    pub(super) fn note_removed(&mut self, from: u64, to: u64) {
        for spot in self.cursors.iter_mut().flat_map(|cursors| cursors.used()) {
            if spot.number >= to {
                spot.number -= to - from;
            } else if spot.number >= from {
                // A gap at the first of them is between the remaining elements.
                spot.is_gap |= true;
                spot.number = from;
            }
        }
    }

    /// Adjusts cursors after a reversal: each number is counted from the other end.
    pub(super) fn note_reversed(&mut self) {
        let len = self.len();
        for spot in self.cursors.iter_mut().flat_map(|cursors| cursors.used()) {
            spot.number = len.saturating_sub(spot.number + u64::from(!spot.is_gap));
        }
    }
}

impl<E: ?Sized + Element + ToOwned, C: Compare<E>> SlabList<'_, E, C> {
    /// Makes a cursor at the last equal element, if there is one.
    pub fn cursor_of(&mut self, element: &E) -> Result<Option<Cursor>, Error> {
        Ok(self.find(element)?.and_then(|number| self.cursor_at(number)))
    }
}
