//! Signals: the supervisor must outlive the program, and must forward signals that are meant for the program.
//!
//! The program runs in the supervisor's process group. Signals from the terminal (^C, ^\, hang-up) reach both
//! directly, and the supervisor only has to survive them. The supervisor forwards signals that a process
//! sends to it alone. The sender, the kernel or a process, distinguishes the two kinds. A signal that a
//! process sends to the whole group has reached the program as well, and is not forwarded: see `witness.rs`.
//!
//! All signals are blocked and read from a descriptor, so there are no handlers, and no dispositions that the
//! program could inherit. Stop signals keep their default effect: ^Z stops both, `fg` continues both.

use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The supervisor's side of signals.
pub struct Signals {
    descriptor: SignalFd,
    children: ChildrenKept,
    mask: SigSet,
}

/// Keeps the exit status of children available until dropped. If SIGCHLD is ignored, as a parent may have
/// left it, children vanish together with their exit status.
pub struct ChildrenKept {
    before: SigAction,
}

impl ChildrenKept {
    /// Sets SIGCHLD to its default.
    pub fn new() -> nix::Result<Self> {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler is installed.
        Ok(Self { before: unsafe { sigaction(Signal::SIGCHLD, &default) }? })
    }
}

impl Drop for ChildrenKept {
    fn drop(&mut self) {
        // SAFETY: restores the earlier disposition. This program installs no handlers, so it is "default" or
        // "ignore".
        let _ = unsafe { sigaction(Signal::SIGCHLD, &self.before) };
    }
}

/// The signal mask and the disposition of SIGCHLD that the program will inherit.
#[derive(Clone, Copy)]
pub struct Inherited {
    mask: SigSet,
    child: SigAction,
}

/// A signal that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A child has changed state.
    Child,
    /// A signal to forward, unless the program has received it too: its number and its sender.
    PassOn(i32, i32),
    /// A signal from the kernel, which has sent it to the whole group.
    ForAll(i32),
}

impl Signals {
    /// Blocks signals and opens the descriptor.
    pub fn new() -> nix::Result<Self> {
        let mut wanted = SigSet::all();
        for own in [
            // Faults of this program itself.
            Signal::SIGSEGV,
            Signal::SIGBUS,
            Signal::SIGFPE,
            Signal::SIGILL,
            Signal::SIGABRT,
            Signal::SIGTRAP,
            Signal::SIGSYS,
            // The terminal's stop and continue.
            Signal::SIGTSTP,
            Signal::SIGTTIN,
            Signal::SIGTTOU,
            Signal::SIGCONT,
        ] {
            wanted.remove(own);
        }
        let mut mask = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&wanted), Some(&mut mask))?;
        let descriptor = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { descriptor, children: ChildrenKept::new()?, mask })
    }

    /// The signal mask and the disposition of SIGCHLD that the program will inherit.
    pub fn inherited(&self) -> Inherited {
        Inherited { mask: self.mask, child: self.children.before }
    }

    /// The next relevant signal that has arrived.
    pub fn next(&self) -> Option<Event> {
        let info = self.descriptor.read_signal().ok()??;
        let number = info.ssi_signo as i32;
        let from_process = info.ssi_code <= 0 && info.ssi_pid != std::process::id();
        Some(match number {
            libc::SIGCHLD => Event::Child,
            _ if from_process => Event::PassOn(number, info.ssi_pid as i32),
            _ => Event::ForAll(number),
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Inherited {
    /// Restores the settings that memfold was started with.
    pub fn restore(&self) -> nix::Result<()> {
        // SAFETY: restores the disposition that the process was started with. A program that was just started
        // has no handlers, so this is "default" or "ignore".
        unsafe { sigaction(Signal::SIGCHLD, &self.child) }?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)
    }
}
