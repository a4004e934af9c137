//! The keeper's tick: how much is resident, how much of it is too much, and what follows from that.

use core::sync::atomic::Ordering::*;

use memfold_shared::near::{self, FASTEST_LOOK, QUIET, QUIET_LOOK, QUIET_LOOKS, SLOWEST_LOOK};
use memfold_shared::page::{self, Shared, call, state};

use super::{ReclaimThread, proactive, room};
use crate::kernel::maps;
use crate::kernel::procfs;
use crate::kernel::sys::{self, PAGE};
use crate::memory::patience::Patience;
use crate::spill::posts::LOOK_NS;

/// Interval at which the store's contents are counted, in ns: that takes longer than a tick should.
const PUBLISH_NS: u64 = 10_000_000;
/// A look is late if it comes more than this after its time, in ns.
const DELAY: u64 = 1_000_000;
/// With each look, what is known of delays shrinks by this fraction.
const DELAY_FADES: u64 = 64;
/// A process may be stopped for hours, which says nothing about the next delay, in ns.
const LONGEST_DELAY: u64 = 100_000_000;
/// Maximum number of processes for which room to grow is reserved.
const GROWING: usize = 4;
/// See [`Look::is_crowded`].
const CROWD: usize = 16;
/// The time between looks that have nothing to do in such a tree, while the limit is exceeded, in ns.
const CROWDED_LOOK: u64 = 4 * QUIET_LOOK;
/// After a round in vain, growth by this fraction of the incompressible pages is worth another round: a round
/// goes over all of them.
const SEARCHED: u64 = 32;
/// How long the limit may be exceeded by more before the process is terminated (`--on-full kill`), in ns.
const FULL_NS: u64 = 500_000_000;
/// Number of touched pages between two decisions on what room is worth, and the fraction of them that must
/// have been on standby.
const JUDGED: u64 = 1024;
const PAYS: u64 = 32;

/// What a tick has found; sizes in bytes.
pub(super) struct Look {
    now: u64,
    /// Resident memory of this process, and of the tree.
    own: u64,
    tree: u64,
    /// The debt just before.
    counted: i64,
    limit: u64,
    margin: u64,
    /// By how much the tree exceeds the goal; negative if it does not.
    over: i64,
    /// Number of processes that share the limit: the larger ones.
    sharers: usize,
    /// There are many processes: if all of their keepers looked often, they would take up the CPUs.
    is_crowded: bool,
    paranoid: bool,
}

impl Look {
    fn new(now: u64, own: u64, counted: i64, shared: &Shared) -> Self {
        let limit = shared.limit_bytes.load(Relaxed).min(page::LARGEST_LIMIT);
        let margin = (limit / 64).clamp(1 << 20, 8 << 20);
        // Where processes share memory the tree's is an estimate, which lags behind.
        let tree = shared.tree_resident().max(own);
        let paranoid = shared.flags.load(Relaxed) & page::flags::PARANOID != 0;
        // Each growing process may exceed the goal by a margin before it waits.
        let sharers = shared.larger_than(limit / 16).max(1);
        let headroom = margin * sharers.min(GROWING) as u64;
        let over = if paranoid { own as i64 / 2 } else { tree as i64 - (limit - headroom.min(limit)) as i64 };
        let is_crowded = shared.used().len() > CROWD && shared.live_slots().count() > CROWD;
        Look { now, own, counted, tree, limit, margin, over, sharers, is_crowded, paranoid }
    }

    /// This process's part of what the tree has to free.
    fn share(&self) -> i64 {
        if self.over > 0 && self.tree > 0 && !self.paranoid {
            (self.over as i128 * i128::from(self.own) / i128::from(self.tree)) as i64
        } else if self.paranoid {
            self.over
        } else {
            // All processes share the room: on a busy machine it may be long until this keeper looks again.
            self.over / self.sharers as i64
        }
    }

    /// Whether the limit is exceeded by more than is tolerated.
    fn is_far_over(&self) -> bool {
        self.tree > self.limit + near::tolerance(self.limit)
    }
}

