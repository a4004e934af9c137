//! Threads that serve the requests of the tree's processes: see `memfold_shared::spill`.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memfold_shared::spill::{
    Area, BELLS, BUFFER, NOBODY, NOWHERE, POSTS, Post, Word, answer, kind, open, scarce, state,
};
use memfold_spill::{Engine, Health, News, Room, Tier, Trouble};
use nix::sys::stat;
use serde::Serialize;

use super::Spill;
use super::holds::{Holds, Outside};
use super::left::Left;
use super::who::{self, Who};
use crate::failure::say;
use crate::stats::{FaultTimes, fault_times};
use crate::sys;

/// Number of requests that are answered at the same time, not counting puts.
const THREADS: usize = 6;
/// At most this many of them wait for a tier.
const GETTING: u32 = 4;
const _: () = assert!(THREADS <= BELLS);
const STACK: usize = 256 << 10;
/// Minimum time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// After this time a process that was started is known.
const STARTS: Duration = Duration::from_secs(3);
/// A request that the tier did not answer is tried again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// Spilling figures, for statistics.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// The tier's name for people.
    pub target: String,
    /// Number of batches written.
    pub batches_put: u64,
    /// Bytes of those.
    pub bytes_put: u64,
    /// Number of reads of parts of batches.
    pub reads: u64,
    /// Number of bytes read.
    pub bytes_read: u64,
    /// The part of `reads` that processes made themselves, from a file.
    pub direct_reads: u64,
    /// Duration of faults whose page was spilled.
    pub fault_us: FaultTimes,
    /// Number of batches deleted so far.
    pub batches_deleted: u64,
    /// Peak of the bytes found on the tier.
    pub bytes_peak: u64,
    /// Number of calls of the tier that failed, including retries.
    pub troubles: u64,
    /// The state of the tier: open, full, away, unfit.
    pub health: &'static str,
    /// Maximum number of bytes on the tier, if known.
    pub room_bytes: Option<u64>,
}

struct State {
    area: &'static Area,
    holds: Mutex<Holds>,
    /// Handles abandoned request slots.
    left: Mutex<Left>,
    /// All threads are running, and none is to end: batches are accepted as long as the tier takes them.
    serves: Mutex<bool>,
    is_ending: AtomicBool,
    /// The end was requested.
    must_end: AtomicBool,
    /// The program has ended: its terminal belongs to others now.
    is_quiet: AtomicBool,
    /// Messages to print. The thread that finds out about one holds up others, and must not wait for a
    /// terminal that nobody reads.
    words: Mutex<Vec<String>>,
    /// Number of threads that wait for a tier.
    getting: AtomicU32,
    /// How long a thread waits for a page, ns.
    patience: u64,
    /// For each request slot, when a request that the tier did not answer is tried again, ns.
    again: [AtomicU64; POSTS],
}

/// See the module.
pub struct Service {
    state: Arc<State>,
    engine: Option<Arc<Engine>>,
    threads: Vec<JoinHandle<()>>,
    /// Peak of the bytes found on the tier.
    peak: AtomicU64,
}

impl Service {
    /// Starts the threads. If they cannot be started, programs that already run are told that there is no
    /// server: they would wait for it.
    pub fn start(area: &'static Area, tier: Box<dyn Tier>, spill: &Spill) -> io::Result<Self> {
        let state = State {
            area,
            holds: Mutex::default(),
            left: Mutex::default(),
            serves: Mutex::default(),
            is_ending: AtomicBool::new(false),
            must_end: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            words: Mutex::default(),
            getting: AtomicU32::new(0),
            patience: spill.patience.as_nanos() as u64,
            again: [const { AtomicU64::new(0) }; POSTS],
        };
        Self::go_on(Arc::new(state), tier).inspect_err(|_| area.server.store(0, Release))
    }

