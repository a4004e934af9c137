//! Options of a device.

pub mod settings;

use std::fmt;
use std::time::Duration;

use memfold_codec::Codec;
use memfold_spill::Target;

use crate::index::leaf::Layout;

/// The largest device: 8 EiB less one byte, so that offsets fit signed numbers everywhere.
pub const MOST_SIZE: u64 = i64::MAX as u64;
/// The least limit: room for the working memory and for some compressed data.
pub const LEAST_LIMIT: u64 = 8 << 20;

/// Options of a device. [`Options::new`] has a default for everything but its size.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of the device.
    pub size: u64,
    /// The most memory that it may take in total, in bytes.
    pub limit: u64,
    /// Compresses pages when they are written.
    pub fast: &'static dyn Codec,
    /// Compresses cold blocks; `None` leaves everything in the fast codec's form.
    pub dense: Option<&'static dyn Codec>,
    /// Pages of a block of the dense tier: 2, 4 or 8.
    pub block_pages: usize,
    /// The most bytes of pages that are kept uncompressed; `None` for a 32nd of the limit.
    pub resident: Option<u64>,
    /// A page that was not used for this long is cold. Detecting that may take twice as long.
    pub cold: Duration,
    /// Takes data that do not compress and were not used for a while and, at the limit, the least used data.
    pub backing: Option<BackingTier>,
    /// Pages with the same content share one copy.
    pub share: bool,
    /// For swap: allocates the index and the working memory at once, and keeps a ballast that is given up when
    /// the system has no more memory. See [`crate::swap`] for what the process must do.
    pub swap: bool,
    /// Receives messages for people about the backing device.
    pub told: fn(&str),
    /// The number of threads that read and write at the same time and have working memory; `None` for one per
    /// CPU.
    pub works: Option<usize>,
}

/// The tier that takes blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingTier {
    /// A directory, a new file, an unused block device, an NBD server, or Redis.
    pub target: Target,
    /// Bytes of it that may be used; `None` for all of a block device or server and, for a file, slightly more
    /// than the size of the device.
    pub size: Option<u64>,
}

impl Options {
    /// A device of `size` bytes, without a limit.
    pub fn new(size: u64) -> Self {
        let codec =
            |name| memfold_codec::codec(name).unwrap_or_else(|_| unreachable!("{name} is in the table"));
        Options {
            size,
            limit: u64::MAX,
            fast: codec("auto:fast"),
            dense: Some(codec("auto:dense")),
            block_pages: 8,
            resident: None,
            cold: Duration::from_secs(5),
            backing: None,
            share: false,
            swap: false,
            told: |_| {},
            works: None,
        }
    }

    pub(crate) fn check(&self) -> Result<Layout, BadOption> {
        if self.size == 0 || self.size > MOST_SIZE {
            return Err(BadOption::Size);
        }
        if self.limit < LEAST_LIMIT {
            return Err(BadOption::Limit);
        }
        if self.works == Some(0) {
            return Err(BadOption::Works);
        }
        Layout::new(self.block_pages).ok_or(BadOption::BlockPages)
    }
}

/// An option with an impossible value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadOption {
    /// The backing device, and why it cannot be used.
    Backing(String),
    /// The size.
    Size,
    /// The limit.
    Limit,
    /// The pages of a block.
    BlockPages,
    /// The number of threads.
    Works,
    /// There is not enough memory for what the device needs from the start.
    OutOfMemory,
}

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadOption::Backing(why) => write!(f, "this cannot be the backing device: {why}"),
            BadOption::Size => write!(f, "the size must be from 1 to {MOST_SIZE} bytes"),
            BadOption::Limit => write!(f, "the limit must be at least {} MiB", LEAST_LIMIT >> 20),
            BadOption::BlockPages => f.write_str("a block must have 2, 4 or 8 pages"),
            BadOption::Works => f.write_str("at least one thread must be able to compress"),
            BadOption::OutOfMemory => {
                f.write_str("there is not enough memory to begin with, or the limit is too small")
            }
        }
    }
}

impl std::error::Error for BadOption {}
