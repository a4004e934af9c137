//! What changes a tree that is browsed, or leaves the browser.

use std::io;

use crate::Error;
use crate::scan::Progress;
use crate::source::Source;

/// How far something is that takes long.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// What was scanned, read or deleted so far: names,
    pub items: u64,
    /// and bytes that they take.
    pub bytes: u64,
    /// What could not be.
    pub failures: u64,
    /// Where it is.
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

/// What is told while something is deleted.
#[derive(Debug)]
pub enum Event<'e> {
    /// How far it is. It may come as often as it likes.
    Step(&'e Step),
    /// Something could not be deleted, and why, with its path. [`Control::Go`]: the rest is.
    Failed(&'e dyn std::error::Error),
}

/// What the user says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// It goes on.
    Go,
    /// It ends, with [`Error::Stopped`].
    Stop,
}

/// What is browsed, and what can be done with it. Whatever fails is shown, and the browser goes on with the source as it is then.
pub trait Actions {
    /// The tree.
    fn source(&self) -> &dyn Source;

    /// Why nothing can be deleted, if that is so.
    fn no_delete(&self) -> Option<&str> {
        Some("Deleting is not possible here.")
    }

    /// Why nothing can be read again, if that is so.
    fn no_refresh(&self) -> Option<&str> {
        Some("Refreshing is not possible here.")
    }

    /// Why there is no shell, if that is so.
    fn no_shell(&self) -> Option<&str> {
        Some("A shell is not possible here.")
    }

    /// Deletes the entry of a slot with all below it. Other entries of the directory keep their slots.
    fn delete(
        &mut self,
        directory: u32,
        slot: u32,
        progress: &mut dyn FnMut(Event<'_>) -> Control,
    ) -> Result<(), Error> {
        let _ = (directory, slot, progress);
        Err(Error::Stopped)
    }

    /// Reads a directory again with all below it. It keeps its number, as do those above it.
    fn refresh(&mut self, directory: u32, progress: &mut dyn FnMut(&Step) -> Control) -> Result<(), Error> {
        let _ = (directory, progress);
        Err(Error::Stopped)
    }

    /// Runs a shell in a directory, until it ends. The terminal is free meanwhile.
    fn shell(&mut self, directory: u32) -> io::Result<()> {
        let _ = directory;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A tree that can be looked at, and nothing else.
pub struct ReadOnly<'a>(pub &'a dyn Source);

impl Actions for ReadOnly<'_> {
    fn source(&self) -> &dyn Source {
        self.0
    }
}