    fn go_on(state: Arc<State>, tier: Box<dyn Tier>) -> io::Result<Self> {
        let area = state.area;
        sys::threads_begin();
        let (name, news) = (tier.name().to_owned(), Mutex::new(News::default()));
        let heeds = state.clone();
        let heed = move |health: &Health| heeds.heed(&name, &news, health);
        // This service, not the engine, retries for waiting threads.
        let engine = Arc::new(Engine::start(tier, Duration::ZERO, heed)?);
        area.bells.store(THREADS as u32, Release);
        let spawn = |number: usize| {
            let (state, engine) = (state.clone(), engine.clone());
            std::thread::Builder::new().stack_size(STACK).spawn(move || {
                sys::bind_to_cpus(number, THREADS);
                // Others wait for them.
                sys::shorten_slice();
                state.serve(&engine, &area.doorbells[number]);
            })
        };
        let mut service = Service {
            state: state.clone(),
            engine: Some(engine.clone()),
            threads: Vec::new(),
            peak: AtomicU64::new(0),
        };
        for number in 0..THREADS {
            match spawn(number) {
                Ok(thread) => service.threads.push(thread),
                Err(error) => {
                    drop(engine);
                    service.stop();
                    return Err(error);
                }
            }
        }
        show_file(area, &engine);
        // The tier may already be away, and the engine may be finding that out now.
        let mut serves = locked(&state.serves);
        *serves = true;
        area.is_open.store(openness(&engine.health()), Release);
        drop(serves);
        area.server.store(std::process::id(), Release);
        Ok(service)
    }

    /// Cleans up after processes that are gone.
    pub fn sweep(&self) {
        let taken_away = locked(&self.state.left).sweep(self.state.area, Instant::now(), Who::of);
        let mut holds = self.state.lock();
        taken_away.iter().for_each(|(pid, batch)| holds.forgo(*pid, *batch));
        let free = holds.sweep(&Processes);
        drop(holds);
        if let Some(engine) = &self.engine {
            self.state.let_go(engine, free);
            self.peak.fetch_max(engine.room().used, Relaxed);
        }
    }

    /// Tells the user about changes in the tier's state.
    pub fn tell(&self) {
        let words = std::mem::take(&mut *locked(&self.state.words));
        words.iter().for_each(|text| say(text));
    }

    /// The figures so far.
    pub fn figures(&self) -> Figures {
        let Some(engine) = &self.engine else { return Figures::default() };
        let (counters, area) = (engine.counters(), self.state.area);
        Figures {
            target: engine.name().to_owned(),
            batches_put: counters.put.load(Relaxed),
            bytes_put: counters.put_bytes.load(Relaxed),
            reads: counters.got.load(Relaxed) + area.direct_reads.load(Relaxed),
            bytes_read: counters.got_bytes.load(Relaxed) + area.direct_bytes.load(Relaxed),
            direct_reads: area.direct_reads.load(Relaxed),
            fault_us: fault_times(&area.fault_histogram, &area.fault_max_ns),
            batches_deleted: counters.deleted.load(Relaxed),
            bytes_peak: self.peak.load(Relaxed),
            troubles: counters.troubles.load(Relaxed),
            health: match engine.health() {
                Health::Open => "open",
                Health::Full => "full",
                Health::Away(_) => "away",
                Health::Unfit(_) => "unfit",
            },
            room_bytes: Some(engine.room().most).filter(|most| *most != u64::MAX),
        }
    }

    /// The program has ended. If other processes of its tree live on and hold something, a process is left
    /// behind that serves them until they end.
    pub fn end(self) {
        // By now all remaining processes of the tree are children of this process. Batches set aside for a
        // child that never came are needed by no process.
        self.leave(|_| sys::has_children());
    }

