//! What a map's list keeps of a key and its value.
//!
//! ```text
//!   Pair     | key | value |                       both of one size
//!   Record   | length of the key u32 | key | value |
//! ```

use std::borrow::{Borrow, ToOwned};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::collections::slablist::{Compare, Element};
use crate::heap::Plain;

/// A key and a value of one size each.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed)]
pub struct Pair<K, V> {
    key: K,
    value: V,
}

impl<K: Copy, V: Copy> Clone for Pair<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Copy, V: Copy> Copy for Pair<K, V> {}

/// A key and a value of which one has any length.
pub type Record = [u8];

/// Bytes of the key's length.
const LENGTH: usize = 4;

/// The parts of a record.
fn split(record: &Record) -> Option<(&[u8], &[u8])> {
    let (length, rest) = record.split_at_checked(LENGTH)?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    rest.split_at_checked(length as usize)
}

/// A record of these parts.
fn join<K: ?Sized + Element, V: ?Sized + Element>(key: &K, value: Option<&V>) -> Vec<u8> {
    let mut record = vec_with_length();
    key.append_to(&mut record);
    let length = (record.len() - LENGTH) as u32;
    record[..LENGTH].copy_from_slice(&length.to_le_bytes());
    if let Some(value) = value {
        value.append_to(&mut record);
    }
    record
}

fn vec_with_length() -> Vec<u8> {
    let mut record = Vec::with_capacity(64);
    record.resize(LENGTH, 0);
    record
}

/// What can be a map's key, and with which values. Both are plain old data, `str` or `[u8]`.
pub trait Key<V: ?Sized + Element>: Element {
    /// What the list keeps of both.
    #[doc(hidden)]
    type Entry: ?Sized + Element;

    #[doc(hidden)]
    fn entry(&self, value: &V) -> <Self::Entry as ToOwned>::Owned;

    /// The key with any value, to be looked for.
    #[doc(hidden)]
    fn sought(&self) -> <Self::Entry as ToOwned>::Owned;

    /// Lets `look` look at the key; `None` if it is none.
    #[doc(hidden)]
    fn with_key<R>(entry: &Self::Entry, look: impl FnOnce(&Self) -> R) -> Option<R>;

    #[doc(hidden)]
    fn value(entry: &Self::Entry) -> Option<V::Owned>;
}

impl<K, V> Key<V> for K
where
    K: Plain + Copy + Send + Sync + 'static,
    V: Plain + Copy + Send + Sync + 'static,
{
    type Entry = Pair<K, V>;

    #[inline(always)]
    fn entry(&self, value: &V) -> Pair<K, V> {
        Pair { key: *self, value: *value }
    }

    #[inline(always)]
    fn sought(&self) -> Pair<K, V> {
        Pair { key: *self, value: V::new_zeroed() }
    }

    #[inline(always)]
    fn with_key<R>(entry: &Pair<K, V>, look: impl FnOnce(&K) -> R) -> Option<R> {
        let key = entry.key;
        Some(look(&key))
    }

    #[inline(always)]
    fn value(entry: &Pair<K, V>) -> Option<V> {
        Some(entry.value)
    }
}

/// Keys and values that are kept as records.
macro_rules! records {
    ([$($of:tt)*] $key:ty, $value:ty) => {
        impl<$($of)*> Key<$value> for $key {
            type Entry = Record;

            fn entry(&self, value: &$value) -> Vec<u8> {
                join(self, Some(value))
            }

            fn sought(&self) -> Vec<u8> {
                join::<Self, $value>(self, None)
            }

            fn with_key<R>(entry: &Record, look: impl FnOnce(&Self) -> R) -> Option<R> {
                Self::with_bytes(split(entry)?.0, look)
            }

            fn value(entry: &Record) -> Option<<$value as ToOwned>::Owned> {
                <$value>::with_bytes(split(entry)?.1, |value| value.to_owned())
            }
        }
    };
}

records!([K: Plain + Copy + Send + Sync + 'static] K, str);
records!([K: Plain + Copy + Send + Sync + 'static] K, [u8]);
records!([V: ?Sized + Element] str, V);
records!([V: ?Sized + Element] [u8], V);

/// Entries in the order of their keys. What is no entry is as great as any.
pub struct ByKey<K: ?Sized, V: ?Sized, C> {
    pub order: C,
    of: PhantomData<fn(&K, &V)>,
}

impl<K: ?Sized, V: ?Sized, C> ByKey<K, V, C> {
    pub fn new(order: C) -> Self {
        ByKey { order, of: PhantomData }
    }
}

impl<K: ?Sized, V: ?Sized, C: Clone> Clone for ByKey<K, V, C> {
    fn clone(&self) -> Self {
        Self::new(self.order.clone())
    }
}

impl<K: ?Sized + Key<V>, V: ?Sized + Element, C: Compare<K>> Compare<K::Entry> for ByKey<K, V, C> {
    #[inline(always)]
    fn compare(&self, a: &K::Entry, b: &K::Entry) -> Ordering {
        let order = K::with_key(a, |a| K::with_key(b, |b| self.order.compare(a, b)));
        order.flatten().unwrap_or(Ordering::Equal)
    }
}

/// An entry's key.
pub fn key<K: ?Sized + Key<V>, V: ?Sized + Element>(
    entry: &<K::Entry as ToOwned>::Owned,
) -> Option<K::Owned> {
    K::with_key(entry.borrow(), |key| key.to_owned())
}
