//! Sets of strings of 8 to 40 bytes: the same operations over each.
//!
//! memfold's own list of strings is put in two places: `own("slablist")` at the head of [`PEERS`], and an arm in [`one`] that makes it, with its `impl Set<Text>` below.

use std::collections::BTreeSet;

use super::compare::{Peer, Run, Set, cpp, run, rust};
use super::load::{Load, Text, memory};

/// All of them.
pub const PEERS: &[Peer] = &[rust("btreeset"), cpp("absl"), rust("indexset"), cpp("std::set")];

/// Runs one structure.
pub fn one(name: &str, load: Load) -> Result<Run, String> {
    let before = memory();
    Ok(match name {
        "btreeset" => run("BTreeSet<Box<str>>", load, before, BTreeSet::<Box<str>>::new()),
        "indexset" => run("indexset<Box<str>>", load, before, indexset::BTreeSet::<Box<str>>::new()),
        _ => return Err(format!("no peer is called {name}")),
    })
}

/// What a scan adds up for a string: enough to read it, and to see that all were there.
fn weight(text: &str) -> u64 {
    text.len() as u64 + u64::from(text.as_bytes()[0])
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
