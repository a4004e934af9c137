//! Signals: those that end the browser are looked at between keys, so that the terminal is as it was before; so is the one that tells that the terminal has another size.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::flag::{register, register_conditional_default, register_usize};
use signal_hook::low_level::unregister;

/// What they do. It is never taken back, for signals would do nothing then.
#[derive(Debug, Clone)]
struct Hooks {
    /// The one that came.
    came: Arc<AtomicUsize>,
    /// Nobody looks: they do what they do to other programs.
    is_default: Arc<AtomicBool>,
    /// The terminal has another size.
    resized: Arc<AtomicBool>,
}

static HOOKS: Mutex<Option<Hooks>> = Mutex::new(None);

/// Waits for signals as long as it lives.
#[derive(Debug)]
pub(super) struct Signals(Hooks);

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

    /// The one that came.
    pub fn came(&self) -> Option<i32> {
        match self.0.came.load(Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    /// Whether there is anything to be looked at.
    pub fn any(&self) -> bool {
        self.0.resized.load(Relaxed) || self.came().is_some()
    }

    /// Whether the size is another one than when this was asked last.
    pub fn resized(&self) -> bool {
        self.0.resized.swap(false, Relaxed)
    }

    /// Those that keys send were for the program that had the terminal.
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

/// How long it may take until the program sleeps: if it does not by then, it can't, as when no shell is there to wake it.
const SLEEPS: Duration = Duration::from_millis(200);

/// The program, and what it was started with, sleeps until the shell wakes it.
pub(super) fn sleep() -> io::Result<()> {
    let woken = Arc::new(AtomicBool::new(false));
    let hook = register(SIGCONT, woken.clone())?;
    let asked = Instant::now();
    let sent = kill_current_process_group(Signal::TSTP);
    // Another thread may be the one that takes the signal, a little later.
    while sent.is_ok() && !woken.load(Relaxed) && asked.elapsed() < SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    unregister(hook);
    Ok(())
}
