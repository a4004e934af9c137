//! Decides, round by round, which dictionary a workload has.
//!
//! The **gain** of a dictionary on a round is what it saves on these blocks. Forms count with their versions,
//! and blocks that do not compress count in full. Its **cost** is twice the memory that it takes while blocks
//! may refer to it: content and decoder tables. It is adopted if the gain exceeds the cost, after scaling
//! from the round to the dictionary's share of everything that the owner keeps: one part for each existing
//! version. The cost of an adopted dictionary is already paid, so it is used as long as it saves anything.

use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::dictionary::{Dictionary, Encoder, SIZES};
use super::samples::{Blocks, ROUND};
use super::train::train;
use super::{Dictionaries, form, table};
use crate::codecs::zstd::Zstd;
use crate::{Codec, Compressed, Scratch, ScratchBuf};

/// The most unreleased versions of a workload.
pub const MOST_VERSIONS: usize = 16;

/// Bytes of blocks to train on: the most recent ones.
const POOL: usize = 1 << 20;

/// Bytes of blocks that suffice for a decision.
const ENOUGH: usize = ROUND / 2;

/// A saving below one in this many of the bytes of forms counts as nothing.
const NOTHING: usize = 256;

/// The most rounds between two training attempts that did not help.
const LONGEST_WAIT: u32 = 64;

/// The result of [`Dictionaries::maintain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There are not enough fresh blocks yet.
    Waiting,
    /// Fresh blocks were examined, and nothing changes.
    Kept,
    /// This version is in use from now on: a new dictionary, or an earlier one that suits again.
    Adopted(u32),
    /// This version no longer pays on fresh blocks: new ones are compressed without a dictionary.
    Dropped(u32),
}

/// The state between rounds.
pub(super) struct Trainer {
    /// Exchanged for the blocks of a round.
    empty: Blocks,
    /// Older blocks, to train on.
    pool: Blocks,
    candidates: Vec<Encoder>,
    versions: Vec<Arc<Dictionary>>,
    /// The recent record of the current dictionary.
    lately: Tally,
    /// The share that it saved when it was adopted, in 1024ths.
    at_first: u64,
    /// Rounds since the last training, and after how many the next one is due.
    since: u32,
    wait: u32,
}

/// Bytes of forms, without and with the current dictionary. With each round, older rounds count half as much.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    plain: u64,
    with: u64,
}

impl Tally {
    fn add(&mut self, plain: usize, with: usize) {
        *self = Tally { plain: self.plain / 2 + plain as u64, with: self.with / 2 + with as u64 };
    }

    /// The share that is saved, in 1024ths.
    fn saved(self) -> u64 {
        self.plain.saturating_sub(self.with) * 1024 / self.plain.max(1)
    }
}

