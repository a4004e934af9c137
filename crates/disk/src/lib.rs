//! A compressed block device in memory.
//!
//! ```text
//!                     ┌── resident: pages that are read again and again, as they are
//!   read, write ──────┤
//!   trim, extents     └── index ──> store ┬ fast tier: pages of 4 KiB, compressed when they are written
//!                         7.5 bytes       │      │ merge: blocks of which no page was used for a while
//!                         for a page      └ dense tier: blocks of 32 KiB
//! ```
//!
//! A [`Disk`] may have any size up to 8 EiB and takes memory only for written data. Any thread may call any
//! method at any time. Each page is read and written as a whole: a reader sees each page as it was before a
//! concurrent write, or as it is after it. Larger ranges are not atomic.
//!
//! The parts: `index` (which blob holds a page), `io` (reading and writing), `memory` (the budget under the
//! limit, and uncompressed copies), `reclaim` (the dense tier, making room at the limit, and the background
//! thread), `backing` (the backing device), `serve` (for programs that export a device).

mod backing;
mod counts;
mod disk;
mod error;
mod index;
mod io;
mod memory;
mod options;
mod reclaim;
mod serve;
mod stats;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard};

pub use disk::Disk;
pub use error::Error;
pub use index::leaf::PAGE;
pub use io::Extent;
pub use options::{BackingTier, BadOption, Options, settings};
pub use reclaim::Maintenance;
#[cfg(feature = "fuse")]
pub use serve::fuse;
pub use serve::{status, swap};
pub use stats::Stats;

/// A thread that panics while it holds a lock may leave a change half done. No other thread sees it, because
/// every thread that takes the lock then panics, too. Callers that catch panics turn them into I/O errors;
/// threads that need other locks continue.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| panic!("a thread panicked while it had this lock"))
}
