//! Reports deadlocks with tracers. A tracer that attaches to every thread of a process (`py-spy dump`,
//! `strace -f -p`) stops memfold's threads too. If it then reads memory that only those threads can restore,
//! both wait forever. memfold cannot resolve this from outside, but it tells the user which program to end,
//! and what to use instead.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use memfold_proc::process;
use memfold_shared::page::Shared;

use super::tree::Tree;
use crate::output::failure::say;

/// The time between two checks. A tracer is reported after it has waited for at least this long.
const LOOK: Duration = Duration::from_secs(1);
/// The kernel function in which a thread waits for a page from a userfaultfd.
const WAITS_FOR_A_PAGE: &str = "handle_userfault";

/// Looks for tracers that wait for the processes they have stopped.
pub struct Tracers {
    next: Instant,
    /// The threads that waited at the last check, by traced process, and whether they were reported.
    waiting: HashMap<i32, (Waiting, bool)>,
}

/// A thread of a tracer that waits for a page. While it waits for the same page, its count of switches stays
/// the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Waiting {
    tracer: i32,
    tid: i32,
    switches: u64,
}

impl Tracers {
    /// Starts without results.
    pub fn new(now: Instant) -> Self {
        Self { next: now + LOOK, waiting: HashMap::new() }
    }

    /// Checks, if it is time, and reports every tracer that has waited since the last check.
    pub fn look(&mut self, now: Instant, shared: &Shared, tree: &Tree) {
        if now < self.next {
            return;
        }
        self.next = now + LOOK;
        let mut before = std::mem::take(&mut self.waiting);
        let managed = shared.live_slots().filter_map(|slot| tree.pid_of(slot));
        for (pid, waiting) in managed.filter_map(|pid| Some((pid, who_waits(pid)?))) {
            let was = before.remove(&pid).filter(|(who, _)| *who == waiting);
            if was.is_some_and(|(_, is_said)| !is_said) {
                tell(pid, waiting.tracer);
            }
            self.waiting.insert(pid, (waiting, was.is_some()));
        }
    }
}

/// If a tracer has stopped all threads of a process: the thread of that tracer that waits.
fn who_waits(pid: i32) -> Option<Waiting> {
    const STOPPED: u8 = b't';
    if process::stat(pid)?.state != STOPPED {
        return None;
    }
    let tracer = process::tracer(pid)?;
    let tid = process::threads(tracer).find(|tid| process::waits_in(tracer, *tid, WAITS_FOR_A_PAGE))?;
    let all = process::threads(pid).all(|tid| process::thread_state(pid, tid) == Some(STOPPED));
    all.then_some(Waiting { tracer, tid, switches: process::switches(tracer, tid)? })
}

fn tell(pid: i32, tracer: i32) {
    let name = |pid| memfold_escape::shown(&process::name(pid).unwrap_or_default());
    say(&format!(
        "'{0}' (process {tracer}) has stopped every thread of '{1}' (process {pid}), including those of \
         memfold, and reads memory that only they can restore, so both wait forever: end it (kill \
         {tracer}), and use a tool that does not stop the process, such as py-spy dump --nonblocking",
        name(tracer),
        name(pid)
    ));
}
