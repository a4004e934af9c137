//! The clock hand: it goes round and round over the mappings of the program and evicts blocks until there is
//! enough on standby. A block whose pages came back soon after its eviction is skipped for some rounds, and
//! pages that other processes share are evicted only in a round that follows a fruitless one.
//!
//! If a program goes through all its memory again and again, and a little room is missing, first-in-first-out
//! order evicts everything each time: each touch is of a page that was evicted just before. So while touched
//! pages are not found on standby, chance decides which blocks have their turn. In a loop over n pages with
//! room for c, a share x with 1 - x = exp(-x n/c) is then restored: a tenth where a twentieth is missing. For
//! independent touches both orders are equal (Gelenbe, IEEE Transactions on Computers, 1973). Programs that
//! find much on standby do a little better in order.
//!
//! ```text
//!   mapping     mapping         mapping
//!  |####....|  |##..####..##|  |######|      # present   . not
//!                  ^ hand: memory before it had its turn in this round
//! ```

use core::sync::atomic::Ordering::*;

use super::ReclaimThread;
use super::ahead::Part;
use crate::interpose::desk;
use crate::interpose::mappings::ranges;
use crate::kernel::addresses::BLOCK;
use crate::kernel::maps;
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE, o};
use crate::pages::table::Block;
use crate::reclaim::evict::Taken;

/// Prefixes of the names of mappings that show that a process may pin pages for long.
const PINS: [&[u8]; 4] = [b"anon_inode:[io_uring]", b"/[aio]", b"/dev/infiniband/", b"/dev/vfio/"];
/// Mappings smaller than this are skipped.
const SMALLEST: usize = 16 * PAGE;
/// Zero-initialised data of a program or library is skipped below this size.
const LARGE_BSS: usize = 1 << 20;
/// How long to wait before the next look if nothing was found to evict, in ns.
const FRUITLESS_NS: u64 = 10_000_000;
/// After this many rounds in vain, the limit counts as impossible to hold.
const HOPELESS: u32 = 3;
/// Number of pages that makes a range worth evicting, unless no range has so many.
const WORTH: usize = 4;
/// How long to wait after a round that found little, in ns.
const POOR_NS: u64 = 1_000_000;
/// Number of ranges to look at between two ticks.
const TRIES: usize = 3;
/// Where chance decides, one block in this many is evicted in a round.
const CHOSEN: u64 = 4;
/// Interval between checks of the descriptors, in ns.
const PINS_NS: u64 = 10_000_000;

/// Number of evicted bytes needed to judge how well data compress; with less, only pages that two processes
/// share are tried.
const EVIDENCE: u64 = 1 << 20;

/// Whether `sharers` copies of a page take less than 4/5 of it if each compresses as well as the `evicted`
/// bytes that take `stored`.
fn is_worth(sharers: u64, evicted: u64, stored: u64) -> bool {
    if evicted < EVIDENCE {
        return sharers <= 2;
    }
    sharers.saturating_mul(stored).saturating_mul(5) <= evicted.saturating_mul(4)
}

impl ReclaimThread {
    /// Lists the mappings whose pages may be evicted.
    pub(super) fn list(&mut self) {
        let runtime = self.runtime;
        let mut buffer = [0u8; 16 << 10];
        let (candidates, mut count) = (&mut *self.candidates, 0);
        let (mut file_end, mut left_out) = (0, false);
        let listed = maps::for_each(self.maps, &mut buffer, |mapping| {
            let (start, end) = (mapping.start, mapping.end);
            // The memory that follows a file's data is its zero-initialised data. A forked child uses that of
            // the C library before faults can be served there; that of other libraries is small.
            let follows_file = start == file_end && end - start < LARGE_BSS;
            if mapping.inode != 0 {
                file_end = end;
            }
            if PINS.iter().any(|start| mapping.name.starts_with(start)) {
                runtime.pages.pins_seen.store(true, Release);
            }
            if follows_file || end - start < SMALLEST {
                return;
            }
            let own = runtime.arena.overlaps(start, end)
                || runtime.pages.standby.overlaps(start, end)
                || runtime.pages.statics.overlaps(start, end);
            if mapping.is_private_anonymous() && !own && end <= crate::kernel::addresses::END {
                match candidates.get_mut(count) {
                    Some(place) => (*place, count) = ((start, end), count + 1),
                    None => left_out = true,
                }
            }
        });
        self.count = if listed.is_ok() { count } else { 0 };
        if left_out && !self.told_left_out {
            self.told_left_out = true;
            runtime.say("it has more mappings than memfold examines (65,536): nothing is evicted from those at higher addresses");
        }
        self.ahead.forget();
        self.listed_ns = sys::now_ns();
        self.look_for_threads();
        runtime.look_for_pins(&mut self.mounts);
        let (_, address) = self.at;
        let index = self.candidates[..self.count].iter().position(|(_, end)| *end > address);
        // No mapping above the hand: the round is at its end.
        self.at = index.map_or((self.count, 0), |index| (index, address));
    }

