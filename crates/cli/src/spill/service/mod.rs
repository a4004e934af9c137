//! Threads that serve the requests of the tree's processes: see `memfold_shared::spill`.

mod answers;
mod state;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memfold_shared::spill::{Area, BELLS};
use memfold_spill::{Engine, Health, News, Tier};
use nix::sys::stat;

use super::holds::Outside;
use super::who::{self, Who};
use crate::output::failure::say;
use crate::report::seen::Spilling;
use crate::report::times::fault_times;
use crate::settings::spill::Spill;
use crate::sys;
use state::{State, locked, openness};

/// The number of requests that are answered at the same time, not counting puts.
const THREADS: usize = 6;
const _: () = assert!(THREADS <= BELLS);
const STACK: usize = 256 << 10;
/// How long the process that is left behind waits for signals between two sweeps.
const LOOK: Duration = Duration::from_millis(500);
/// After this time, a process that was just started is known.
const STARTS: Duration = Duration::from_secs(3);

/// The service; see the module.
pub struct Service {
    state: Arc<State>,
    engine: Option<Arc<Engine>>,
    threads: Vec<JoinHandle<()>>,
    /// Peak of the bytes found on the tier.
    peak: AtomicU64,
}

impl Service {
    /// Starts the threads. If this fails, clears the server's id, so that running programs do not wait for
    /// one.
    pub fn start(area: &'static Area, tier: Box<dyn Tier>, spill: &Spill) -> io::Result<Self> {
        Self::go_on(Arc::new(State::new(area, spill.patience, spill.most.is_some())), tier)
            .inspect_err(|_| area.server.store(0, Release))
    }

    fn go_on(state: Arc<State>, tier: Box<dyn Tier>) -> io::Result<Self> {
        let area = state.area;
        sys::threads_begin();
        let (name, news) = (tier.name().to_owned(), Mutex::new(News::default()));
        let heeds = state.clone();
        let heed = move |health: &Health| heeds.heed(&name, &news, health);
        // The engine does not retry, because this service does so for waiting threads.
        let engine = Arc::new(Engine::start(tier, Duration::ZERO, heed)?);
        area.bells.store(THREADS as u32, Release);
        let spawn = |number: usize| {
            let (state, engine) = (state.clone(), engine.clone());
            std::thread::Builder::new().stack_size(STACK).spawn(move || {
                sys::bind_to_cpus(number, THREADS);
                // Other threads wait for this one, so it must run promptly.
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
        // The tier may already be unavailable, and the engine may be noticing that right now.
        let mut serves = locked(&state.serves);
        *serves = true;
        area.is_open.store(openness(&engine.health()), Release);
        drop(serves);
        area.server.store(std::process::id(), Release);
        Ok(service)
    }

    /// Cleans up after processes that are gone, and updates the peak.
    pub fn sweep(&self) {
        let taken_away = locked(&self.state.abandoned).sweep(self.state.area, Instant::now(), Who::of);
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
    pub fn figures(&self) -> Spilling {
        let Some(engine) = &self.engine else { return Spilling::default() };
        let (counters, area) = (engine.counters(), self.state.area);
        Spilling {
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

    /// Called when the program has ended. If other processes of its tree live on, leaves a process behind
    /// that serves them until they end.
    pub fn end(self) {
        // By now all remaining processes of the tree are children of this process. Without children, no
        // process needs the batches that were set aside for a child.
        self.leave(|_| sys::has_children());
    }

    fn leave(mut self, is_needed: impl FnOnce(&State) -> bool) {
        self.sweep();
        let area = self.state.area;
        let Some((tier, left)) = self.stop() else { return };
        // From here on, no process can get hold of further batches.
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
                // A process that was just started may not be known yet.
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
            // The successor is announced before this process ends.
            Ok(sys::Fork::Parent(child)) => {
                area.server.store(child.as_raw() as u32, Release);
                // The tier belongs to the child now.
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
    /// made meanwhile wait, because there may be a successor.
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
        // Only threads share the engine, and all threads have ended.
        Arc::into_inner(self.engine.take()?)?.stop()
    }
}

/// Publishes the file that processes may read themselves, if there is one.
fn show_file(area: &Area, engine: &Engine) {
    let shown = engine.file().and_then(|file| {
        let it = file.metadata().ok()?;
        // The device in the form of the kernel's statx: major and minor number.
        let device = stat::major(it.dev()) | stat::minor(it.dev()) << 32;
        Some((file.as_raw_fd() as u32, [it.ino(), device]))
    });
    let (number, id) = shown.unwrap_or_default();
    area.file_id.iter().zip(id).for_each(|(word, value)| word.store(value, Relaxed));
    area.file.store(number, Release);
}

/// Information about processes from the kernel.
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
