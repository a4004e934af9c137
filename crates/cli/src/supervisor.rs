//! The supervisor: it stays while the program runs, watches the tree, and collects data for the statistics.
//!
//! It is a loop around one wait: for a signal, for a call of a process because the limit is near, or for the
//! next sample. Samples are far apart while there is room (100 ms) and close together near the limit (10 ms),
//! so that the room cannot be filled faster than this is noticed.
//!
//! Its own memory counts towards the limit, so it uses little: no threads but tiny ones that wait for calls
//! and watch processes without a keeper (`lookout`), and no growing list but that of the members. With
//! `--spill` there are also the threads and lists of spilling (`spill/`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use memfold_shared::page::{self, Shared};
use memfold_shared::spill::Area;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::Pid;

use crate::dying::Dying;
use crate::failure::say;
use crate::group::Group;
use crate::held::{self, Held};
use crate::lookout::Known;
use crate::pids::Pids;
use crate::report::{Gauges, Records};
use crate::settings::SharedPage;
use crate::signals::{Event, Signals};
use crate::spill::{Figures, Service};
use crate::sys::{self, Ending};
use crate::tracers::Tracers;
use crate::tree::Tree;
use crate::witness::Witness;

const FAR: Duration = Duration::from_millis(100);
const NEAR: Duration = Duration::from_millis(10);
/// The same near the limit while pages are shared by fork: every first write to one makes a copy, which only
/// the supervisor sees as growth.
const NEAR_SHARED: Duration = Duration::from_millis(3);
/// Calls by processes are answered at most this often.
const CALLED: Duration = Duration::from_millis(2);
/// How often to look at a message that is being written before it is given up.
const PATIENCE: u32 = 50;
/// How long it may take until a lower limit is held.
const SHRINKS: Duration = Duration::from_secs(5);
/// Time between two looks for unmanaged memory, and before the first.
const LOOK: Duration = Duration::from_millis(150);
/// At most one part in this many of the time is spent on these looks, and only processes of at most this many
/// bytes are examined.
const LOOK_SHARE: u32 = 50;
const LOOKED_AT: u64 = 16 << 30;
/// Time between two looks at data that ended processes have spilled.
const SWEEP: Duration = Duration::from_secs(1);
/// Assumed growth of memory, bytes a second.
const GROWTH: u64 = 4 << 30;

/// What only the supervisor has observed.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Peak memory of the tree, each page counted once.
    pub peak_resident: u64,
    /// Peak logical size of the programs.
    pub peak_logical: u64,
    /// The source of `peak_resident`.
    pub source: &'static str,
    /// If the limit was changed: by how much memory exceeded the limit of the time, at most. Memory above a
    /// limit that was just lowered does not count until it has come below it, or some seconds have passed.
    pub over_changed_limit: Option<u64>,
    /// Integrals over time of resident and logical memory: bytes times seconds.
    pub resident_seconds: f64,
    /// See `resident_seconds`.
    pub logical_seconds: f64,
    /// Number of members that could not be managed.
    pub unmanaged: u64,
    /// The runtime of a member had stopped, or never began.
    pub stopped: bool,
    /// Number of samples taken.
    pub samples: u64,
    /// Members may have been related by fork, so that sums of gauges count pages twice.
    pub forked: bool,
    /// The supervisor's own resident memory at the end.
    pub own_resident: u64,
    /// Wall time of the program.
    pub wall: Duration,
    /// The spilling figures, if there is a tier.
    pub spill: Option<Figures>,
    /// While the limit was exceeded: the part of the largest process that is not managed.
    pub held: Option<Held>,
}

/// Watches one tree.
pub struct Supervisor<'a> {
    shared: &'static Shared,
    program: Pid,
    signals: &'a Signals,
    group: Option<&'a Group>,
    tree: Tree,
    begin: Instant,
    messages_read: u32,
    /// Number of looks in vain at the next message.
    looks: u32,
    seen: Seen,
    /// For a report, if one is wanted.
    records: Option<Box<Records>>,
    /// The limit at the last look, and since when resident memory has exceeded it because it was lowered.
    limit: u64,
    lowered: Option<Instant>,
    /// The last look, with the resident and logical memory at that time.
    last: (Instant, u64, u64),
    /// Serves the spill area, if there is one; `swept` is when it was last attended to.
    service: Option<&'a Service>,
    swept: Instant,
    dying: Dying,
    /// When unmanaged memory was last looked for.
    looked: Instant,
    pids: Pids,
    tracers: Tracers,
}

