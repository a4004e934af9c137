//! The thread that works beside those who use the device.
//!
//! It goes over all blocks again and again, at least [`Options::cold`] apart: a block of which no page was used since it came by is made denser. It drops
//! uncompressed pages that were not used, and keeps the store dense as its pacer says. Once nothing happens it gives back what was worked in, and when a pass finds nothing to do, what else is there for changes.

use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memfold::size::Human;
use memfold::store::{Goal, Pace, Pacer};

use crate::backing::Backing;
use crate::budget::Budget;
use crate::disk::Disk;
use crate::leaf::PAGES;
use crate::locked;
use crate::merge::Merged;
#[cfg(doc)]
use crate::options::Options;
use crate::status::About;

/// How long it sleeps where nothing happens.
const IDLE: Duration = Duration::from_millis(250);
/// After so long without any activity nobody needs what it was worked in.
const QUIET: Duration = Duration::from_millis(500);
/// Bytes that the store moves before others have their turn.
const MOVES: usize = 2 << 20;

/// If no write was refused for that long, the next one that is gets reported again.
const LULL: Duration = Duration::from_secs(600);

/// So many percent of the limit are taken when that is said, and so many have to be left before it is said
/// again.
const NEARLY_FULL: u64 = 90;
const FAR: u64 = 80;

/// Whether it was said that the device is nearly full.
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

/// Where a pass over all blocks is.
struct Pass {
    begun: Instant,
    next: Option<u64>,
    /// What had happened when it began, and whether there was anything hot or to be gained.
    activity: u64,
    found: bool,
    /// It found nothing, and what is only needed for changes has been given back.
    rested: bool,
}

/// Writes that were refused, as far as they were told of.
#[derive(Default)]
struct Refused {
    count: u64,
    last: Option<Instant>,
}

/// Since when nothing has happened.
struct Quiet {
    activity: u64,
    since: Instant,
    /// What it was worked in has been given back.
    rested: bool,
}

impl Maintenance {
    /// Starts the thread, which speaks of the device by this; an error if the system has none left.
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
            // It ends, if not by a panic of its own.
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
            // What was freed leaves holes; where nothing happened there are none.
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

    /// Says that the device is full: a file system on it may not say so, for it writes back when nobody
    /// waits for an answer. Not where the write is refused, for nobody knows how long it takes to say
    /// something.
    fn tell_refused(&self, told: &mut Refused, who: &str) {
        let count = self.counts.refused.load(Relaxed);
        if count == std::mem::replace(&mut told.count, count) {
            return;
        }
        let now = Instant::now();
        let before = told.last.replace(now);
        if before.is_none_or(|before| now.duration_since(before) >= LULL) {
            (self.options.told)(&format!(
                "{who}: the limit of {} is reached: writes are refused, and what a file system on the device had not written yet is lost. Trim what \
                 is not needed (fstrim, mount -o discard), or use a larger limit",
                Human(self.options.limit)
            ));
        }
    }

    /// Says once that the device will soon be full, for no door has a way to say it to who writes. What can be
    /// given up at any time does not count, so it is seldom asked for more than one number.
    fn tell_nearly_full(&self, told: &mut NearlyFull, who: &str) {
        let limit = self.budget().limit();
        let is_near = self.budget().used() >= limit / 100 * NEARLY_FULL && self.is_nearly_full();
        if !is_near {
            if self.budget().used() < limit / 100 * FAR {
                told.is_told = false;
            }
            return;
        }
        if !std::mem::replace(&mut told.is_told, true) {
            (self.options.told)(&format!(
                "{who}: {NEARLY_FULL} % of the limit of {} are taken: when it is reached, writes are refused. Trim what is not needed (fstrim, \
                 mount -o discard), or use a larger limit",
                Human(limit)
            ));
        }
    }

    /// Whether what can't be given up takes most of the limit.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.has_limit() && self.held() >= self.budget().limit() / 100 * NEARLY_FULL
    }

    /// Whether the device may get full before all of it is written. As long as a backing device has room,
    /// there is room here.
    pub(crate) fn has_limit(&self) -> bool {
        self.backing.is_none() && self.budget().limit() < self.size()
    }

    /// Bytes of memory that can't be given up without making something denser.
    pub(crate) fn held(&self) -> u64 {
        let (unused, store) = (self.count_works(), self.store.store().stats());
        let loose = store.hole_bytes + store.slack_bytes + self.resident.bytes() + unused;
        self.budget().used().saturating_sub(loose)
    }

    /// Gives back what it was worked in, once nothing has happened for a while. For swap it stays.
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

    /// One leaf of a pass; false if there is nothing to do now.
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
            // Whoever needs room has it before.
            let mut making = locked(&self.making);
            let merged = Budget::making_room(|| self.merge_block(number, first, false, making.work()));
            pass.found |= merged != Merged::Nothing;
            if merged == Merged::Nothing {
                // What does not compress is of no use in memory as long as nobody wants it.
                self.spill_block(number, first, false, making.work());
            }
        }
        pass.next = self.stripes.next(number + 1);
        pass.next.is_some()
    }

    /// Nothing is going on: gives back what is there for what comes next. For swap it stays.
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
