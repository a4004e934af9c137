//! Operations on a list, with their probes around them: see `probe/mod.rs`. If nobody listens, the cost is
//! one comparison, before anything else is done.
//!
//! The operations themselves are never inlined here: each is called from two places, and the compiler inlines
//! the callees of a function more readily if there is only one copy of it.

use std::ops::Range;
use std::ptr;

use super::format::Element;
use super::order::{Compare, Ordered};
use super::slabs::Slabs;
use super::slabs::layers::LeafRef;
use super::{Found, Owned, SlabList};
use crate::heap::{Error, Session};
use crate::probe;
use crate::probe::{Verdict, test_probe};

impl<E: ?Sized + Element, C: Compare<E>> SlabList<'_, E, C> {
    /// Adds an element; returns whether it was added: if the list has an equal one and keeps only one, that
    /// one stays.
    pub fn insert(&mut self, element: &E) -> Result<bool, Error> {
        if probe::are_adds_heard() { self.insert_told(element) } else { self.insert_element(element) }
    }

    #[cold]
    #[inline(never)]
    fn insert_told(&mut self, element: &E) -> Result<bool, Error> {
        self.tell_add(|list| list.insert_element(element), |added| *added, |list| list.check().into())
    }

    /// Replaces an equal element, and returns the old one; if there is none, adds the element.
    pub fn replace(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        self.replace_seen(element, E::to_owned)
    }

    /// The same; returns what `look` sees in the old element.
    pub(in crate::collections) fn replace_seen<R>(
        &mut self,
        element: &E,
        look: impl FnMut(&E) -> R,
    ) -> Result<Option<R>, Error> {
        if probe::are_adds_heard() {
            return self.tell_add(
                |list| list.replace_element(element, look),
                Option::is_none,
                |list| list.check().into(),
            );
        }
        self.replace_element(element, look)
    }

    /// Searches for an element to change, and calls `look` with it.
    pub(in crate::collections) fn find_to_put<R>(
        &mut self,
        element: &E,
        look: impl FnMut(&E) -> R,
    ) -> Result<(Found, Option<R>), Error> {
        if probe::are_finds_heard() {
            probe!(list_find_begin, ptr::from_ref(self), self.len());
            let found = self.seek_out(element, look);
            probe!(list_find, ptr::from_ref(self), self.len(), outcome(&found, |found| found.0.is_there));
            return found;
        }
        self.seek_out(element, look)
    }

    /// Puts an element where the search found it, or its place.
    pub(in crate::collections) fn put(&mut self, found: Found, element: &E) -> Result<(), Error> {
        if probe::are_adds_heard() {
            return self.tell_add(
                |list| list.put_found(found, element),
                |()| !found.is_there,
                |list| list.check().into(),
            );
        }
        self.put_found(found, element)
    }

    /// The number of the last equal element.
    pub fn find(&self, element: &E) -> Result<Option<u64>, Error> {
        if probe::are_finds_heard() {
            return self.tell_find(|list| list.find_number(element), Option::is_some);
        }
        self.find_number(element)
    }

    /// The last equal element.
    pub fn get(&self, element: &E) -> Result<Option<Owned<E>>, Error> {
        self.look(element, E::to_owned)
    }

    /// What `look` sees in the last equal element.
    pub(in crate::collections) fn look<R>(
        &self,
        element: &E,
        look: impl FnMut(&E) -> R,
    ) -> Result<Option<R>, Error> {
        if probe::are_finds_heard() {
            self.look_told(element, look)
        } else {
            self.find_element(element, look)
        }
    }

    #[cold]
    #[inline(never)]
    fn look_told<R>(&self, element: &E, look: impl FnMut(&E) -> R) -> Result<Option<R>, Error> {
        self.tell_find(|list| list.find_element(element, look), Option::is_some)
    }

    /// Whether there is an equal element.
    #[inline]
    pub fn contains(&self, element: &E) -> Result<bool, Error> {
        if probe::are_finds_heard() { self.contains_told(element) } else { self.has_element(element) }
    }

    #[cold]
    #[inline(never)]
    fn contains_told(&self, element: &E) -> Result<bool, Error> {
        self.tell_find(|list| list.has_element(element), |is| *is)
    }

    /// Removes and returns the last equal element.
    pub fn remove(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        if probe::are_removes_heard() { self.remove_told(element) } else { self.remove_element(element) }
    }

    #[cold]
    #[inline(never)]
    fn remove_told(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        self.tell_remove(|list| list.remove_element(element), |list| list.check().into())
    }
}

impl<E: ?Sized + Element> SlabList<'_, E, Ordered> {
    /// Inserts an element before the one with a number, or at the end if there is no such number; returns
    /// false if the number is greater than the length.
    pub fn insert_at(&mut self, number: u64, element: &E) -> Result<bool, Error> {
        if probe::are_adds_heard() {
            return self.tell_add(|list| list.insert_number(number, element), |is| *is, Self::verdict);
        }
        self.insert_number(number, element)
    }

    /// Replaces the element with a number, and returns the old one; `None` if there is none.
    pub fn set_at(&mut self, number: u64, element: &E) -> Result<Option<Owned<E>>, Error> {
        let old = self.set_number(number, element);
        probe!(list_set, ptr::from_ref(self), self.len(), outcome(&old, Option::is_some));
        test_probe!(test_list_set, ptr::from_ref(self), self.verdict());
        old
    }
}

