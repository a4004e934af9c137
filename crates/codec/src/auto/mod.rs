//! `auto`: chooses a suitable codec for each block, from a list that may change at any time.
//!
//! ```text
//!            look -> class -> what is expected -> trials -> place + form
//!                      ^      of each candidate     |
//!                      `---------- what came of them, per thread
//! ```
//!
//! Adjacent pages are mostly alike, so a codec that suits one suits the next; but a heap has pages of many
//! kinds, in no order. So each thread records, for some classes of blocks that a short look can tell apart,
//! the result of each candidate, and begins with the most promising (see `choice`). If that is a transform
//! for typed data, it estimates the size of the residuals before it tries (see `estimate`). Blocks of noise
//! are recognised by the look alone.
//!
//! Invariants:
//!
//! - Decoding depends neither on the encoder's state nor on any list: a form begins with the place of its
//!   chain in a table that only grows (see `form`). Blocks made with an old list stay readable.
//! - A list or a threshold may change while other threads compress (see `list`).
//! - All state is in the scratch (see `state`), whose size [`Codec::compress_scratch`] returns; nothing is
//!   allocated.
//! - Unlike other codecs, **the form depends on more than the block**: on the earlier use of the scratch, on
//!   the threshold, and on the list. Every form decodes to the same block.

mod choice;
mod cost;
mod estimate;
mod form;
mod list;
mod named;
mod presets;
mod state;

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

pub use list::{ListError, MOST_ENTRIES};
pub(crate) use named::{PLACES as MOST_NAMED, PREFIX, interned};
pub(crate) use presets::PRESETS;

use crate::pipeline::worst_decompress_scratch;
use crate::{Chain, Codec, CodecId, Compressed, Malformed, Scratch, room};
use form::ChainIndex;
use list::List;
use presets::Effort;
use state::State;

/// The first byte of a block that is stored as it is: the place of `copy`.
const COPY: u8 = 0;

/// A chooser with its own list. `auto`, `auto:fast`, `auto:dense` and `auto:max` are four of them.
///
/// ```
/// use memfold_codec::{Auto, Codec, Compressed, ScratchBuf};
/// let auto = Auto::new(&["lz4".parse().unwrap(), "delta:8x2+shuffle:8+zstd:1".parse().unwrap()]).unwrap();
/// let block: Vec<u8> = (0..512_u64).flat_map(|i| (i * i).to_le_bytes()).collect();
/// let mut memory = ScratchBuf::for_codecs([&auto as &dyn Codec], 4096);
/// let (mut scratch, mut form) = (memory.scratch(), [0; 4097]);
/// let Compressed::Fits(size) = auto.compress(&block, &mut form, 4097, &mut scratch) else { panic!() };
/// // The list may be another one now.
/// auto.set_list(&["stride:1".parse().unwrap()]).unwrap();
/// let mut again = [0; 4096];
/// let mut memory = ScratchBuf::with_size(auto.decompress_scratch(4096));
/// auto.decompress(&form[..size], &mut again, &mut memory.scratch()).unwrap();
/// assert!(size < 4096 && again == *block);
/// ```
pub struct Auto {
    name: &'static str,
    list: List,
    /// In 4096ths of a block.
    acceptance: AtomicU16,
    effort: Effort,
}

impl Auto {
    const fn preset(
        name: &'static str,
        names: [&'static [&'static str]; 2],
        version: u32,
        effort: Effort,
    ) -> Self {
        Auto {
            name,
            list: List::known(names, version),
            acceptance: AtomicU16::new(effort.acceptance),
            effort,
        }
    }

    /// A chooser among these chains. It tries as hard as `auto`.
    ///
    /// # Errors
    /// As for [`Auto::set_list`].
    pub fn new(chains: &[Chain]) -> Result<Self, ListError> {
        let auto = Auto {
            name: "auto",
            list: List::new(),
            acceptance: AtomicU16::new(presets::OWN.acceptance),
            effort: presets::OWN,
        };
        auto.set_list(chains)?;
        Ok(auto)
    }

    /// One of `auto:fast`, `auto`, `auto:dense`, `auto:max`.
    pub fn of_name(name: &str) -> Option<&'static Auto> {
        PRESETS.iter().find(|auto| auto.name == name)
    }

    /// The chains to choose from. While nothing has been learned, the first one is tried first.
    pub fn list(&self) -> impl Iterator<Item = Chain> {
        let mut chains = [None; MOST_ENTRIES];
        // Entries beyond the end may be from a longer list that was replaced meanwhile.
        let len = self.list.copy(&mut chains);
        chains.into_iter().take(len).flatten()
    }

    /// Replaces the list. Threads that are compressing continue; each takes the new list for its next block,
    /// and learns anew. Forms of old lists stay readable. If a caller's scratch is too small for the new
    /// list, entries at its end are left out; it must suffice for the first one.
    ///
    /// # Errors
    /// If the list is empty or too long, or the process has used too many chains.
    pub fn set_list(&self, chains: &[Chain]) -> Result<(), ListError> {
        self.list.set(chains)
    }

    /// The acceptance threshold: a result of at most this size ends the search. In 4096ths of the block.
    pub fn threshold(&self) -> u16 {
        self.acceptance.load(Relaxed)
    }

    /// Sets the acceptance threshold, in 4096ths of the block.
    pub fn set_threshold(&self, size: u16) {
        self.acceptance.store(size, Relaxed);
    }
}

/// The table of chains that forms of `auto` refer to, in the order of their places. A program that stores
/// such forms for another process has to store these names with them.
pub fn auto_table() -> impl Iterator<Item = Chain> {
    form::table()
}

/// The chain that made a form, and the chain's result.
pub(crate) fn split(form: &[u8]) -> Option<(Chain, &[u8])> {
    ChainIndex::split(form)
}

impl core::fmt::Debug for Auto {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

impl Codec for Auto {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::AUTO
    }

    /// The block unchanged, after the place of `copy`.
    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(1) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { state::size(&self.list, len) }
    }

    /// What the worst possible chain needs.
    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { worst_decompress_scratch(len) }
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        let state = State::of(&self.list, src.len(), scratch);
        // A form that is not smaller than the block is not worth a place.
        let most = room.min(src.len());
        let acceptance = self.threshold().into();
        match choice::compress(&self.effort, acceptance, src, &mut dst[..most], state.view()) {
            Some(size) => Compressed::Fits(size),
            None if room > src.len() => {
                dst[0] = COPY;
                dst[1..room].copy_from_slice(src);
                Compressed::Fits(room)
            }
            None => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        let (chain, form) = ChainIndex::split(src).ok_or(Malformed)?;
        chain.decompress(form, dst, scratch)
    }
}