impl ReclaimThread {
    /// Looks at how much is resident, and acts on it. Returns how long to sleep, in ns.
    pub(super) fn tick(&mut self) -> u64 {
        let runtime = self.runtime;
        let (now, before) = (sys::now_ns(), runtime.reclaim.debt.load(Acquire));
        let evicted = if self.is_due(now) && runtime.stored.has_store() { self.evicted() } else { u64::MAX };
        let Some(own) = self.resident() else {
            // Without a size paging never begins, so no thread may wait for it.
            runtime.slot().call.store(call::FAR, Relaxed);
            return SLOWEST_LOOK;
        };
        // While the size was read, other threads may have changed the debt, and the size may include that or
        // not. The smaller value makes this process owe more rather than less.
        let counted = before.min(runtime.reclaim.debt.load(Acquire));
        self.note_delay(now);
        self.attend_to_others(now, evicted);
        let mut look = Look::new(now, own, counted, runtime.shared());
        runtime.reclaim.alone.store(look.sharers == 1, Relaxed);
        let paging = runtime.is_paging();
        let early = near::start_room(self.cpus) as i64;
        let proactive = proactive::is_wanted(runtime.shared()) && own > near::SMALLEST_PROACTIVE;
        let wanted = proactive || runtime.process.paging_wanted.load(Relaxed);
        let could_copy = runtime.forks.has_forked.load(Relaxed) && runtime.shared().copies_could_exceed();
        if (look.over > -early || wanted || could_copy) && !paging {
            self.start_paging(&mut look);
        }
        self.tell_how_near(&look);
        if runtime.is_paging() {
            self.steer(&look);
            // Writes to shared pages, which would not be reported, could exceed the limit.
            if could_copy && self.unprotected && now > self.protect_ns {
                self.protect_shared();
            }
        }
        self.next_look(&look)
    }

    /// Called just before paging begins. From then on, threads that get memory count it and wait for room, even if
    /// this thread gets no CPU until much later.
    pub(super) fn owe(&self, look: &mut Look) {
        let reclaim = &self.runtime.reclaim;
        reclaim.due_ns.store(look.now + DELAY, Relaxed);
        reclaim.margin.store(look.margin as i64, Relaxed);
        reclaim.change_debt(look.share() - look.counted);
        look.counted = look.share();
        reclaim.watches_growth.store(true, Relaxed);
        reclaim.counts_growth.store(true, Relaxed);
        self.runtime.look_for_others(look.now, 0, look.limit, look.margin);
    }

    /// Tells threads that get memory whether they are to count it. While the process pages,
    /// `watches_growth` does.
    fn tell_how_near(&self, look: &Look) {
        let runtime = self.runtime;
        let counts =
            runtime.process.state() == state::WATCHING && look.over > -(near::near_room(self.cpus) as i64);
        runtime.slot().call.store(if counts { call::NEAR } else { call::FAR }, Relaxed);
    }

    /// The process's resident memory in bytes, which is also published in its slot; `None` if it cannot be
    /// read.
    fn resident(&mut self) -> Option<u64> {
        let (runtime, slot) = (self.runtime, self.runtime.slot());
        let mut pages = maps::anonymous_pages(self.statm).ok()?;
        if pages == 0
            && let Ok(other) = procfs::open_statm()
        {
            sys::close(core::mem::replace(&mut self.statm, other));
            pages = maps::anonymous_pages(other).unwrap_or(0);
        }
        let own = pages * PAGE as u64;
        slot.resident.store(own, Relaxed);
        runtime.reclaim.much.store(0, Relaxed);
        slot.tasks.store(
            1 + runtime.threads.handlers.load(Relaxed) + runtime.threads.compressors.load(Relaxed),
            Relaxed,
        );
        Some(own)
    }

    /// Whether the gauges are to be written again.
    fn is_due(&self, now: u64) -> bool {
        now - self.published_ns > PUBLISH_NS
    }

    /// Does work that is needed less often than at each tick, and does not depend on the tick. `evicted` is what
    /// was evicted before the size was read.
    fn attend_to_others(&mut self, now: u64, evicted: u64) {
        let runtime = self.runtime;
        if self.is_due(now) {
            self.published_ns = now;
            if runtime.stored.has_store() {
                self.publish(evicted);
            }
            runtime.shared().note_peaks();
            runtime.check_limits();
        }
        if now - self.server_seen_ns > LOOK_NS {
            self.server_seen_ns = now;
            runtime.spill.look_for_server();
        }
    }

