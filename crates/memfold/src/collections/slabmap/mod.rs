//! Slab maps: keys in order, each with a value, in a slab list.
//!
//! ```
//! use memfold::collections::SlabMap;
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;
//! let mut sizes = SlabMap::<str, u64>::new(&session);
//! sizes.insert("slab", &1008)?;
//! sizes.insert("leaf", &32_696)?;
//! sizes.entry("slab")?.and_modify(|size| *size += 16)?.or_insert(&0)?;
//! assert_eq!(sizes.get("slab")?, Some(1024));
//! let all = sizes.iter().collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(all, [("leaf".to_string(), 32_696), ("slab".to_string(), 1024)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Keys and values are plain old data, `str` or `[u8]`. The list has an element for each key with its value
//! (`entry.rs`): of one size if both have one size, otherwise of any length.

mod entry;
#[cfg(test)]
mod tests;

use std::borrow::{Borrow, ToOwned};
use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::string::String;

use self::entry::ByKey;
pub use self::entry::Key;
use super::slablist::{Compare, Element, Found, Iter, Natural, Owned, Packing, SlabList};
use crate::heap::{Error, Session};

type EntryOf<K, V> = <K as Key<V>>::Entry;
/// A key and its value.
type Parts<K, V> = (Owned<K>, Owned<V>);

/// A map: see the module.
pub struct SlabMap<'s, K: ?Sized + Key<V>, V: ?Sized + Element, C = Natural> {
    list: SlabList<'s, K::Entry, ByKey<K, V, C>>,
}

impl<K: ?Sized + Key<V>, V: ?Sized + Element, C> fmt::Debug for SlabMap<'_, K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabMap").field("len", &self.list.len()).finish_non_exhaustive()
    }
}

impl<'s, K: ?Sized + Key<V> + Ord, V: ?Sized + Element> SlabMap<'s, K, V> {
    /// An empty map.
    pub fn new(session: &'s Session<'_>) -> Self {
        Self::by(session, Natural)
    }
}

impl<'s, K: ?Sized + Key<V>, V: ?Sized + Element, C: Compare<K>> SlabMap<'s, K, V, C> {
    /// The same, with keys in an order of the program's own. The order is called only before anything
    /// changes.
    pub fn by(session: &'s Session<'_>, order: C) -> Self {
        SlabMap { list: SlabList::by(session, ByKey::new(order)) }
    }

    /// When the space of removed entries is reclaimed. For a map that is still empty.
    pub fn packing(self, packing: Packing) -> Self {
        SlabMap { list: self.list.packing(packing) }
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Sets the value of a key; returns the previous one.
    pub fn insert(&mut self, key: &K, value: &V) -> Result<Option<V::Owned>, Error> {
        whole(key.with_entry(value, |entry| self.list.replace_seen(entry, K::value))?)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Result<Option<V::Owned>, Error> {
        whole(key.with_sought(|entry| self.list.look(entry, K::value))?)
    }

    /// Whether a key has a value.
    pub fn contains_key(&self, key: &K) -> Result<bool, Error> {
        key.with_sought(|entry| self.list.contains(entry))
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &K) -> Result<Option<V::Owned>, Error> {
        let entry = key.with_sought(|entry| self.list.remove(entry))?;
        whole(entry.map(|entry| K::value(entry.borrow())))
    }

    /// The place of a key, with its value if it has one.
    pub fn entry<'m>(&'m mut self, key: &'m K) -> Result<Entry<'m, 's, K, V, C>, Error> {
        let (found, value) = key.with_sought(|entry| self.list.find_to_put(entry, K::value))?;
        Ok(Entry { map: self, key, value: whole(value)?, found: Some(found) })
    }

    /// The entry with a number, from 0 on.
    pub fn at(&self, number: u64) -> Result<Option<Parts<K, V>>, Error> {
        self.list.at(number)?.map(|entry| parts::<K, V>(&entry)).transpose()
    }

    /// The first entry.
    pub fn first(&self) -> Result<Option<Parts<K, V>>, Error> {
        self.at(0)
    }

    /// The last entry.
    pub fn last(&self) -> Result<Option<Parts<K, V>>, Error> {
        self.len().checked_sub(1).map_or(Ok(None), |at| self.at(at))
    }

    /// All entries in the order of their keys, from either end.
    pub fn iter(&self) -> Entries<'_, K, V> {
        Entries { entries: self.list.iter() }
    }

    /// The numbers of the entries with keys of a range.
    pub fn numbers(&self, range: impl RangeBounds<K>) -> Result<Range<u64>, Error> {
        let sought = |bound: Bound<&K>| bound.map(|key| key.with_sought(ToOwned::to_owned));
        let (from, to) = (sought(range.start_bound()), sought(range.end_bound()));
        self.list.numbers((from.as_ref().map(Borrow::borrow), to.as_ref().map(Borrow::borrow)))
    }

