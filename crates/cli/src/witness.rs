//! Tells signals to the whole process group from those to the supervisor alone.
//!
//! `timeout`, runners of CI jobs and `kill -TERM -GROUP` signal the group, so the program
//! has got the signal already when the supervisor would pass it on; `kill -TERM PID`
//! reaches the supervisor only. What the kernel says of the two is the same. So there is
//! one more process in the group that has all signals blocked and does nothing: what is
//! pending there, too, was for all. It need not run for that, so a busy machine changes nothing.
//!
//! `timeout` signals first the supervisor and then the group. So what a parent of the same group
//! sends is held back for a while ([`PARENT`]); what others send, for a moment.
//!
//! Invariant: what is pending there is taken off whenever the supervisor has got the same signal, by
//! whatever way. So what is found pending belongs to what the supervisor has just got.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpgid, getpgrp, getppid};

use crate::machine::status_field;
use crate::sys::{self, Fork};

/// The kernel signals the members of a group one after the other.
const MOMENT: Duration = Duration::from_millis(4);
/// A parent that has signalled the supervisor may go on with the group.
const PARENT: Duration = Duration::from_millis(250);
/// Between two looks.
const STEP: Duration = Duration::from_millis(2);
/// The process has got a CPU after this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the process is told.
struct Orders {
    /// Signals that it is to take off, one bit each.
    signals: AtomicU64,
    given: AtomicU32,
    done: AtomicU32,
}

/// The process. It ends when this is dropped, and with its parent.
pub struct Witness {
    pid: Pid,
    orders: &'static Orders,
}

impl Witness {
    /// Starts it. All signals must be blocked. None if there can be none: then all are passed on.
    pub fn start() -> Option<Self> {
        let orders: &'static Orders = sys::shared_zeroes().ok()?;
        let parent = std::process::id();
        match sys::fork().ok()? {
            Fork::Parent(pid) => Some(Self { pid, orders }),
            Fork::Child => {
                sys::end_with_parent(parent);
                let _ = nix::sys::prctl::set_name(c"memfold-witness");
                sys::close_all_but(&[]);
                let _ = std::env::set_current_dir("/");
                loop {
                    let done = orders.done.load(Relaxed);
                    let given = orders.given.load(Acquire);
                    if given == done {
                        sys::futex_wait(&orders.given, given, Duration::from_secs(3600));
                        continue;
                    }
                    sys::take_pending_signals(orders.signals.load(Relaxed));
                    orders.done.store(given, Release);
                }
            }
        }
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Of signals that the supervisor has got, those that the program has not got by itself; with each is who
    /// sent it. Waits a moment for that.
    pub fn not_for_all(&self, program: Pid, signals: &[(i32, i32)]) -> Vec<i32> {
        let group = getpgrp();
        let is_member = |pid| getpgid(Some(pid)) == Ok(group);
        if !is_member(program) {
            return signals.iter().map(|(number, _)| *number).collect();
        }
        let parent = Some(getppid()).filter(|parent| is_member(*parent)).map(Pid::as_raw);
        let begin = Instant::now();
        let patience = |sender| if Some(sender) == parent { PARENT } else { MOMENT };
        loop {
            let pending = self.pending();
            let alone = signals.iter().filter(|(number, _)| pending & bit(*number) == 0);
            let over = |(_, sender): &(i32, i32)| begin.elapsed() >= patience(*sender);
            if alone.clone().all(over) {
                return alone.map(|(number, _)| *number).collect();
            }
            std::thread::sleep(STEP);
        }
    }

    /// The supervisor has got these signals, and what was to be done about them is done.
    pub fn forget(&self, numbers: &[i32]) {
        let signals = numbers.iter().fold(0, |all, number| all | bit(*number));
        self.orders.signals.store(signals, Relaxed);
        let given = self.orders.given.fetch_add(1, Release) + 1;
        sys::futex_wake(&self.orders.given);
        let begin = Instant::now();
        while self.orders.done.load(Acquire) != given && begin.elapsed() < PATIENCE {
            if sys::has_ended_child(self.pid) {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn pending(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status_field(&status, "ShdPnd:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
    }
}

fn bit(number: i32) -> u64 {
    u32::try_from(number - 1).ok().and_then(|shift| 1u64.checked_shl(shift)).unwrap_or(0)
}

impl Drop for Witness {
    fn drop(&mut self) {
        sys::send_signal(self.pid, nix::libc::SIGKILL);
        let _ = nix::sys::wait::waitpid(self.pid, None);
    }
}
