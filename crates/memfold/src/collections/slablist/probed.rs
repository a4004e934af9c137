//! What is done to a list, with its probes around it: see `probe/mod.rs`. Who does not listen pays for one comparison, before anything else is done.
//!
//! What is done is never inlined here: it is called from two places, and what a function calls is inlined into it more readily as long as there is one of it.

use std::ops::Range;
use std::ptr;

use super::element::{Compare, Element, Ordered};
use super::layers::LeafRef;
use super::slabs::Slabs;
use super::{Found, Owned, SlabList};
use crate::heap::{Error, Session};
use crate::probe;
use crate::probe::{Verdict, test_probe};

impl<E: ?Sized + Element, C: Compare<E>> SlabList<'_, E, C> {
    /// Adds an element; whether it was added: if the list has one that is equal, and keeps only one, that stays.
    pub fn insert(&mut self, element: &E) -> Result<bool, Error> {
        if probe::are_adds_heard() { self.insert_told(element) } else { self.insert_element(element) }
    }

    #[cold]
    #[inline(never)]
    fn insert_told(&mut self, element: &E) -> Result<bool, Error> {
        self.tell_add(|list| list.insert_element(element), |added| *added, |list| list.check().into())
    }

    /// Adds an element in place of one that is equal, which comes back; if there is none, it is added.
    pub fn replace(&mut self, element: &E) -> Result<Option<Owned<E>>, Error> {
        self.replace_seen(element, E::to_owned)
    }

    /// The same, with what `look` sees in the one that was there.
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

    /// Looks for an element that is to be changed, and lets `look` look at it.
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

    /// Puts an element where it was found to be or to belong.
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

    /// The number of the last element that is equal.
    pub fn find(&self, element: &E) -> Result<Option<u64>, Error> {
        if probe::are_finds_heard() {
            return self.tell_find(|list| list.find_number(element), Option::is_some);
        }
        self.find_number(element)
    }

    /// The last element that is equal.
    pub fn get(&self, element: &E) -> Result<Option<Owned<E>>, Error> {
        self.look(element, E::to_owned)
    }

    /// What `look` sees in the last element that is equal.
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

    /// Whether there is an element that is equal.
    #[inline]
    pub fn contains(&self, element: &E) -> Result<bool, Error> {
        if probe::are_finds_heard() { self.contains_told(element) } else { self.has_element(element) }
    }

    #[cold]
    #[inline(never)]
    fn contains_told(&self, element: &E) -> Result<bool, Error> {
        self.tell_find(|list| list.has_element(element), |is| *is)
    }

    /// Takes out the last element that is equal, and gives it back.
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
    /// Puts an element before the one with a number, or behind all others if the number is that of none; false if it is greater than the next one's.
    pub fn insert_at(&mut self, number: u64, element: &E) -> Result<bool, Error> {
        if probe::are_adds_heard() {
            return self.tell_add(|list| list.insert_number(number, element), |is| *is, Self::verdict);
        }
        self.insert_number(number, element)
    }

    /// Puts an element in the place of the one with a number, which comes back; `None` if there is none.
    pub fn set_at(&mut self, number: u64, element: &E) -> Result<Option<Owned<E>>, Error> {
        let old = self.set_number(number, element);
        probe!(list_set, ptr::from_ref(self), self.len(), outcome(&old, Option::is_some));
        test_probe!(test_list_set, ptr::from_ref(self), self.verdict());
        old
    }
}

impl<E: ?Sized + Element, C> SlabList<'_, E, C> {
    /// Puts an element behind all others, wherever it belongs.
    pub(super) fn append(&mut self, element: &E) -> Result<(), Error> {
        if probe::are_adds_heard() {
            return self.tell_add(|list| list.append_element(element), |()| true, Self::verdict);
        }
        self.append_element(element)
    }

    /// Takes out the element with a number, and gives it back.
    pub fn remove_at(&mut self, number: u64) -> Result<Option<Owned<E>>, Error> {
        if probe::are_removes_heard() {
            return self.tell_remove(|list| list.remove_number(number), Self::verdict);
        }
        self.remove_number(number)
    }

    /// Takes out the elements with these numbers; how many there were.
    pub fn remove_slice(&mut self, numbers: Range<u64>) -> Result<u64, Error> {
        probe!(list_remove_range_begin, ptr::from_ref(self), self.len());
        let removed = self.remove_numbers(numbers);
        let count = removed.as_ref().map_or(0, |count| *count);
        let outcome = outcome(&removed, |count| *count > 0);
        probe!(list_remove_range, ptr::from_ref(self), self.len(), count, outcome);
        test_probe!(test_list_remove_range, ptr::from_ref(self), self.verdict());
        removed
    }

    /// Packs all elements as close as they go. Returns how many leaves that spared.
    pub fn reap(&mut self) -> Result<usize, Error> {
        probe!(list_reap_begin, ptr::from_ref(self), self.len());
        let spared = self.pack_all();
        let leaves = spared.as_ref().map_or(0, |leaves| *leaves);
        probe!(list_reap, ptr::from_ref(self), self.len(), leaves, outcome(&spared, |leaves| *leaves > 0));
        test_probe!(test_list_reap, ptr::from_ref(self), self.verdict());
        spared
    }

    /// Everything but the order of the elements.
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
        session.free_or_wait(leaf.handle)
    }

    /// Frees a leaf that is no part of the list any more.
    pub fn release_leaf(&self, session: &Session<'_>, leaf: &LeafRef) {
        probe!(slab_free, leaf.handle.to_bits(), self.leaf_bytes(), leaf.count);
        session.discard(leaf.handle);
    }

    /// Some leaves are others now, and so is where they are in the sublayers.
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
