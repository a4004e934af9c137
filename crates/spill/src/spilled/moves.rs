//! Moves blocks from one batch to another: out of refused batches, and out of sparse ones.

use std::sync::MutexGuard;

use super::state::{Entry, Stage, State};
use super::{EMPTIED, Spilled, UNACKNOWLEDGED};
use crate::engine::Health;
use crate::tiers::{Trouble, locked};

impl Spilled {
    /// For a tier that is open again: sends refused batches again, as far as there is room for them.
    pub(super) fn take_refused(&self, state: &mut State) {
        while self.engine.health() == Health::Open
            && let Some(index) = state.refused.pop()
        {
            let Some(kept) = &state.batches[index as usize] else { continue };
            let memory = kept.memory.clone();
            // The refused batch is still in memory, and so is the batch to which its blocks move.
            if !self.move_out(state, index, &memory, true) {
                state.refused.push(index);
                return;
            }
        }
    }

    /// Moves the needed blocks of a batch with these bytes to the batch that is being filled. Returns whether
    /// all were moved.
    pub(super) fn move_out(&self, state: &mut State, index: u32, bytes: &[u8], is_refused: bool) -> bool {
        let Some(kept) = state.batches[index as usize].as_mut() else { return true };
        let (number, blocks) = (kept.number, std::mem::take(&mut kept.blocks));
        let mut room = Vec::new();
        let mut rest = Vec::new();
        let mut is_stuck = false;
        for block in blocks {
            let entry = state.blocks[block as usize];
            if entry.batch != index {
                continue;
            }
            let sealed = bytes.get(entry.offset as usize..).and_then(|rest| rest.get(..entry.len as usize));
            room.clear();
            room.extend_from_slice(sealed.unwrap_or_default());
            let moved = match self.sealer.open_first(number, entry.offset, &mut room) {
                Ok((opened, _)) => {
                    let mut seal = || {
                        state.seal(&self.sealer, self.batch_bytes, opened.owner, opened.tag, opened.payload)
                    };
                    seal().or_else(|| {
                        // One more batch than usual may be in memory, since the refused one is dropped in
                        // exchange.
                        let may = state.unacknowledged < UNACKNOWLEDGED + usize::from(is_refused);
                        may.then(|| self.send_now(state))?;
                        state.seal(&self.sealer, self.batch_bytes, opened.owner, opened.tag, opened.payload)
                    })
                }
                // The block's next reader will report the damage.
                Err(_) => {
                    is_stuck = true;
                    None
                }
            };
            match moved {
                Some((batch, offset, len)) => {
                    state.place(block, Entry { batch, offset, len, ..entry });
                    state.leave(entry);
                }
                None => rest.push(block),
            }
        }
        let all = rest.is_empty();
        if let Some(kept) = state.batches[index as usize].as_mut() {
            kept.blocks = rest;
            kept.is_stuck |= is_stuck;
        }
        all
    }

    /// Empties some of the sparsest batches, if much of the data on the tier is unneeded.
    pub(super) fn empty_sparse<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let room = self.engine.room();
        for _ in 0..EMPTIED {
            // "Much" is more than half, or about a ninth if hardly any space is left.
            let part = if room.used > room.most / 8 * 7 { 8 } else { 1 };
            let spare = (UNACKNOWLEDGED * self.batch_bytes) as u64;
            if state.away_bytes <= state.needed_bytes + state.needed_bytes / part + spare {
                return;
            }
            let away = state.batches.iter().enumerate().filter_map(|(index, kept)| {
                let kept = kept.as_ref().filter(|kept| kept.stage == Stage::Away && !kept.is_stuck)?;
                Some((u64::from(kept.needed_bytes) * 1024 / u64::from(kept.bytes.max(1)), index, kept))
            });
            let Some((_, index, kept)) = away.min_by_key(|(share, ..)| *share) else { return };
            let (number, index) = (kept.number, index as u32);
            let mut bytes = vec![0; kept.bytes as usize];
            drop(state);
            // Saving space on a tier does not justify waiting for it.
            let read = self.engine.try_get(number, 0, &mut bytes);
            state = locked(&self.inner.state);
            // The batch may have been freed meanwhile, perhaps together with all others.
            let kept = state.batches.get_mut(index as usize).and_then(Option::as_mut);
            let Some(kept) = kept.filter(|kept| kept.number == number) else { break };
            // A lost batch would otherwise remain the sparsest for ever.
            kept.is_stuck |= read == Err(Trouble::Lost);
            if read.is_err() || !self.move_out(&mut state, index, &bytes, false) {
                break;
            }
        }
        self.settle(&mut state);
    }
}
