//! Tiers: who takes batches.
//!
//! All of them are used by several threads at once; what one call needs for itself (a connection, a buffer) it takes out of a pool
//! and puts back when all went well.

mod claim;
mod file;
mod holder;
mod nbd;
mod redis;
mod space;
mod target;

use std::fmt;
use std::time::Duration;

pub use target::{BadTarget, Target};

/// Takes batches. See the crate's words for what holds.
pub trait Tier: Send + Sync {
    /// Keeps a batch under a number, and returns when it is kept.
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble>;

    /// As `put`, of several: each with its result.
    fn put_all(&self, batches: &[(u64, &[u8])]) -> Vec<Result<(), Trouble>> {
        batches.iter().map(|(batch, bytes)| self.put(*batch, bytes)).collect()
    }

    /// So many are best put with one `put_all`, if there are so many.
    fn puts_at_once(&self) -> usize {
        1
    }

    /// Fills `into` with what stands from `from` on in a batch, for which `put` has returned and `delete` was not called.
    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble>;

    /// The batches are not needed any more. Those that are not there are no trouble.
    fn delete(&self, batches: &[u64]) -> Result<(), Trouble>;

    /// Asks whether it is there, and fit.
    fn probe(&self) -> Result<(), Trouble>;

    /// Does what there is to be done now and then. Called every second at least while the tier answers.
    fn tend(&self) -> Result<(), Trouble> {
        Ok(())
    }

    /// Another process may go on with it: from now on nobody may believe that this one's end is the run's.
    fn pass_on(&self) {}

    /// The run ends: what the tier knows it by goes. Nothing but `get` is called after that.
    fn leave(&self) {}

    /// Whether all that it has is gone with the process, however that ends: then nothing has to be deleted before.
    fn ends_with_process(&self) -> bool {
        false
    }

    /// Where batches that could not be deleted are found, by who wants to remove them; `None` if they need no care.
    fn left_at(&self) -> Option<String> {
        None
    }

    /// The file that batches lie in, if others may read them there by themselves: whole pages, by direct I/O.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// Where a batch begins in that file, in pages of 4096 bytes, from when `put` has returned until `delete` is called.
    fn place(&self, _batch: u64) -> Option<u64> {
        None
    }

    /// What it holds, and how much it may.
    fn room(&self) -> Room;

    /// What people call it: without passwords.
    fn name(&self) -> &str;
}

/// Bytes on a tier.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Those that batches take there.
    pub used: u64,
    /// As much may be used; `u64::MAX` if nobody knows.
    pub most: u64,
}

/// Why a tier did not do what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It does not have that batch, or not all of it: what stood there is lost.
    Lost,
    /// It has no room now.
    Full,
    /// It can't be reached, or did not answer in time. It may come back.
    Away(String),
    /// It must not be used, or not any more: it would not keep what it is given.
    Unfit(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Lost => to.write_str("it does not have any more what was put there"),
            Trouble::Full => to.write_str("it is full"),
            Trouble::Away(why) | Trouble::Unfit(why) => to.write_str(why),
        }
    }
}

impl std::error::Error for Trouble {}

/// How a tier is used: as much as there is, five seconds for an answer and no words unless something else is said.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Bytes that it may take at most.
    pub most: Option<u64>,
    /// An answer that takes longer does not come any more.
    pub deadline: Duration,
    /// Hears what is waited for when it is opened, if that takes long.
    pub told: fn(&str),
}

impl Default for Terms {
    fn default() -> Self {
        Terms { most: None, deadline: Duration::from_secs(5), told: |_| {} }
    }
}

/// A lock that survives a thread that has ended in it.
pub(crate) fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
