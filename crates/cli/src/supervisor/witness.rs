//! Distinguishes signals to the whole process group from signals to the supervisor alone.
//!
//! `timeout`, CI job runners and `kill -TERM -GROUP` signal the group, so the program has already got the
//! signal when the supervisor would pass it on. `kill -TERM PID` reaches only the supervisor. The kernel
//! reports both in the same way. So the group contains one more process, the witness, which blocks all
//! signals and does nothing: a signal that is pending there, too, was sent to the group. The witness need not
//! run for that, so a busy machine makes no difference.
//!
//! `timeout` signals first the supervisor and then the group. So the supervisor holds back signals from a
//! parent in the same group for a while ([`PARENT`]), and signals from others for a moment.
//!
//! Invariant: whenever the supervisor has got a signal, in whatever way, that signal is removed from the
//! witness. So a signal that is pending at the witness belongs to the one that the supervisor has just got.

use std::sync::atomic::Ordering::*;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use memfold_proc::{field, process};
use nix::unistd::{Pid, getpgid, getpgrp, getppid};

use crate::sys::{self, Fork};

/// How long to wait for a signal to the group, because the kernel signals its members one after another.
const MOMENT: Duration = Duration::from_millis(4);
/// How long to wait if the sender is a parent, which may signal the group next.
const PARENT: Duration = Duration::from_millis(250);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(2);
/// How long to wait for the witness to remove signals.
const PATIENCE: Duration = Duration::from_secs(2);

/// Orders to the witness.
struct Orders {
    /// Pending signals that the witness must remove, one bit each.
    signals: AtomicU64,
    given: AtomicU32,
    done: AtomicU32,
}

/// The witness. It ends when this value is dropped, and together with its parent.
pub struct Witness {
    pid: Pid,
    orders: &'static Orders,
}

impl Witness {
    /// Starts the witness. All signals must be blocked. `None` if it cannot be started; then all signals are
    /// passed on.
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

    /// Given the signals that the supervisor has got, with their senders, returns those that the program has
    /// not got itself. Waits a moment to find out.
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

    /// Removes these signals from the witness, because they have been handled.
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