    fn leave(mut self, is_needed: impl FnOnce(&State) -> bool) {
        self.sweep();
        let area = self.state.area;
        let Some((tier, left)) = self.stop() else { return };
        // From here on no more batches can come to be held.
        if !is_needed(&self.state) || self.state.must_end.load(Acquire) {
            area.server.store(0, Release);
            if let (1.., Some(at)) = (left.len(), tier.left_at()) {
                say(&format!(
                    "{}: {} batches of this run could not be deleted: {at}",
                    tier.name(),
                    left.len()
                ));
            }
            return;
        }
        let state = self.state.clone();
        match sys::fork_aside() {
            Ok(sys::Fork::Child) => {
                sys::become_daemon();
                let Ok(service) = Self::go_on(state, tier) else {
                    area.server.store(0, Release);
                    sys::exit_now(1)
                };
                service.delete(left);
                // A process that was only just started is not known yet.
                let begin = Instant::now();
                while service.state.is_needed() || begin.elapsed() < STARTS {
                    if sys::is_asked_to_end(LOOK) {
                        let all = service.state.lock().end();
                        service.delete(all);
                        service.state.must_end.store(true, Release);
                        break;
                    }
                    service.sweep();
                }
                service.leave(State::is_needed);
                sys::exit_now(0);
            }
            // This happens before this process is gone.
            Ok(sys::Fork::Parent(child)) => {
                area.server.store(child.as_raw() as u32, Release);
                // It belongs to the child now.
                std::mem::forget(tier);
            }
            Err(error) => {
                area.server.store(0, Release);
                say(&format!(
                    "processes with spilled memory may still run, and nothing can restore that memory ({}): they will be terminated when they touch it",
                    error.desc()
                ));
            }
        }
    }

    fn delete(&self, batches: Vec<u64>) {
        if let Some(engine) = &self.engine {
            self.state.let_go(engine, batches);
        }
    }

    /// Ends the threads, and returns the tier and the batches that must still be deleted from it. Requests
    /// made meanwhile wait: a successor may come.
    fn stop(&mut self) -> Option<(Box<dyn Tier>, Vec<u64>)> {
        let area = self.state.area;
        self.state.is_quiet.store(true, Release);
        let mut serves = locked(&self.state.serves);
        *serves = false;
        area.is_open.store(0, Release);
        drop(serves);
        self.state.is_ending.store(true, Release);
        for bell in &area.doorbells {
            bell.fetch_add(1, Release);
            sys::futex_wake(bell);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.state.is_ending.store(false, Release);
        // A second owner would be a thread, and all threads have ended.
        Arc::into_inner(self.engine.take()?)?.stop()
    }
}

/// Publishes the file that processes may read themselves, if there is one.
fn show_file(area: &Area, engine: &Engine) {
    let shown = engine.file().and_then(|file| {
        let it = file.metadata().ok()?;
        // The device in the form of the kernel's statx: major and minor.
        let device = stat::major(it.dev()) | stat::minor(it.dev()) << 32;
        Some((file.as_raw_fd() as u32, [it.ino(), device]))
    });
    let (number, id) = shown.unwrap_or_default();
    area.file_id.iter().zip(id).for_each(|(word, value)| word.store(value, Relaxed));
    area.file.store(number, Release);
}

/// All processes, as the kernel knows them.
struct Processes;

impl Outside for Processes {
    fn is_gone(&self, pid: u32) -> bool {
        who::is_gone(pid)
    }

    fn who(&self, pid: u32) -> Option<Who> {
        Who::of(pid)
    }

