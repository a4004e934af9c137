//! What can go wrong.

use std::fmt;

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Bytes beyond the end of the device.
    Range,
    /// The limit is reached, and nothing can be made smaller. The content is unchanged, except for pages that the
    /// same call had already written.
    Full,
    /// The stored form of a page is not what was written: memory was damaged.
    Damaged {
        /// The first byte of the page.
        offset: u64,
    },
    /// The backing device did not return a page.
    Backing {
        /// The first byte of the page.
        offset: u64,
        /// True if the tier no longer has the page, or has other data in its place; false if it does not
        /// answer, but may later.
        is_lost: bool,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Range => f.write_str("beyond the end of the device"),
            Error::Full => {
                f.write_str("the limit is reached: trim data that is not needed, or use a larger limit")
            }
            Error::Damaged { offset } => {
                write!(f, "the page at byte {offset} is not as it was written: memory was corrupted")
            }
            Error::Backing { offset, is_lost } => {
                let why = if is_lost { "it no longer has the data" } else { "it does not answer" };
                write!(f, "the page at byte {offset} cannot be read from the backing device: {why}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The corresponding `errno` value.
    pub fn errno(self) -> i32 {
        const EIO: i32 = 5;
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        match self {
            Error::Range => EINVAL,
            Error::Full => ENOSPC,
            Error::Damaged { .. } | Error::Backing { .. } => EIO,
        }
    }
}
