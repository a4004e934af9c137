//! The engine between a tier and its users: writer threads, retries, and the handling of unresponsive tiers.
//!
//! ```text
//!            ┌──────────── it answers ────────────┐
//!            v                                    │
//!   open ──────── no answer, not in time ──────> away     probed at growing intervals until a write succeeds
//!     │ ^
//!     │ └──── deleted, or some seconds later ── full
//!     └─────── it would not keep it ──────────> unfit     for good
//! ```
//!
//! - **Puts** are written in the background. The caller is told the result, and keeps its copy until then.
//!   Nothing is written unless the tier is open, so the caller still has what cannot be written, and nothing
//!   is lost.
//! - **Gets** are answered in the caller's thread. While the tier does not answer they are retried, until
//!   `patience` ends. The first get that is answered again indicates that the tier may be back, so the tier
//!   is probed soon.
//! - **Deletes** are batched and done in the background; the rest is done when the engine ends.
//! - **A forked child** has no threads and no connections of its own, and its writes would hit its parent's
//!   data on the tier. So it does nothing.

mod health;
mod process;
mod work;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use health::{Health, News};
use process::{this_process, without_signals};

use crate::tiers::{Room, Tier, Trouble, locked};

/// Batches that are written in parallel.
const WRITERS: usize = 2;
/// The shortest and the longest interval between probes of an unresponsive tier.
const SOONEST: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(10);
/// A full tier is tried again after this time.
const FULL: Duration = Duration::from_secs(5);
/// A get is retried after this time.
const AGAIN: Duration = Duration::from_millis(100);
/// A call that takes longer counts as this long: the process was probably stopped meanwhile.
const LONGEST: Duration = Duration::from_secs(15);
/// Deleting begins when this many batches wait to be deleted.
const DELETES: usize = 64;
/// At the end, this many are deleted at once, which a tier can combine into few requests.
const LAST_DELETES: usize = 8192;
/// At the end, a thread whose call takes longer is abandoned.
const LAST: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(10) };

/// The interval between checks whether threads have ended.
const ENDS: Duration = Duration::from_millis(1);

/// Counters of calls so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Batches that were put, and their bytes.
    pub put: AtomicU64,
    /// See `put`.
    pub put_bytes: AtomicU64,
    /// Parts that were read, and their bytes.
    pub got: AtomicU64,
    /// See `got`.
    pub got_bytes: AtomicU64,
    /// Batches that were deleted.
    pub deleted: AtomicU64,
    /// Calls that failed, including retries.
    pub troubles: AtomicU64,
}

type Done = Box<dyn FnOnce(&Result<Option<u64>, Trouble>) + Send>;
type Told = Box<dyn Fn(&Health) + Send + Sync>;

struct Put {
    batch: u64,
    bytes: Arc<Vec<u8>>,
    done: Done,
}

#[derive(Default)]
struct Queue {
    puts: VecDeque<Put>,
    deletes: Vec<u64>,
    /// How many batches are currently being deleted.
    deleting: usize,
    is_ending: bool,
}

struct Inner {
    tier: Box<dyn Tier>,
    patience: Duration,
    told: Told,
    queue: Mutex<Queue>,
    /// There is something to write, or the engine ends.
    work: Condvar,
    /// There is much to delete, or the engine ends.
    care: Condvar,
    health: Mutex<(Health, Instant)>,
    /// Held while a change of health is reported, so that changes are reported in order.
    telling: Mutex<()>,
    /// Something was written since the tier last failed to answer.
    has_written: AtomicBool,
    /// A get was not answered, and none has been answered since.
    got_no_answer: AtomicBool,
    /// A get was answered after one that was not, so the tier may be back and is probed soon.
    may_be_back: AtomicBool,
    /// Changes are no longer reported.
    is_quiet: AtomicBool,
    counters: Counters,
}

/// When a thread began its current work for the tier; `None` while it waits for work.
type Busy = Arc<Mutex<Option<Instant>>>;

