//! The list of an [`Auto`](super::Auto): which chains it chooses from. It can be changed at any time.
//!
//! There are two rows of chains, and a counter tells which one is in use. A change fills the other row and
//! then increments the counter. Readers never wait: they copy the row in use, and check that the counter is
//! still the same. If it keeps changing, because another thread changes the list again and again, the copy
//! may mix several lists. That does no harm: each entry is a chain of one of them, and every chain has its
//! place in the table before it enters any row.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::form::ChainIndex;
use crate::Chain;

/// The most entries of a list.
pub const MOST_ENTRIES: usize = 256;

/// Why a list was not accepted. The old one remains in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListError {
    /// A list has at least one entry.
    Empty,
    /// A list has at most [`MOST_ENTRIES`].
    TooLong,
    /// The process has used too many different chains; all forms must stay readable.
    TableFull,
    /// Another thread is changing the list.
    Busy,
}

impl core::fmt::Display for ListError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ListError::Empty => "a list of codecs needs an entry",
            ListError::TooLong => "a list of codecs has at most 256 entries",
            ListError::TableFull => "this process has used too many different pipelines",
            ListError::Busy => "the list is being changed by another thread",
        })
    }
}

impl core::error::Error for ListError {}

struct Row {
    len: AtomicU16,
    chains: [AtomicU64; MOST_ENTRIES],
}

impl Row {
    const fn new() -> Self {
        Row { len: AtomicU16::new(0), chains: [const { AtomicU64::new(0) }; MOST_ENTRIES] }
    }
}

pub(super) struct List {
    /// The names in use until a list is set: where `weft` has vector instructions, and elsewhere.
    names: [&'static [&'static str]; 2],
    /// Differs between any two lists of the process. Its lowest bit says which row is in use.
    version: AtomicU32,
    rows: [Row; 2],
    changing: AtomicBool,
}

/// The next version; lower ones belong to lists that are known from the start.
static NEXT: AtomicU32 = AtomicU32::new(FIRST);
const FIRST: u32 = 1 << 10;
/// Added to the version of a list that is known from the start, if the second row of names is in use.
const ELSEWHERE: u32 = 1 << 9;

/// The row of names in use until a list is set: the first where `weft` has vector instructions, otherwise the
/// second.
pub(super) fn place() -> usize {
    usize::from(!crate::codecs::weft::is_fast())
}

impl List {
    /// The list of the chains with these names, which must be valid: where `weft` has vector instructions,
    /// and elsewhere. `version` is below 512, even, and unique.
    pub(super) const fn known(names: [&'static [&'static str]; 2], version: u32) -> Self {
        List {
            names,
            version: AtomicU32::new(version),
            rows: [const { Row::new() }; 2],
            changing: AtomicBool::new(false),
        }
    }

    /// An empty list, to be set.
    pub(super) fn new() -> Self {
        List::known([&[], &[]], NEXT.fetch_add(2, Ordering::Relaxed))
    }

    pub(super) fn version(&self) -> u32 {
        match self.version.load(Ordering::Acquire) {
            known if known < FIRST && place() > 0 => known | ELSEWHERE,
            version => version,
        }
    }

    pub(super) fn set(&self, chains: &[Chain]) -> Result<(), ListError> {
        match chains.len() {
            0 => return Err(ListError::Empty),
            len if len > MOST_ENTRIES => return Err(ListError::TooLong),
            _ => {}
        }
        for &chain in chains {
            ChainIndex::of(chain).ok_or(ListError::TableFull)?;
        }
        // Not a lock to wait for: in the child of a fork, its holder may never come back.
        if self.changing.swap(true, Ordering::Acquire) {
            return Err(ListError::Busy);
        }
        let other = !self.version.load(Ordering::Relaxed) & 1;
        let row = &self.rows[other as usize];
        for (to, chain) in row.chains.iter().zip(chains) {
            to.store(chain.number(), Ordering::Relaxed);
        }
        row.len.store(chains.len() as u16, Ordering::Relaxed);
        self.version.store(NEXT.fetch_add(2, Ordering::Relaxed) & !1 | other, Ordering::Release);
        self.changing.store(false, Ordering::Release);
        Ok(())
    }

    /// Copies the chains and returns how many there are.
    pub(super) fn copy(&self, to: &mut [Option<Chain>; MOST_ENTRIES]) -> usize {
        let mut len = 0;
        for _ in 0..8 {
            let version = self.version.load(Ordering::Acquire);
            let row = &self.rows[(version & 1) as usize];
            len = usize::from(row.len.load(Ordering::Relaxed));
            for (to, chain) in to.iter_mut().zip(&row.chains[..len]) {
                *to = Chain::from_number(chain.load(Ordering::Relaxed));
            }
            core::sync::atomic::fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                break;
            }
        }
        if len == 0 {
            // No list was ever set.
            let names = self.names[place()];
            len = names.len().min(MOST_ENTRIES);
            for (to, name) in to.iter_mut().zip(names) {
                *to = name.parse().ok();
            }
        }
        len
    }
}
