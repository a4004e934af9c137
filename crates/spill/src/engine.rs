//! What stands between a tier and those who spill: threads that write, retries, and what to do when a tier goes away.
//!
//! ```text
//!            ┌──────────── it answers ────────────┐
//!            v                                    │
//!   open ──────── no answer, not in time ──────> away     asked again after half a second, then ever later until something was written
//!     │ ^
//!     │ └──── deleted, or some seconds later ── full
//!     └─────── it would not keep it ──────────> unfit     for good
//! ```
//!
//! - **Puts** are written in the background. Whoever puts is told how it ended, and has his copy until then: only while the tier is open
//!   anything is written, so what can't be written is nowhere else but with him, and is never lost.
//! - **Gets** are answered in the caller's thread. While the tier is away they are tried again, until patience ends.
//! - **Deletes** are done when there is time, many at once, and what is left of them when the engine ends.
//! - **A forked child** has neither the threads nor connections that are its own, and what it would write would hit what its parent has there. It leaves all as
//!   it is.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::tiers::{Room, Tier, Trouble, locked};

/// Batches that are written at the same time.
const WRITERS: usize = 2;
/// A tier that is away is asked again after so long at first, and at last.
const SOONEST: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(10);
/// A full one is tried again after so long.
const FULL: Duration = Duration::from_secs(5);
/// And that is said once in so long.
const QUIET: Duration = Duration::from_secs(60);
/// A get is tried again after so long.
const AGAIN: Duration = Duration::from_millis(100);
/// Deletes that are done at once.
const DELETES: usize = 64;
/// At the end nobody waits longer for what is to be deleted.
const LAST: Duration = Duration::from_secs(10);

/// How a tier is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It takes batches.
    Open,
    /// It has no room for now.
    Full,
    /// It does not answer, for this reason; it may come back.
    Away(String),
    /// It must not be used any more, for this reason; what it has can be read.
    Unfit(String),
}

/// What of a tier's health is worth telling a user. One that is full has room again with each batch that is deleted, and is full again with the next; one that answers may refuse
/// the next batch: the same is said once a minute.
#[derive(Debug, Default)]
pub struct News {
    full: Option<Instant>,
    away: Option<(String, Instant)>,
    is_trouble: bool,
}

impl News {
    /// Whether a change is.
    pub fn is_news(&mut self, health: &Health) -> bool {
        let is_old = |said: Instant| said.elapsed() > QUIET;
        let is_news = match health {
            Health::Open => self.is_trouble,
            Health::Full => self.full.is_none_or(is_old),
            Health::Away(why) => self.away.as_ref().is_none_or(|(said, at)| said != why || is_old(*at)),
            Health::Unfit(_) => true,
        };
        if is_news {
            self.is_trouble = *health != Health::Open;
            match health {
                Health::Full => self.full = Some(Instant::now()),
                Health::Away(why) => self.away = Some((why.clone(), Instant::now())),
                Health::Open | Health::Unfit(_) => {}
            }
        }
        is_news
    }
}

/// What was done so far.
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
    /// Calls that failed, retries too.
    pub troubles: AtomicU64,
}

type Done = Box<dyn FnOnce(Result<(), Trouble>) + Send>;
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
    is_ending: bool,
}

struct Inner {
    tier: Box<dyn Tier>,
    patience: Duration,
    told: Told,
    queue: Mutex<Queue>,
    /// There is something to be written, or the end.
    work: Condvar,
    /// There is much to be deleted, or the end.
    care: Condvar,
    health: Mutex<(Health, Instant)>,
    /// Held while a change of health is told, so that changes are told in their order.
    telling: Mutex<()>,
    /// Something was written since the tier was away.
    has_written: AtomicBool,
    /// Nobody is told any more.
    is_quiet: AtomicBool,
    counters: Counters,
}

/// See the module.
pub struct Engine {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
    /// Who started it.
    process: u32,
}

