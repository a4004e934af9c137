//! The lookout: a thread of the supervisor that watches processes without a keeper. It reads the resident
//! size of each process, writes it to the process's slot, and tells the process how near the limit is. It
//! gives a keeper to a process that grows just by touching memory (`doors`).
//!
//! Between looks it sleeps, as keepers do, for the time in which the remaining room could be filled: 1 to 100
//! ms (`memfold_shared::near`). A process with a keeper watches itself. If the supervisor ends before its
//! tree, each remaining process gets a keeper.
//!
//! ```text
//!  slots without a keeper ──(statm)──> resident ──> room ──> call: FAR, NEAR, NOW ──> the library (`begin.rs`)
//!                                                    └─────> doors
//! ```

#[cfg_attr(not(target_arch = "x86_64"), path = "lookout/none.rs")]
mod doors;
mod watched;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memfold_proc::process::{self, Statm};
use memfold_shared::near;
use memfold_shared::page::{SLOTS, Shared, Slot, call, flags, state};

use crate::sys;
use doors::Doors;
use watched::{Wanted, Watched, wanted};

pub use crate::supervisor::lookout::doors::are_possible;

/// Looks may take 1/SHARE of the time.
const SHARE: u32 = 12;
/// If processes can grow by less than this many bytes without calling the library, a look every few ms
/// suffices.
const LITTLE: u64 = 4 << 20;
/// How often peaks are recorded.
const PEAKS: Duration = Duration::from_millis(10);
/// How long memory counts as recently freed.
const LATELY: Duration = Duration::from_millis(500);
/// How long the supervisor, when it ends, tries to give keepers to the remaining processes.
const FAREWELL: Duration = Duration::from_millis(500);

/// Results of the walk of the tree about slots, for the lookout.
pub struct Known {
    /// The id here of a slot's process. A process in its own pid namespace writes its inner id to the slot.
    outer: [AtomicI32; SLOTS],
    /// The image in a slot whose process has executed another program, which is not managed; otherwise 0.
    left: [AtomicU64; SLOTS],
}

impl Known {
    /// Starts without results.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            outer: [const { AtomicI32::new(0) }; SLOTS],
            left: [const { AtomicU64::new(0) }; SLOTS],
        })
    }

    /// Records which process a slot belongs to, and whether that process still runs the program that took the
    /// slot.
    pub fn note(&self, number: usize, slot: &Slot, pid: i32, managed: bool) {
        self.outer[number].store(pid, Relaxed);
        self.left[number].store(if managed { 0 } else { slot.image.load(Relaxed) }, Relaxed);
    }

    fn has_left(&self, number: usize, image: u64) -> bool {
        image != 0 && self.left[number].load(Relaxed) == image
    }
}

/// A handle to the thread.
pub struct Lookout {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Lookout {
    /// Starts the thread. Processes learn that they are watched after the first look. `None` if the thread
    /// cannot be started.
    pub fn start(shared: &'static Shared, known: Arc<Known>) -> Option<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let mut watcher = Watcher::new(shared, known);
        watcher.look();
        let thread = sys::start_thread_that_ends(move || watcher.run(&seen)).ok()?;
        shared.flags.fetch_or(flags::OUTSIDE, Relaxed);
        Some(Self { ends, thread })
    }

