//! Calls of processes: a process that finds the limit near wakes the supervisor before its next sample.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use memfold_shared::page::Shared;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sys;

/// The minimum time between two answers to calls.
pub const CALLED: Duration = Duration::from_millis(2);

/// A descriptor that becomes readable when a process calls.
pub fn listen(shared: &'static Shared) -> Option<EventFd> {
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
