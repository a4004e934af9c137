//! Reading, writing and trimming, page by page.

mod extents;
mod read;
mod share;
mod write;

pub use extents::Extent;

use crate::Error;
use crate::index::leaf::PAGE;

/// The outcome of storing a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Done,
    /// The page no longer has the requested version.
    Changed,
    Full,
}

/// The error for a page whose content is not what was written.
fn damaged(page: u64) -> Error {
    Error::Damaged { offset: page * PAGE as u64 }
}
