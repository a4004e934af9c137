//! Threads that serve the questions of the tree's processes: see `memfold_shared::spill`.

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

/// Questions that are answered at the same time; puts are not among them.
const THREADS: usize = 6;
/// Of them, so many wait for a tier at most.
const GETTING: u32 = 4;
const _: () = assert!(THREADS <= BELLS);
const STACK: usize = 256 << 10;
/// Between two looks, at least.
const LOOK: Duration = Duration::from_millis(500);
/// A process that is started is known after so long.
const STARTS: Duration = Duration::from_secs(3);
/// What a tier did not answer is tried again after so long.
const AGAIN: Duration = Duration::from_millis(100);

/// What was spilled, for statistics.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// What people call the tier.
    pub target: String,
    /// Batches that were written.
    pub batches_put: u64,
    /// Bytes of them.
    pub bytes_put: u64,
    /// Reads of parts of batches.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Of `reads`, those that processes did by themselves: of a file.
    pub direct_reads: u64,
    /// How long faults took whose page was spilled.
    pub fault_us: FaultTimes,
    /// Batches that were deleted so far.
    pub batches_deleted: u64,
    /// The most bytes that were found on the tier.
    pub bytes_peak: u64,
    /// Calls of the tier that failed, retries too.
    pub troubles: u64,
    /// How the tier is: open, full, away, unfit.
    pub health: &'static str,
    /// Bytes that may be there at most, if that is known.
    pub room_bytes: Option<u64>,
}

struct State {
    area: &'static Area,
    holds: Mutex<Holds>,
    /// What becomes of posts that nobody does anything with.
    left: Mutex<Left>,
    /// All threads are there, and none is to end: batches are taken as long as the tier takes them.
    serves: Mutex<bool>,
    is_ending: AtomicBool,
    /// Somebody has asked for the end.
    must_end: AtomicBool,
    /// The program has ended: its terminal is others' now.
    is_quiet: AtomicBool,
    /// What is to be said. Whoever finds it out holds up others, and must not wait for a terminal that nobody reads.
    words: Mutex<Vec<String>>,
    /// Threads that wait for a tier.
    getting: AtomicU32,
    /// So long a page is waited for, ns.
    patience: u64,
    /// When what a tier did not answer is tried again, by posts, ns.
    again: [AtomicU64; POSTS],
}

/// See the module.
pub struct Service {
    state: Arc<State>,
    engine: Option<Arc<Engine>>,
    threads: Vec<JoinHandle<()>>,
    /// The most bytes that were found on the tier.
    peak: AtomicU64,
}

