//! Maps of strings of 8 to 40 bytes to numbers: the same operations on each, and counting, the most common use of
//! such maps.

use std::collections::BTreeMap;

use memfold::collections::{SlabList, SlabMap};
use memfold::heap::{Heap, Limit, Options};

use super::compare::{Peer, Run, Set, own, run, rust};
use super::load::{Load, Text, memory};
use super::strings::weight;

/// All peers. The list of the same strings shows what a map's values cost.
pub const PEERS: &[Peer] = &[own("slabmap"), rust("slablist"), rust("btreemap")];

/// Runs one structure.
pub fn one(name: &str, load: Load) -> Result<Run, String> {
    let before = memory();
    let options = Options::new().limit(Limit::Blocks(1 << 20));
    let heap = Heap::new(options).map_err(|error| error.to_string())?;
    let session = heap.session().map_err(|error| error.to_string())?;
    Ok(match name {
        "slabmap" => run("slab map of str", load, before, SlabMap::<str, u64>::new(&session)),
        "slablist" => run("slab list of str", load, before, SlabList::<str>::new(&session)),
        "btreemap" => run("BTreeMap<Box<str>>", load, before, BTreeMap::<Box<str>, u64>::new()),
        _ => return Err(format!("no peer is called {name}")),
    })
}

impl Set<Text> for SlabMap<'_, str, u64> {
    fn insert(&mut self, x: &Text) {
        SlabMap::insert(self, x.as_str(), &1).expect("memory");
    }
    fn contains(&self, x: &Text) -> bool {
        SlabMap::get(self, x.as_str()).expect("memory").is_some()
    }
    fn count(&mut self, x: &Text) {
        let entry = self.entry(x.as_str()).expect("memory");
        entry.and_modify(|count| *count += 1).and_then(|entry| entry.or_insert(&1)).expect("memory");
    }
    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum: u64, entry| sum.wrapping_add(weight(&entry.expect("memory").0)))
    }
    fn remove(&mut self, x: &Text) {
        SlabMap::remove(self, x.as_str()).expect("memory");
    }
    fn len(&self) -> u64 {
        SlabMap::len(self)
    }
}

impl Set<Text> for BTreeMap<Box<str>, u64> {
    fn insert(&mut self, x: &Text) {
        self.insert(x.as_str().into(), 1);
    }
    fn contains(&self, x: &Text) -> bool {
        self.get(x.as_str()).is_some()
    }
    fn count(&mut self, x: &Text) {
        self.entry(x.as_str().into()).and_modify(|count| *count += 1).or_insert(1);
    }
    fn sum(&self) -> u64 {
        self.keys().fold(0, |sum: u64, key| sum.wrapping_add(weight(key)))
    }
    fn remove(&mut self, x: &Text) {
        self.remove(x.as_str());
    }
    fn len(&self) -> u64 {
        self.len() as u64
    }
}
