//! The actions that change a browsed tree or leave the browser.

use std::io;

use crate::Error;
use crate::scan::Progress;
use crate::source::Source;

/// The progress of a long operation.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// The number of names scanned, read or deleted so far,
    pub items: u64,
    /// and the bytes that they take.
    pub bytes: u64,
    /// Failures so far.
    pub failures: u64,
    /// The current position.
    pub path: Vec<u8>,
}

impl From<&Progress> for Step {
    fn from(progress: &Progress) -> Self {
        use std::sync::atomic::Ordering::Relaxed;
        Step {
            items: progress.items.load(Relaxed),
            bytes: progress.blocks.load(Relaxed).saturating_mul(crate::entry::BLOCK),
            failures: progress.failures.load(Relaxed),
            path: progress.path.lock().map(|path| path.clone()).unwrap_or_default(),
        }
    }
}

/// What is reported during a deletion.
#[derive(Debug)]
pub enum Event<'e> {
    /// The progress; it may be reported at any rate.
    Step(&'e Step),
    /// Something could not be deleted: the reason, with its path. After [`Control::Go`] the rest is deleted.
    Failed(&'e dyn std::error::Error),
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Continue.
    Go,
    /// End, with [`Error::Stopped`].
    Stop,
}

/// The browsed tree and the possible actions. Failures are shown, and the browser continues with the current
/// state of the source.
pub trait Actions {
    /// The tree.
    fn source(&self) -> &dyn Source;

    /// The reason, if nothing can be deleted.
    fn no_delete(&self) -> Option<&str> {
        Some("Deleting is not possible here.")
    }

    /// The reason, if nothing can be read again.
    fn no_refresh(&self) -> Option<&str> {
        Some("Refreshing is not possible here.")
    }

    /// The reason, if no shell can be run.
    fn no_shell(&self) -> Option<&str> {
        Some("A shell is not possible here.")
    }

    /// Deletes the entry in a slot with everything below it. Other entries of the directory keep their slots.
    fn delete(
        &mut self,
        directory: u32,
        slot: u32,
        progress: &mut dyn FnMut(Event<'_>) -> Control,
    ) -> Result<(), Error> {
        let _ = (directory, slot, progress);
        Err(Error::Stopped)
    }

    /// Reads a directory again with everything below it. The directory and its ancestors keep their numbers.
    fn refresh(&mut self, directory: u32, progress: &mut dyn FnMut(&Step) -> Control) -> Result<(), Error> {
        let _ = (directory, progress);
        Err(Error::Stopped)
    }

    /// Runs a shell in a directory until it exits. Meanwhile the browser does not use the terminal.
    fn shell(&mut self, directory: u32) -> io::Result<()> {
        let _ = directory;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A tree that can only be viewed.
pub struct ReadOnly<'a>(pub &'a dyn Source);

impl Actions for ReadOnly<'_> {
    fn source(&self) -> &dyn Source {
        self.0
    }
}
