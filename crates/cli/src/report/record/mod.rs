//! The supervisor's records for a report while the programs run. This module is a facade over them.
//!
//! ```text
//!  each sample:  trail (shared page) ── drain ──> latency, space, often
//!                slots and counters  ── note ───> steps, processes, waits ──> steps
//!  now and then: /proc/PID/maps      ── names ──> space, often
//! ```
//!
//! All records are bounded, and count as memory of the supervisor.

pub mod latency;
pub mod names;
pub mod often;
pub mod processes;
pub mod space;
pub mod steps;
mod waits;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_shared::page::{Shared, Slot};
use memfold_shared::trail::{Reader, What};

use crate::sys;
use latency::Latency;
use names::Name;
use often::Often;
use processes::{OTHERS, Processes, Sums};
use space::{COMPRESSED, FAULTS, Space};
use steps::{Counts, Gauges, Steps};
use waits::{AllWaits, Spans};

/// Reading mappings may take at most 1/NAMES_SHARE of the time.
const NAMES_SHARE: u32 = 100;
/// The minimum time between two readings of mappings.
const NAMES_EVERY: Duration = Duration::from_millis(50);
/// The interval at which unmanaged processes are read, in seconds.
const UNMANAGED_EVERY: f64 = 0.2;

/// The records.
#[derive(Debug)]
pub struct Records {
    begin: Instant,
    reader: Reader,
    /// Memory and counters over time.
    pub steps: Steps,
    /// Latencies over time.
    pub latency: Latency,
    /// Addresses over time.
    pub space: Space,
    /// Fault counts of pages.
    pub often: Often,
    /// Processes.
    pub processes: Processes,
    /// Faults seen in the trace buffer.
    pub faults_seen: u64,
    /// Compressed pages seen in the trace buffer.
    pub compressed_seen: u64,
    /// The peak of the logical size minus the resident memory.
    pub peak_saved: u64,
    before: (u64, Counts),
    waits: AllWaits,
    /// When the waits were read.
    waits_read: u64,
    next_names: Instant,
    looked_at_unmanaged: f64,
}

impl Records {
    /// Starts empty.
    pub fn new(begin: Instant) -> Self {
        Records {
            begin,
            reader: Reader::default(),
            steps: Steps::new(),
            latency: Latency::new(),
            space: Space::new(),
            often: Often::default(),
            processes: Processes::default(),
            faults_seen: 0,
            compressed_seen: 0,
            peak_saved: 0,
            before: (0, Counts::default()),
            waits: AllWaits::default(),
            waits_read: 0,
            next_names: begin,
            looked_at_unmanaged: 0.0,
        }
    }