impl Service {
    /// Starts the threads. If they can't be, the programs that run already are told that nobody serves: they would wait for it.
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
        // Who waits is looked after here.
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
        // The tier may have gone away already, and the engine may find out just now.
        let mut serves = locked(&state.serves);
        *serves = true;
        area.is_open.store(openness(&engine.health()), Release);
        drop(serves);
        area.server.store(std::process::id(), Release);
        Ok(service)
    }

    /// Looks after what processes have left behind that are gone.
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

    /// Tells the user what has become of the tier.
    pub fn tell(&self) {
        let words = std::mem::take(&mut *locked(&self.state.words));
        words.iter().for_each(|text| say(text));
    }

    /// What was done.
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

    /// The program has ended. If others of its tree live on that hold something, a process is left behind that serves them until they end.
    pub fn end(self) {
        // Whoever lives of it is a child of this process, by now. What was set aside for a child that never came is for nobody.
        self.leave(|_| sys::has_children());
    }

    fn leave(mut self, is_needed: impl FnOnce(&State) -> bool) {
        self.sweep();
        let area = self.state.area;
        let Some((tier, left)) = self.stop() else { return };
        // Now nothing more can come to be held.
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
                // Who has only just been started is not known yet.
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
            // Before this process is gone.
            Ok(sys::Fork::Parent(child)) => {
                area.server.store(child.as_raw() as u32, Release);
                // It is the child's now.
                std::mem::forget(tier);
            }
            Err(error) => {
                area.server.store(0, Release);
                say(&format!(
                    "processes may live on that have spilled memory, and nobody can serve them ({}): they will be ended when they touch it",
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

    /// Ends the threads, and gives the tier back, and what it still has that should be deleted. Who asks meanwhile waits: somebody may come after.
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
        // A second owner would be a thread, and all have ended.
        Arc::into_inner(self.engine.take()?)?.stop()
    }
}

/// Names the file that processes may read by themselves, if there is one.
fn show_file(area: &Area, engine: &Engine) {
    let shown = engine.file().and_then(|file| {
        let it = file.metadata().ok()?;
        // As the kernel's statx has the device: major and minor.
        let device = stat::major(it.dev()) | stat::minor(it.dev()) << 32;
        Some((file.as_raw_fd() as u32, [it.ino(), device]))
    });
    let (number, id) = shown.unwrap_or_default();
    area.file_id.iter().zip(id).for_each(|(word, value)| word.store(value, Relaxed));
    area.file.store(number, Release);
}

/// All of them, as the kernel knows them.
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

/// Answers a question; `false` if nobody waits for it any more.
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

/// Says that something was done that has no result, by making the post free: who asked may be stopped, and must not keep it.
fn answer_by_freeing(area: &Area, number: usize, busy: Word) {
    let _ = area.free(number, busy) || area.free(number, busy.left());
    sys::futex_wake(area.posts[number].futex());
    sys::futex_wake(&area.freed);
}

/// What processes are told of the tier's health.
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

    /// Whether anybody may need something of what there is, or may spill something one day.
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
            Health::Open => format!("{name} takes what is spilled again"),
            Health::Full => format!("{name} is full: nothing more is spilled until there is room"),
            Health::Away(why) => format!(
                "{name} does not answer ({why}): nothing more is spilled, and who needs something back waits for it"
            ),
            Health::Unfit(why) => format!("nothing more is spilled to {name}: {why}"),
        });
    }

    fn serve(self: &Arc<Self>, engine: &Arc<Engine>, bell: &AtomicU32) {
        let area = self.area;
        loop {
            let seen = bell.load(Acquire);
            let (mut found, mut is_put_off, now) = (false, false, sys::now_ns());
            // What threads wait for stands at the end.
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
                // A tier that is away must not keep all threads: a fork or a new program waits for an answer, too.
                let is_get = matches!(post.kind.load(Relaxed), kind::GET | kind::TRY);
                // Nor hold up the end once for each: who comes after serves them.
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
                // SAFETY: `len` bytes of the post's buffer, which is mapped as long as the area. Others of the tree could write there meanwhile: whatever
                // comes of it is bytes.
                unsafe { std::ptr::copy_nonoverlapping(area.buffer(number), bytes.as_mut_ptr(), len) };
                let state = self.clone();
                engine.put(batch, Arc::new(bytes), move |result| {
                    let place = result.as_ref().ok().copied().flatten();
                    let unit = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NOWHERE);
                    state.area.posts[number].from.store(unit, Relaxed);
                    // Held before it is said: from then on the process may count on it.
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
                // SAFETY: as above, and the slice is gone before the post is answered.
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
                // SAFETY: as above; buffers are aligned to pages.
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

    /// Whether a question may wait on. Who asked decides: if he or this process was stopped meanwhile, he asks again.
    fn is_patient(&self, post: &Post) -> bool {
        sys::now_ns().saturating_sub(post.since.load(Relaxed)) < self.patience
    }

    /// A question is asked again some time later, by whoever serves then.
    fn put_off(&self, number: usize, busy: Word) {
        self.again[number].store(sys::now_ns() + AGAIN.as_nanos() as u64, Relaxed);
        if !self.area.posts[number].change(busy, busy.with(state::ASKED))
            && self.area.free(number, busy.left())
        {
            sys::futex_wake(&self.area.freed);
        }
    }

    /// The process has become another program, which waits for no answer.
    fn forget_questions_of(&self, pid: u32, but: usize) {
        for (number, post) in self.area.posts.iter().enumerate().filter(|(number, _)| *number != but) {
            loop {
                let now = post.load();
                let is_settled = now.pid() != pid
                    || now.state() == state::FREE
                    // What is being served is freed when it has been.
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
