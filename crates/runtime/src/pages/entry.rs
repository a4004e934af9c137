//! One page's entry: the states of a page, and every change from one to another.
//!
//! ```text
//!                    evict                   compress
//!      Empty ───────────────────> Standby ─────────────> Zero
//!   (resident, or                   │   │
//!    never touched) <──── rescue ───┘   │ compress, reuse
//!        ^  ^  ^                        v           spill
//!        │  │  └────── restore ─── Pinned <─pin── Stored ──────> Spilled ──┐ respill
//!        │  │                        └──unpin, densify─^  │         │  ^───┘
//!        │  └──────────────────────────────────────────── │ ───── restore
//!        └── take (the mapping has gone, or moved) ───────┴── from every state
//! ```
//!
//! What an operation finds in the entry, and what it does:
//!
//! | operation | lock | Empty | Standby | Zero | Stored | Pinned | Spilled |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | touch ([`faults::serving`](crate::faults::serving)) | order, to change | places zeros | `rescue` | `restore` | `pin`, decompress, `restore` | waits for the reader, which resumes it | a fetcher fetches it: `restore` |
//! | evict (`reclaim/evict`) | order | `evict`; `evict_clean` where a clean copy is kept | the resident page is right: dropped, `evict` | the same | the same | the same | the same |
//! | compress (`reclaim/compress`) | order, to change | rescued meanwhile: undone | `compress` or `reuse`; incompressible: `rescue` | - | - | - | - |
//! | densify (`reclaim/dense.rs`) | none | - | - | - | `pin`, `densify` | left alone | - |
//! | spill (`spill/gather.rs`, `out.rs`) | none | restored meanwhile: undone | - | - | `pin`, copy, `unpin`; when acknowledged `spill` | left alone | - |
//! | empty a sparse batch (`spill/rewrite.rs`) | order | undone | - | - | - | - | `respill` |
//! | the store moves a blob (`pages/stored.rs`) | the store's | refused | - | - | `relocate` | refused | - |
//! | unmap, discard (`pages/events/changes.rs`) | order | - | `take`, slot freed | `take` | `take`, blob freed | `take`, readers settled, blob freed | `take`, place released |
//! | move (`pages/events/changes.rs`) | order | - | `take`, `put` | the same | the same, with its new owner | readers settled, then the same | `take`, `put` |
//! | fork of a prepared process (`process/fork`, with a table of what becomes of a page) | order | - | unchanged; handlers place pages and note that in the journal (`journal.rs`) | the same | the same | the same | the same |
//! | fork that was not prepared (`process/fork/children.rs`) | order | - | copied for the child | zeros | `pin`, decompress, `unpin` | read as it is | fetched |
//! | child that cannot page (`process/fork/inherit.rs`) | alone | - | written back, `rescue` | the same | the same | the same | the same |
//!
//! Invariants:
//! - An entry is changed under the order lock (see `order.rs`), except by `pin`, `unpin`, `densify`,
//!   `spill` and `relocate`. Those are single compare-exchanges that fail if the entry has changed.
//! - A page whose entry is not `Empty` is not present in its mapping, unless the process was just forked
//!   (`journal.rs`).
//! - A blob is freed only by the thread that has taken its reference out of the entry.

use core::sync::atomic::{AtomicU64, Ordering::*};

use memfold::store::Ref;

use crate::spill::batches::SpillLocation;

/// The state that an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Resident or never touched.
    Empty,
    /// On standby in this slot.
    Standby(u32),
    /// A page of zeros.
    Zero,
    /// In the store.
    Stored(Ref),
    /// In the store, being read.
    Pinned(Ref),
    /// On a tier.
    Spilled(SpillLocation),
}

const PIN: u64 = 1 << 63;
const STANDBY: u64 = 1 << 62;
const ZERO: u64 = 1 << 61;

impl State {
    /// The state as a number: 0 is `Empty`.
    pub fn to_bits(self) -> u64 {
        match self {
            State::Empty => 0,
            State::Standby(slot) => STANDBY | u64::from(slot),
            State::Zero => ZERO,
            State::Stored(found) => found.to_bits(),
            State::Pinned(found) => PIN | found.to_bits(),
            State::Spilled(spot) => ZERO | spot.to_bits(),
        }
    }