    /// Finds threads that were not made by `pthread_create`.
    fn look_for_threads(&self) {
        let runtime = self.runtime;
        if runtime.process.threaded.load(Relaxed) {
            return;
        }
        let Ok(tasks) = sys::open_own(c"/proc/self/task", o::RDONLY | o::DIRECTORY) else { return };
        let threads = sys::links(tasks).saturating_sub(2);
        sys::close(tasks);
        let own = 1 + runtime.threads.handlers.load(Relaxed) + runtime.threads.compressors.load(Relaxed);
        runtime.process.threaded.store(threads > u64::from(own) + 1, Relaxed);
    }

    /// The next range under the hand that is worth evicting; `None` at the end of a round.
    fn next_range(&mut self) -> Option<(usize, usize)> {
        loop {
            if self.at.0 >= self.count {
                self.at = (0, 0);
                self.ahead.forget();
                return None;
            }
            let (start, end) = self.candidates[self.at.0];
            let last = self.candidates[self.count - 1].1;
            let part = self.ahead.first(&self.pagemap, self.at.1.max(start), end, last);
            let Some(Part { from, mut to, present }) = part else {
                self.at = (self.at.0 + 1, 0);
                continue;
            };
            if present < self.worth_of(from, to) || self.all_marked(from, to, present) {
                self.at.1 = to;
                continue;
            }
            let kept = [
                self.runtime.pages.keep_out.first_in(from, to),
                ranges::first_kept(from, to),
                self.pagemap.first_swapped(from, to),
            ];
            if let Some((kept, kept_end)) = kept.into_iter().flatten().min() {
                if kept <= from {
                    self.at.1 = kept_end;
                    continue;
                }
                to = kept;
            }
            self.at.1 = to;
            let by_chance = self.choosy && !self.runtime.reclaim.room_pays.load(Relaxed);
            if by_chance && self.passes_by() {
                self.round_passed += 1;
                continue;
            }
            return Some((from, to));
        }
    }

    /// Whether chance skips a block in this round.
    fn passes_by(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        !self.random.is_multiple_of(CHOSEN)
    }

    /// Number of present pages that makes a range worth evicting.
    pub(super) fn worth_of(&self, start: usize, end: usize) -> usize {
        let all = (end - start) / PAGE;
        if self.few_too { 1 } else { WORTH.min(all) }
    }

    /// Evicts blocks until there is enough on standby. Returns whether to go on at once.
    pub(super) fn stage(&mut self) -> bool {
        let runtime = self.runtime;
        let now = sys::now_ns();
        if now < self.next_round_ns || runtime.reclaim.keeps_all.load(Relaxed) {
            return false;
        }
        let own = runtime.slot().resident.load(Relaxed);
        let goal = (own / 64).clamp(256 << 10, 64 << 20);
        runtime.reclaim.standby_goal.store((goal as usize / BLOCK).max(2), Relaxed);
        for _ in 0..TRIES {
            let wanted = goal.saturating_sub(runtime.pages.standby.pages.load(Relaxed) * PAGE as u64);
            let needed = wanted > 0 && runtime.reclaim.debt.load(Acquire) > -(1 << 20);
            if !needed && !self.proactive.owes(now) {
                return false;
            }
            if runtime.forks.pause.load(Relaxed) != 0 || desk::is_asked() {
                return true;
            }
            crate::interpose::rights::credentials::adopt();
            if now - self.pins_ns > PINS_NS {
                self.pins_ns = now;
                runtime.look_for_pins(&mut self.mounts);
            }
            if runtime.may_write_late() {
                return self.nothing_left();
            }
            if self.count == 0 || sys::now_ns() - self.listed_ns > 1_000_000_000 {
                self.list();
            }
            let Some((start, end)) = self.next_range() else {
                if !needed {
                    let now = sys::now_ns();
                    self.proactive.end_round(now, now - core::mem::replace(&mut self.round_ns, now));
                    return false;
                }
                if !self.end_round(wanted) {
                    return false;
                }
                continue;
            };
            if runtime.pages.table.block(start).is_some_and(Block::rests) {
                self.round_rested += 1;
                continue;
            }
            let (range, next) = self.without_incompressible((start, end));
            self.at.1 = next;
            let Some((start, end)) = range else { continue };
            let worth = self.worth_of(start, end);
            // There may be more sharers than when the round began.
            let shared_too = self.shared_too && self.is_worth_sharing();
            match runtime.evict(self.maps, &self.pagemap, (start, end), worth, shared_too) {
                Taken::Pages(pages) if pages > 0 => {
                    self.round_bytes += u64::from(pages) * PAGE as u64;
                    self.proactive.took(u64::from(pages) * PAGE as u64);
                    if runtime.reclaim.debt.load(Relaxed) > 0 {
                        runtime.reclaim.work.ring();
                    }
                }
                // Other threads want the order lock, too.
                Taken::Pages(_) | Taken::Nothing | Taken::Busy => sched::yield_now(),
                Taken::Stale => {
                    let mapping = self.candidates.get(self.at.0).copied();
                    self.list();
                    // The mapping has not changed, so it cannot be registered: skip it.
                    if self.candidates[..self.count].get(self.at.0).copied() == mapping {
                        self.at = (self.at.0 + 1, 0);
                    }
                }
            }
        }
        true
    }

