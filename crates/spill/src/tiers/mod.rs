//! Tiers: where batches are stored.
//!
//! Several threads use a tier at once. A call takes the resources that it needs alone (a connection, a
//! buffer) from a pool, and puts them back on success.

mod claim;
mod display;
mod file;
mod holder;
mod nbd;
#[cfg(feature = "redis")]
mod redis;
mod space;
mod target;

use std::fmt;
use std::time::Duration;

pub use target::Target;

/// Stores batches. See the crate's documentation for the invariants.
pub trait Tier: Send + Sync {
    /// Stores a batch under a number, and returns when it is stored.
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble>;

    /// As `put`, for several batches: a result for each.
    fn put_all(&self, batches: &[(u64, &[u8])]) -> Vec<Result<(), Trouble>> {
        batches.iter().map(|(batch, bytes)| self.put(*batch, bytes)).collect()
    }

    /// The best number of batches for one `put_all`.
    fn puts_at_once(&self) -> usize {
        1
    }

    /// Fills `into` with the bytes at `from` of a batch for which `put` has returned and `delete` was not
    /// called.
    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble>;

    /// Deletes batches that are no longer needed. It is not an error if a batch does not exist.
    fn delete(&self, batches: &[u64]) -> Result<(), Trouble>;

    /// Checks whether the tier answers, and is fit for use.
    fn probe(&self) -> Result<(), Trouble>;

    /// Periodic work. Called at least once a second while the tier answers.
    fn tend(&self) -> Result<(), Trouble> {
        Ok(())
    }

    /// Another process may continue with the tier: from now on the end of this process must not be taken for
    /// the end of the run.
    fn pass_on(&self) {}

    /// The run ends: the tier forgets it. Only `get` is called after that.
    fn leave(&self) {}

    /// Whether everything on the tier disappears with the process, however that ends; then nothing needs to
    /// be deleted at the end.
    fn ends_with_process(&self) -> bool {
        false
    }

    /// Where a user can find and remove batches that could not be deleted; `None` if that is not necessary.
    fn left_at(&self) -> Option<String> {
        None
    }

    /// The file with the batches, if other processes may read it directly, in whole pages by direct I/O.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// The start of a batch in that file, in pages of 4096 bytes. Valid after `put` has returned and until
    /// `delete` is called.
    fn place(&self, _batch: u64) -> Option<u64> {
        None
    }

    /// How much it holds, and how much it may hold.
    fn room(&self) -> Room;

    /// Its name for messages, without passwords.
    fn name(&self) -> &str;
}

/// The space on a tier, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that batches take there.
    pub used: u64,
    /// The most bytes that may be used; `u64::MAX` if unknown.
    pub most: u64,
}

/// Why a tier did not perform a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It does not have that batch, or not all of it: its content is lost.
    Lost,
    /// It currently has no space.
    Full,
    /// It cannot be reached, or did not answer in time. It may answer later.
    Away(String),
    /// It must not be used (any longer): it would not keep its data.
    Unfit(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Lost => to.write_str("it no longer has the data"),
            Trouble::Full => to.write_str("it is full"),
            Trouble::Away(why) | Trouble::Unfit(why) => to.write_str(why),
        }
    }
}

impl std::error::Error for Trouble {}

/// Why a tier cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTarget(pub String);

impl fmt::Display for BadTarget {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for BadTarget {}

/// The terms of using a tier. Defaults: all of its space, five seconds for an answer, no messages.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The most bytes that it may take.
    pub most: Option<u64>,
    /// How long to wait for an answer.
    pub deadline: Duration,
    /// Called with a message if `open` has to wait long.
    pub told: fn(&str),
}

impl Default for Terms {
    fn default() -> Self {
        Terms { most: None, deadline: Duration::from_secs(5), told: |_| {} }
    }
}

/// Locks a mutex, even if a thread has panicked while it held it.
pub(crate) fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