    /// Ends the thread. From now on, the remaining processes of the tree watch themselves.
    pub fn end(self) {
        self.ends.store(true, Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

/// A process with a keeper, near the limit.
struct Kept {
    said: u32,
    pid: i32,
    /// `None` if the process is not the expected one.
    statm: Option<Statm>,
}

struct Watcher {
    shared: &'static Shared,
    known: Arc<Known>,
    watched: HashMap<usize, Watched>,
    /// Processes with a keeper, by slot.
    kept: HashMap<usize, Kept>,
    /// Values of `Shared::freed`, with their times.
    freed: VecDeque<(Instant, u64)>,
    doors: Doors,
    cpus: u64,
    tree_before: u64,
    quiet_looks: u32,
    noted: Instant,
}

impl Watcher {
    fn new(shared: &'static Shared, known: Arc<Known>) -> Self {
        Self {
            shared,
            known,
            watched: HashMap::new(),
            kept: HashMap::new(),
            freed: VecDeque::new(),
            doors: Doors::new(),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
            tree_before: 0,
            quiet_looks: 0,
            noted: Instant::now(),
        }
    }

    fn run(&mut self, ends: &AtomicBool) {
        // Processes depend on this thread, so it must run on time.
        sys::shorten_slice();
        sys::hurry_this_thread();
        while !ends.load(Acquire) {
            let begin = sys::cpu_time();
            let next = self.look();
            let cost = sys::cpu_time().saturating_sub(begin);
            std::thread::park_timeout(next.max(cost * SHARE));
        }
        self.say_farewell();
    }

    /// Looks once. Returns the time until the next look.
    fn look(&mut self) -> Duration {
        let shared = self.shared;
        shared.got.store(0, Relaxed);
        self.read_all();
        let limit = shared.limit_bytes.load(Relaxed);
        self.look_for_ends(limit);
        let room = limit.saturating_sub(shared.tree_resident_least());
        shared.room.store(room, Relaxed);
        shared.look_for_floor();
        shared.near.store(u32::from(room < near::near_room(self.cpus)), Relaxed);
        shared.looked_ns.store(sys::now_ns(), Relaxed);
        shared.looks.fetch_add(1, Relaxed);
        let now = Instant::now();
        if now.duration_since(self.noted) >= PEAKS {
            self.noted = now;
            shared.note_peaks();
        }
        self.doors.go_on();
        // Pages that forked processes share may be copied, which changes none of their counters.
        let copies = shared.tree_resident_unshared().saturating_sub(shared.tree_resident_least());
        let could_copy = copies >= shared.floor() && shared.copies_could_exceed();
        let mut may_grow = 0u64;
        let at_once = self.watched.iter().map(|(number, one)| one.at_once(&shared.slots[*number])).sum();
        for (number, one) in &mut self.watched {
            let slot = &shared.slots[*number];
            let unseen = one.untouched.saturating_add(copies.min(one.resident));
            let mut wanted = wanted(shared, (one, slot), (unseen, at_once), room, self.cpus, now);
            // Protecting shared pages takes a while, so it starts before processes write to them.
            if could_copy && wanted.call != call::NOW && one.is_settled(shared, now) {
                wanted = Wanted { call: call::NOW, is_urgent: false };
            }
            slot.call.store(wanted.call, Relaxed);
            may_grow = may_grow.saturating_add(unseen);
            if wanted.call == call::NOW {
                one.send(shared, &mut self.doors, slot, now, wanted.is_urgent);
            }
        }
        self.next_look(room, may_grow)
    }

    /// Near the limit, notices the end of processes with a keeper before the walk of the tree would.
    fn look_for_ends(&mut self, limit: u64) {
        let (shared, now) = (self.shared, Instant::now());
        if shared.tree_resident() + near::start_room(self.cpus) > limit {
            for (number, slot) in shared.used().iter().enumerate() {
                if self.has_just_ended(number, slot) {
                    shared.note_freed(slot);
                    self.kept.remove(&number);
                }
            }
        } else {
            self.kept.clear();
        }
        let freed = shared.freed.load(Relaxed);
        self.freed.push_back((now, freed));
        while self.freed.len() > 1 && now.duration_since(self.freed[1].0) > LATELY {
            self.freed.pop_front();
        }
        shared.freed_lately.store(freed - self.freed[0].1, Relaxed);
    }

    fn has_just_ended(&mut self, number: usize, slot: &Slot) -> bool {
        let said = slot.pid.load(Acquire);
        if said == 0 || slot.keeper.load(Acquire) == 0 || slot.resident.load(Relaxed) == 0 {
            self.kept.remove(&number);
            return false;
        }
        if self.kept.get(&number).is_none_or(|one| one.said != said) {
            let outer = self.known.outer[number].load(Relaxed);
            let pid = if outer > 0 { outer } else { said as i32 };
            let image = slot.image.load(Relaxed);
            let is_it = process::stat(pid).is_some_and(|stat| stat.image.stack == image);
            let statm = is_it.then(|| Statm::open(pid)).flatten();
            self.kept.insert(number, Kept { said, pid, statm });
        }
        let Some(Kept { pid, statm: Some(statm), .. }) = self.kept.get(&number) else { return false };
        let is_empty = match statm.memory() {
            Ok(memory) => memory.is_some_and(|memory| memory.anonymous == 0),
            Err(_) => true,
        };
        // A process whose first thread alone has ended reads as empty, too.
        is_empty && process::has_ended(*pid) && slot.pid.load(Acquire) == said
    }

    fn next_look(&mut self, room: u64, may_grow: u64) -> Duration {
        let tree = self.shared.tree_resident();
        let quiet = tree.abs_diff(self.tree_before) < near::QUIET;
        self.tree_before = tree;
        self.quiet_looks = if quiet { self.quiet_looks.saturating_add(1) } else { 0 };
        let is_slow = self.quiet_looks > near::QUIET_LOOKS || may_grow < LITTLE;
        let fastest = if is_slow && self.doors.is_idle() { near::QUIET_LOOK } else { near::FASTEST_LOOK };
        Duration::from_nanos(near::next_look(room, self.cpus, fastest))
    }

    /// Reads the memory size of each process without a keeper.
    fn read_all(&mut self) {
        let (shared, now) = (self.shared, Instant::now());
        let mut unmeasured = 0;
        for (number, slot) in shared.used().iter().enumerate() {
            let said = slot.pid.load(Acquire);
            if said == 0 {
                self.watched.remove(&number);
                continue;
            }
            let inherited = slot.inherited.load(Relaxed);
            if self.watches(number, slot, said, now) && !self.read(number, slot) {
                self.watched.remove(&number);
            }
            unmeasured += inherited.min(slot.resident.load(Relaxed));
        }
        shared.unmeasured.store(unmeasured, Relaxed);
    }

    /// Whether the process of a slot must be watched. If so, it is in `watched` afterwards.
    fn watches(&mut self, number: usize, slot: &Slot, said: u32, now: Instant) -> bool {
        let image = slot.image.load(Relaxed);
        let alone = slot.keeper.load(Acquire) != 0
            || slot.state.load(Relaxed) != state::WATCHING
            || self.known.has_left(number, image);
        if alone {
            self.watched.remove(&number);
            return false;
        }
        if self.watched.get(&number).is_some_and(|one| one.said == said && one.image == image) {
            return true;
        }
        self.watched.remove(&number);
        let runs = |pid: i32| process::stat(pid).is_some_and(|stat| stat.image.stack == image);
        let outer = self.known.outer[number].load(Relaxed);
        let (pid, refuses) = match () {
            () if image == 0 => return false,
            () if runs(said as i32) => (said as i32, false),
            () if outer > 0 && runs(outer) => (outer, false),
            // The kernel hides which program it runs, so it cannot be traced either, and its own threads must
            // start its keeper.
            () if outer > 0 => (outer, true),
            () => {
                slot.call.store(call::NOW, Relaxed);
                return false;
            }
        };
        let statm = Statm::open(pid);
        let (next_try, in_vain) = (now, 0);
        let one = Watched {
            said,
            image,
            pid,
            statm,
            since: now,
            resident: 0,
            untouched: 0,
            refuses,
            next_try,
            in_vain,
            nobody_since: now,
            told: false,
        };
        self.watched.insert(number, one);
        true
    }

    /// Reads a process's memory size; `false` if the process is gone.
    fn read(&mut self, number: usize, slot: &Slot) -> bool {
        let shared = self.shared;
        let Some(one) = self.watched.get_mut(&number) else { return false };
        let read = |statm: &Statm| statm.memory().ok().flatten();
        let memory = match &one.statm {
            Some(statm) => read(statm),
            None => Statm::open(one.pid).as_ref().and_then(read),
        };
        let Some(memory) = memory else { return false };
        if memory.anonymous == 0 {
            let is_it = slot.keeper.load(Acquire) == 0 && slot.pid.load(Relaxed) == one.said;
            if is_it && process::has_ended(one.pid) {
                shared.note_freed(slot);
            }
            return false;
        }
        (one.resident, one.untouched) =
            (memory.anonymous, memory.writable.saturating_sub(memory.anonymous + near::OWN_UNTOUCHED));
        // A keeper that has just started writes this itself.
        if slot.keeper.load(Acquire) == 0 && slot.pid.load(Relaxed) == one.said {
            slot.resident.store(memory.anonymous, Relaxed);
        }
        true
    }

    fn say_farewell(&mut self) {
        let shared = self.shared;
        shared.flags.fetch_and(!flags::OUTSIDE, Relaxed);
        // A process that is just starting either sees the cleared flag or is seen here
        // (`Runtime::is_watched`).
        fence(SeqCst);
        let begin = Instant::now();
        loop {
            self.read_all();
            self.doors.go_on();
            for (number, one) in &mut self.watched {
                let slot = &shared.slots[*number];
                slot.call.store(call::NOW, Relaxed);
                one.send(shared, &mut self.doors, slot, Instant::now(), false);
            }
            let done = self.watched.values().all(|one| one.refuses) && self.doors.is_idle();
            if done || begin.elapsed() > FAREWELL {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