    /// Decides what this process has to free, and whether it is in vain to wait for that.
    fn steer(&mut self, look: &Look) {
        let runtime = self.runtime;
        runtime.look_for_turns(look.tree, look.over, look.limit, if look.paranoid { 0 } else { self.cpus });
        self.look_ahead_of_need(look.now, look.own, look.tree);
        self.look_at_spare(look.own);
        let share = look.share();
        self.search_again_if_grown(look);
        let full = share > self.spare.at_most() || self.fruitless && runtime.pages.standby.is_empty();
        if self.fruitless {
            self.publish_if_nothing();
        }
        // A few pages of the fast tier are not worth waiting for: where little compresses there are always
        // some.
        let is_worth = runtime.slot().payload.load(Relaxed) > look.margin;
        let can_shrink = runtime.can_densify() && is_worth || runtime.can_spill();
        let squeeze = full && !look.paranoid && share > look.margin as i64 && can_shrink;
        if squeeze && !runtime.reclaim.squeeze.load(Relaxed) {
            runtime.reclaim.work.ring();
        }
        runtime.reclaim.squeeze.store(squeeze, Relaxed);
        if full && look.is_far_over() && !look.paranoid {
            runtime.slot().counters.full_looks.fetch_add(1, Relaxed);
        }
        self.end_if_full(full && look.is_far_over() && !squeeze && !look.paranoid);
        // A process that has its turn owes nothing.
        let turn = runtime.reclaim.keeps_all.load(Relaxed) && !runtime.reclaim.waits_its_turn.load(Relaxed);
        let owed = self.spare.owed(if turn { share.min(0) } else { share }, can_shrink);
        runtime.reclaim.margin.store(look.margin as i64, Relaxed);
        let in_vain = self.in_vain(look, share, can_shrink);
        if in_vain.is_none() {
            runtime.reclaim.set_unpayable(i64::MIN);
        }
        runtime.reclaim.change_debt(owed - look.counted);
        if let Some(more) = in_vain {
            runtime.reclaim.set_unpayable(owed.saturating_add(more));
        }
        // Others wait only for what this process is about to free.
        let gives_nothing = turn || look.paranoid || self.has_nothing_left(squeeze);
        let can_give = if gives_nothing { 0 } else { self.spare.at_most() };
        runtime.look_for_others(look.now, can_give.max(0) as u64, look.limit, look.margin);
        if owed <= look.margin as i64 {
            self.hopeless_rounds = 0;
            runtime.reclaim.hopeless.store(false, Relaxed);
        }
        self.call_helper(look.now);
        self.watch_growth_if_near(look, turn);
    }

    /// After a round that found nothing, another one begins once there are new pages to evict.
    fn search_again_if_grown(&mut self, look: &Look) {
        if self.fruitless && self.takable() > self.fruitless_takable + self.worth_a_round(look.margin) {
            self.fruitless = false;
            self.next_round_ns = 0;
        }
    }

    /// The growth after a round in vain that is worth another one.
    pub(super) fn worth_a_round(&self, margin: u64) -> u64 {
        (margin / 4).max(self.spare.kept() / SEARCHED)
    }

    /// By how much the debt may grow before it is worth waiting for room; `None` if it is worth it now.
    fn in_vain(&self, look: &Look, share: i64, can_shrink: bool) -> Option<i64> {
        let runtime = self.runtime;
        if look.paranoid || runtime.stored.full.load(Relaxed) {
            return Some(i64::MAX);
        }
        // Nor is it in vain while no thread has to wait: a thread that grows afterwards would take this for
        // an answer.
        let waited_for = share > look.margin as i64 || runtime.reclaim.waits_its_turn.load(Relaxed);
        // After that much growth another round is worth it, and threads wait for it even if this thread is
        // late. The margin is what they may obtain between two looks in time.
        let grown = self.takable().saturating_sub(self.fruitless_takable);
        let more = self.worth_a_round(look.margin).saturating_sub(grown) + look.margin;
        (self.has_nothing_left(can_shrink) && waited_for).then_some(more as i64)
    }

    /// Whether the last round has found nothing to evict, and there is nothing to spill or to densify either.
    /// This must hold between two looks, too, or a millisecond's growth slips through.
    fn has_nothing_left(&self, can_shrink: bool) -> bool {
        self.fruitless && self.runtime.pages.standby.is_empty() && !can_shrink
    }

    /// Says when the next look is due, for threads that get memory meanwhile.
    pub(super) fn be_back_in(&mut self, wait: u64) {
        self.runtime.reclaim.due_ns.store(self.looked_ns + wait + DELAY, Relaxed);
        self.back_ns = sys::now_ns() + wait + DELAY;
    }

    /// Remembers how late this look is. A busy machine, or a low priority, has delayed it, and is likely to
    /// do so again.
    fn note_delay(&mut self, now: u64) {
        let late = if self.back_ns == 0 { 0 } else { now.saturating_sub(self.back_ns).min(LONGEST_DELAY) };
        self.late_ns = late.max(self.late_ns - self.late_ns / DELAY_FADES);
        self.looked_ns = now;
    }