    /// The entries with keys of a range.
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<Entries<'_, K, V>, Error> {
        self.numbers(range).map(|numbers| self.slice(numbers))
    }

    /// The entries with these numbers, as far as they exist.
    pub fn slice(&self, numbers: Range<u64>) -> Entries<'_, K, V> {
        Entries { entries: self.list.slice(numbers) }
    }

    /// Removes the entries with these numbers; returns how many there were.
    pub fn remove_slice(&mut self, numbers: Range<u64>) -> Result<u64, Error> {
        self.list.remove_slice(numbers)
    }

    /// Removes the entries with keys in a range; returns how many there were.
    pub fn remove_range(&mut self, range: impl RangeBounds<K>) -> Result<u64, Error> {
        let numbers = self.numbers(range)?;
        self.remove_slice(numbers)
    }

    /// Packs all entries as densely as possible. Returns how many leaves that saved.
    pub fn reap(&mut self) -> Result<usize, Error> {
        self.list.reap()
    }

    /// Removes all entries. The map is empty afterwards, even if something could not be freed, which is an
    /// error.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.list.clear()
    }

    /// Bytes of plain memory that the map takes in addition to the heap's.
    pub fn own_bytes(&self) -> usize {
        self.list.own_bytes()
    }

    /// Checks every invariant of the map; returns the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        self.list.check()
    }
}

/// A value, if there is an entry; an invalid entry is damage.
fn whole<V>(value: Option<Option<V>>) -> Result<Option<V>, Error> {
    value.map(|value| value.ok_or(Error::Damaged)).transpose()
}

/// The key and the value of an entry, as owned values.
fn parts<K: ?Sized + Key<V>, V: ?Sized + Element>(
    entry: &Owned<EntryOf<K, V>>,
) -> Result<(K::Owned, V::Owned), Error> {
    entry::key::<K, V>(entry).zip(K::value(entry.borrow())).ok_or(Error::Damaged)
}

/// Entries in order, from either end. An entry that can't be read is an error, and ends the iteration.
pub struct Entries<'m, K: ?Sized + Key<V>, V: ?Sized + Element> {
    entries: Iter<'m, K::Entry>,
}

impl<K: ?Sized + Key<V>, V: ?Sized + Element> fmt::Debug for Entries<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("left", &self.entries.size_hint().0).finish_non_exhaustive()
    }
}

impl<K: ?Sized + Key<V>, V: ?Sized + Element> Iterator for Entries<'_, K, V> {
    type Item = Result<(K::Owned, V::Owned), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.entries.next()?.and_then(|entry| parts::<K, V>(&entry)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<K: ?Sized + Key<V>, V: ?Sized + Element> DoubleEndedIterator for Entries<'_, K, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.entries.next_back()?.and_then(|entry| parts::<K, V>(&entry)))
    }
}

impl<'m, K: ?Sized + Key<V>, V: ?Sized + Element, C: Compare<K>> IntoIterator for &'m SlabMap<'_, K, V, C> {
    type Item = Result<(K::Owned, V::Owned), Error>;
    type IntoIter = Entries<'m, K, V>;

    fn into_iter(self) -> Entries<'m, K, V> {
        self.iter()
    }
}

/// A key in a map, and its value if it has one.
pub struct Entry<'m, 's, K: ?Sized + Key<V>, V: ?Sized + Element, C = Natural> {
    map: &'m mut SlabMap<'s, K, V, C>,
    key: &'m K,
    value: Option<V::Owned>,
    /// Its place in the list, until something changes.
    found: Option<Found>,
}

impl<K: ?Sized + Key<V>, V: ?Sized + Element, C: Compare<K>> Entry<'_, '_, K, V, C> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&V> {
        self.value.as_ref().map(Borrow::borrow)
    }

    /// Calls `change` with the value, if there is one.
    pub fn and_modify(mut self, change: impl FnOnce(&mut V::Owned)) -> Result<Self, Error> {
        if let Some(value) = &mut self.value {
            change(value);
            Self::put(self.map, self.found.take(), self.key, (*value).borrow())?;
        }
        Ok(self)
    }

    /// The value; if there was none, sets this one.
    pub fn or_insert(self, value: &V) -> Result<V::Owned, Error> {
        match self.value {
            Some(value) => Ok(value),
            None => {
                // The program's `Clone` may panic, so it comes before anything changes.
                let owned = value.to_owned();
                Self::put(self.map, self.found, self.key, value).map(|()| owned)
            }
        }
    }

    fn put(map: &mut SlabMap<'_, K, V, C>, found: Option<Found>, key: &K, value: &V) -> Result<(), Error> {
        match found {
            Some(found) => key.with_entry(value, |entry| map.list.put(found, entry)),
            None => map.insert(key, value).map(drop),
        }
    }
}