    /// Called when the hand has finished a round. Returns whether another round is worth it now.
    pub fn end_round(&mut self, wanted: u64) -> bool {
        let rested = core::mem::take(&mut self.round_rested) > 0;
        let passed = core::mem::take(&mut self.round_passed) > 0;
        let rich = core::mem::take(&mut self.round_bytes) >= wanted / 4;
        let fruitful = rich || rested;
        let now = sys::now_ns();
        self.choosy = rich;
        if !rich && passed {
            // The next round takes the blocks that chance skipped.
            self.round_ns = now;
            return true;
        }
        let had_few = core::mem::replace(&mut self.few_too, false);
        if !rich
            && !rested
            && !had_few
            && self.runtime.reclaim.debt.load(Relaxed) > self.runtime.reclaim.margin.load(Relaxed) / 2
        {
            // The remaining pages are scattered.
            self.few_too = true;
            return true;
        }
        let took_ns = now - core::mem::replace(&mut self.round_ns, now);
        // It is worth waiting while pages can still be made denser or be spilled; and after forks the limit
        // may only seem to be exceeded.
        let shared = self.runtime.shared();
        let is_certain = || shared.tree_resident_certain() > shared.limit_bytes.load(Relaxed);
        let can_shrink = || self.runtime.reclaim.squeeze.load(Relaxed) || self.runtime.can_spill();
        let hopeless = self.runtime.reclaim.is_far_over() && !can_shrink() && is_certain();
        self.hopeless_rounds = if hopeless { self.hopeless_rounds + 1 } else { 0 };
        self.runtime.reclaim.hopeless.store(self.hopeless_rounds >= HOPELESS, Relaxed);
        let had_shared = core::mem::replace(&mut self.shared_too, false);
        if fruitful {
            self.fruitless = false;
            if !rich {
                self.next_round_ns = now + POOR_NS;
            }
            return rich;
        }
        if !had_shared && self.runtime.forks.has_forked.load(Relaxed) && self.is_worth_sharing() {
            self.shared_too = true;
            return true;
        }
        self.nothing_left();
        // If most of the memory does not compress, there is no hurry.
        let pauses = if self.spare.kept() > self.runtime.slot().resident.load(Relaxed) / 2 { 32 } else { 4 };
        self.next_round_ns = now + took_ns.saturating_mul(pauses).clamp(FRUITLESS_NS, 20 * FRUITLESS_NS);
        false
    }

    /// Whether evicting shared pages makes the tree smaller: each sharer gets a compressed copy of its own,
    /// and the page is free only when all have one. How well the pages compress is estimated from those
    /// already evicted.
    fn is_worth_sharing(&self) -> bool {
        let slot = self.runtime.slot();
        let (evicted, stored) =
            (slot.evicted.load(Relaxed), slot.payload.load(Relaxed) + slot.overhead.load(Relaxed));
        let sharers = self.runtime.shared().sharers.load(Relaxed);
        sharers != 0 && is_worth(sharers, evicted, stored)
    }

    /// Called when a whole round found nothing to evict.
    fn nothing_left(&mut self) -> bool {
        let runtime = self.runtime;
        self.publish_if_nothing();
        self.next_round_ns = sys::now_ns() + FRUITLESS_NS;
        self.fruitless = true;
        self.fruitless_takable = self.takable();
        self.spare.nothing_evicted();
        // While pages can be made denser or be spilled, threads wait for that: `tick` decides.
        let can_shrink = runtime.can_densify() || runtime.can_spill();
        let owes = runtime.reclaim.debt.load(Relaxed) > runtime.reclaim.margin.load(Relaxed);
        if runtime.pages.standby.is_empty() && owes && !can_shrink {
            let reclaim = &runtime.reclaim;
            let margin = reclaim.margin.load(Relaxed);
            let free = self.worth_a_round(margin as u64) as i64 + margin;
            let up_to = reclaim.debt.load(Relaxed).saturating_add(free);
            reclaim.set_unpayable(up_to.max(reclaim.unpayable.load(Relaxed)));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_pages_are_evicted_only_if_all_copies_together_are_smaller() {
        let mib = |count: u64| count << 20;
        assert!(is_worth(2, mib(50), mib(10)) && is_worth(4, mib(50), mib(10)));
        assert!(!is_worth(5, mib(50), mib(10)) && !is_worth(2, mib(50), mib(25)));
        // Nothing is known about these data.
        assert!(is_worth(2, 0, 0) && !is_worth(3, 0, 0));
    }
}
