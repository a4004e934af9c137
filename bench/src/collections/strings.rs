//! Sets of strings of 8 to 40 bytes: the same operations on each.

use std::collections::BTreeSet;

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};

use super::compare::{Peer, Run, Set, cpp, own, run, rust};
use super::load::{Load, Text, memory};

/// All peers.
pub const PEERS: &[Peer] =
    &[own("slablist"), rust("btreeset"), cpp("absl"), rust("indexset"), cpp("std::set")];

/// Runs one structure.
pub fn one(name: &str, load: Load) -> Result<Run, String> {
    let before = memory();
    Ok(match name {
        "slablist" => {
            let options = Options::new().limit(Limit::Blocks(1 << 20));
            let heap = Heap::new(options).map_err(|error| error.to_string())?;
            let session = heap.session().map_err(|error| error.to_string())?;
            run("slab list of str", load, before, SlabList::<str>::new(&session))
        }
        "btreeset" => run("BTreeSet<Box<str>>", load, before, BTreeSet::<Box<str>>::new()),
        "indexset" => run("indexset<Box<str>>", load, before, indexset::BTreeSet::<Box<str>>::new()),
        _ => return Err(format!("no peer is called {name}")),
    })
}

/// The number that a scan adds up per string: enough to read the string, and to check that none is missing.
pub fn weight(text: &str) -> u64 {
    text.len() as u64 + u64::from(text.as_bytes()[0])
}

impl Set<Text> for SlabList<'_, str> {
    fn insert(&mut self, x: &Text) {
        SlabList::insert(self, x.as_str()).expect("memory");
    }
    fn contains(&self, x: &Text) -> bool {
        SlabList::contains(self, x.as_str()).expect("memory")
    }
    fn sum(&self) -> u64 {
        self.fold(0, |sum: u64, x| sum.wrapping_add(weight(&x))).expect("memory")
    }
    fn remove(&mut self, x: &Text) {
        SlabList::remove(self, x.as_str()).expect("memory");
    }
    fn len(&self) -> u64 {
        SlabList::len(self)
    }
}

macro_rules! like_btreeset {
    ($set:ty) => {
        impl Set<Text> for $set {
            fn insert(&mut self, x: &Text) {
                <$set>::insert(self, x.as_str().into());
            }
            fn contains(&self, x: &Text) -> bool {
                <$set>::contains(self, x.as_str())
            }
            fn sum(&self) -> u64 {
                self.iter().fold(0, |sum, x| sum.wrapping_add(weight(x)))
            }
            fn remove(&mut self, x: &Text) {
                <$set>::remove(self, x.as_str());
            }
            fn len(&self) -> u64 {
                <$set>::len(self) as u64
            }
        }
    };
}

like_btreeset!(BTreeSet<Box<str>>);
like_btreeset!(indexset::BTreeSet<Box<str>>);
