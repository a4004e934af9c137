//! Gathering: which pages go into a batch.

use core::ops::ControlFlow;
use core::sync::atomic::Ordering::*;

use memfold_spill::Batch;

use super::out::{LOOKS, ROUNDS, SAME};
use super::outgoing::{Item, Outgoing};
use crate::kernel::addresses::{BLOCK, END, index_in_block, page_number};
use crate::kernel::sys::PAGE;
use crate::pages::table::{Block, State};
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;

impl Runtime {
    /// Moves the hand on until the batch, which has `count` blocks, is full. Returns how many it has then.
    pub fn gather(
        &self,
        batch: &mut Batch<'_>,
        out: &mut Outgoing,
        number: usize,
        mut count: usize,
        worker: &mut Worker,
    ) -> usize {
        let mut looks = 0;
        for _ in 0..ROUNDS {
            let from = self.spill.at.load(Relaxed);
            let (least, mut next, mut found) = (out.least, 0, 0);
            let items = out.sent[number].items();
            let all = self.pages.table.visit_blocks(from, END, |base, block| {
                looks += 1;
                next = base + BLOCK;
                if block.evicted.load(Relaxed) > 0 {
                    let before = batch.len();
                    let start = from.max(base);
                    if let Some(page) =
                        self.gather_block(batch, items, &mut count, (start, block), least, worker)
                    {
                        next = page;
                    }
                    found += batch.len() - before;
                }
                let enough = next < base + BLOCK || looks >= LOOKS || self.forks.pause.load(Relaxed) != 0;
                if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            out.found += found as u64;
            if all.is_break() {
                self.spill.at.store(next, Relaxed);
                break;
            }
            self.spill.at.store(0, Relaxed);
            let payload = self.slot().payload.load(Relaxed);
            if out.end_round(payload) {
                if out.is_idle() {
                    self.spill.unspillable.store(payload, Relaxed);
                }
                break;
            }
        }
        if count > 0 {
            self.spill.unspillable.store(0, Relaxed);
        }
        count
    }

    /// Gathers pages of one block, from an address on. Returns where to go on if the batch has no more room.
    fn gather_block(
        &self,
        batch: &mut Batch<'_>,
        items: &mut [Item],
        count: &mut usize,
        (start, block): (usize, &Block),
        least: usize,
        worker: &mut Worker,
    ) -> Option<usize> {
        let (mut left, mut pinned) = (None, false);
        for (index, entry) in block.entries.iter().enumerate().skip(index_in_block(start)) {
            let state = entry.load();
            let State::Stored(name) = state else { continue };
            let address = start / BLOCK * BLOCK + index * PAGE;
            if *count == items.len() || self.forks.pause.load(Relaxed) != 0 {
                left = Some(address);
                break;
            }
            let page = page_number(address);
            // The slot's size bounds that of the blob, so its header need not be read.
            if name.slot_bytes() < least {
                continue;
            }
            self.stored.set_reading(worker.number, true);
            if !entry.pin(name) {
                self.stored.set_reading(worker.number, false);
                continue;
            }
            pinned = true;
            if !self.pages.is_block_at(address, block) {
                // The block was detached meanwhile, and may stand for other addresses by now.
                self.stored.set_reading(worker.number, false);
                entry.unpin(name);
                self.uffd().wake_all();
                break;
            }
            // SAFETY: the blob is pinned, and this worker has announced that it reads.
            let Ok((codec, payload)) = (unsafe { self.store().get(name, page) }) else { self.fail_corrupt() };
            let tag = codec.map_or(SAME, |codec| codec.0);
            let sealed = self.spill.sealer().and_then(|sealer| batch.add(sealer, page, tag, payload));
            self.stored.set_reading(worker.number, false);
            entry.unpin(name);
            let Some(place) = sealed else {
                left = Some(address);
                break;
            };
            self.reclaim.let_others_run();
            items[*count] =
                Item { page, was: State::Stored(name).to_bits(), offset: place.offset, len: place.len };
            *count += 1;
        }
        if pinned {
            // Wakes threads that found a pin.
            self.uffd().wake(start / BLOCK * BLOCK, BLOCK);
        }
        left
    }
}
