//! The thread that works in the background.
//!
//! It passes over all blocks repeatedly; passes begin at least [`Options::cold`] apart. A block of which no
//! page was used since the last pass is made denser. The thread drops unused uncompressed pages, and compacts
//! the store at the rate that the store's pacer sets. Once the device is idle, it releases the working
//! memory; after a pass with nothing to do, it also releases the memory kept for changes.

use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memfold::size::Human;
use memfold::store::{Goal, Pace, Pacer};

use crate::backing::Backing;
use crate::disk::Disk;
use crate::index::leaf::PAGES;
use crate::locked;
use crate::memory::budget::Budget;
#[cfg(doc)]
use crate::options::Options;
use crate::reclaim::merge::Merged;
use crate::serve::status::About;

/// How long it sleeps when nothing happens.
const IDLE: Duration = Duration::from_millis(250);
/// After this long without activity, the working memory is released.
const QUIET: Duration = Duration::from_millis(500);
/// The bytes that the store moves before other threads get their turn.
const MOVES: usize = 2 << 20;

/// After this long without a refused write, the next one is reported again.
const LULL: Duration = Duration::from_secs(600);

/// The percentage of the limit at which the device is reported as nearly full, and the percentage below which
/// use must fall before that is reported again.
const NEARLY_FULL: u64 = 90;
const FAR: u64 = 80;

/// Whether the device was reported as nearly full.
#[derive(Default)]
struct NearlyFull {
    is_told: bool,
}

#[derive(Default)]
struct Stop {
    stop: Mutex<bool>,
    wake: Condvar,
}

/// The thread; it ends when this is dropped.
pub struct Maintenance {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// The position of a pass over all blocks.
struct Pass {
    begun: Instant,
    next: Option<u64>,
    /// The activity count when it began, and whether it found anything hot or anything to gain.
    activity: u64,
    found: bool,
    /// The pass found nothing, and memory that is needed only for changes was released.
    rested: bool,
}

/// The refused writes that were reported.
#[derive(Default)]
struct Refused {
    count: u64,
    last: Option<Instant>,
}

/// How long the device has been idle.
struct Quiet {
    activity: u64,
    since: Instant,
    /// Whether the working memory was released.
    rested: bool,
}

impl Maintenance {
    /// Starts the thread, which names the device by `about` in its messages. An error if the system cannot
    /// start another thread.
    pub fn start(disk: &Arc<Disk>, about: &About) -> std::io::Result<Self> {
        let who = about.shown();
        // From now on there may be threads.
        disk.backing.iter().for_each(Backing::start);
        let stop = Arc::new(Stop::default());
        let (disk, stopped) = (Arc::clone(disk), Arc::clone(&stop));
        let thread = thread::Builder::new().name("memfold-keeper".into()).spawn(move || {
            disk.keep_going(&stopped, &who);
        })?;
        Ok(Maintenance { stop, thread: Some(thread) })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        *locked(&self.stop.stop) = true;
        self.stop.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked.
            let _ = thread.join();
        }
    }
}

impl Disk {
    fn keep_going(&self, stop: &Stop, who: &str) {
        let begun = Instant::now();
        let mut pacer = Pacer::new();
        let mut pass = Pass { begun, next: None, activity: u64::MAX, found: true, rested: false };
        let mut quiet = Quiet { activity: 0, since: begun, rested: true };
        let mut paced = u64::MAX;
        let mut refused = Refused::default();
        let mut nearly = NearlyFull::default();
        loop {
            self.tell_refused(&mut refused, who);
            self.tell_nearly_full(&mut nearly, who);
            // Holes arise only from activity.
            let activity = self.counts.activity.load(Relaxed);
            let mut sleep = IDLE;
            if activity != paced || pass.next.is_some() {
                match pacer.next(begun.elapsed().as_nanos() as u64, self.store.store().debt()) {
                    Pace::Work(goal) => {
                        let started = Instant::now();
                        let done = self.store.store().maintain_to(goal, self, MOVES);
                        pacer.worked(started.elapsed().as_nanos() as u64, &done);
                        sleep = Duration::ZERO;
                    }
                    Pace::Sleep(ns) => {
                        sleep = Duration::from_nanos(ns);
                        if !self.store.store().debt().due {
                            paced = activity;
                        }
                    }
                }
            }
            if self.go_on(&mut pass, stop) {
                sleep = Duration::ZERO;
            }
            self.heed_quiet(&mut quiet, activity);
            let stopped = locked(&stop.stop);
            let stopped = if sleep.is_zero() {
                stopped
            } else {
                stop.wake.wait_timeout(stopped, sleep).unwrap_or_else(PoisonError::into_inner).0
            };
            if *stopped {
                drop(stopped);
                return self.tell_refused(&mut refused, who);
            }
        }
    }

