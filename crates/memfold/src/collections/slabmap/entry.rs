//! What a map's list stores of a key and its value.
//!
//! ```text
//!   Pair   | key | value |                    both of one size
//!   Record | key | value |                    of one size the key alone
//!   Record | key, escaped | 00 00 | value |   strings and bytes as keys
//! ```
//!
//! In an escaped key, `00` is written as `00 ff`. So no escaped key with its `00 00` is a prefix of another
//! one, and records are in the order of their bytes if keys are. They are found as strings are, by their
//! first bytes, and values never matter.

use std::borrow::{Borrow, Cow, ToOwned};
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

/// A key and a value, at least one of which can have any length.
pub type Record = [u8];

/// What an escaped key ends with.
const END: [u8; 2] = [0, 0];
/// The byte after a zero of the key.
const ESCAPED: u8 = 0xff;
/// Records of up to this many bytes are built on the stack.
const SHORT: usize = 256;

/// The position of the end of an escaped key.
fn end_of(record: &Record) -> Option<usize> {
    let mut from = 0;
    loop {
        let zero = from + record[from..].iter().position(|byte| *byte == 0)?;
        if *record.get(zero + 1)? == 0 {
            return Some(zero);
        }
        from = zero + 2;
    }
}

/// Unescapes a key.
fn unescaped(escaped: &[u8]) -> Cow<'_, [u8]> {
    if !escaped.contains(&0) {
        return Cow::Borrowed(escaped);
    }
    let mut key = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        key.push(*byte);
        if *byte == 0 {
            bytes.next();
        }
    }
    Cow::Owned(key)
}

/// Calls `with` with a record of these parts; the first is a key to escape.
fn with_record<R>(key: &[u8], value: &[u8], with: impl FnOnce(&Record) -> R) -> R {
    let len = key.len() + END.len() + value.len();
    if len <= SHORT && !key.contains(&0) {
        let mut record = [0; SHORT];
        record[..key.len()].copy_from_slice(key);
        record[key.len() + END.len()..len].copy_from_slice(value);
        return with(&record[..len]);
    }
    let mut record = Vec::with_capacity(len + key.len());
    for byte in key {
        record.push(*byte);
        if *byte == 0 {
            record.push(ESCAPED);
        }
    }
    record.extend_from_slice(&END);
    record.extend_from_slice(value);
    with(&record)
}

/// Calls `with` with an element's bytes.
fn with_bytes<E: ?Sized + Element, R>(element: &E, with: impl FnOnce(&[u8]) -> R) -> R {
    match element.text() {
        Some(bytes) => with(bytes),
        None => {
            let mut bytes = Vec::new();
            element.append_to(&mut bytes);
            with(&bytes)
        }
    }
}

/// The types of a map's keys, with their values. Both are plain old data, `str` or `[u8]`.
pub trait Key<V: ?Sized + Element>: Element {
    /// What the list stores of both.
    #[doc(hidden)]
    type Entry: ?Sized + Element;

    /// Entries are in the order of their bytes if keys are.
    #[doc(hidden)]
    const BY_BYTES: bool = false;

    /// Calls `with` with the entry of this key and a value.
    #[doc(hidden)]
    fn with_entry<R>(&self, value: &V, with: impl FnOnce(&Self::Entry) -> R) -> R;

    /// The same for this key with any value, to search for.
    #[doc(hidden)]
    fn with_sought<R>(&self, with: impl FnOnce(&Self::Entry) -> R) -> R;

    /// Calls `look` with the key; `None` if the entry has none.
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
    fn with_entry<R>(&self, value: &V, with: impl FnOnce(&Pair<K, V>) -> R) -> R {
        with(&Pair { key: *self, value: *value })
    }

    #[inline(always)]
    fn with_sought<R>(&self, with: impl FnOnce(&Pair<K, V>) -> R) -> R {
        with(&Pair { key: *self, value: V::new_zeroed() })
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

/// Keys of one size, with values of any length.
macro_rules! fixed_keys {
    ($value:ty) => {
        impl<K: Plain + Copy + Send + Sync + 'static> Key<$value> for K {
            type Entry = Record;

            fn with_entry<R>(&self, value: &$value, with: impl FnOnce(&Record) -> R) -> R {
                let (key, value) = (self.as_bytes(), value.text().unwrap_or_default());
                let len = key.len() + value.len();
                if len <= SHORT {
                    let mut record = [0; SHORT];
                    record[..key.len()].copy_from_slice(key);
                    record[key.len()..len].copy_from_slice(value);
                    return with(&record[..len]);
                }
                with(&[key, value].concat())
            }

            fn with_sought<R>(&self, with: impl FnOnce(&Record) -> R) -> R {
                with(self.as_bytes())
            }

            fn with_key<R>(entry: &Record, look: impl FnOnce(&K) -> R) -> Option<R> {
                K::read_from_prefix(entry).ok().map(|(key, _)| look(&key))
            }

            fn value(entry: &Record) -> Option<<$value as ToOwned>::Owned> {
                <$value>::with_bytes(entry.get(size_of::<K>()..)?, |value| value.to_owned())
            }
        }
    };
}

fixed_keys!(str);
fixed_keys!([u8]);

/// Keys of any length.
macro_rules! long_keys {
    ($key:ty) => {
        impl<V: ?Sized + Element> Key<V> for $key {
            type Entry = Record;
            const BY_BYTES: bool = true;

            fn with_entry<R>(&self, value: &V, with: impl FnOnce(&Record) -> R) -> R {
                with_bytes(value, |value| with_record(self.text().unwrap_or_default(), value, with))
            }

            fn with_sought<R>(&self, with: impl FnOnce(&Record) -> R) -> R {
                with_record(self.text().unwrap_or_default(), &[], with)
            }

            fn with_key<R>(entry: &Record, look: impl FnOnce(&Self) -> R) -> Option<R> {
                Self::with_bytes(&unescaped(&entry[..end_of(entry)?]), look)
            }

            fn value(entry: &Record) -> Option<V::Owned> {
                V::with_bytes(&entry[end_of(entry)? + END.len()..], |value| value.to_owned())
            }
        }
    };
}

long_keys!(str);
long_keys!([u8]);

/// Entries in the order of their keys. An invalid entry compares equal to any.
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
    const IS_NATURAL: bool = C::IS_NATURAL && K::BY_BYTES;
    const IS_BEGIN: bool = true;

    #[inline(always)]
    fn compare(&self, a: &K::Entry, b: &K::Entry) -> Ordering {
        let order = K::with_key(a, |a| K::with_key(b, |b| self.order.compare(a, b)));
        order.flatten().unwrap_or(Ordering::Equal)
    }

    #[inline(always)]
    fn begin(entry: &[u8]) -> &[u8] {
        end_of(entry).map_or(entry, |end| &entry[..end + END.len()])
    }
}

/// An entry's key.
pub fn key<K: ?Sized + Key<V>, V: ?Sized + Element>(
    entry: &<K::Entry as ToOwned>::Owned,
) -> Option<K::Owned> {
    K::with_key(entry.borrow(), |key| key.to_owned())
}
