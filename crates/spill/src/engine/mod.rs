//! The engine between a tier and its users: threads that write, retries, and what to do when a tier does not
//! answer.
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
//! - **Puts** are written in the background. The caller is told of the result, and keeps its copy until then.
//!   Nothing is written unless the tier is open, so what can't be written is still with the caller, and is
//!   never lost.
//! - **Gets** are answered in the caller's thread. While the tier does not answer they are retried, until
//!   `patience` ends. The first get that is answered then is a sign that the tier may be back, so the tier is
//!   probed soon.
//! - **Deletes** are done when there is time, many at once; the rest when the engine ends.
//! - **A forked child** has neither the threads nor connections of its own, and its writes would hit its
//!   parent's data there. It leaves everything as it is.

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
/// A tier that does not answer is probed again after this time at first, and at most.
const SOONEST: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(10);
/// A full one is tried again after this time.
const FULL: Duration = Duration::from_secs(5);
/// A get is retried after this time.
const AGAIN: Duration = Duration::from_millis(100);
/// A call that takes longer counts as this long: more likely the process was stopped meanwhile.
const LONGEST: Duration = Duration::from_secs(15);
/// Deleting begins when this many batches wait for it.
const DELETES: usize = 64;
/// At the end, this many are deleted at once: a tier can combine them into few requests.
const LAST_DELETES: usize = 8192;
/// At the end, a thread whose call takes longer is abandoned.
const LAST: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(10) };

/// How often to check whether threads have ended.
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
    /// How many batches are being deleted now.
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
    /// Something was written since the tier last did not answer.
    has_written: AtomicBool,
    /// A get was not answered, and none has been answered since.
    got_no_answer: AtomicBool,
    /// A get was answered after one that was not: the tier may be back, and is probed soon.
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
    /// A thread was abandoned in a call that does not end: no further calls are made to the tier.
    is_stuck: bool,
    has_ended: bool,
    /// The process that started it, and its count of forks at that time.
    process: (u32, u64),
}

impl Engine {
    /// Starts the threads; an error if the system refuses them. A get waits for a tier that does not answer
    /// until `patience` ends; `told` is called with each change of health.
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
        // If not all threads can be started, this ends those that were.
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

    /// Whether this process is a forked child of the one that started the engine; it must not call anything
    /// else here.
    pub fn is_forked(&self) -> bool {
        this_process() != self.process
    }

    /// Writes a batch in the background, and calls `done` from another thread when it is acknowledged (with
    /// its [place](Tier::place)), or will not be. A number is used once: a failed batch may be deleted later,
    /// so its content is sealed and put again under another number.
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
            // If the process was stopped, try once more: the call had no chance.
            let may_wait = waited < self.inner.patience || took > LONGEST && !was_stopped;
            was_stopped |= took > LONGEST;
            match result {
                Err(Trouble::Away(_)) if may_wait => std::thread::sleep(AGAIN),
                result => return result,
            }
        }
    }

    /// As [`Engine::get`], once.
    pub fn try_get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        // A signal would interrupt a call to a server, which would seem to have failed.
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

    /// Deletes at once what is no longer needed, if the tier answers: then a full one may have space again.
    pub fn delete_now(&self, batches: Vec<u64>) {
        let mut all = std::mem::take(&mut locked(&self.inner.queue).deletes);
        all.extend(batches);
        if without_signals(|| self.inner.delete(&all)) && self.health() == Health::Full {
            self.inner.become_(Health::Open);
        }
    }

    /// Deletes as much as possible, reports what is left, and leaves the tier: nothing is put any more.
    /// `late`: this many batches are still being put, and may arrive after that. For callers that can't drop
    /// the engine before the process ends.
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
    /// writes are refused; waiting deletes are done as far as the tier does them in time. Also returns the
    /// batches that the tier still has then.
    pub fn stop(mut self) -> Option<(Box<dyn Tier>, Vec<u64>)> {
        self.end(false);
        let left = std::mem::take(&mut locked(&self.inner.queue).deletes);
        if !matches!(self.health(), Health::Away(_)) {
            self.inner.tier.pass_on();
        }
        let inner = self.inner.clone();
        drop(self);
        // Nobody else holds a reference to it any more.
        Arc::into_inner(inner).map(|inner| (inner.tier, left))
    }

    /// Ends the threads; waiting writes are refused. A thread in a call that does not end, for example for a
    /// file on a server that is gone, is abandoned.
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

    /// How much the tier holds, and how much it may.
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