    /// Reports that the device is full. A file system on it may not report that, because its write-back
    /// happens when no program waits for the result. The write path does not report it itself, because
    /// writing a message may take any amount of time.
    fn tell_refused(&self, told: &mut Refused, who: &str) {
        let count = self.counts.refused.load(Relaxed);
        if count == std::mem::replace(&mut told.count, count) {
            return;
        }
        let now = Instant::now();
        let before = told.last.replace(now);
        if before.is_none_or(|before| now.duration_since(before) >= LULL) {
            (self.options.told)(&format!(
                "{who}: the limit of {} is reached: writes are refused, and data that a file system on the \
                 device had not written yet is lost. Trim data that is not needed (fstrim, mount -o \
                 discard), or use a larger limit",
                Human(self.options.limit)
            ));
        }
    }

    /// Reports once that the device will soon be full, because no protocol can tell the writer. Usually
    /// one comparison suffices.
    fn tell_nearly_full(&self, told: &mut NearlyFull, who: &str) {
        let limit = self.budget().limit();
        if self.budget().used() < limit / 2 {
            told.is_told = false;
            return;
        }
        if !self.is_nearly_full() {
            told.is_told &= self.held() >= self.room() / 100 * FAR;
            return;
        }
        if !std::mem::replace(&mut told.is_told, true) {
            (self.options.told)(&format!(
                "{who}: {NEARLY_FULL} % of the limit of {} is in use: when the limit is reached, writes are refused. Trim data that is not needed (fstrim, \
                 mount -o discard), or use a larger limit",
                Human(limit)
            ));
        }
    }

    /// Whether data take at least [`NEARLY_FULL`] percent of the memory that they can have.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.has_limit() && self.held() >= self.room() / 100 * NEARLY_FULL
    }

    /// Whether the device may become full before it is completely written. A device whose backing device has
    /// room counts as unlimited.
    pub(crate) fn has_limit(&self) -> bool {
        let can_spill = self.backing.as_ref().is_some_and(Backing::is_open);
        !can_spill && self.budget().limit() < self.size()
    }

    /// Bytes of memory that data can have: neither the reserve nor the working memory.
    pub(crate) fn room(&self) -> u64 {
        self.budget().open().saturating_sub(self.counted_works())
    }

    /// Bytes of memory that data have and that cannot be given up without making something denser.
    pub(crate) fn held(&self) -> u64 {
        self.count_works();
        let store = self.store.store().stats();
        let loose = store.hole_bytes + store.slack_bytes + self.resident.bytes() + self.counted_works();
        self.budget().used().saturating_sub(loose)
    }

    /// Releases the working memory once nothing has happened for a while. A swap device keeps it.
    fn heed_quiet(&self, quiet: &mut Quiet, activity: u64) {
        if activity != quiet.activity {
            *quiet = Quiet { activity, since: Instant::now(), rested: false };
        } else if !quiet.rested && quiet.since.elapsed() >= QUIET {
            quiet.rested = true;
            if !self.is_for_swap() {
                self.works.rest(&self.store, self.layout);
                locked(&self.making).work().rest(&self.store, self.layout);
            }
        }
    }

    /// Handles one leaf of a pass; returns false if there is nothing to do now.
    fn go_on(&self, pass: &mut Pass, stop: &Stop) -> bool {
        let Some(number) = pass.next else {
            let activity = self.counts.activity.load(Relaxed);
            if !pass.found && activity == pass.activity {
                if !pass.rested {
                    pass.rested = true;
                    self.rest(stop);
                }
                return false;
            }
            if pass.begun.elapsed() < self.options.cold {
                return false;
            }
            let next = self.stripes.next(0);
            *pass = Pass { begun: Instant::now(), next, activity, found: false, rested: false };
            self.count_works();
            self.budget().reload();
            self.resident.sweep(usize::MAX, self.resident_allowed(), self.budget());
            return pass.next.is_some();
        };
        for first in (0..PAGES).step_by(self.layout.pages()) {
            // A thread that needs room takes precedence.
            let mut making = locked(&self.making);
            let merged = Budget::making_room(|| self.merge_block(number, first, false, making.work()));
            pass.found |= merged != Merged::Nothing;
            if merged == Merged::Nothing {
                // Cold data that do not compress gain nothing from being in memory.
                self.spill_block(number, first, false, making.work());
            }
        }
        pass.next = self.stripes.next(number + 1);
        pass.next.is_some()
    }

    /// For an idle device: releases memory that is kept for future changes. A swap device keeps it.
    fn rest(&self, stop: &Stop) {
        if !self.is_for_swap() {
            locked(&self.making).work().rest(&self.store, self.layout);
            let before = self.counts.activity.load(Relaxed);
            let goes_on = || self.counts.activity.load(Relaxed) == before && !*locked(&stop.stop);
            while self.store.store().maintain_to(Goal::FULL, self, MOVES).more && goes_on() {}
            self.store.store().release_reserve();
        }
    }
}
