//! Lists whose elements stay where they are put.

use std::borrow::Borrow;
use std::vec::Vec;

use super::format::Element;
use super::order::Ordered;
use super::slabs::Slabs;
use super::{Body, Owned, SlabList, fits_small, insert_position};
use crate::heap::Error;

impl<E: ?Sized + Element> SlabList<'_, E, Ordered> {
    /// Adds an element at the end.
    pub fn push(&mut self, element: &E) -> Result<(), Error> {
        self.append(element)
    }

    pub(super) fn insert_number(&mut self, number: u64, element: &E) -> Result<bool, Error> {
        if number > self.len() {
            return Ok(false);
        }
        let Body::Large(slabs) = &self.body else {
            return self.insert_small(number as usize, element).map(|()| true);
        };
        let position = slabs.position(self.session, number)?.ok_or(Error::Damaged)?;
        insert_position(&mut self.body, self.session, position, element, |slabs, session| {
            slabs.position(session, number)?.ok_or(Error::Damaged)
        })?;
        self.note_inserted(Some(number));
        Ok(true)
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Result<Option<Owned<E>>, Error> {
        self.len().checked_sub(1).map_or(Ok(None), |at| self.remove_at(at))
    }

    /// Reverses the order of all elements.
    pub fn reverse(&mut self) -> Result<(), Error> {
        let mut turned = self.another(Ordered);
        for element in self.iter().rev() {
            turned.append(element?.borrow())?;
        }
        self.take_body(&mut turned);
        self.note_reversed();
        Ok(())
    }
}

impl<'s, E: ?Sized + Element, C> SlabList<'s, E, C> {
    pub(super) fn append_element(&mut self, element: &E) -> Result<(), Error> {
        let number = self.len();
        let Body::Large(slabs) = &self.body else { return self.insert_small(number as usize, element) };
        let end = slabs.end().ok_or(Error::Damaged)?;
        insert_position(&mut self.body, self.session, end, element, |slabs, _| {
            slabs.end().ok_or(Error::Damaged)
        })?;
        self.note_inserted(Some(number));
        Ok(())
    }

    /// Replaces the element with a number, if there is one.
    pub(super) fn set_number(&mut self, number: u64, element: &E) -> Result<Option<Owned<E>>, Error> {
        let Some(old) = self.at(number)? else { return Ok(None) };
        if let Body::Small(elements) = &mut self.body {
            let at = number as usize;
            let others = elements[..at].iter().chain(&elements[at + 1..]);
            if fits_small(self.session, others, element) {
                elements[at] = element.to_owned();
                return Ok(Some(old));
            }
            self.enlarge()?;
        }
        let Body::Large(slabs) = &mut self.body else { return Err(Error::Damaged) };
        let session = self.session;
        let find = |slabs: &Slabs<E>| slabs.position(session, number)?.ok_or(Error::Damaged);
        let position = find(slabs)?;
        slabs.put(session, position, element, find).map(|()| Some(old))
    }

    /// Takes over the other list's elements, and leaves it empty.
    pub(super) fn take_body<D>(&mut self, other: &mut SlabList<'s, E, D>) {
        let new = std::mem::replace(&mut other.body, Body::Small(Vec::new()));
        if let Body::Large(slabs) = std::mem::replace(&mut self.body, new) {
            // All old elements have just been read, and the change is done: nodes that can't be freed now are
            // freed later.
            let _ = slabs.free(self.session);
        }
    }
}