impl Trainer {
    pub(super) const fn new() -> Self {
        Trainer {
            empty: Blocks::none(),
            pool: Blocks::none(),
            candidates: Vec::new(),
            versions: Vec::new(),
            lately: Tally { plain: 0, with: 0 },
            at_first: 0,
            since: 0,
            wait: 1,
        }
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = &Arc<Dictionary>> {
        self.versions.iter()
    }

    pub(super) fn forget(&mut self, version: u32) -> bool {
        let before = self.versions.len();
        self.versions.retain(|there| there.version != version);
        self.versions.len() < before
    }

    pub(super) fn memory(&self) -> usize {
        let versions: usize = self.versions.iter().map(|there| there.memory()).sum();
        let candidates = self.candidates.iter().map(|there| there.memory() + there.dictionary().memory());
        versions + candidates.sum::<usize>() + self.empty.memory() + self.pool.memory()
    }

    pub(super) fn step(&mut self, workload: &Dictionaries, kept: u64) -> Step {
        if self.pool.memory() == 0 {
            self.pool = Blocks::with_capacity(POOL);
            self.empty = Blocks::with_capacity(ROUND);
        }
        let mut empty = core::mem::take(&mut self.empty);
        empty.clear();
        let fresh = match workload.samples.take(empty, ENOUGH) {
            Ok(fresh) => fresh,
            Err(empty) => {
                self.empty = empty;
                return Step::Waiting;
            }
        };
        if fresh.len() == 0 {
            // Before the first round it has no memory.
            self.empty = Blocks::with_capacity(ROUND);
            return Step::Waiting;
        }
        let step = self.judge(workload, &fresh, kept);
        self.learn(workload, &fresh, matches!(step, Step::Dropped(_)));
        self.empty = fresh;
        step
    }

    /// Judges by blocks that no dictionary was trained on.
    fn judge(&mut self, workload: &Dictionaries, fresh: &Blocks, kept: u64) -> Step {
        let longest = fresh.iter().map(<[u8]>::len).max().unwrap_or(0);
        let mut memory = ScratchBuf::default();
        let mut bench = Bench::new(workload, &mut memory, longest);
        let plain = bench.size(fresh, None);
        let with = workload.read_current(|current| bench.size(fresh, Some(current)));
        let mut dropped = None;
        if let Some(with) = with {
            self.lately.add(plain, with);
            if self.lately.saved() * NOTHING as u64 <= 1024 {
                dropped = workload.current();
                workload.set_current(None);
                self.lately = Tally::default();
            }
        }
        let baseline = if dropped.is_none() { with.unwrap_or(plain) } else { plain };
        let current = workload.current();
        if dropped.is_some() || !self.candidates.is_empty() {
            self.recall(workload, current, dropped);
        }
        let best = self.best(&mut bench, fresh, baseline, kept);
        if let Some((candidate, size)) = best
            && let Some(version) = self.adopt(workload, candidate)
        {
            self.lately = Tally::default();
            self.lately.add(plain, size);
            self.at_first = self.lately.saved();
            return Step::Adopted(version);
        }
        dropped.map_or(Step::Kept, Step::Dropped)
    }

    /// Versions that are not in use are candidates, too: the data may return to what they were.
    fn recall(&mut self, workload: &Dictionaries, current: Option<u32>, dropped: Option<u32>) {
        let idle = self.versions.iter().filter(|there| ![current, dropped].contains(&Some(there.version)));
        self.candidates.extend(idle.filter_map(|there| Encoder::new(there.clone(), workload.level())));
    }

    /// The candidate that saves most, if it saves more than it costs, and the size of its forms.
    fn best(
        &mut self,
        bench: &mut Bench<'_>,
        fresh: &Blocks,
        baseline: usize,
        kept: u64,
    ) -> Option<(Encoder, usize)> {
        let judged = self.candidates.drain(..).filter_map(|candidate| {
            let size = bench.size(fresh, Some(&candidate));
            let saved = baseline.checked_sub(size).filter(|saved| saved * NOTHING > baseline)?;
            // Blocks that were compressed with older versions keep their forms: a new version serves only its
            // share of all blocks.
            let share = kept / (1 + self.versions.len() as u64);
            let scaled = saved as u128 * u128::from(share) / fresh.bytes().len() as u128;
            // An older version takes its memory in any case. The best of several candidates on this round
            // will do worse on other rounds, hence the factor of two.
            let is_new = candidate.version() == form::NONE;
            let cost = if is_new { 2 * candidate.dictionary().memory() } else { 0 };
            let worth = scaled.checked_sub(cost as u128 + 1)?;
            Some((worth, candidate, size))
        });
        judged.max_by_key(|(worth, ..)| *worth).map(|(_, candidate, size)| (candidate, size))
    }

    /// Gives a new candidate a version and enters it in the table, so that every decoder can find it before
    /// it is used.
    fn adopt(&mut self, workload: &Dictionaries, candidate: Encoder) -> Option<u32> {
        if candidate.version() != form::NONE {
            let version = candidate.version();
            workload.set_current(Some(candidate));
            return Some(version);
        }
        if self.versions.len() >= MOST_VERSIONS {
            return None;
        }
        let version = table::next_version()?;
        let dictionary = Arc::new(Dictionary::new(version, candidate.dictionary().content())?);
        let encoder = Encoder::new(dictionary.clone(), workload.level())?;
        if !table::add(dictionary.clone()) {
            return None;
        }
        self.versions.push(dictionary);
        workload.set_current(Some(encoder));
        Some(version)
    }

    /// Takes the blocks into the pool, and trains on it if the data have changed, and otherwise from time to
    /// time.
    fn learn(&mut self, workload: &Dictionaries, fresh: &Blocks, changed: bool) {
        self.pool.make_room(fresh.bytes().len(), fresh.len());
        for block in fresh.iter() {
            self.pool.push(block);
        }
        let worse = workload.current().is_some() && self.lately.saved() * 4 < self.at_first * 3;
        if changed || worse {
            // Only the latest blocks are of the new kind, but each round brings more of them.
            self.wait = 1;
            // If training does not help, this is the new normal.
            self.at_first = self.lately.saved();
        }
        self.since += 1;
        if self.since < self.wait || self.versions.len() >= MOST_VERSIONS {
            return;
        }
        (self.since, self.wait) = (0, (self.wait * 2).min(LONGEST_WAIT));
        self.candidates = SIZES
            .iter()
            .filter_map(|&size| {
                let content = train(&self.pool, size, workload.level())?;
                Encoder::new(Arc::new(Dictionary::new(form::NONE, &content)?), workload.level())
            })
            .collect();
    }
}

/// Memory for forms that are made only for their sizes.
struct Bench<'a> {
    plain: &'static Zstd,
    scratch: Scratch<'a>,
    form: Vec<u8>,
}

impl<'a> Bench<'a> {
    fn new(workload: &Dictionaries, memory: &'a mut ScratchBuf, longest: usize) -> Self {
        *memory = ScratchBuf::with_size(workload.compress_scratch_up_to(longest));
        Bench { plain: workload.plain, scratch: memory.scratch(), form: vec![0; workload.bound(longest)] }
    }

    /// Bytes of the forms of all blocks; those that do not compress are stored as they are.
    fn size(&mut self, blocks: &Blocks, encoder: Option<&Encoder>) -> usize {
        let version = encoder.map_or(form::NONE, |encoder| match encoder.version() {
            form::NONE => table::likely_next(),
            version => version,
        });
        let tag = form::tag(version).1;
        let sizes = blocks.iter().map(|block| {
            let size = match encoder {
                Some(encoder) => encoder.compress(self.plain, block, &mut self.scratch).map(<[u8]>::len),
                None => match self.plain.compress(block, &mut self.form, block.len(), &mut self.scratch) {
                    Compressed::Fits(size) => Some(size),
                    Compressed::Incompressible => None,
                },
            };
            size.map_or(block.len(), |size| (tag + size).min(block.len()))
        });
        sizes.sum()
    }
}
