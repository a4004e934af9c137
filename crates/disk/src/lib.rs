//! A block device in memory, compressed.
//!
//! ```text
//!                     ┌── resident: pages that are read again and again, as they are
//!   read, write ──────┤
//!   trim, extents     └── index ──> store ┬ fast tier: pages of 4 KiB, compressed when they are written
//!                         7.5 bytes       │      │ merge: blocks of which no page was used for a while
//!                         for a page      └ dense tier: blocks of 32 KiB
//! ```
//!
//! A [`Disk`] may have any size up to 8 EiB and takes memory only for what was written. All calls may come from any thread at
//! any time. Each page is read and written as a whole: who reads while somebody writes sees each page as it was before, or as it is after.
//! What is larger than a page is no such unit.
//!
//! The parts: `leaf` and `stripes` (the index), `resident` and `images` (what is there uncompressed), `read`, `write` (what it says), `merge` (the dense tier),
//! `shared` (pages with the same content), `backing` and `spill` (what memory is too good for), `room` (what is done at the limit), `maintenance` (the thread that does all that beside the users of the device).

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

/// Who panicked with a lock may have left half of a change: nobody sees it, since all who want the lock panic, too. Callers at doors that catch panics make I/O errors
/// of them; what has other locks goes on.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| panic!("a thread panicked while it had this lock"))
}
