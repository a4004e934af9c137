//! Requests to the export: each over a connection from the pool, within a deadline.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

use super::connection::{Connection, Failure};
use super::extents::byte_of;
use super::{NbdTier, UNIT};
use crate::tiers::{Trouble, locked};

/// The most bytes of a trim.
const LONGEST_TRIM: u64 = 64 << 20;

/// The connections.
pub struct Pool {
    pub idle: Vec<Connection>,
    /// The number of connections, idle or in use.
    pub made: usize,
    pub most: usize,
}

impl NbdTier {
    /// Reads from byte `at` on.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.with(Instant::now() + self.deadline, true, |connection, deadline| {
            for (part, at) in into.chunks_mut(self.longest).zip((at..).step_by(self.longest)) {
                // SAFETY: `with` drops a connection that did not answer, and the buffer outlives that.
                unsafe { connection.read(part, at, deadline) }?;
            }
            Ok(())
        })
    }

    /// Makes a request over a connection; a failure says whether it may still be executed. If the connection
    /// was idle and turns out to be broken, perhaps since long ago, a request that may be executed twice is
    /// repeated over a new one.
    pub(super) fn with<R>(
        &self,
        deadline: Instant,
        may_repeat: bool,
        mut work: impl FnMut(&Connection, Instant) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        loop {
            let (connection, is_new) = self.connection(deadline).map_err(Failure::Unsent)?;
            let result = work(&connection, deadline);
            // Requests that only read may be repeated without harm.
            if matches!(result, Err(Failure::Unanswered(_))) && !may_repeat {
                self.is_in_doubt.store(true, SeqCst);
            }
            let mut pool = locked(&self.pool);
            if matches!(result, Ok(_) | Err(Failure::Refused(_) | Failure::Failed(_)))
                && connection.ask(|lib| lib.aio_is_ready)
            {
                pool.idle.push(connection);
                drop(pool);
                self.free.notify_one();
                return result;
            }
            // The idle connections are probably broken, too.
            let idle = std::mem::take(&mut pool.idle);
            pool.made -= 1 + idle.len();
            drop(pool);
            drop((connection, idle));
            self.free.notify_all();
            let again = match &result {
                Err(Failure::Unsent(_)) => true,
                Err(Failure::Unanswered(_)) => may_repeat,
                Ok(_) | Err(Failure::Refused(_) | Failure::Failed(_)) => false,
            };
            if is_new || !again || Instant::now() >= deadline {
                return result;
            }
        }
    }

    /// A connection, and whether it is new.
    fn connection(&self, deadline: Instant) -> Result<(Connection, bool), Trouble> {
        let mut pool = locked(&self.pool);
        loop {
            if let Some(connection) = pool.idle.pop() {
                // A connection that broke while idle would accept a request and never answer.
                if connection.is_quiet() {
                    return Ok((connection, false));
                }
                pool.made -= 1;
                drop(connection);
                continue;
            }
            if pool.made < pool.most {
                pool.made += 1;
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Away("it does not answer".into()));
            }
            pool = self.free.wait_timeout(pool, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pool);
        let made = Connection::open(&self.uri, deadline).and_then(|connection| {
            let size = connection.size()?;
            // A smaller export is a different one, or its data are gone.
            if size < self.size {
                Err(format!("it has {size} bytes now and had {} before", self.size))
            } else {
                Ok((connection, true))
            }
        });
        made.map_err(|why| {
            locked(&self.pool).made -= 1;
            self.free.notify_one();
            Trouble::Away(why)
        })
    }

    /// Writes whole units from byte `at` on. If that is not answered, the units are never used again.
    pub(super) fn write(&self, at: u64, padded: &[u8], deadline: Instant) -> Result<(), Failure> {
        self.is_ours().map_err(Failure::Unsent)?;
        self.with(deadline, false, |connection, deadline| {
            for (part, at) in padded.chunks(self.longest).zip((at..).step_by(self.longest)) {
                // SAFETY: `with` drops a connection that did not answer, and `padded` outlives that.
                unsafe { connection.write(part, at, deadline) }?;
            }
            Ok(())
        })
    }

    /// Trims units, which are free afterwards.
    pub(super) fn trim(&self, first: u64, count: u64) -> Result<(), Failure> {
        if !self.can_trim {
            return Ok(());
        }
        let deadline = Instant::now() + self.deadline;
        let most = LONGEST_TRIM / UNIT;
        for begin in (first..first + count).step_by(most as usize) {
            let count = most.min(first + count - begin);
            self.is_ours().map_err(Failure::Unsent)?;
            self.with(deadline, false, |connection, deadline| {
                connection.trim(byte_of(begin), count * UNIT, deadline)
            })?;
        }
        Ok(())
    }
}