    /// Registers new memory if the limit is near; not earlier, because faults on registered memory are slower
    /// than faults on fresh memory.
    fn watch_growth_if_near(&mut self, look: &Look, turn: bool) {
        let near = look.over > -(room(look.limit) as i64);
        // Counting costs less than registering, so threads begin to count earlier if this thread may be late.
        let meanwhile = (self.late_ns / 1_000_000).saturating_mul(near::GROWTH_PER_MS);
        let counts = look.over > -(room(look.limit).saturating_add(meanwhile).min(look.limit) as i64);
        self.runtime.reclaim.watches_growth.store(near, Relaxed);
        self.runtime.reclaim.counts_growth.store(counts, Relaxed);
        // Listing the mappings takes a while. The more room is left, the more growth this waits for.
        let grown = look.own > self.watched_resident + look.margin / 2 + (-look.over).max(0) as u64 / 8;
        if near && grown && !turn && look.now - self.listed_ns > FASTEST_LOOK {
            self.watch_growth();
        }
    }

    /// How long to sleep, in ns: shorter when less room is left, and longer while nothing changes.
    fn next_look(&mut self, look: &Look) -> u64 {
        let is_same = look.tree.abs_diff(self.tree_before) < QUIET;
        // While this process owes nothing, and none of its threads waits for others, only its growth matters.
        let reclaim = &self.runtime.reclaim;
        let waits = reclaim.waits_for_others.load(Relaxed) || reclaim.waits_its_turn.load(Relaxed);
        let is_idle = look.own.abs_diff(self.own_before) < QUIET && reclaim.debt.load(Relaxed) <= 0 && !waits;
        let quiet = if look.over > 0 || look.is_crowded { is_idle } else { is_same };
        (self.tree_before, self.own_before) = (look.tree, look.own);
        self.quiet_ticks = if quiet { self.quiet_ticks.saturating_add(1) } else { 0 };
        let fastest = if self.quiet_ticks <= QUIET_LOOKS {
            FASTEST_LOOK
        } else if look.is_crowded && look.over > 0 {
            // New memory is registered above the limit, so growth is counted where it causes faults.
            CROWDED_LOOK
        } else {
            QUIET_LOOK
        };
        near::next_look((-look.over).max(0) as u64, self.cpus, fastest)
    }

    /// A value in bytes that grows with the pages that can be evicted: pages of its own that the process has
    /// obtained, by whatever means.
    pub(super) fn takable(&self) -> u64 {
        self.runtime.slot().resident.load(Relaxed) + self.runtime.reclaim.copied.load(Relaxed)
    }

    /// Terminates the process if its data do not compress enough and the user wants that (`--on-full kill`).
    /// `full` says that the limit is exceeded and the process cannot free its share.
    fn end_if_full(&mut self, full: bool) {
        let runtime = self.runtime;
        if !full || runtime.shared().on_full.load(Relaxed) != page::on_full::KILL {
            self.full = None;
        } else if self.full.get_or_insert_with(|| Patience::new(FULL_NS)).is_over() {
            runtime.fail(
                "the data do not compress enough for the limit: the process is terminated (--on-full kill). Give it a higher \
                 limit, or let it grow (--on-full grow).",
            );
        }
    }

    /// Updates the gauges if they say that nothing is compressed, and so nothing can be spilled: if that was
    /// written before the first block was compressed, it would let growth exceed the limit.
    pub(super) fn publish_if_nothing(&mut self) {
        if self.runtime.slot().payload.load(Relaxed) == 0 && self.runtime.stored.has_store() {
            self.publish(u64::MAX);
        }
    }

    /// Bytes that are compressed now, or known to be zero.
    fn evicted(&self) -> u64 {
        let zeros = self.runtime.pages.zero_pages.load(Relaxed).max(0) as u64;
        (self.runtime.store().store().stats().blobs + zeros) * PAGE as u64
    }

    /// Writes the gauges of this process. `evicted` is what was evicted before the size was read: if this thread
    /// lost the processor since, much that the size includes may have been evicted, and would count twice.
    fn publish(&mut self, evicted: u64) {
        let (runtime, slot) = (self.runtime, self.runtime.slot());
        slot.evicted.store(self.evicted().min(evicted), Relaxed);
        let stats = runtime.store().store().stats();
        slot.spilled.store(runtime.spill.pages.load(Relaxed).max(0) as u64 * PAGE as u64, Relaxed);
        slot.payload.store(stats.payload_bytes, Relaxed);
        slot.overhead.store(stats.overhead_bytes(), Relaxed);
        slot.standby.store(runtime.pages.standby.pages.load(Relaxed) * PAGE as u64, Relaxed);
        let (rescued, faulted) =
            (slot.counters.pages_rescued.load(Relaxed), slot.counters.pages_faulted.load(Relaxed));
        let new = (rescued.saturating_sub(self.judged.0), faulted.saturating_sub(self.judged.1));
        if new.0 + new.1 >= JUDGED {
            self.judged = (rescued, faulted);
            runtime.reclaim.room_pays.store(new.0 * PAYS >= new.0 + new.1, Relaxed);
        }
    }
}
