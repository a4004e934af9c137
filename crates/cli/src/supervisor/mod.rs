//! The supervisor: it stays while the program runs, watches the tree, and collects data for the statistics.
//!
//! It is a loop around one wait: for a signal, for a call of a process because the limit is near, or for the
//! time of the next sample. Samples are far apart while there is room (100 ms) and close together near the
//! limit (10 ms, 3 ms while pages are shared, or 40 ms while nothing changes), so that memory cannot fill the
//! room unnoticed.
//!
//! Its own memory counts towards the limit, so it uses little: only tiny threads, which wait for calls, hand
//! out the shared page, and watch processes without a keeper (`lookout`), and only one growing list, that of
//! the members. With `--spill` there are also the threads and lists of spilling (`spill/`).

mod calls;
mod dying;
mod follow;
pub mod group;
pub mod held;
pub mod lookout;
mod messages;
pub mod pids;
mod sample;
mod tracers;
pub mod tree;
pub mod witness;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_proc::process::{self, Ending};
use memfold_shared::near;
use memfold_shared::page::Shared;
use memfold_shared::spill::Area;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::eventfd::EventFd;
use nix::unistd::Pid;

use crate::report::record::Records;
use crate::report::seen::Seen;
use crate::settings::shared_page::SharedPage;
use crate::spill::service::Service;
use crate::sys;
use crate::sys::signals::{Event, Signals};
use calls::CALLED;
use dying::Dying;
use follow::Follow;
use group::Group;
use lookout::Known;
use messages::Messages;
use pids::Pids;
use tracers::Tracers;
use tree::Tree;
use witness::Witness;

const FAR: Duration = Duration::from_millis(100);
const NEAR: Duration = Duration::from_millis(10);
/// The interval near the limit while pages are shared by fork: every first write to such a page makes a copy,
/// and only the supervisor sees this growth.
const NEAR_SHARED: Duration = Duration::from_millis(3);
/// The interval near the limit while nothing changes, and no more than this, in bytes, is in processes that
/// do not call.
const NEAR_QUIET: Duration = Duration::from_millis(40);
const UNMANAGED: u64 = 4 << 20;
/// Assumed maximum growth of memory, in bytes per second.
const GROWTH: u64 = 4 << 30;

/// Watches one tree.
pub struct Supervisor<'a> {
    shared: &'static Shared,
    program: Pid,
    signals: &'a Signals,
    group: Option<&'a Group>,
    tree: Tree,
    begin: Instant,
    messages: Messages,
    seen: Seen,
    /// The records for a report, if one is wanted.
    records: Option<Box<Records>>,
    /// The limit at the last look, and since when resident memory has exceeded it because it was lowered.
    limit: u64,
    /// Sets the limit if that is `auto`, while the program runs.
    follow: Option<Follow>,
    lowered: Option<Instant>,
    /// The time of the last look, with the resident and logical memory then.
    last: (Instant, u64, u64),
    /// Serves the spill area, if there is one; `swept` is the time of its last sweep.
    service: Option<&'a Service>,
    swept: Instant,
    dying: Dying,
    /// The resident memory at the last sample, and how many samples have found the same.
    quiet: (u64, u32),
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
            messages: Messages::default(),
            seen: Seen::default(),
            records: wants_report.then(|| Box::new(Records::new(begin))),
            limit: page.page.limit_bytes.load(Relaxed),
            follow: Some(Follow::new(begin)),
            lowered: None,
            last: (begin, 0, 0),
            service,
            swept: begin,
            dying: Dying::default(),
            quiet: (0, 0),
            looked: begin,
            pids: Pids::new(begin),
            tracers: Tracers::new(begin),
        }
    }

    /// Makes the supervisor pass results on to the lookout.
    pub fn telling(mut self, known: Arc<Known>) -> Self {
        self.tree.known = Some(known);
        self
    }

    /// Watches the tree until the program ends.
    pub fn watch(mut self, witness: Option<Witness>) -> (Ending, Seen, Option<Box<Records>>) {
        let calls = calls::listen(self.shared);
        self.tree.not_of_it = witness.as_ref().map(Witness::pid);
        let ending = self.wait_for_end(calls.as_ref(), witness.as_ref());
        drop(witness);
        // The kernel may still count what the program held, so nothing is known about what is free.
        self.seen.most_of_others = self.follow.take().map_or(0, |follow| follow.most_of_others);
        self.seen.wall = self.begin.elapsed();
        self.seen.spill = self.service.map(Service::figures);
        let now = Instant::now();
        self.sample(now);
        if let Some(records) = &mut self.records {
            records.drain(self.shared, now, true);
            records.end();
        }
        self.seen.unmanaged = self.tree.unmanaged_count;
        self.seen.forked = self.tree.forks.used || self.shared.processes.load(Relaxed) > 1;
        self.seen.own_resident = process::anonymous(std::process::id() as i32).unwrap_or(0);
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
            // Reap every time, because one SIGCHLD can stand for several children.
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

    /// Passes on signals that arrived here, except those that the program has got itself as a member of the
    /// process group.
    fn pass_on(&self, witness: Option<&Witness>) {
        let mut for_all = Vec::new();
        let mut sent = self.read_signals(&mut for_all);
        while !sent.is_empty() {
            let numbers: Vec<i32> = sent.iter().map(|(number, _)| *number).collect();
            let alone =
                witness.map_or_else(|| numbers.clone(), |witness| witness.not_for_all(self.program, &sent));
            alone.iter().for_each(|number| sys::send_signal(self.program, *number));
            // Signals to the whole group have arrived here by now: a second time, if the sender had also
            // signalled this process alone.
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

    /// Signals sent by processes, with their senders. Signals from the kernel to the whole group go to
    /// `for_all`.
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
        // Round up to a millisecond, because a wait of zero would spin.
        let at_most = PollTimeout::try_from(at_most + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        if nix::poll::poll(&mut wait, at_most).unwrap_or(0) == 0 {
            return false;
        }
        match calls.filter(|_| wait[1].any().unwrap_or(false)) {
            Some(calls) => calls.read().is_ok(),
            None => false,
        }
    }

    /// Collects children that have ended: the program, and adopted orphans of the tree.
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
    fn interval(&mut self, resident: u64, before: Duration) -> Duration {
        let room = self.shared.limit_bytes.load(Relaxed).saturating_sub(resident);
        let is_same = resident.abs_diff(self.quiet.0) < near::QUIET;
        self.quiet = (resident, if is_same { self.quiet.1.saturating_add(1) } else { 0 });
        // Managed processes call when they grow; others that take what is free do not.
        let is_told = self.tree.unmanaged - self.tree.own < UNMANAGED && !Follow::is_on(self.shared);
        let is_quiet = is_told && self.quiet.1 > near::QUIET_LOOKS;
        let near = match () {
            () if self.tree.forks.counted_twice() > 0 => NEAR_SHARED,
            () if is_quiet => NEAR_QUIET,
            () => NEAR,
        };
        let wanted = Duration::from_millis(room.saturating_mul(1000) / GROWTH).clamp(near, FAR);
        wanted.min(before * 2)
    }
}