impl Engine {
    /// Starts the threads; an error if there may be no more. A get waits for a tier that is away until `patience` ends; `told` hears of each change of health.
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
            is_quiet: AtomicBool::new(false),
            counters: Counters::default(),
        });
        // Those that have started end with it, if not all can be.
        let mut engine = Engine { inner: inner.clone(), threads: Vec::new(), process: std::process::id() };
        without_signals(|| {
            for number in 0..=WRITERS {
                let inner = inner.clone();
                let work = move || if number < WRITERS { inner.write() } else { inner.care() };
                engine.threads.push(std::thread::Builder::new().spawn(work)?);
            }
            Ok(engine)
        })
    }

    /// Whether this is a forked child of who started it, which must not call anything else of it.
    pub fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Writes a batch in the background, and calls `done` from another thread when it is acknowledged, or will not be. A number is used once:
    /// what failed may be deleted later, so it is sealed and put again under another.
    pub fn put(
        &self,
        batch: u64,
        bytes: Arc<Vec<u8>>,
        done: impl FnOnce(Result<(), Trouble>) + Send + 'static,
    ) {
        locked(&self.inner.queue).puts.push_back(Put { batch, bytes, done: Box::new(done) });
        self.inner.work.notify_one();
    }

    /// Reads a part of a batch that was acknowledged.
    pub fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        let begin = Instant::now();
        loop {
            match self.try_get(batch, from, into) {
                Err(Trouble::Away(_)) if begin.elapsed() < self.inner.patience => std::thread::sleep(AGAIN),
                result => return result,
            }
        }
    }

    /// As [`Engine::get`], once.
    pub fn try_get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        let result = self.inner.tier.get(batch, from, into);
        match &result {
            Ok(()) => {
                self.inner.counters.got.fetch_add(1, Relaxed);
                self.inner.counters.got_bytes.fetch_add(into.len() as u64, Relaxed);
            }
            Err(trouble) => self.inner.note(trouble),
        }
        result
    }

    /// A batch is not needed any more.
    pub fn delete(&self, batch: u64) {
        let mut queue = locked(&self.inner.queue);
        queue.deletes.push(batch);
        if queue.deletes.len().is_multiple_of(DELETES) {
            self.inner.care.notify_one();
        }
    }

    /// Deletes at once what is not needed any more, if the tier answers: then a full one may take something again.
    pub fn delete_now(&self, batches: Vec<u64>) {
        let mut all = std::mem::take(&mut locked(&self.inner.queue).deletes);
        all.extend(batches);
        if self.inner.delete(&all) && self.health() == Health::Full {
            self.inner.become_(Health::Open);
        }
    }

    /// Deletes as much as it can, and leaves the tier: nothing is put any more. For who can't drop it before the process ends.
    pub fn leave(&self, batches: Vec<u64>) {
        self.inner.is_quiet.store(true, SeqCst);
        locked(&self.inner.queue).is_ending = true;
        self.inner.work.notify_all();
        self.inner.care.notify_all();
        self.delete_now(batches);
        self.inner.tier.leave();
    }

    /// Ends the threads, and gives the tier back for who goes on with it, this process or a child of it: what waits to be written is not, what waits to be deleted is deleted as far as the tier does that in time. The batches
    /// that it still has then, too.
    pub fn stop(mut self) -> Option<(Box<dyn Tier>, Vec<u64>)> {
        self.end();
        let left = std::mem::take(&mut locked(&self.inner.queue).deletes);
        if !matches!(self.health(), Health::Away(_)) {
            self.inner.tier.pass_on();
        }
        let inner = self.inner.clone();
        drop(self);
        // Nobody else has it any more.
        Arc::into_inner(inner).map(|inner| (inner.tier, left))
    }

    /// Ends the threads: what waits to be written is not.
    pub fn end_threads(&mut self) {
        locked(&self.inner.queue).is_ending = true;
        self.inner.work.notify_all();
        self.inner.care.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    fn end(&mut self) {
        if self.is_forked() {
            std::mem::forget((std::mem::take(&mut self.threads), self.inner.clone()));
            return;
        }
        self.end_threads();
        let rest = std::mem::take(&mut locked(&self.inner.queue).deletes);
        let begin = Instant::now();
        let mut left = rest.as_slice();
        let (health, since) = locked(&self.inner.health).clone();
        // One that has not answered just now is not asked again.
        let may_be_back = matches!(health, Health::Away(_)) && since.elapsed() > SOONEST;
        if !left.is_empty() && may_be_back && self.inner.tier.probe().is_ok() {
            self.inner.become_(Health::Open);
        }
        while !left.is_empty() && begin.elapsed() < LAST {
            // So many that a tier can make few requests of them.
            let (some, more) = left.split_at(left.len().min(16 * DELETES));
            if !self.inner.delete(some) {
                break;
            }
            left = more;
        }
        locked(&self.inner.queue).deletes = left.to_vec();
    }

    /// How the tier is.
    pub fn health(&self) -> Health {
        locked(&self.inner.health).0.clone()
    }

    /// What was done.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// What the tier holds.
    pub fn room(&self) -> Room {
        self.inner.tier.room()
    }

    /// What people call the tier.
    pub fn name(&self) -> &str {
        self.inner.tier.name()
    }
}

impl Drop for Engine {
    /// What waits to be written is not, and what waits to be deleted is deleted, if the tier answers.
    fn drop(&mut self) {
        self.end();
    }
}

