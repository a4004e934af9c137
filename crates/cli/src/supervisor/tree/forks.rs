//! Measures how much memory is counted twice among processes related by fork.
//!
//! The kernel counts a page once for each process that maps it. Only the page tables show the excess
//! (`Anonymous` minus `Pss_Anon`), and reading them costs about 5 ms per GiB and holds a lock of the program.
//! So the excess is measured rarely. Between two measurements an upper bound of the change is subtracted from
//! it:
//!
//! - a first write to a shared page makes a copy: at most one page for every fault of the process since;
//! - a process that frees a shared page leaves it to the others: at most the difference between its measured
//!   size and the smallest size seen since, or the bytes of such pages that were evicted, because one fault
//!   may restore several.
//!
//! So memfold never subtracts more than is really counted twice, with one exception: if a process frees,
//! grows and frees again between two samples, the first free stays hidden until the next measurement. The
//! next measurement comes soon once an eighth of the last one is doubtful.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use memfold_proc::{PAGE, process};
use nix::unistd::{SysconfVar, sysconf};

use crate::sys;

/// Reading page tables takes at most 1/SHARE of the time.
const SHARE: u32 = 200;
/// The same, if the last measurement is doubtful.
const DOUBTFUL_SHARE: u32 = 20;
/// Sharing of less than this many bytes is not worth a measurement.
const SMALL: u64 = 1 << 20;

/// The bytes that are counted twice.
pub struct Forks {
    /// The result of the last measurement.
    measured: u64,
    /// An upper bound of the part of `measured` that is no longer true.
    eroded: u64,
    /// Bytes of shared pages that had been evicted at the last measurement.
    unshared: u64,
    /// The members that were measured, with their figures at that time.
    then: HashMap<i32, Then>,
    next: Instant,
    next_if_doubtful: Instant,
    /// The measured number of processes that share a shared page.
    sharers: u64,
    /// The last measurement covered every member, and all of them are still alive.
    whole: bool,
    /// See [`counter_drift`].
    drift: u64,
    /// Whether it was ever measured.
    pub used: bool,
}

#[derive(Debug, Clone, Copy)]
struct Then {
    faults: u64,
    bytes: u64,
    /// The smallest size seen since then. Memory that the process has allocated beyond it is not shared.
    least: u64,
}

impl Forks {
    /// Starts with nothing shared.
    pub fn new(now: Instant) -> Self {
        let then = HashMap::new();
        Self {
            measured: 0,
            eroded: 0,
            unshared: 0,
            then,
            next: now,
            next_if_doubtful: now,
            sharers: 0,
            whole: true,
            drift: counter_drift(),
            used: false,
        }
    }

    /// The excess that the sum over all members certainly contains, in bytes.
    pub fn counted_twice(&self) -> u64 {
        self.measured.saturating_sub(self.eroded)
    }

    /// How many processes shared a shared page at the last measurement; 0 if nothing is known to be shared.
    pub fn sharers(&self) -> u64 {
        self.sharers
    }

    /// Bytes by which `counted_twice` may be too small.
    pub fn doubt(&self) -> u64 {
        self.eroded.min(self.measured)
    }

    /// The excess that the sum over all members contains at most, in bytes: only forks make more, and every new
    /// member is measured. `None` if not all members were measured.
    pub fn counted_twice_at_most(&self) -> Option<u64> {
        self.whole.then_some(self.measured)
    }

    /// Whether `counted_twice` is near the truth rather than only a lower bound.
    pub fn is_exact(&self) -> bool {
        self.whole && self.doubt() <= self.measured / 16 + SMALL
    }

    /// A member has ended: fewer processes now share its shared pages.
    pub fn ended(&mut self, pid: i32, now: Instant) {
        if self.then.contains_key(&pid) {
            self.measured = 0;
            self.whole = false;
            self.next = now;
        }
    }

    /// Bounds the part of the last measurement that may no longer be true; `unshared` is the total of shared
    /// pages that were evicted, in bytes.
    pub fn erode(&mut self, unshared: u64, now: Instant) {
        if self.measured == 0 {
            return;
        }
        self.eroded = 0;
        let mut smaller = 0;
        for (pid, then) in &mut self.then {
            match (process::stat(*pid), process::anonymous(*pid)) {
                (Some(stat), Some(bytes)) if bytes > 0 => {
                    let copied = stat.faults.saturating_sub(then.faults) * PAGE;
                    self.eroded += copied;
                    then.least = then.least.min(bytes);
                    smaller += then.bytes - then.least;
                }
                _ => {
                    self.whole = false;
                    self.eroded = self.measured;
                    self.next = now;
                }
            }
        }
        self.eroded += smaller.max(unshared.saturating_sub(self.unshared));
        if self.eroded > self.measured / 8 {
            self.next = self.next.min(self.next_if_doubtful.max(now));
        }
    }

    /// Measures if a measurement is due or if the members have changed.
    pub fn measure(&mut self, members: &[i32], unshared: u64, now: Instant) {
        let same = members.len() == self.then.len() && members.iter().all(|pid| self.then.contains_key(pid));
        if same && now < self.next {
            return;
        }
        let begin = sys::cpu_time();
        let before: Vec<(i32, Then)> = members
            .iter()
            .filter_map(|pid| {
                let (faults, bytes) = (process::stat(*pid)?.faults, process::anonymous(*pid)?);
                Some((*pid, Then { faults, bytes, least: bytes }))
            })
            .collect();
        let all: u64 = before.iter().map(|(_, then)| then.bytes).sum();
        let largest = before.iter().map(|(_, then)| then.bytes).max().unwrap_or(0);
        (self.measured, self.eroded, self.unshared, self.sharers) = (0, 0, unshared, 0);
        // If `n` processes share equally, each process's excess is `1 - 1/n` of its size.
        let mut most = 0;
        self.whole = before.len() == members.len();
        // However pages are shared, those of the largest member exist at least once.
        if all - largest >= SMALL {
            for (pid, then) in &before {
                match process::anonymous_shared(*pid) {
                    Some((full, share)) => {
                        self.measured += full.saturating_sub(share);
                        most = most.max(full.saturating_sub(share));
                        // During munmap the mapping is already gone, but each of its pages counts until it is
                        // freed.
                        self.whole &= then.bytes <= full + SMALL + self.drift;
                    }
                    None => self.whole = false,
                }
            }
            self.used = true;
            self.sharers = if most >= SMALL { self.measured.div_ceil(most) } else { 0 };
        }
        self.then = before.into_iter().collect();
        let cost = sys::cpu_time().saturating_sub(begin);
        self.next = now + (cost * SHARE).max(Duration::from_millis(250));
        self.next_if_doubtful = now + (cost * DOUBTFUL_SHARE).max(Duration::from_millis(20));
        if !self.whole {
            self.next = self.next_if_doubtful;
        }
    }

    /// Whether the last measurement included this process.
    pub fn has_measured(&self, pid: i32) -> bool {
        self.then.contains_key(&pid)
    }

    /// Whether a measurement is due.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.then.is_empty() && now >= self.next
    }
}

/// The maximum difference, in bytes, between the kernel's counters of a process and its page tables: each CPU
/// keeps back a batch of up to `max(32, 2 * CPUs)` pages (`lib/percpu_counter.c`).
fn counter_drift() -> u64 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    let cpus = online.and_then(|cpus| u64::try_from(cpus).ok()).unwrap_or(1);
    cpus * (2 * cpus).max(32) * PAGE
}
