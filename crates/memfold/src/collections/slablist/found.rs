//! Searching for an element once, and then changing it: a map finds, reads and writes an entry with one
//! search.

use std::borrow::Borrow;

use super::format::Element;
use super::format::{LeafPosition, Seek};
use super::order::Compare;
use super::order::Of;
use super::slabs::Position;
use super::{Body, SlabList};
use crate::heap::Error;

/// Where an element is, or belongs if it is not there. It is valid until the list changes.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    at: At,
    pub(super) is_there: bool,
}

#[derive(Debug, Clone, Copy)]
enum At {
    /// The element's number, in a list in plain memory.
    Number(usize),
    Leaf(Position),
}

impl<E: ?Sized + Element, C: Compare<E>> SlabList<'_, E, C> {
    /// Searches for the position of `element`, to change or insert it. If the list has an equal element,
    /// calls `look` with that one, perhaps more than once (see `Slabs::element`).
    pub(super) fn seek_out<R>(
        &mut self,
        element: &E,
        mut look: impl FnMut(&E) -> R,
    ) -> Result<(Found, Option<R>), Error> {
        let seek = Of::new(element, &self.order, true);
        let slabs = match &mut self.body {
            Body::Large(slabs) => slabs,
            Body::Small(elements) => {
                let at = elements.partition_point(|other| seek.is_before(other.borrow()));
                let equal = at.checked_sub(1).filter(|last| seek.is_equal(elements[*last].borrow()));
                let found = Found { at: At::Number(equal.unwrap_or(at)), is_there: equal.is_some() };
                return Ok((found, equal.map(|at| look(elements[at].borrow()))));
            }
        };
        let (mut position, is_there, mut seen) = slabs.find_to_change(self.session, &seek, &mut look)?;
        if is_there {
            if position.place == LeafPosition::END {
                (position, _, seen) = slabs.find_and_look(self.session, &seek, &mut look)?;
            }
            position.place.at -= 1;
        }
        Ok((Found { at: At::Leaf(position), is_there }, seen))
    }

    /// Replaces the element that the search found, or inserts one at the position that it returned.
    pub(super) fn put_found(&mut self, found: Found, element: &E) -> Result<(), Error> {
        let position = match found.at {
            At::Leaf(position) => position,
            At::Number(at) if found.is_there => return self.set_number(at as u64, element).map(drop),
            At::Number(at) => return self.insert_small(at, element),
        };
        if !found.is_there {
            return self.insert_found(position, element);
        }
        let Body::Large(slabs) = &mut self.body else { return Err(Error::Damaged) };
        let (session, seek) = (self.session, Of::new(element, &self.order, true));
        slabs.put(session, position, element, |slabs| {
            let (mut position, is_equal) = slabs.find(session, &seek)?;
            position.place.at -= usize::from(is_equal);
            Ok(position)
        })
    }
}
