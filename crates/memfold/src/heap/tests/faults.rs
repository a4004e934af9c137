//! Injected errors, for tests: the n-th time that a session makes, changes or frees a node fails, and from
//! then on every free fails.

use std::cell::Cell;

use crate::heap::access::session::Session;
use crate::heap::error::Error;

/// See the module.
#[derive(Default)]
pub struct Faults {
    /// Operations that succeed before one fails; `None`: none fails.
    before: Cell<Option<u64>>,
    frees: Cell<bool>,
}

impl Faults {
    /// The session is about to do something.
    pub fn strike(&self, is_free: bool) -> Result<(), Error> {
        if is_free && self.frees.get() {
            return Err(Error::Pinned);
        }
        let Some(before) = self.before.get() else { return Ok(()) };
        self.before.set(before.checked_sub(1));
        if before == 0 {
            self.frees.set(true);
            return Err(Error::Pinned);
        }
        Ok(())
    }
}

impl Session<'_> {
    /// Makes an operation fail after `before` more of them.
    pub(crate) fn fail_after(&self, before: u64) {
        self.faults.before.set(Some(before));
    }

    /// Ends the injection; returns whether an operation failed.
    pub(crate) fn stop_failing(&self) -> bool {
        self.faults.before.set(None);
        self.faults.frees.replace(false)
    }

    /// The result of `operation` when something fails after `before` operations, and whether something did.
    pub(crate) fn with_fault<R>(&self, before: u64, operation: impl FnOnce() -> R) -> (R, bool) {
        self.fail_after(before);
        let result = operation();
        (result, self.stop_failing())
    }
}
