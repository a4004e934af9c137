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
//! A [`Disk`] may have any size up to 8 EiB and takes memory only for what was written. Any thread may call
//! anything at any time. Each page is read and written as a whole: a reader sees each page as it was before a
//! concurrent write, or as it is after it. Larger ranges are not atomic.
//!
//! The parts: `leaf` and `stripes` (the index), `resident` and `images` (uncompressed pages and blocks), `read`,
//! `write` (reading and writing), `merge` (the dense tier), `shared` (pages with the same content), `backing` and
//! `spill` (the backing device), `room` (what happens at the limit), `maintenance` (the background thread).

mod backing;
mod budget;
mod disk;
mod error;
mod extents;
#[cfg(feature = "fuse")]
pub mod fuse;
mod images;
mod leaf;
mod maintenance;
mod merge;
mod options;
mod read;
mod resident;
mod room;
pub mod settings;
mod shared;
mod spill;
mod stats;
pub mod status;
mod stripes;
pub mod swap;
#[cfg(test)]
mod tests;
mod works;
mod write;

use std::sync::{Mutex, MutexGuard};

pub use disk::Disk;
pub use error::Error;
pub use extents::Extent;
pub use leaf::PAGE;
pub use maintenance::Maintenance;
pub use options::{BackingTier, BadOption, Options};
pub use stats::Stats;

/// A thread that panics with a lock may leave a change half done. Nobody sees it, because every thread that wants
/// the lock then panics, too. Callers that catch panics turn them into I/O errors; threads that need other locks
/// continue.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| panic!("a thread panicked while it had this lock"))
}
