//! Distinguishes signals to the whole process group from signals to the supervisor alone.
//!
//! `timeout`, CI job runners and `kill -TERM -GROUP` signal the group, so the program has already got the
//! signal when the supervisor would pass it on; `kill -TERM PID` reaches only the supervisor. The kernel
//! reports both in the same way. So there is one more process in the group, which blocks all signals and does
//! nothing: a signal that is pending there, too, was for all. It need not run for that, so a busy machine
//! makes no difference.
//!
//! `timeout` signals first the supervisor and then the group. So signals from a parent in the same group are
//! held back for a while ([`PARENT`]), and signals from others for a moment.
//!
//! Invariant: a pending signal is removed there whenever the supervisor has got the same signal, in whatever
//! way. So a signal found pending belongs to the one that the supervisor has just got.

use std::sync::atomic::Ordering::*;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use memfold_proc::{field, process};
use nix::unistd::{Pid, getpgid, getpgrp, getppid};

use crate::sys::{self, Fork};

/// The kernel signals the members of a group one after another.
const MOMENT: Duration = Duration::from_millis(4);
/// A parent that has signalled the supervisor may signal the group next.
const PARENT: Duration = Duration::from_millis(250);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(2);
/// After this time the process has got a CPU.
const PATIENCE: Duration = Duration::from_secs(2);

/// Orders to the process.
struct Orders {
    /// Pending signals that it is to remove, one bit each.
    signals: AtomicU64,
    given: AtomicU32,
    done: AtomicU32,
}

/// The process. It ends when this is dropped, and together with its parent.
pub struct Witness {
    pid: Pid,
    orders: &'static Orders,
}

impl Witness {
    /// Starts it. All signals must be blocked. `None` if it cannot be started: then all signals are passed
    /// on.
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

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Of the signals that the supervisor has got, with their senders, those that the program has not got
    /// itself. Waits a moment for that.
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

    /// The supervisor has got these signals, and they have been handled.
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
        let status = process::status(self.pid).unwrap_or_default();
        field(&status, "ShdPnd:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
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
