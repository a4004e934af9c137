//! One process that is watched from outside: when it needs a keeper, and how it gets one.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use memfold_proc::process::Statm;
use memfold_shared::page::{Shared, Slot, call, state};
use memfold_shared::{door, near};

use super::doors::{Doors, Sent};

/// A process that may grow much just by touching memory gets a keeper near the limit only if it is older than
/// this.
const YOUNG: Duration = Duration::from_millis(50);
/// A process that could fill less than this fraction of the room at once gets no keeper for that.
const PART: u64 = 16;
/// The time until the next try after a thread was sent through a door, or could not be traced.
const AFTER: Duration = Duration::from_millis(100);
/// The time until the next try after no thread was at a suitable place. Threads must get to run in between.
const BETWEEN: Duration = Duration::from_millis(2);
/// The number of failed searches for a running thread after which a sleeping one is accepted.
const IN_VAIN: u32 = 2;
/// After this time without a suitable thread near the limit, that is reported.
const REPORTED: Duration = Duration::from_secs(1);
/// A process that was not tried for this long did not need a keeper meanwhile.
const ANEW: Duration = Duration::from_millis(300);
const UNREACHED: &str = "the limit is near, but its threads are stopped or sleep in system calls that must not be \
    interrupted, such as epoll_wait: its memory is compressed once one of them goes on";

/// One process without a keeper.
pub struct Watched {
    pub said: u32,
    pub image: u64,
    pub pid: i32,
    /// Its `statm`, kept open if there are enough descriptors.
    pub statm: Option<Statm>,
    pub since: Instant,
    pub resident: u64,
    /// Writable memory that it has not touched.
    pub untouched: u64,
    /// It cannot be traced, so its own threads must start its keeper.
    pub refuses: bool,
    /// The earliest time to send a thread of it through a door, and the number of tries without a suitable
    /// thread.
    pub next_try: Instant,
    pub in_vain: u32,
    /// Since when none could be interrupted near the limit, and whether that was reported.
    pub nobody_since: Instant,
    pub told: bool,
}

impl Watched {
    /// Whether the process is neither small nor young.
    pub fn is_settled(&self, shared: &Shared, now: Instant) -> bool {
        self.resident >= shared.least_managed(shared.tasks_wanted.load(Relaxed))
            && now.duration_since(self.since) >= YOUNG
    }

    /// How many bytes one system call could fill.
    pub fn at_once(&self, slot: &Slot) -> u64 {
        self.untouched.min(slot.asked.load(Relaxed))
    }

    /// Tries to give the process a keeper, if it is time to do so.
    pub fn send(&mut self, shared: &Shared, doors: &mut Doors, slot: &Slot, now: Instant, is_urgent: bool) {
        if self.refuses || now < self.next_try {
            return;
        }
        if slot.door.load(Acquire) == door::SANITIZER {
            // The library would report this, but the process's threads may never call it.
            if slot.state.swap(state::STOPPED, Relaxed) != state::STOPPED {
                shared.say(self.said, door::SANITIZED);
            }
            return;
        }
        match doors.send(self.pid, slot, !is_urgent || self.in_vain > IN_VAIN, is_urgent) {
            Sent::Yes => (self.in_vain, self.next_try) = (0, now + AFTER),
            not_now @ (Sent::NotNow | Sent::Nobody) => {
                if not_now == Sent::NotNow || !is_urgent || now.duration_since(self.next_try) > ANEW {
                    self.nobody_since = now;
                }
                self.in_vain = self.in_vain.saturating_add(1);
                self.next_try = now + BETWEEN;
                if !self.told && now.duration_since(self.nobody_since) > REPORTED {
                    self.told = true;
                    shared.say(self.said, UNREACHED);
                }
            }
            Sent::No => self.next_try = now + AFTER,
        }
    }
}

/// What the supervisor tells a process.
pub struct Wanted {
    /// One of [`call`].
    pub call: u32,
    /// The process may grow at once, so a running thread is preferred. Otherwise a sleeping one is accepted,
    /// too.
    pub is_urgent: bool,
}

/// The call for a process that can grow by `unseen` bytes without calling the library. `at_once` is the sum of
/// what the processes that are watched could fill by one system call each.
pub fn wanted(
    shared: &Shared,
    (one, slot): (&Watched, &Slot),
    (unseen, at_once): (u64, u64),
    room: u64,
    cpus: u64,
    now: Instant,
) -> Wanted {
    let limit = shared.limit_bytes.load(Relaxed);
    let may_grow = one.untouched >= near::START_ROOM && now.duration_since(one.since) >= YOUNG;
    let is_large = one.resident >= shared.least_managed(shared.tasks_wanted.load(Relaxed));
    // While tasks are scarce, only large processes get threads.
    let has_tasks = is_large || shared.tasks_wanted.load(Relaxed) == 0;
    if (is_large || may_grow && has_tasks) && room < near::start_room_of(unseen, cpus, limit) {
        return Wanted { call: call::NOW, is_urgent: true };
    }
    if shared.stall_ppm.load(Relaxed) != 0 && one.resident > near::SMALLEST_PROACTIVE && has_tasks {
        return Wanted { call: call::NOW, is_urgent: false };
    }
    // A thread in such a call cannot start the keeper, but a keeper that is there notices its growth.
    let has_part = one.at_once(slot) >= room / PART;
    if (is_large || may_grow && has_tasks) && has_part && near::could_exceed_at_once(at_once, room, limit) {
        return Wanted { call: call::NOW, is_urgent: false };
    }
    let call = if room < near::near_room(cpus) { call::NEAR } else { call::FAR };
    Wanted { call, is_urgent: false }
}