impl<'a> Supervisor<'a> {
    /// Begins to watch a program that was just started.
    pub fn new(
        page: &SharedPage,
        program: Pid,
        begin: Instant,
        signals: &'a Signals,
        group: Option<&'a Group>,
        wants_report: bool,
        service: Option<&'a Service>,
    ) -> Self {
        let mut tree = Tree::new(page.page);
        tree.area_bytes = page.area.map_or(0, Area::memory);
        tree.ended = wants_report.then(Vec::new);
        Self {
            shared: page.page,
            program,
            signals,
            group,
            tree,
            begin,
            messages_read: 0,
            looks: 0,
            seen: Seen::default(),
            records: wants_report.then(|| Box::new(Records::new(begin))),
            limit: page.page.limit_bytes.load(Relaxed),
            lowered: None,
            last: (begin, 0, 0),
            service,
            swept: begin,
            dying: Dying::default(),
            looked: begin,
            pids: Pids::new(begin),
            tracers: Tracers::new(begin),
        }
    }

    /// Makes it pass information on to the lookout.
    pub fn telling(mut self, known: Arc<Known>) -> Self {
        self.tree.known = Some(known);
        self
    }

    /// Stays until the program ends.
    pub fn watch(mut self, witness: Option<Witness>) -> (Ending, Seen, Option<Box<Records>>) {
        let calls = listen(self.shared);
        self.tree.not_of_it = witness.as_ref().map(Witness::pid);
        let ending = self.wait_for_end(calls.as_ref(), witness.as_ref());
        drop(witness);
        self.seen.wall = self.begin.elapsed();
        self.seen.spill = self.service.map(Service::figures);
        let now = Instant::now();
        self.sample(now);
        if let Some(records) = &mut self.records {
            records.drain(self.shared, now, true);
        }
        self.seen.unmanaged = self.tree.unmanaged_count;
        self.seen.forked = self.tree.forks.used || self.shared.processes.load(Relaxed) > 1;
        self.seen.own_resident = crate::procfs::anonymous(std::process::id() as i32).unwrap_or(0);
        self.seen.source = match self.group {
            Some(_) => "cgroup",
            None if self.tree.forks.used => "page tables",
            None => "counters",
        };
        (ending, self.seen, self.records)
    }

    fn wait_for_end(&mut self, calls: Option<&EventFd>, witness: Option<&Witness>) -> Ending {
        let mut last = Instant::now();
        let mut interval = CALLED;
        loop {
            let called = self.wait(calls, (last + interval).saturating_duration_since(Instant::now()));
            self.pass_on(witness);
            // Reaped every time: one SIGCHLD can stand for several children.
            if let Some(ending) = self.reap() {
                return ending;
            }
            let now = Instant::now();
            let since = now.duration_since(last);
            if since >= interval || called && since >= CALLED {
                if let Some(ending) = self.dying.look(self.program.as_raw(), now) {
                    return ending;
                }
                let resident = self.sample(now);
                interval = self.interval(resident, interval);
                last = now;
            }
        }
    }

    /// Passes on signals that arrived here and that the program, as a member of the process group, has not
    /// got itself.
    fn pass_on(&self, witness: Option<&Witness>) {
        let mut for_all = Vec::new();
        let mut sent = self.read_signals(&mut for_all);
        while !sent.is_empty() {
            let numbers: Vec<i32> = sent.iter().map(|(number, _)| *number).collect();
            let alone =
                witness.map_or_else(|| numbers.clone(), |witness| witness.not_for_all(self.program, &sent));
            alone.iter().for_each(|number| sys::send_signal(self.program, *number));
            // By now signals for all have arrived here as well: once from a sender that had signalled this
            // process before, and once with the others.
            sent = self.read_signals(&mut for_all);
            sent.retain(|(number, _)| !numbers.contains(number) || alone.contains(number));
            if let Some(witness) = witness {
                witness.forget(&numbers);
            }
        }
        if let Some(witness) = witness.filter(|_| !for_all.is_empty()) {
            witness.forget(&for_all);
        }
    }

    /// Signals sent by processes, with their senders. Others go to `for_all`.
    fn read_signals(&self, for_all: &mut Vec<i32>) -> Vec<(i32, i32)> {
        let mut sent = Vec::new();
        while let Some(event) = self.signals.next() {
            match event {
                Event::PassOn(number, sender) => sent.push((number, sender)),
                Event::ForAll(number) => for_all.push(number),
                Event::Child => {}
            }
        }
        sent
    }