    fn children(&self, pid: u32) -> Option<Vec<u32>> {
        who::children(pid)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scarcity(room: Room) -> u32 {
    match room.used {
        used if used > room.most / 8 * 7 => scarce::VERY,
        used if used > room.most / 4 * 3 => scarce::RATHER,
        _ => scarce::NOT,
    }
}

/// Answers a request; `false` if no process waits for the answer any more.
fn answer_with(area: &Area, number: usize, busy: Word, what: u32) -> bool {
    let post = &area.posts[number];
    post.answer.store(what, Relaxed);
    let is_awaited = post.change(busy, busy.with(state::ANSWERED));
    if is_awaited {
        sys::futex_wake(post.futex());
    } else if area.free(number, busy.left()) {
        sys::futex_wake(&area.freed);
    }
    is_awaited
}

/// Reports that a request without a result is done, by freeing its slot: the process that asked may be
/// stopped, and must not keep the slot.
fn answer_by_freeing(area: &Area, number: usize, busy: Word) {
    let _ = area.free(number, busy) || area.free(number, busy.left());
    sys::futex_wake(area.posts[number].futex());
    sys::futex_wake(&area.freed);
}

/// The tier's health, as processes are told about it.
fn openness(health: &Health) -> u32 {
    match health {
        Health::Open => open::YES,
        Health::Away(_) => open::AWAY,
        Health::Full | Health::Unfit(_) => open::NO,
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Holds> {
        locked(&self.holds)
    }

    /// Whether any process may need the stored data, or may spill data later.
    fn is_needed(&self) -> bool {
        let waits = |post: &Post| {
            let now = post.load();
            now.state() != state::FREE && now.pid() != NOBODY && !who::is_gone(now.pid())
        };
        self.lock().any() || self.area.posts.iter().any(waits)
    }

    fn heed(&self, name: &str, news: &Mutex<News>, health: &Health) {
        let serves = locked(&self.serves);
        if *serves {
            self.area.is_open.store(openness(health), Release);
        }
        drop(serves);
        let is_news = locked(news).is_news(health);
        if !is_news || self.is_quiet.load(Acquire) {
            return;
        }
        locked(&self.words).push(match health {
            Health::Open => format!("{name} accepts spilled data again"),
            Health::Full => format!("{name} is full: nothing more is spilled until there is room"),
            Health::Away(why) => format!(
                "{name} does not answer ({why}): nothing more is spilled, and threads that touch spilled memory wait"
            ),
            Health::Unfit(why) => format!("nothing more is spilled to {name}: {why}"),
        });
    }

    fn serve(self: &Arc<Self>, engine: &Arc<Engine>, bell: &AtomicU32) {
        let area = self.area;
        loop {
            let seen = bell.load(Acquire);
            let (mut found, mut is_put_off, now) = (false, false, sys::now_ns());
            // Requests for which threads wait are at the end.
            for number in (0..POSTS).rev() {
                let post = &area.posts[number];
                let asked = post.load();
                if asked.state() != state::ASKED {
                    continue;
                }
                if self.again[number].load(Relaxed) > now {
                    is_put_off = true;
                    continue;
                }
                // A tier that is away must not keep all threads busy: a fork or a new program waits for an
                // answer, too.
                let is_get = matches!(post.kind.load(Relaxed), kind::GET | kind::TRY);
                // Nor may each of these hold up the end: the successor serves them.
                if is_get && self.is_ending.load(Acquire) {
                    continue;
                }
                if is_get && self.getting.fetch_add(1, AcqRel) >= GETTING {
                    self.getting.fetch_sub(1, AcqRel);
                    continue;
                }
                let busy = asked.with(state::BUSY);
                if post.change(asked, busy) {
                    found = true;
                    self.answer(engine, number, busy);
                }
                if is_get {
                    self.getting.fetch_sub(1, AcqRel);
                }
            }
            if self.is_ending.load(Acquire) {
                return;
            }
            if !found {
                sys::futex_wait(bell, seen, if is_put_off { AGAIN } else { Duration::from_secs(3600) });
            }
        }
    }

    fn answer(self: &Arc<Self>, engine: &Arc<Engine>, number: usize, busy: Word) {
        let area = self.area;
        let post = &area.posts[number];
        let (pid, batch, from) = (busy.pid(), post.batch.load(Relaxed), post.from.load(Relaxed));
        let len = (post.len.load(Relaxed) as usize).min(BUFFER);
        match post.kind.load(Relaxed) {
            kind::PUT => {
                area.scarce.store(scarcity(engine.room()), Relaxed);
                let mut bytes = vec![0; len];
                // SAFETY: `len` bytes of the request slot's buffer, which is mapped as long as the area.
                // Other processes of the tree could write there meanwhile: any bytes are valid.
                unsafe { std::ptr::copy_nonoverlapping(area.buffer(number), bytes.as_mut_ptr(), len) };
                let state = self.clone();
                engine.put(batch, Arc::new(bytes), move |result| {
                    let place = result.as_ref().ok().copied().flatten();
                    let unit = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NOWHERE);
                    state.area.posts[number].from.store(unit, Relaxed);
                    // Recorded as held before it is answered: from the answer on the process may rely on it.
                    if result.is_ok() {
                        state.lock().add(pid, batch);
                    }
                    let what = if result.is_ok() { answer::DONE } else { answer::LATER };
                    if !answer_with(state.area, number, busy, what) && result.is_ok() {
                        state.lock().forgo(pid, batch);
                    }
                });
            }
            how @ (kind::GET | kind::TRY) => {
                // SAFETY: as above, and the slice is gone before the request is answered.
                let into = unsafe { std::slice::from_raw_parts_mut(area.buffer(number), len) };
                let what = match engine.try_get(batch, from, into) {
                    Ok(()) => answer::DONE,
                    Err(Trouble::Lost) => answer::LOST,
                    Err(_) if how == kind::GET && self.is_patient(post) => {
                        self.put_off(number, busy);
                        return;
                    }
                    Err(_) => answer::AWAY,
                };
                answer_with(area, number, busy, what);
            }
            kind::RELEASE => {
                let numbers = area.buffer(number).cast::<u64>();
                // SAFETY: as above; buffers are page-aligned.
                let numbers: Vec<u64> =
                    (0..len / 8).map(|index| unsafe { numbers.add(index).read() }).collect();
                self.let_go(engine, self.lock().release(pid, &numbers));
                answer_by_freeing(area, number, busy);
            }
            what => {
                let who = Who::of(pid);
                let free = match what {
                    kind::FORK => {
                        self.lock().fork(pid, batch, Instant::now());
                        Vec::new()
                    }
                    kind::CLAIM => self.lock().claim(from, batch, pid, who),
                    kind::FORGO => self.lock().forgo_aside(batch),
                    kind::HERE => self.lock().enter(pid, who),
                    kind::BEGIN => {
                        self.forget_questions_of(pid, number);
                        self.lock().begin(pid, who)
                    }
                    _ => Vec::new(),
                };
                self.let_go(engine, free);
                answer_by_freeing(area, number, busy);
            }
        }
    }

    /// Whether a request may wait longer. The requesting process has the last word: if it or this process was
    /// stopped meanwhile, it asks again.
    fn is_patient(&self, post: &Post) -> bool {
        sys::now_ns().saturating_sub(post.since.load(Relaxed)) < self.patience
    }

    /// The request is tried again some time later, by the server at that time.
    fn put_off(&self, number: usize, busy: Word) {
        self.again[number].store(sys::now_ns() + AGAIN.as_nanos() as u64, Relaxed);
        if !self.area.posts[number].change(busy, busy.with(state::ASKED))
            && self.area.free(number, busy.left())
        {
            sys::futex_wake(&self.area.freed);
        }
    }

    /// The process has become another program, which does not wait for an answer.
    fn forget_questions_of(&self, pid: u32, but: usize) {
        for (number, post) in self.area.posts.iter().enumerate().filter(|(number, _)| *number != but) {
            loop {
                let now = post.load();
                let is_settled = now.pid() != pid
                    || now.state() == state::FREE
                    // A request that is being served is freed when it is done.
                    || now.state() == state::BUSY && post.change(now, now.left())
                    || now.state() != state::BUSY && self.area.free(number, now);
                if is_settled {
                    break;
                }
            }
        }
    }

    fn let_go(&self, engine: &Engine, free: Vec<u64>) {
        free.into_iter().for_each(|batch| engine.delete(batch));
    }
}
