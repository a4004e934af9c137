//! Maps of any kind: the functions see keys and values as bytes.

use std::borrow::Borrow;
use std::ffi::c_int;
use std::ops::Bound;

use memfold::collections::SlabMap;
use memfold::heap::Session;

use crate::error::{Code, Failure};
use crate::session::lists::Room;
use crate::session::lists::kind::{By, Item, Kind};
use crate::session::lists::options::Settled;

/// Called for each key and its value until it returns something other than 0.
pub type VisitEntry<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> c_int;

/// The operations of a map.
pub trait AnyMap {
    fn len(&self) -> u64;
    fn own_bytes(&self) -> usize;
    fn check(&self) -> Result<(), Failure>;
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure>;
    fn get(&self, key: &[u8], room: &mut Room<'_>) -> Result<(), Failure>;
    fn contains(&self, key: &[u8]) -> Result<bool, Failure>;
    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure>;
    fn at(&self, position: u64, key: &mut Room<'_>, value: &mut Room<'_>) -> Result<(), Failure>;
    fn bound(&self, key: &[u8], behind: bool) -> Result<u64, Failure>;
    fn remove_range(&mut self, from: u64, to: u64) -> Result<u64, Failure>;
    fn fold(&self, from: u64, to: u64, backwards: bool, visit: VisitEntry<'_>) -> Result<c_int, Failure>;
    fn reap(&mut self) -> Result<usize, Failure>;
    fn clear(&mut self) -> Result<(), Failure>;
}

/// A map by its order.
enum Body<K: ?Sized + Item> {
    Natural(SlabMap<'static, K, [u8]>),
    By(SlabMap<'static, K, [u8], By>),
}

/// A map with these keys.
struct Of<K: ?Sized + Item> {
    kind: Kind,
    body: Body<K>,
}

/// An empty map.
pub fn new(session: &'static Session<'static>, settled: &Settled) -> Box<dyn AnyMap> {
    match settled.kind {
        Kind::Bytes => Box::new(Of::<[u8]>::new(session, settled)),
        _ => Box::new(Of::<u64>::new(session, settled)),
    }
}

/// Dispatches on the order of a map.
macro_rules! any {
    ($body:expr, $map:ident => $work:expr) => {
        match $body {
            Body::Natural($map) => $work,
            Body::By($map) => $work,
        }
    };
}

fn none() -> Failure {
    Code::NoElement.into()
}

impl<K: ?Sized + Item> Of<K> {
    fn new(session: &'static Session<'static>, settled: &Settled) -> Self {
        let body = match settled.by {
            Some(by) => Body::By(SlabMap::by(session, by).packing(settled.packing)),
            None => Body::Natural(SlabMap::new(session).packing(settled.packing)),
        };
        Of { kind: settled.kind, body }
    }
}

impl<K: ?Sized + Item> AnyMap for Of<K> {
    fn len(&self) -> u64 {
        any!(&self.body, map => map.len())
    }

    fn own_bytes(&self) -> usize {
        size_of::<Self>() + any!(&self.body, map => map.own_bytes())
    }

    fn check(&self) -> Result<(), Failure> {
        any!(&self.body, map => map.check()).map_err(|text| Failure::new(Code::Violation, text))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let old = any!(&mut self.body, map => K::take(self.kind, key, |key| map.insert(key, value)))??;
        Ok(old.is_some())
    }

    fn get(&self, key: &[u8], room: &mut Room<'_>) -> Result<(), Failure> {
        let value = any!(&self.body, map => K::take(self.kind, key, |key| map.get(key)))??;
        room.put(&value.ok_or_else(none)?)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Failure> {
        Ok(any!(&self.body, map => K::take(self.kind, key, |key| map.contains_key(key)))??)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let old = any!(&mut self.body, map => K::take(self.kind, key, |key| map.remove(key)))??;
        Ok(old.is_some())
    }

    fn at(&self, position: u64, key: &mut Room<'_>, value: &mut Room<'_>) -> Result<(), Failure> {
        let (found, its) = any!(&self.body, map => map.at(position))?.ok_or_else(none)?;
        found.borrow().give(self.kind, |found| {
            key.say(found);
            value.say(&its);
            key.fits(found)?;
            value.fits(&its)?;
            key.copy(found);
            value.copy(&its);
            Ok(())
        })
    }

    fn bound(&self, key: &[u8], behind: bool) -> Result<u64, Failure> {
        let numbers = any!(&self.body, map => K::take(self.kind, key, |key| {
            let from = if behind { Bound::Excluded(key) } else { Bound::Included(key) };
            map.numbers((from, Bound::Unbounded))
        }))??;
        Ok(numbers.start)
    }

    fn remove_range(&mut self, from: u64, to: u64) -> Result<u64, Failure> {
        Ok(any!(&mut self.body, map => map.remove_slice(from..to))?)
    }

    fn fold(&self, from: u64, to: u64, backwards: bool, visit: VisitEntry<'_>) -> Result<c_int, Failure> {
        let mut entries = any!(&self.body, map => map.slice(from..to));
        let mut next = || if backwards { entries.next_back() } else { entries.next() };
        while let Some(entry) = next() {
            let (key, value) = entry?;
            let said = key.borrow().give(self.kind, |key| visit(key, &value));
            if said != 0 {
                return Ok(said);
            }
        }
        Ok(0)
    }

    fn reap(&mut self) -> Result<usize, Failure> {
        Ok(any!(&mut self.body, map => map.reap())?)
    }

    fn clear(&mut self) -> Result<(), Failure> {
        Ok(any!(&mut self.body, map => map.clear())?)
    }
}
