//! Sorts the names of linked files, which arrive by directory, in the order of their files.
//!
//! Inserting each name at its place in a long list would restore a block for most of them, and neighbours of
//! full blocks. So a limited number at a time is sorted and appended as a **run**, and runs are then merged,
//! several at a time, until one list contains everything:
//!
//! ```text
//!   | run | run | run | run | .. | ──> |     run     |     run     | .. | ──> the tree's links
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memfold::collections::{Ordered, SlabList};
use memfold::heap::Session;

use super::Name;
use crate::Error;

/// The initial length of a run.
const RUN: usize = 4096;
/// Runs that are merged at a time.
const AT_ONCE: usize = 16;

/// The names, in runs.
pub struct Runs<'s> {
    /// Names that are not in a run yet.
    new: Vec<Name>,
    all: SlabList<'s, Name, Ordered>,
    /// Where runs end.
    ends: Vec<u64>,
    /// The target of merging; empty otherwise.
    merged: SlabList<'s, Name, Ordered>,
}

impl<'s> Runs<'s> {
    pub fn new(session: &'s Session<'_>) -> Self {
        let (all, merged) = (SlabList::ordered(session), SlabList::ordered(session));
        Runs { new: Vec::new(), all, ends: Vec::new(), merged }
    }

    /// Adds names.
    pub fn add(&mut self, names: &[Name]) -> Result<(), Error> {
        for name in names {
            self.new.push(*name);
            if self.new.len() == RUN {
                self.end_run()?;
            }
        }
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), Error> {
        self.new.sort_unstable();
        self.all.push_all(&self.new)?;
        self.ends.push(self.all.len());
        self.new.clear();
        Ok(())
    }

    /// Moves all names to an empty list; none are left here.
    pub fn finish(&mut self, to: &mut SlabList<'_, Name>) -> Result<(), Error> {
        self.end_run()?;
        self.new = Vec::new();
        while self.ends.len() > AT_ONCE {
            let (mut ends, mut from) = (Vec::new(), 0);
            for some in self.ends.chunks(AT_ONCE) {
                merge(&self.all, from, some, |name| Ok(self.merged.push(name)?))?;
                from = some.last().copied().unwrap_or(from);
                ends.push(from);
            }
            self.all.clear()?;
            std::mem::swap(&mut self.all, &mut self.merged);
            self.ends = ends;
        }
        merge(&self.all, 0, &self.ends, |name| Ok(to.insert(name).map(|_| ())?))?;
        self.ends.clear();
        Ok(self.all.clear()?)
    }
}

/// Merges adjacent runs.
fn merge(
    all: &SlabList<'_, Name, Ordered>,
    mut from: u64,
    ends: &[u64],
    mut put: impl FnMut(&Name) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut runs = Vec::with_capacity(ends.len());
    for end in ends {
        runs.push(all.slice(from..*end));
        from = *end;
    }
    let mut next = BinaryHeap::with_capacity(runs.len());
    for (number, run) in runs.iter_mut().enumerate() {
        if let Some(name) = run.next() {
            next.push(Reverse((name?, number)));
        }
    }
    while let Some(Reverse((name, number))) = next.pop() {
        put(&name)?;
        if let Some(name) = runs[number].next() {
            next.push(Reverse((name?, number)));
        }
    }
    Ok(())
}