    fn at_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begin).as_nanos() as u64
    }

    /// Makes sure that all records over time reach this time.
    fn reach(&mut self, at: u64) {
        for _ in 0..self.steps.reach(at) {
            self.latency.merge();
            self.space.merge();
        }
    }

    /// Events that were lost before they were read.
    pub fn lost(&self) -> u64 {
        self.reader.lost
    }

    /// Reads the trace buffer. Must be called before slots are freed, because events identify processes by
    /// their ids.
    pub fn drain(&mut self, shared: &Shared, now: Instant, last: bool) {
        let Some(trail) = shared.trail() else { return };
        let at = self.at_ns(now);
        self.reach(at);
        let column = self.steps.column();
        let Self { reader, latency, space, often, processes, faults_seen, compressed_seen, .. } = self;
        let mut welcomed = false;
        reader.drain(trail, last, |event| {
            if processes.find(event.pid).is_none() && !std::mem::replace(&mut welcomed, true) {
                processes.welcome(shared, at as f64 / 1e9);
            }
            let process = processes.find(event.pid).unwrap_or(OTHERS);
            match event.what {
                What::Fault(ns) => {
                    *faults_seen += 1;
                    latency.add(column, ns);
                    space.add(process, event.page, column, FAULTS, 1);
                    often.add((process, event.page));
                }
                What::Compressed(pages) => {
                    *compressed_seen += pages;
                    space.add(process, event.page, column, COMPRESSED, pages as u32);
                }
            }
        });
    }

    /// Records processes that have ended since the last sample, with their counters.
    pub fn ended(&mut self, shared: &Shared, ended: &mut Vec<(u32, Sums)>, now: Instant) {
        let at = self.at_ns(now) as f64 / 1e9;
        for (pid, sums) in ended.drain(..) {
            self.waits.ended(shared, pid, &sums);
            self.processes.ended(pid, sums, at);
        }
    }

    /// Records that a process is not managed.
    pub fn unmanaged(&mut self, pid: i32, why: &str, now: Instant) {
        self.processes.unmanaged(pid, why, self.at_ns(now) as f64 / 1e9);
    }

    /// Records a sample; the trace buffer was drained at the same time. `pid_of` returns the process of a
    /// slot.
    pub fn note(
        &mut self,
        shared: &Shared,
        pid_of: impl Fn(&Slot) -> Option<i32>,
        now: Instant,
        gauges: Gauges,
    ) {
        let at = self.at_ns(now);
        self.reach(at);
        let seconds = at as f64 / 1e9;
        for slot in shared.live_slots() {
            self.processes.note(slot, pid_of(slot), seconds);
        }
        let counts = counts(shared);
        self.steps.add(self.before.0, at, gauges, counts.since(self.before.1));
        self.before = (at, counts);
        self.note_waits(shared);
        self.peak_saved = self.peak_saved.max(gauges.logical.saturating_sub(gauges.resident));
        if seconds >= self.looked_at_unmanaged + UNMANAGED_EVERY {
            self.looked_at_unmanaged = seconds;
            self.processes.look_at_unmanaged(seconds);
        }
        if now >= self.next_names {
            let begin = sys::cpu_time();
            self.find_names();
            let cost = sys::cpu_time().saturating_sub(begin);
            self.next_names = now + (cost * NAMES_SHARE).max(NAMES_EVERY);
        }
    }

    /// Records what processes waited.
    fn note_waits(&mut self, shared: &Shared) {
        self.waits.read(shared);
        // The clock is read last: no wait that was read can have ended later.
        let at = self.at_ns(Instant::now());
        self.reach(at);
        let mut spans = Spans::default();
        self.waits.place(self.waits_read, at, &mut spans);
        self.waits_read = at;
        self.place(&spans);
    }

    /// Records the waits that were held back. Nothing can be noted after that.
    pub fn end(&mut self) {
        let stalled = self.waits.end();
        self.place(&Spans { stalled, throttled: Vec::new() });
    }

    fn place(&mut self, spans: &Spans) {
        for span in &spans.stalled {
            self.steps.spread(span.from, span.to, Counts { stalled_ns: span.ns, ..Counts::default() });
        }
        for span in &spans.throttled {
            self.steps.spread(span.from, span.to, Counts { throttled_ns: span.ns, ..Counts::default() });
        }
    }

    /// Looks up the mappings of rows and pages that have none yet, while their processes live.
    fn find_names(&mut self) {
        let least = self.often.top(1).first().map_or(1, |(_, count)| count.faults / 4).max(1);
        for (number, process) in
            (0u32..).zip(&self.processes.list).filter(|(_, process)| process.to.is_none())
        {
            let rows = self.space.nameless(number).map(|row| (row.page, &mut row.name));
            let mut wanted: Vec<(u64, &mut Name)> = rows.chain(self.often.nameless(number, least)).collect();
            if wanted.is_empty() {
                continue;
            }
            wanted.sort_by_key(|(page, _)| *page);
            let addresses: Vec<u64> = wanted.iter().map(|(page, _)| page * memfold_proc::PAGE).collect();
            // If the process has just ended, the names found so far remain.
            let _ = names::look(process.pid, &addresses, |at, name| *wanted[at].1 = name.clone());
        }
    }
}

/// The counters of all processes, ended or not, without waits: their place in time is a question of its own.
fn counts(shared: &Shared) -> Counts {
    let mut all = Counts::default();
    let counters = std::iter::once(&shared.ended).chain(shared.live_slots().map(|slot| &slot.counters));
    for counters in counters {
        all.faults += counters.pages_faulted.load(Relaxed);
        all.rescued += counters.pages_rescued.load(Relaxed);
        all.compressed += counters.pages_compressed.load(Relaxed);
    }
    all
}
