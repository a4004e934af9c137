//! The table of blocks and the table of batches, with the stage of each batch.
//!
//! Invariant: for each batch, the needed bytes agree with the table of blocks; a batch of which nothing is
//! needed is dropped, and deleted if it is on the tier.

use std::sync::Arc;

use crate::batch::{Batch, Sealer};

/// No batch.
pub const NONE: u32 = u32::MAX;

/// Where a block is; `batch` is [`NONE`] if no block has this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub batch: u32,
    pub offset: u32,
    pub len: u32,
    /// Distinguishes the block from earlier ones with this number.
    pub stamp: u32,
}

/// The stage of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// It is being filled; this many bytes of its memory are used.
    Filling(usize),
    InFlight,
    Refused,
    Away,
}

#[derive(Debug)]
pub struct Kept {
    pub number: u64,
    pub stage: Stage,
    /// The bytes, until it is acknowledged.
    pub memory: Arc<Vec<u8>>,
    pub bytes: u32,
    pub needed: u32,
    pub needed_bytes: u32,
    /// It or one of its blocks is lost, so it cannot be emptied.
    pub is_stuck: bool,
    /// The numbers of its blocks; some may meanwhile belong to blocks in other batches.
    pub blocks: Vec<u32>,
}

#[derive(Debug, Default)]
pub struct State {
    pub blocks: Vec<Entry>,
    pub free_blocks: Vec<u32>,
    pub batches: Vec<Option<Kept>>,
    pub free_batches: Vec<u32>,
    pub filling: Option<u32>,
    pub next: u64,
    pub stamp: u32,
    /// Batches that are on their way or refused.
    pub unacknowledged: usize,
    pub refused: Vec<u32>,
    pub deletes: Vec<u64>,
    /// No blocks are accepted any more.
    pub is_ended: bool,
    /// A thread has waited in vain for an answer, and none has arrived since.
    pub is_stalled: bool,
    /// Sealed bytes that are needed, and the bytes of all batches on the tier.
    pub needed_bytes: u64,
    pub away_bytes: u64,
}

impl State {
    /// Where a block is, and its batch.
    pub fn find(&self, number: u64) -> Option<(Entry, &Kept)> {
        let entry = self.entry(number)?;
        Some((entry, self.batches[entry.batch as usize].as_ref()?))
    }

    /// The number of the batch that is being filled.
    pub fn filled(&self) -> Option<u64> {
        Some(self.batches[self.filling? as usize].as_ref()?.number)
    }

    /// Forgets everything; returns the numbers of all batches that may be on the tier.
    pub fn take_all(&mut self) -> Vec<u64> {
        let mut all = std::mem::take(&mut self.deletes);
        all.extend(self.batches.drain(..).flatten().map(|kept| kept.number));
        *self = State { next: self.next, is_ended: true, ..State::default() };
        all
    }

    pub fn entry(&self, number: u64) -> Option<Entry> {
        self.blocks.get(usize::try_from(number).ok()?).copied().filter(|entry| entry.batch != NONE)
    }

    /// Enters a block in the table.
    pub fn place(&mut self, number: u32, entry: Entry) {
        self.blocks[number as usize] = entry;
        self.needed_bytes += u64::from(entry.len);
        if let Some(kept) = self.batches[entry.batch as usize].as_mut() {
            kept.needed += 1;
            kept.needed_bytes += entry.len;
            kept.blocks.push(number);
        }
    }

    /// Removes a block from its batch.
    pub fn leave(&mut self, entry: Entry) {
        self.needed_bytes -= u64::from(entry.len);
        let Some(kept) = self.batches[entry.batch as usize].as_mut() else { return };
        kept.needed -= 1;
        kept.needed_bytes -= entry.len;
        if kept.needed > 0 {
            return;
        }
        match kept.stage {
            // The batch is still being filled, or waits for its answer.
            Stage::Filling(_) | Stage::InFlight => return,
            Stage::Refused => {
                self.unacknowledged -= 1;
                self.refused.retain(|other| *other != entry.batch);
            }
            Stage::Away => self.deletes.push(kept.number),
        }
        self.drop_batch(entry.batch);
    }

    pub fn drop_batch(&mut self, index: u32) {
        if let Some(kept) = self.batches[index as usize].take()
            && kept.stage == Stage::Away
        {
            self.away_bytes -= u64::from(kept.bytes);
        }
        self.free_batches.push(index);
    }

    /// Bytes by which batches in memory exceed `batch_bytes`: those of longer blocks.
    pub fn excess(&self, batch_bytes: usize) -> usize {
        self.batches.iter().flatten().map(|kept| kept.memory.len().saturating_sub(batch_bytes)).sum()
    }

    /// Seals a block into the batch that is being filled. If there is none, one is created, which is as long
    /// as the block if that is longer than a batch. `None` if there is no room for the block.
    pub fn seal(
        &mut self,
        sealer: &Sealer,
        batch_bytes: usize,
        owner: u64,
        tag: u8,
        payload: &[u8],
    ) -> Option<(u32, u32, u32)> {
        let index = match self.filling {
            Some(index) => index,
            None => {
                let kept = Kept {
                    number: self.next,
                    stage: Stage::Filling(0),
                    memory: Arc::new(vec![0; batch_bytes.max(payload.len() + Batch::OVERHEAD)]),
                    bytes: 0,
                    needed: 0,
                    needed_bytes: 0,
                    is_stuck: false,
                    blocks: Vec::new(),
                };
                self.next += 1;
                let index = self.free_batches.pop().unwrap_or(self.batches.len() as u32);
                if index as usize == self.batches.len() {
                    self.batches.push(None);
                }
                self.batches[index as usize] = Some(kept);
                self.filling = Some(index);
                index
            }
        };
        let kept = self.batches[index as usize].as_mut()?;
        let Stage::Filling(used) = kept.stage else { return None };
        // A reader of one of its blocks may briefly hold a reference to the memory; then this copies it.
        let mut batch = Batch::go_on(kept.number, Arc::make_mut(&mut kept.memory).as_mut_slice(), used);
        let place = batch.add(sealer, owner, tag, payload)?;
        kept.stage = Stage::Filling(batch.len());
        Some((index, place.offset, place.len))
    }

    /// Notes that the tier has acknowledged or refused a batch.
    pub fn note_answer(&mut self, index: u32, number: u64, is_kept: bool) {
        self.is_stalled = false;
        let kept = self.batches.get_mut(index as usize).and_then(Option::as_mut);
        let Some(kept) = kept.filter(|kept| kept.number == number) else { return };
        if is_kept {
            kept.stage = Stage::Away;
            kept.memory = Arc::default();
            self.unacknowledged -= 1;
            self.away_bytes += u64::from(kept.bytes);
        } else {
            kept.stage = Stage::Refused;
            self.refused.push(index);
        }
        if kept.needed == 0 {
            // Unneeded batches are treated as if their last block were freed now.
            if is_kept {
                self.deletes.push(number);
            } else {
                self.unacknowledged -= 1;
                self.refused.retain(|other| *other != index);
            }
            self.drop_batch(index);
        }
    }
}