/// See the module.
pub struct Engine {
    inner: Arc<Inner>,
    threads: Vec<(JoinHandle<()>, Busy)>,
    /// A thread was abandoned in a call that does not return. No further calls are made to the tier.
    is_stuck: bool,
    has_ended: bool,
    /// The process that started the engine, and its count of forks at that time.
    process: (u32, u64),
}

impl Engine {
    /// Starts the threads; an error if the system refuses them. A get waits up to `patience` for an
    /// unresponsive tier; `told` is called with each change of health.
    pub fn start(
        tier: Box<dyn Tier>,
        patience: Duration,
        told: impl Fn(&Health) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            tier,
            patience,
            told: Box::new(told),
            queue: Mutex::default(),
            work: Condvar::new(),
            care: Condvar::new(),
            health: Mutex::new((Health::Open, Instant::now())),
            telling: Mutex::default(),
            has_written: AtomicBool::new(false),
            got_no_answer: AtomicBool::new(false),
            may_be_back: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            counters: Counters::default(),
        });
        // If not all threads can be started, dropping this ends those that were.
        let mut engine = Engine {
            inner: inner.clone(),
            threads: Vec::new(),
            is_stuck: false,
            has_ended: false,
            process: this_process(),
        };
        without_signals(|| {
            for number in 0..=WRITERS {
                let (inner, busy) = (inner.clone(), Busy::default());
                let own = busy.clone();
                let work = move || if number < WRITERS { inner.write(&own) } else { inner.care(&own) };
                engine.threads.push((std::thread::Builder::new().spawn(work)?, busy));
            }
            Ok(engine)
        })
    }

    /// Whether this process is a forked child of the one that started the engine. A child must not call any
    /// other method.
    pub fn is_forked(&self) -> bool {
        this_process() != self.process
    }

    /// Writes a batch in the background. Calls `done` from another thread when the batch is acknowledged
    /// (with its [place](Tier::place)) or has failed. A number is used once: a failed batch may be deleted
    /// later, so its content is sealed and put again under another number.
    pub fn put(
        &self,
        batch: u64,
        bytes: Arc<Vec<u8>>,
        done: impl FnOnce(&Result<Option<u64>, Trouble>) + Send + 'static,
    ) {
        locked(&self.inner.queue).puts.push_back(Put { batch, bytes, done: Box::new(done) });
        self.inner.work.notify_one();
    }

    /// Reads a part of an acknowledged batch.
    pub fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        let (mut looked, mut waited, mut was_stopped) = (Instant::now(), Duration::ZERO, false);
        loop {
            let result = self.try_get(batch, from, into);
            let took = looked.elapsed();
            looked += took;
            waited += took.min(LONGEST);
            // If the process was stopped during the call, try once more, since the call could not succeed.
            let may_wait = waited < self.inner.patience || took > LONGEST && !was_stopped;
            was_stopped |= took > LONGEST;
            match result {
                Err(Trouble::Away(_)) if may_wait => std::thread::sleep(AGAIN),
                result => return result,
            }
        }
    }

    /// As [`Engine::get`], without retries.
    pub fn try_get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        // A signal would interrupt the call to a server and make it fail.
        let result = without_signals(|| self.inner.tier.get(batch, from, into));
        match &result {
            Ok(()) => {
                self.inner.counters.got.fetch_add(1, Relaxed);
                self.inner.counters.got_bytes.fetch_add(into.len() as u64, Relaxed);
                self.inner.note_answer();
            }
            Err(trouble) => {
                self.inner.note(trouble);
                self.inner.got_no_answer.fetch_or(matches!(trouble, Trouble::Away(_)), Relaxed);
            }
        }
        result
    }

    /// Marks a batch as no longer needed.
    pub fn delete(&self, batch: u64) {
        let mut queue = locked(&self.inner.queue);
        queue.deletes.push(batch);
        if queue.deletes.len().is_multiple_of(DELETES) {
            self.inner.care.notify_one();
        }
    }

    /// Deletes unneeded batches at once, if the tier answers. A full tier may then have space again.
    pub fn delete_now(&self, batches: Vec<u64>) {
        let mut all = std::mem::take(&mut locked(&self.inner.queue).deletes);
        all.extend(batches);
        if without_signals(|| self.inner.delete(&all)) && self.health() == Health::Full {
            self.inner.become_(Health::Open);
        }
    }

    /// Deletes as much as possible, reports what is left, and leaves the tier; nothing is put any more.
    /// `late` batches are still being put, and may arrive afterwards. For callers that cannot drop the engine
    /// before the process ends.
    pub fn leave(&self, batches: Vec<u64>, late: usize) {
        let begin = Instant::now();
        locked(&self.inner.queue).is_ending = true;
        self.inner.work.notify_all();
        self.inner.care.notify_all();
        let deleting = loop {
            let deleting = locked(&self.inner.queue).deleting;
            if deleting == 0 || begin.elapsed() > LAST {
                break deleting;
            }
            std::thread::sleep(ENDS);
        };
        if deleting == 0 {
            self.inner.delete_last(batches);
        } else {
            locked(&self.inner.queue).deletes.extend(batches);
        }
        self.tell_left(late + deleting);
        self.inner.is_quiet.store(true, SeqCst);
        if late + deleting == 0 && !matches!(self.health(), Health::Away(_)) {
            self.inner.tier.leave();
        }
    }

    /// Ends the threads, deletes as much as possible, and reports what is left.
    pub fn end_and_tell(&mut self) {
        self.end(true);
        self.tell_left(0);
    }

    fn tell_left(&self, late: usize) {
        let count = late + locked(&self.inner.queue).deletes.len();
        if let (1.., Some(at)) = (count, self.inner.tier.left_at()) {
            let why = format!("{count} batches could not be deleted, and remain there: {at}");
            (self.inner.told)(&Health::Away(why));
        }
    }

    /// Ends the threads, and returns the tier for this process or a child of it to continue with. Waiting
    /// writes are refused; waiting deletes are done as far as the tier completes them in time. Also returns
    /// the batches that the tier still has afterwards.
    pub fn stop(mut self) -> Option<(Box<dyn Tier>, Vec<u64>)> {
        self.end(false);
        let left = std::mem::take(&mut locked(&self.inner.queue).deletes);
        if !matches!(self.health(), Health::Away(_)) {
            self.inner.tier.pass_on();
        }
        let inner = self.inner.clone();
        drop(self);
        // This is the last reference to it.
        Arc::into_inner(inner).map(|inner| (inner.tier, left))
    }

    /// Ends the threads; waiting writes are refused. A thread in a call that does not return, for example for
    /// a file on a server that is gone, is abandoned.
    pub fn end_threads(&mut self) {
        locked(&self.inner.queue).is_ending = true;
        self.inner.work.notify_all();
        self.inner.care.notify_all();
        for (thread, busy) in self.threads.drain(..) {
            let is_hung = || locked(&busy).is_some_and(|since| since.elapsed() > LAST);
            while !thread.is_finished() && !is_hung() {
                std::thread::sleep(ENDS);
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                self.is_stuck = true;
            }
        }
        self.inner.refuse_all();
    }

    fn end(&mut self, is_last: bool) {
        if self.is_forked() {
            std::mem::forget((std::mem::take(&mut self.threads), self.inner.clone()));
            return;
        }
        self.end_threads();
        if !self.is_stuck && !std::mem::replace(&mut self.has_ended, true) {
            if is_last {
                self.inner.delete_last(Vec::new());
            } else {
                self.inner.delete_all(Vec::new());
            }
        }
    }

    /// The health of the tier.
    pub fn health(&self) -> Health {
        locked(&self.inner.health).0.clone()
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// How much the tier holds, and how much it may hold.
    pub fn room(&self) -> Room {
        self.inner.tier.room()
    }

    /// See [`Tier::file`].
    pub fn file(&self) -> Option<&std::fs::File> {
        self.inner.tier.file()
    }

    /// The name of the tier for messages.
    pub fn name(&self) -> &str {
        self.inner.tier.name()
    }
}

impl Drop for Engine {
    /// Waiting writes are refused, and waiting deletes are done if the tier answers.
    fn drop(&mut self) {
        self.end(true);
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests;