impl<E: ?Sized + Element, C> SlabList<'_, E, C> {
    /// Adds an element at the end, wherever it belongs.
    pub(super) fn append(&mut self, element: &E) -> Result<(), Error> {
        if probe::are_adds_heard() {
            return self.tell_add(|list| list.append_element(element), |()| true, Self::verdict);
        }
        self.append_element(element)
    }

    /// Removes and returns the element with a number.
    pub fn remove_at(&mut self, number: u64) -> Result<Option<Owned<E>>, Error> {
        if probe::are_removes_heard() {
            return self.tell_remove(|list| list.remove_number(number), Self::verdict);
        }
        self.remove_number(number)
    }

    /// Removes the elements with these numbers; returns how many there were.
    pub fn remove_slice(&mut self, numbers: Range<u64>) -> Result<u64, Error> {
        probe!(list_remove_range_begin, ptr::from_ref(self), self.len());
        let removed = self.remove_numbers(numbers);
        let count = removed.as_ref().map_or(0, |count| *count);
        let outcome = outcome(&removed, |count| *count > 0);
        probe!(list_remove_range, ptr::from_ref(self), self.len(), count, outcome);
        test_probe!(test_list_remove_range, ptr::from_ref(self), self.verdict());
        removed
    }

    /// Packs all elements as densely as possible. Returns how many leaves that saved.
    pub fn reap(&mut self) -> Result<usize, Error> {
        probe!(list_reap_begin, ptr::from_ref(self), self.len());
        let spared = self.pack_all();
        let leaves = spared.as_ref().map_or(0, |leaves| *leaves);
        probe!(list_reap, ptr::from_ref(self), self.len(), leaves, outcome(&spared, |leaves| *leaves > 0));
        test_probe!(test_list_reap, ptr::from_ref(self), self.verdict());
        spared
    }

    /// Checks everything except the order of the elements.
    fn verdict(&self) -> Verdict {
        self.check_leaves().into()
    }

    fn tell_add<R>(
        &mut self,
        add: impl FnOnce(&mut Self) -> Result<R, Error>,
        done: impl FnOnce(&R) -> bool,
        verdict: impl FnOnce(&Self) -> Verdict,
    ) -> Result<R, Error> {
        probe!(list_add_begin, ptr::from_ref(self), self.len());
        let added = add(self);
        probe!(list_add, ptr::from_ref(self), self.len(), outcome(&added, done));
        test_probe!(test_list_add, ptr::from_ref(self), verdict(self));
        added
    }

    fn tell_remove(
        &mut self,
        remove: impl FnOnce(&mut Self) -> Result<Option<Owned<E>>, Error>,
        verdict: impl FnOnce(&Self) -> Verdict,
    ) -> Result<Option<Owned<E>>, Error> {
        probe!(list_remove_begin, ptr::from_ref(self), self.len());
        let removed = remove(self);
        probe!(list_remove, ptr::from_ref(self), self.len(), outcome(&removed, Option::is_some));
        test_probe!(test_list_remove, ptr::from_ref(self), verdict(self));
        removed
    }

    fn tell_find<R>(
        &self,
        find: impl FnOnce(&Self) -> Result<R, Error>,
        done: impl FnOnce(&R) -> bool,
    ) -> Result<R, Error> {
        probe!(list_find_begin, ptr::from_ref(self), self.len());
        let found = find(self);
        probe!(list_find, ptr::from_ref(self), self.len(), outcome(&found, done));
        found
    }
}

impl<E: ?Sized + Element> Slabs<E> {
    /// Frees a leaf.
    pub fn free_leaf(&self, session: &Session<'_>, leaf: &LeafRef) -> Result<(), Error> {
        probe!(slab_free, leaf.handle.to_bits(), self.leaf_bytes(), leaf.count);
        session.free_or_defer(leaf.handle)
    }

    /// Frees a leaf that no longer belongs to the list.
    pub fn release_leaf(&self, session: &Session<'_>, leaf: &LeafRef) {
        probe!(slab_free, leaf.handle.to_bits(), self.leaf_bytes(), leaf.count);
        session.discard(leaf.handle);
    }

    /// Reports that leaves were replaced, and that their places in the sublayers have changed.
    pub fn spread_done(&self, session: &Session<'_>, before: &[LeafRef], after: usize) {
        let elements = || before.iter().map(|leaf| u64::from(leaf.count)).sum::<u64>();
        if after > before.len() {
            probe!(list_split, before.len(), after, elements());
        } else {
            probe!(list_pack, before.len(), after, elements());
        }
        test_probe!(test_list_spread, ptr::from_ref(self), self.check(session));
    }
}

/// 1 if something was done, 0 if not, 2 after an error.
fn outcome<R>(result: &Result<R, Error>, done: impl FnOnce(&R) -> bool) -> u64 {
    result.as_ref().map_or(2, |result| done(result).into())
}
