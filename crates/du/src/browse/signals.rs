//! Signals that end the browser: they are looked at between keys, so that the terminal is as it was before.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Waits for signals as long as it lives.
#[derive(Debug)]
pub(super) struct Signals {
    came: Arc<AtomicUsize>,
    hooks: Vec<SigId>,
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        let came = Arc::new(AtomicUsize::new(0));
        let mut signals = Signals { came, hooks: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let came = signals.came.clone();
            signals.hooks.push(signal_hook::flag::register_usize(signal, came, signal as usize)?);
        }
        Ok(signals)
    }

    /// The one that came.
    pub fn came(&self) -> Option<i32> {
        match self.came.load(Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            signal_hook::low_level::unregister(hook);
        }
    }
}
