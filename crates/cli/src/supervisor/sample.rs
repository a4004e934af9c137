//! One look at the tree: measures its resident memory, publishes corrections for its processes, and records
//! the results.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use memfold_shared::near;
use memfold_shared::page::{self, Slot};

use super::group::Group;
use super::tree::NESTED;
use super::{Supervisor, held};
use crate::output::failure::say;
use crate::report::record::steps::Gauges;

/// How long it may take until a lower limit is held.
const SHRINKS: Duration = Duration::from_secs(5);
/// The time between two searches for unmanaged memory, and before the first.
const LOOK: Duration = Duration::from_millis(150);
/// These searches take at most 1/LOOK_SHARE of the time, and examine only processes smaller than LOOKED_AT
/// bytes.
const LOOK_SHARE: u32 = 50;
const LOOKED_AT: u64 = 16 << 30;
/// The time between two sweeps of data that ended processes have spilled.
const SWEEP: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    /// Looks at the tree once. Returns its resident memory.
    pub(super) fn sample(&mut self, now: Instant) -> u64 {
        if let Some(service) = self.service.filter(|_| now.duration_since(self.swept) >= SWEEP) {
            self.swept = now;
            service.sweep();
        }
        let before = self.sum_of_gauges();
        let (copied, left) = (self.shared.copied.load(Relaxed), self.shared.left.load(Acquire));
        if let Some(records) = &mut self.records {
            records.drain(self.shared, now, false);
        }
        let mut managed = self.tree.sample(now);
        if self.tree.scan_is_due(now) || self.tree.forks.is_due(now) {
            for member in self.tree.scan(now) {
                let what = if member.why == NESTED {
                    "its memory counts towards this limit, too, but only that run compresses it"
                } else {
                    "its memory counts towards the limit but is not compressed"
                };
                let (name, pid, why) = (&member.name, member.pid, member.why);
                say(&format!("'{name}' (process {pid}) cannot be managed ({why}): {what}"));
                if let Some(records) = &mut self.records {
                    records.unmanaged(member.pid, member.why, now);
                }
            }
            // Sample again, with the members that the scan has found.
            managed = self.tree.sample(now);
        }
        let shared = self.shared;
        shared.unmanaged_resident.store(self.tree.unmanaged, Relaxed);
        let twice = self.tree.forks.counted_twice();
        shared.sharers.store(self.tree.forks.sharers(), Relaxed);
        let sum = managed.known + self.tree.unmanaged;
        let (resident, certain, correction) = match self.group.and_then(Group::resident) {
            Some(inside) => {
                // The gauges change while the kernel answers, so use the correction that subtracts least.
                let gauges = before.min(self.sum_of_gauges()) + self.tree.unmanaged;
                let all = inside + self.tree.own;
                (all, all, all as i64 - gauges as i64)
            }
            // A process has just begun or ended, or shared pages were written to, so only the lowest possible
            // value is certain.
            None if !self.tree.forks.is_exact() => {
                let least = managed.least + self.tree.unmanaged_least;
                let twice_at_most = self.tree.forks.counted_twice_at_most();
                let certain = twice_at_most.map_or(least, |most| least.max(sum.saturating_sub(most)));
                (sum.saturating_sub(twice), certain, -(twice as i64))
            }
            None => (sum.saturating_sub(twice), sum.saturating_sub(twice), -(twice as i64)),
        };
        shared.resident_correction.store(correction, Relaxed);
        // Other threads may have noticed the end of processes meanwhile. The correction may include those or
        // not, so what they left counts until the next one.
        shared.left_seen.store(left + self.tree.take_left(), Release);
        shared.doubt.store(if self.group.is_some() { 0 } else { self.tree.forks.doubt() }, Relaxed);
        shared.copied_seen.store(copied, Relaxed);
        self.pids.tell(now, &shared.tasks_wanted);
        self.seen.stopped |= shared.flags.load(Relaxed) & page::flags::TOLD_TASKS != 0;
        shared.note_peaks();
        self.note(now, certain);
        self.messages.print(shared);
        self.tracers.look(now, shared, &self.tree);
        if let Some(service) = self.service {
            service.tell();
        }
        resident + managed.new
    }

    fn sum_of_gauges(&self) -> u64 {
        self.shared.live_slots().map(|slot| slot.resident.load(Relaxed)).sum()
    }

    fn note(&mut self, now: Instant, resident: u64) {
        let (mut evicted, mut payload, mut overhead, mut standby, mut spilled) = (0, 0, 0, 0, 0);
        for slot in self.shared.live_slots() {
            spilled += slot.spilled.load(Relaxed);
            standby += slot.standby.load(Relaxed);
            evicted += slot.evicted.load(Relaxed);
            payload += slot.payload.load(Relaxed);
            overhead += slot.overhead.load(Relaxed);
            self.seen.stopped |= slot.state.load(Relaxed) == page::state::STOPPED;
        }
        let logical = resident.saturating_sub(payload + overhead) + evicted + spilled;
        if let Some(follow) = &mut self.follow {
            follow.set(self.shared, now, self.limit);
        }
        self.heed_limit(now, resident);
        self.look_for_held(now, resident);
        let (at, resident_then, logical_then) = std::mem::replace(&mut self.last, (now, resident, logical));
        let seconds = now.duration_since(at).as_secs_f64();
        self.seen.resident_seconds += (resident_then + resident) as f64 / 2.0 * seconds;
        self.seen.logical_seconds += (logical_then + logical) as f64 / 2.0 * seconds;
        self.seen.samples += 1;
        self.seen.peak_resident = self.seen.peak_resident.max(resident);
        self.seen.peak_logical = self.seen.peak_logical.max(logical);
        if let (Some(records), Some(ended)) = (&mut self.records, &mut self.tree.ended) {
            records.ended(self.shared, ended, now);
            let others = self.tree.unmanaged - self.tree.own;
            let parts = Gauges::parts(resident, others, overhead + self.tree.own, payload, standby);
            let pid_of = |slot: &Slot| self.tree.pid_of(slot);
            records.note(self.shared, pid_of, now, Gauges { logical, limit: self.limit, ..parts });
        }
    }

    /// If the limit is exceeded, finds the unmanaged memory of the largest process. The kernel walks the page
    /// tables for that, so this is done rarely, and not at all if it would take seconds.
    fn look_for_held(&mut self, now: Instant, resident: u64) {
        let tolerated = self.limit + near::tolerance(self.limit);
        if resident <= tolerated || now.duration_since(self.looked) < LOOK {
            return;
        }
        let begin = Instant::now();
        let largest = self.shared.live_slots().max_by_key(|slot| slot.resident.load(Relaxed));
        let largest = largest.filter(|slot| slot.resident.load(Relaxed) < LOOKED_AT);
        let held = largest.and_then(|slot| self.tree.pid_of(slot)).and_then(held::look);
        self.looked = Instant::now() + begin.elapsed() * LOOK_SHARE;
        if held.is_some_and(|held| held.bytes >= self.seen.held.map_or(0, |before| before.bytes)) {
            self.seen.held = held;
        }
    }

    /// Notices a changed limit (`memfold limit`), and updates the excess over it.
    fn heed_limit(&mut self, now: Instant, resident: u64) {
        let limit = self.shared.limit_bytes.load(Relaxed);
        if limit != self.limit {
            let before = self.seen.peak_resident.saturating_sub(self.limit);
            self.seen.over_changed_limit.get_or_insert(before);
            if limit < self.limit {
                // A limit that follows what is free may be lowered all the time.
                self.lowered.get_or_insert(now);
            }
            self.limit = limit;
        }
        let Some(over) = &mut self.seen.over_changed_limit else { return };
        if resident <= limit {
            self.lowered = None;
        }
        if self.lowered.is_none_or(|since| now.duration_since(since) > SHRINKS) {
            *over = (*over).max(resident.saturating_sub(limit));
        }
    }
}
