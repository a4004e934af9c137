//! Signals. Those that end the browser are checked between keys, so that the terminal can be restored. So is
//! the signal for a change of the terminal's size.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::flag::{register, register_conditional_default, register_usize};
use signal_hook::low_level::unregister;

/// The handlers' state. The handlers are never removed, because without them the signals would have no effect
/// at all.
#[derive(Debug, Clone)]
struct Hooks {
    /// The signal that arrived.
    came: Arc<AtomicUsize>,
    /// Nothing checks for signals, so they have their default effect.
    is_default: Arc<AtomicBool>,
    /// The size of the terminal has changed.
    resized: Arc<AtomicBool>,
}

static HOOKS: Mutex<Option<Hooks>> = Mutex::new(None);

/// Catches signals while it exists.
#[derive(Debug)]
pub(crate) struct Signals(Hooks);

impl Signals {
    pub fn new() -> io::Result<Self> {
        let mut all = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        let hooks = match &*all {
            Some(hooks) => hooks.clone(),
            None => {
                let hooks =
                    Hooks { came: Arc::default(), is_default: Arc::default(), resized: Arc::default() };
                for signal in [SIGHUP, SIGINT, SIGTERM, SIGQUIT] {
                    register_conditional_default(signal, hooks.is_default.clone())?;
                    register_usize(signal, hooks.came.clone(), signal as usize)?;
                }
                register(SIGWINCH, hooks.resized.clone())?;
                all.insert(hooks).clone()
            }
        };
        hooks.is_default.store(false, Relaxed);
        Ok(Signals(hooks))
    }

    /// The signal that arrived.
    pub fn came(&self) -> Option<i32> {
        match self.0.came.load(Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    /// Whether any signal must be handled.
    pub fn any(&self) -> bool {
        self.0.resized.load(Relaxed) || self.came().is_some()
    }

    /// Whether the size has changed since the last call.
    pub fn resized(&self) -> bool {
        self.0.resized.swap(false, Relaxed)
    }

    /// Forgets signals from keys, which were meant for the program that had the terminal.
    pub fn forget_keys(&self) {
        if matches!(self.came(), Some(SIGINT | SIGQUIT)) {
            self.0.came.store(0, Relaxed);
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.is_default.store(true, Relaxed);
    }
}

/// How long stopping may take. If the program has not stopped by then, it cannot be stopped, for example
/// because there is no shell to continue it.
const SLEEPS: Duration = Duration::from_millis(200);

/// Stops the program and its process group until the shell continues them.
pub(crate) fn sleep() -> io::Result<()> {
    let woken = Arc::new(AtomicBool::new(false));
    let hook = register(SIGCONT, woken.clone())?;
    let asked = Instant::now();
    let sent = kill_current_process_group(Signal::TSTP);
    // Another thread may receive the signal slightly later.
    while sent.is_ok() && !woken.load(Relaxed) && asked.elapsed() < SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    unregister(hook);
    Ok(())
}