    /// The state that such a number stands for.
    pub fn from_bits(raw: u64) -> Self {
        if raw == 0 {
            return State::Empty;
        }
        if raw & STANDBY != 0 {
            return State::Standby(raw as u32);
        }
        if raw & ZERO != 0 {
            return SpillLocation::from_bits(raw & !ZERO).map_or(State::Zero, State::Spilled);
        }
        match Ref::from_bits(raw & !PIN) {
            Some(found) if raw & PIN != 0 => State::Pinned(found),
            Some(found) => State::Stored(found),
            None => State::Empty,
        }
    }
}

/// The entry of a page, as a number of 64 bits. 0, which fresh memory holds, is [`State::Empty`].
#[repr(transparent)]
pub struct Entry(AtomicU64);

impl Entry {
    /// The state it records.
    pub fn load(&self) -> State {
        State::from_bits(self.0.load(Acquire))
    }

    /// Only under the order lock.
    pub(super) fn store(&self, state: State) {
        self.0.store(state.to_bits(), Release);
    }

    /// Changes the state from `from` to `to`. Fails if it is not `from`.
    pub(super) fn replace(&self, from: State, to: State) -> bool {
        self.0.compare_exchange(from.to_bits(), to.to_bits(), AcqRel, Relaxed).is_ok()
    }

    /// The page was moved to standby. Under the order lock.
    pub fn evict(&self, id: u32) {
        self.store(State::Standby(id));
    }

    /// A clean page with this blob was dropped. Under the order lock.
    pub fn evict_clean(&self, name: Ref) {
        self.store(State::Stored(name));
    }

    /// The page is resident again, copied back from standby. Under the order lock.
    pub fn rescue(&self) {
        self.store(State::Empty);
    }

    /// The page on standby was compressed, with `to` as the result. Under the order lock.
    pub fn compress(&self, id: u32, to: State) -> bool {
        debug_assert!(matches!(to, State::Stored(_) | State::Zero));
        self.replace(State::Standby(id), to)
    }

    /// The page on standby was clean, and `name` is the blob that was kept for it. Under the order lock.
    pub fn reuse(&self, name: Ref) {
        self.store(State::Stored(name));
    }

    /// From now on the blob is not moved. Only for a worker that has announced that it reads.
    pub fn pin(&self, name: Ref) -> bool {
        self.replace(State::Stored(name), State::Pinned(name))
    }

    /// The blob may be moved again. `false` if the entry was taken meanwhile.
    pub fn unpin(&self, name: Ref) -> bool {
        self.replace(State::Pinned(name), State::Stored(name))
    }

    /// Like `unpin`, but a denser blob replaces the one that was pinned.
    pub fn densify(&self, name: Ref, denser: Ref) -> bool {
        self.replace(State::Pinned(name), State::Stored(denser))
    }

    /// The page is resident again: decompressed (and still pinned), fetched, or zeros. Under the order lock.
    pub fn restore(&self, from: State) -> bool {
        debug_assert!(matches!(from, State::Pinned(_) | State::Zero | State::Spilled(_)));
        self.replace(from, State::Empty)
    }

    /// The tier has acknowledged its copy: the blob is no longer needed.
    pub fn spill(&self, name: Ref, to: SpillLocation) -> bool {
        self.replace(State::Stored(name), State::Spilled(to))
    }

    /// The copy on the tier is now in another batch. Under the order lock.
    pub fn respill(&self, to: SpillLocation) {
        self.store(State::Spilled(to));
    }

    /// The store moves the blob.
    pub fn relocate(&self, from: Ref, to: Ref) -> bool {
        self.replace(State::Stored(from), State::Stored(to))
    }

    /// Empties the entry, whatever its state. A thread that has pinned the blob may still read it: readers
    /// are settled before the blob is freed. Under the order lock.
    pub fn take(&self) -> State {
        loop {
            let state = self.load();
            if state == State::Empty || self.replace(state, State::Empty) {
                return state;
            }
        }
    }

    /// The page has moved here, and brings its state along. Under the order lock.
    pub fn put(&self, state: State) {
        self.store(state);
    }
}
