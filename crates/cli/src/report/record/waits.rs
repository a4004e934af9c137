//! Where on the time axis the waits of processes lie.
//!
//! A counter of waits grows when a wait ends, so what it grew by may have happened long before it was read:
//!
//! ```text
//!  reads    |    a    |         |         |    b    |
//!  waits         --       ------------------------
//!  growth        2        0         0        24        b reaches back beyond three reads
//! ```
//!
//! A process's stall counter counts no moment twice (`stall.rs` of the runtime): it grows by parts of the time
//! that follow each other. So if it grew by more than the time since it was read, its process waited all the
//! time from that long ago, and all earlier waits had ended by then. [`Waits`] therefore holds the last
//! growth back until the next one is known, and then gives back a part of the time that the next one does not
//! need. The parts that it gives do not overlap, and none is shorter than its waits: at no moment does a
//! process wait for more than 100 % of the time.
//!
//! Waits for room are added up over threads, so they may take more than all the time. They are no longer than
//! the stall that they belong to: they lie in the time that the process waited without a pause.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use memfold_shared::page::Shared;

use super::processes::{self, Sums};

/// Waits, and the part of the time in which they happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Its beginning, ns.
    pub from: u64,
    /// Its end, ns.
    pub to: u64,
    /// The length of the waits, ns.
    pub ns: u64,
}

/// Spans of the two kinds of waits.
#[derive(Debug, Default)]
pub struct Spans {
    /// While at least one thread of a process waited.
    pub stalled: Vec<Span>,
    /// Waits for room, added up over threads.
    pub throttled: Vec<Span>,
}

/// One counter of one process.
#[derive(Debug, Default)]
struct Waits {
    total: u64,
    /// The last growth, which the next one may push back.
    held: Option<Span>,
    /// Time that did not fit before the read: a thread that loses the processor between reading the clock and
    /// counting counts late.
    owed: u64,
    /// The part of the time before `held` with the most time left in which the process did not wait.
    room: Option<Span>,
    /// Since when the process waits without a pause, as far as is known.
    unbroken: u64,
}

impl Waits {
    /// Takes what was read at `at`, and before that at `since`. Returns a span that is final.
    fn read(&mut self, total: u64, since: u64, at: u64) -> Option<Span> {
        let ns = total.saturating_sub(self.total) + self.owed;
        self.total = self.total.max(total);
        if ns == 0 {
            return None;
        }
        let earliest = self.held.map_or(0, |held| held.from + held.ns);
        let from = since.min(at.saturating_sub(ns)).max(earliest).min(at);
        let fits = ns.min(at - from);
        self.owed = ns - fits;
        let follows = self.held.is_some_and(|held| from <= held.to && held.ns * 2 >= held.to - held.from);
        if !follows {
            self.unbroken = from;
        }
        let done = self.held.replace(Span { from, to: at, ns: fits })?;
        let done = Span { to: done.to.min(from), ..done };
        self.find_room(done);
        self.find_room(Span { from: done.to, to: from, ns: 0 });
        Some(done)
    }

    fn find_room(&mut self, span: Span) {
        if self.room.is_none_or(|room| span.left() > room.left()) {
            self.room = Some(span);
        }
    }

    /// Returns what is held. What was counted late goes to a part of the time in which the process did not wait all
    /// along.
    fn end(&mut self) -> Vec<Span> {
        let Some(held) = self.held.take() else { return Vec::new() };
        let owed = std::mem::take(&mut self.owed);
        let room = self.room.take().unwrap_or_default();
        let late = owed.min(room.left());
        // No known part of the time has that much left: the process is said to have waited a little longer.
        vec![Span { ns: late, ..room }, Span { ns: held.ns + owed - late, ..held }]
    }
}

impl Span {
    /// Time in which nothing waited, ns.
    fn left(&self) -> u64 {
        (self.to - self.from).saturating_sub(self.ns)
    }
}

/// The counters of the processes with one id. Several may have it: one after the other, or in different
/// namespaces. Their waits are added up, so that none is lost.
#[derive(Debug, Default)]
struct Process {
    stalled: Waits,
    throttled: u64,
    /// Counters of the ended ones, and of those that live now.
    ended: [u64; 2],
    live: [u64; 2],
    lives: bool,
}

/// All processes that have waited. Bounded by the number of slots.
#[derive(Debug, Default)]
pub struct AllWaits {
    processes: HashMap<u32, Process>,
}

impl AllWaits {
    /// A process has ended, with these counters.
    pub fn ended(&mut self, shared: &Shared, pid: u32, sums: &Sums) {
        let counts = ["stalled_ns", "throttled_ns"].map(|name| processes::count(shared, sums, name));
        self.add_ended(pid, counts);
    }

    fn add_ended(&mut self, pid: u32, counts: [u64; 2]) {
        if counts != [0; 2] {
            let process = self.processes.entry(pid).or_default();
            process.ended = [0, 1].map(|kind| process.ended[kind] + counts[kind]);
        }
    }

    /// Reads the counters of all processes that live.
    pub fn read(&mut self, shared: &Shared) {
        for slot in shared.live_slots() {
            let counters = &slot.counters;
            let counts = [counters.stalled_ns.load(Relaxed), counters.throttled_ns.load(Relaxed)];
            self.add_live(slot.pid.load(Relaxed), counts);
        }
    }

    fn add_live(&mut self, pid: u32, counts: [u64; 2]) {
        if counts != [0; 2] {
            let process = self.processes.entry(pid).or_default();
            process.live = [0, 1].map(|kind| process.live[kind] + counts[kind]);
            process.lives = true;
        }
    }

    /// Places what was read. `at` is a time after the counters were read, and `since` that of the read before.
    pub fn place(&mut self, since: u64, at: u64, spans: &mut Spans) {
        self.processes.retain(|_, process| {
            let [stalled, throttled] = [0, 1].map(|kind| process.ended[kind] + process.live[kind]);
            spans.stalled.extend(process.stalled.read(stalled, since, at));
            let ns = throttled.saturating_sub(process.throttled);
            if ns > 0 {
                let from = at.saturating_sub(ns).max(process.stalled.unbroken).min(since).min(at);
                spans.throttled.push(Span { from, to: at, ns });
            }
            process.throttled = process.throttled.max(throttled);
            let lives = std::mem::take(&mut process.lives);
            process.live = [0; 2];
            if !lives {
                spans.stalled.extend(process.stalled.end());
            }
            lives
        });
    }

    /// Places what is held back.
    pub fn end(&mut self) -> Vec<Span> {
        self.processes.values_mut().flat_map(|process| process.stalled.end()).collect()
    }
}

#[cfg(test)]
mod tests;