impl Inner {
    /// A writer.
    fn write(&self) {
        let mut queue = locked(&self.queue);
        loop {
            if queue.is_ending {
                let rest = std::mem::take(&mut queue.puts);
                drop(queue);
                rest.into_iter().for_each(|put| (put.done)(Err(Trouble::Away("the run ends".into()))));
                return;
            }
            if queue.puts.is_empty() {
                queue = wait(&self.work, queue, LATEST);
                continue;
            }
            let count = queue.puts.len().min(self.tier.puts_at_once());
            let puts: Vec<Put> = queue.puts.drain(..count).collect();
            drop(queue);
            let results = self.put(&puts);
            for (put, result) in puts.into_iter().zip(results) {
                (put.done)(result);
            }
            queue = locked(&self.queue);
        }
    }

    fn put(&self, puts: &[Put]) -> Vec<Result<(), Trouble>> {
        let why = match &locked(&self.health).0 {
            Health::Open => None,
            Health::Full => Some(Trouble::Full),
            Health::Away(why) => Some(Trouble::Away(why.clone())),
            Health::Unfit(why) => Some(Trouble::Unfit(why.clone())),
        };
        if let Some(why) = why {
            return puts.iter().map(|_| Err(why.clone())).collect();
        }
        let all: Vec<(u64, &[u8])> = puts.iter().map(|put| (put.batch, put.bytes.as_slice())).collect();
        let results = self.tier.put_all(&all);
        for ((batch, bytes), result) in all.iter().zip(&results) {
            match result {
                Ok(()) => {
                    self.counters.put.fetch_add(1, Relaxed);
                    self.counters.put_bytes.fetch_add(bytes.len() as u64, Relaxed);
                    self.has_written.store(true, Relaxed);
                }
                Err(trouble) => {
                    self.note(trouble);
                    if matches!(trouble, Trouble::Away(_)) {
                        // It may have come there all the same.
                        locked(&self.queue).deletes.push(*batch);
                    }
                }
            }
        }
        results
    }

    /// The thread that asks a tier that is away, and deletes.
    fn care(&self) {
        let mut pause = SOONEST;
        let mut asked = Instant::now();
        // Another process may have begun.
        if let Err(trouble) = self.tier.tend() {
            self.note(&trouble);
        }
        let mut queue = locked(&self.queue);
        while !queue.is_ending {
            queue = wait(&self.care, queue, SOONEST);
            let deletes = std::mem::take(&mut queue.deletes);
            drop(queue);
            let has_deleted = self.delete(&deletes);
            let (health, since) = locked(&self.health).clone();
            if matches!(health, Health::Open | Health::Full)
                && let Err(trouble) = self.tier.tend()
            {
                self.note(&trouble);
                queue = locked(&self.queue);
                continue;
            }
            match health {
                Health::Open | Health::Unfit(_) => {}
                Health::Full if since.elapsed() >= FULL || has_deleted => self.become_(Health::Open),
                Health::Full => {}
                Health::Away(_) => {
                    // One that answers may not take anything all the same: it is asked ever later until it does.
                    if self.has_written.swap(false, Relaxed) {
                        pause = SOONEST;
                    }
                    if since.max(asked).elapsed() >= pause {
                        pause = (pause * 2).min(LATEST);
                        match self.tier.probe() {
                            Ok(()) => self.become_(Health::Open),
                            Err(trouble) => self.note(&trouble),
                        }
                        asked = Instant::now();
                    }
                }
            }
            queue = locked(&self.queue);
        }
    }

    /// Deletes; what fails waits for the next time. Whether there is room now that was none.
    fn delete(&self, batches: &[u64]) -> bool {
        if batches.is_empty() {
            return false;
        }
        let is_away = matches!(locked(&self.health).0, Health::Away(_));
        let result = if is_away { Err(None) } else { self.tier.delete(batches).map_err(Some) };
        match result {
            Ok(()) => {
                self.counters.deleted.fetch_add(batches.len() as u64, Relaxed);
                true
            }
            Err(trouble) => {
                if let Some(trouble) = trouble {
                    self.note(&trouble);
                }
                locked(&self.queue).deletes.extend_from_slice(batches);
                false
            }
        }
    }

    fn note(&self, trouble: &Trouble) {
        self.counters.troubles.fetch_add(1, Relaxed);
        match trouble {
            Trouble::Lost => {}
            Trouble::Full => self.become_(Health::Full),
            Trouble::Away(why) => self.become_(Health::Away(why.clone())),
            Trouble::Unfit(why) => self.become_(Health::Unfit(why.clone())),
        }
    }

