//! A listener for tests: it raises semaphores as a tracer does, and records which probes fire in its own
//! thread.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

/// There is one listener at a time, since test probes make other probes fire.
static ONE: Mutex<()> = Mutex::new(());

/// The name of a probe, and the arguments with which it fired.
pub(crate) type Fired = (&'static str, Vec<u64>);

std::thread_local! {
    static HEARD: RefCell<Option<Vec<Fired>>> = const { RefCell::new(None) };
}

/// Records the arguments with which a probe fired.
pub(super) fn note(name: &'static str, arguments: &[u64]) {
    HEARD.with_borrow_mut(|heard| heard.iter_mut().for_each(|heard| heard.push((name, arguments.to_vec()))));
}

/// Listens to probes as long as it lives. Probes in other threads fire too, but are not recorded.
pub(crate) struct Listener {
    probes: &'static [&'static str],
    _one: MutexGuard<'static, ()>,
}

impl Listener {
    pub(crate) fn new(probes: &'static [&'static str]) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        HEARD.set(Some(Vec::new()));
        probes.iter().for_each(|name| assert!(super::raise(name, 1), "there is no probe {name}"));
        Listener { probes, _one: one }
    }

    /// What has fired since the last call.
    pub(crate) fn heard(&self) -> Vec<Fired> {
        HEARD.with_borrow_mut(|heard| heard.as_mut().map(std::mem::take)).unwrap_or_default()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.probes.iter().for_each(|name| assert!(super::raise(name, -1)));
        HEARD.set(None);
    }
}