    /// Waits for a signal, a call, or the timeout. Returns whether there was a call.
    fn wait(&self, calls: Option<&EventFd>, at_most: Duration) -> bool {
        let own = self.signals.as_fd();
        let mut wait = [
            PollFd::new(own, PollFlags::POLLIN),
            PollFd::new(calls.map_or(own, |c| c.as_fd()), PollFlags::POLLIN),
        ];
        // A fraction of a millisecond rounds up: a wait of zero would spin.
        let at_most = PollTimeout::try_from(at_most + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        if nix::poll::poll(&mut wait, at_most).unwrap_or(0) == 0 {
            return false;
        }
        match calls.filter(|_| wait[1].any().unwrap_or(false)) {
            Some(calls) => calls.read().is_ok(),
            None => false,
        }
    }

    /// Collects children that have ended: the program, and orphans of the tree, whose parent this process has
    /// become.
    fn reap(&self) -> Option<Ending> {
        while let Some((pid, ending)) = sys::reap() {
            if pid == self.program {
                return Some(ending);
            }
        }
        None
    }

    /// The time until the next sample. Samples start close together, so that a short program is not missed,
    /// and the interval at most doubles.
    fn interval(&self, resident: u64, before: Duration) -> Duration {
        let room = self.shared.limit_bytes.load(Relaxed).saturating_sub(resident);
        let near = if self.tree.forks.counted_twice() > 0 { NEAR_SHARED } else { NEAR };
        let wanted = Duration::from_millis(room.saturating_mul(1000) / GROWTH).clamp(near, FAR);
        wanted.min(before * 2)
    }

    /// Looks at the tree once. Returns its resident memory.
    fn sample(&mut self, now: Instant) -> u64 {
        if let Some(service) = self.service.filter(|_| now.duration_since(self.swept) >= SWEEP) {
            self.swept = now;
            service.sweep();
        }
        let before = self.sum_of_gauges();
        let copied = self.shared.copied.load(Relaxed);
        if let Some(records) = &mut self.records {
            records.drain(self.shared, now, false);
        }
        let mut managed = self.tree.sample(now);
        if self.tree.scan_is_due(now) || self.tree.forks.is_due(now) {
            for member in self.tree.scan(now) {
                say(&format!(
                    "'{}' (process {}) cannot be managed ({}): its memory counts towards the limit but is not compressed",
                    member.name, member.pid, member.why
                ));
                if let Some(records) = &mut self.records {
                    records.unmanaged(member.pid, member.why, now);
                }
            }
            // Samples the same members that the scan has seen.
            managed = self.tree.sample(now);
        }
        let shared = self.shared;
        shared.unmanaged_resident.store(self.tree.unmanaged, Relaxed);
        let twice = self.tree.forks.counted_twice();
        shared.sharers.store(self.tree.forks.sharers(), Relaxed);
        let sum = managed.known + self.tree.unmanaged;
        let (resident, certain, correction) = match self.group.and_then(Group::resident) {
            Some(inside) => {
                // The gauges move while the kernel is asked: the correction that subtracts least is right.
                let gauges = before.min(self.sum_of_gauges()) + self.tree.unmanaged;
                let all = inside + self.tree.own;
                (all, all, all as i64 - gauges as i64)
            }
            // A process has just begun or ended: the certain value is the least that it can be.
            None if !self.tree.forks.is_exact() => {
                (sum.saturating_sub(twice), managed.least + self.tree.unmanaged_least, -(twice as i64))
            }
            None => (sum.saturating_sub(twice), sum.saturating_sub(twice), -(twice as i64)),
        };
        shared.resident_correction.store(correction, Relaxed);
        shared.doubt.store(if self.group.is_some() { 0 } else { self.tree.forks.doubt() }, Relaxed);
        shared.copied_seen.store(copied, Relaxed);
        self.pids.tell(now, &shared.tasks_wanted);
        self.seen.stopped |= shared.flags.load(Relaxed) & page::flags::TOLD_TASKS != 0;
        shared.note_peaks();
        self.note(now, certain);
        self.print_messages();
        self.tracers.look(now, shared, &self.tree);
        if let Some(service) = self.service {
            service.tell();
        }
        resident + managed.new
    }

    fn sum_of_gauges(&self) -> u64 {
        self.shared.live_slots().map(|slot| slot.resident.load(Relaxed)).sum()
    }

    fn note(&mut self, now: Instant, resident: u64) {
        let (mut evicted, mut payload, mut overhead, mut standby, mut spilled) = (0, 0, 0, 0, 0);
        for slot in self.shared.live_slots() {
            spilled += slot.spilled.load(Relaxed);
            standby += slot.standby.load(Relaxed);
            evicted += slot.evicted.load(Relaxed);
            payload += slot.payload.load(Relaxed);
            overhead += slot.overhead.load(Relaxed);
            self.seen.stopped |= slot.state.load(Relaxed) == page::state::STOPPED;
        }
        let logical = resident.saturating_sub(payload + overhead) + evicted + spilled;
        self.heed_limit(now, resident);
        self.look_for_held(now, resident);
        let (at, resident_then, logical_then) = std::mem::replace(&mut self.last, (now, resident, logical));
        let seconds = now.duration_since(at).as_secs_f64();
        self.seen.resident_seconds += (resident_then + resident) as f64 / 2.0 * seconds;
        self.seen.logical_seconds += (logical_then + logical) as f64 / 2.0 * seconds;
        self.seen.samples += 1;
        self.seen.peak_resident = self.seen.peak_resident.max(resident);
        self.seen.peak_logical = self.seen.peak_logical.max(logical);
        if let (Some(records), Some(ended)) = (&mut self.records, &mut self.tree.ended) {
            records.ended(ended, now);
            let others = self.tree.unmanaged - self.tree.own;
            let parts = Gauges::parts(resident, others, overhead + self.tree.own, payload, standby);
            records.note(self.shared, &self.tree, now, Gauges { logical, limit: self.limit, ..parts });
        }
    }

    /// The limit is exceeded: finds the part of the largest process that is not managed. The kernel walks its
    /// page tables for that, so this is done seldom, and not at all where it would take seconds.
    fn look_for_held(&mut self, now: Instant, resident: u64) {
        let tolerated = self.limit + crate::limit::tolerance(self.limit);
        if resident <= tolerated || now.duration_since(self.looked) < LOOK {
            return;
        }
        let begin = Instant::now();
        let largest = self.shared.live_slots().max_by_key(|slot| slot.resident.load(Relaxed));
        let largest = largest.filter(|slot| slot.resident.load(Relaxed) < LOOKED_AT);
        let held = largest.and_then(|slot| self.tree.pid_of(slot)).and_then(held::look);
        self.looked = Instant::now() + begin.elapsed() * LOOK_SHARE;
        if held.is_some_and(|held| held.bytes >= self.seen.held.map_or(0, |before| before.bytes)) {
            self.seen.held = held;
        }
    }

    /// The limit may have been changed (`memfold limit`).
    fn heed_limit(&mut self, now: Instant, resident: u64) {
        let limit = self.shared.limit_bytes.load(Relaxed);
        if limit != self.limit {
            let before = self.seen.peak_resident.saturating_sub(self.limit);
            self.seen.over_changed_limit.get_or_insert(before);
            self.lowered = (limit < self.limit).then_some(now);
            self.limit = limit;
        }
        let Some(over) = &mut self.seen.over_changed_limit else { return };
        if self.lowered.is_some_and(|since| resident <= limit || now.duration_since(since) > SHRINKS) {
            self.lowered = None;
        }
        if self.lowered.is_none() {
            *over = (*over).max(resident.saturating_sub(limit));
        }
    }

    /// Prints the messages that processes have left in the ring.
    fn print_messages(&mut self) {
        let head = self.shared.message_head.load(Acquire);
        let oldest = head.wrapping_sub(page::MESSAGES as u32);
        if head.wrapping_sub(self.messages_read) > page::MESSAGES as u32 {
            let lost = oldest.wrapping_sub(self.messages_read);
            say(&format!("{lost} messages came too fast and were lost"));
            self.messages_read = oldest;
        }
        while self.messages_read != head {
            let number = self.messages_read;
            let message = &self.shared.messages[number as usize % page::MESSAGES];
            if message.seq.load(Acquire) != number.wrapping_add(1) {
                // It is still being written; or its writer was ended in the middle.
                self.looks += 1;
                if self.looks <= PATIENCE {
                    return;
                }
                say("a message is lost because its process was killed while writing it");
                (self.looks, self.messages_read) = (0, number.wrapping_add(1));
                continue;
            }
            self.looks = 0;
            let mut buffer = [0; page::MESSAGE_BYTES];
            let text = page::load_text(&message.text, &mut buffer);
            say(&format!("process {}: {text}", message.pid.load(Relaxed)));
            self.messages_read = number.wrapping_add(1);
        }
    }
}

/// A descriptor that becomes readable when a process calls.
fn listen(shared: &'static Shared) -> Option<EventFd> {
    let calls = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).ok()?;
    let ours = calls.as_fd().try_clone_to_owned().ok()?;
    sys::start_thread(move || wait_for_calls(shared, &ours)).ok()?;
    Some(calls)
}

fn wait_for_calls(shared: &Shared, calls: &OwnedFd) {
    let mut seen = shared.pressure.load(Relaxed);
    loop {
        sys::futex_wait(&shared.pressure, seen, Duration::from_secs(3600));
        let now = shared.pressure.load(Relaxed);
        if now != seen {
            seen = now;
            let _ = nix::unistd::write(calls, &1u64.to_ne_bytes());
            // Calls come in bursts; each is answered by one sample.
            std::thread::sleep(CALLED);
        }
    }
}