    fn become_(&self, new: Health) {
        let _telling = locked(&self.telling);
        let mut health = locked(&self.health);
        // Other words for the same are no news, and what is unfit stays so.
        let is_same = std::mem::discriminant(&health.0) == std::mem::discriminant(&new);
        if is_same || matches!(health.0, Health::Unfit(_)) {
            return;
        }
        *health = (new.clone(), Instant::now());
        drop(health);
        if !self.is_quiet.load(SeqCst) {
            (self.told)(&new);
        }
    }
}

/// Signals are the program's, and are not meant for threads that are made in this time. One is for the thread itself: that a file is larger than it may be is an error then.
fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    let mut all = std::mem::MaybeUninit::uninit();
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: the first call fills one set, and the second the other.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: the set was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use std::sync::mpsc;

    struct Set {
        engine: Engine,
        trouble: Arc<Mutex<Option<Trouble>>>,
        changes: Mutex<mpsc::Receiver<Health>>,
    }

    fn set(patience: Duration) -> Set {
        let tier = Made::default();
        let trouble = tier.trouble.clone();
        let (tell, changes) = mpsc::channel();
        let tell = Mutex::new(tell);
        let told = move |health: &Health| {
            let _ = locked(&tell).send(health.clone());
        };
        Set {
            engine: Engine::start(Box::new(tier), patience, told).unwrap(),
            trouble,
            changes: Mutex::new(changes),
        }
    }

    impl Set {
        fn put(&self, batch: u64) -> Result<(), Trouble> {
            let (tell, told) = mpsc::channel();
            self.engine
                .put(batch, Arc::new(vec![batch as u8; 100]), move |result| tell.send(result).unwrap());
            told.recv_timeout(Duration::from_secs(10)).unwrap()
        }

        fn get(&self, batch: u64) -> Result<(), Trouble> {
            let mut into = [0; 50];
            self.engine.get(batch, 50, &mut into).inspect(|()| assert_eq!(into, [batch as u8; 50]))
        }

        fn cause(&self, trouble: Option<Trouble>) {
            *locked(&self.trouble) = trouble;
        }

        fn change(&self) -> Health {
            locked(&self.changes).recv_timeout(Duration::from_secs(20)).unwrap()
        }
    }

    #[test]
    fn while_it_is_away_nothing_is_written_and_gets_wait() {
        let set = set(Duration::from_secs(20));
        set.put(1).unwrap();
        let away = Trouble::Away("a cable".into());
        set.cause(Some(away.clone()));
        assert_eq!(set.put(2), Err(away.clone()));
        assert_eq!(set.change(), Health::Away("a cable".into()));
        assert_eq!(set.put(3), Err(away));
        std::thread::scope(|scope| {
            let got = scope.spawn(|| set.get(1));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!got.is_finished());
            set.cause(None);
            got.join().unwrap().unwrap();
        });
        assert_eq!(set.change(), Health::Open);
        set.put(4).unwrap();
        assert_eq!(set.get(3), Err(Trouble::Lost));
    }

    #[test]
    fn patience_ends() {
        let set = set(Duration::from_millis(300));
        set.put(1).unwrap();
        set.cause(Some(Trouble::Away("a cable".into())));
        let begin = Instant::now();
        assert!(matches!(set.get(1), Err(Trouble::Away(_))));
        assert!((300..2000).contains(&begin.elapsed().as_millis()));
        assert_eq!(set.get(1), Err(Trouble::Away("a cable".into())));
    }

    #[test]
    fn a_full_one_takes_more_when_something_was_deleted() {
        let set = set(Duration::ZERO);
        set.put(1).unwrap();
        set.cause(Some(Trouble::Full));
        assert_eq!(set.put(2), Err(Trouble::Full));
        assert_eq!(set.change(), Health::Full);
        set.get(1).unwrap();
        set.cause(None);
        set.engine.delete(1);
        assert_eq!(set.change(), Health::Open);
        set.put(2).unwrap();
    }

    #[test]
    fn an_unfit_one_is_read_but_not_written_any_more() {
        let set = set(Duration::ZERO);
        set.put(1).unwrap();
        set.cause(Some(Trouble::Unfit("it forgets".into())));
        assert!(set.put(2).is_err());
        assert_eq!(set.change(), Health::Unfit("it forgets".into()));
        set.cause(None);
        assert_eq!(set.put(3), Err(Trouble::Unfit("it forgets".into())));
        set.get(1).unwrap();
    }

    #[test]
    fn at_the_end_all_is_deleted_that_was_to_be() {
        let set = set(Duration::ZERO);
        (0..100).for_each(|batch| set.put(batch).unwrap());
        (0..100).for_each(|batch| set.engine.delete(batch));
        let inner = set.engine.inner.clone();
        drop(set.engine);
        assert_eq!(inner.tier.room().used, 0);
        assert_eq!(inner.counters.deleted.load(Relaxed), 100);
    }
}
