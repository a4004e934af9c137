//! Sorted lists.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::string::String;

use super::format::Element;
use super::format::Seek;
use super::order::Compare;
use super::order::Of;
use super::slabs::Position;
use super::{Body, Owned, SlabList, insert_position};
use crate::heap::{Error, Session};

impl<'s, E: ?Sized + Element, C: Compare<E>> SlabList<'s, E, C> {
    /// As `new`, with an order of the program's own. It is called only before anything changes: if it panics,
    /// the operation has changed nothing.
    pub fn by(session: &'s Session<'_>, order: C) -> Self {
        let mut list = Self::with_order(session, order);
        list.making.natural = C::IS_NATURAL;
        list
    }

    /// Where an element belongs: after equal ones, or before them.
    #[inline(always)]
    pub(super) fn seek<'a>(&'a self, element: &'a E, behind: bool) -> Of<'a, E, C> {
        Of::new(element, &self.order, behind)
    }

    /// The number of the first element of a small list that is not before `element`.
    pub(super) fn find_small(&self, elements: &[Owned<E>], element: &E, behind: bool) -> usize {
        let seek = self.seek(element, behind);
        elements.partition_point(|other| Seek::is_before(&seek, other.borrow()))
    }

    #[inline(never)]
    pub(super) fn insert_element(&mut self, element: &E) -> Result<bool, Error> {
        let Body::Large(slabs) = &mut self.body else { return self.insert_first(element) };
        let (session, seek) = (self.session, Of::new(element, &self.order, true));
        // The comparison is called before anything changes.
        let (position, is_equal) = slabs.find_to_insert(session, &seek)?;
        if is_equal && !self.many {
            return Ok(false);
        }
        self.insert_found(position, element).map(|()| true)
    }

    /// Puts an element where the search found its place.
    #[inline]
    pub(super) fn insert_found(&mut self, position: Position, element: &E) -> Result<(), Error> {
        let number = self.number_for_cursors(position)?;
        insert_position(&mut self.body, self.session, position, element, |slabs, session| {
            slabs.find(session, &Of::new(element, &self.order, true)).map(|found| found.0)
        })?;
        self.note_inserted(number);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn insert_first(&mut self, element: &E) -> Result<bool, Error> {
        let Body::Small(elements) = &self.body else { return Ok(false) };
        let at = self.find_small(elements, element, true);
        let is_equal = at > 0 && Seek::is_equal(&self.seek(element, true), elements[at - 1].borrow());
        if is_equal && !self.many {
            return Ok(false);
        }
        self.insert_small(at, element).map(|()| true)
    }

    /// Replaces an equal element, with which `look` is called, or adds the element.
    pub(super) fn replace_element<R>(
        &mut self,
        element: &E,
        look: impl FnMut(&E) -> R,
    ) -> Result<Option<R>, Error> {
        let (found, old) = self.seek_out(element, look)?;
        self.put_found(found, element).map(|()| old)
    }

    pub(super) fn find_number(&self, element: &E) -> Result<Option<u64>, Error> {
        match &self.body {
            Body::Small(elements) => {
                let at = self.find_small(elements, element, true).checked_sub(1);
                let seek = self.seek(element, true);
                let at = at.filter(|at| Seek::is_equal(&seek, elements[*at].borrow()));
                Ok(at.map(|at| at as u64))
            }
            Body::Large(slabs) => slabs.number_of(self.session, &self.seek(element, true)),
        }
    }

    /// What `look` sees in the last equal element.
    #[inline(never)]
    pub(super) fn find_element<R>(
        &self,
        element: &E,
        mut look: impl FnMut(&E) -> R,
    ) -> Result<Option<R>, Error> {
        match &self.body {
            Body::Large(slabs) => slabs.element(self.session, &self.seek(element, true), look),
            Body::Small(elements) => {
                Ok(self.find_number(element)?.map(|at| look(elements[at as usize].borrow())))
            }
        }
    }

    #[inline(never)]
    pub(super) fn has_element(&self, element: &E) -> Result<bool, Error> {
        match &self.body {
            Body::Large(slabs) => slabs.has(self.session, &self.seek(element, true)),
            Body::Small(_) => Ok(self.find_number(element)?.is_some()),
        }
    }

    #[inline(never)]
    pub(super) fn remove_element(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        let Body::Large(slabs) = &self.body else {
            return match self.find_number(element)? {
                Some(at) => self.remove_number(at),
                None => Ok(None),
            };
        };
        let (mut position, is_equal) = slabs.find(self.session, &self.seek(element, true))?;
        if !is_equal {
            return Ok(None);
        }
        position.place.at -= 1;
        let number = self.number_for_cursors(position)?;
        let gone = self.remove_position(position)?;
        if let Some(number) = number {
            self.note_removed(number, number + 1);
        }
        Ok(Some(gone))
    }

    /// Checks every invariant of the list; returns the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        let mut last: Option<Owned<E>> = None;
        for (count, element) in self.iter().enumerate() {
            let element = element.map_err(|error| std::format!("element {count} can't be read: {error}"))?;
            if let Some(last) = &last {
                let order = self.order.compare(last.borrow(), element.borrow());
                if !(order == Ordering::Less || self.many && order == Ordering::Equal) {
                    return Err(std::format!("element {count} is out of order"));
                }
            }
            last = Some(element);
        }
        self.check_leaves()
    }
}
