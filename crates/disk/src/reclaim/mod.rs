//! Making the data smaller: [`merge`] compresses cold pages together, [`spill`] moves blobs to the backing
//! device, [`room`] does both for a thread that has reached the limit, and [`maintenance`] does both in the
//! background and says when the device is full or nearly full.

mod maintenance;
pub mod making;
mod merge;
mod room;
mod spill;

pub use maintenance::Maintenance;
