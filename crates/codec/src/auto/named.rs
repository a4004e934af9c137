//! `auto=A/B/C`: choosers with custom lists, by name.
//!
//! The name is the list: names of codecs and pipelines, separated by slashes. It has no comma, since command
//! lines split lists of codecs at commas, and no characters that a shell interprets.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

use super::list::MOST_ENTRIES;
use super::presets::{self, Effort};
use super::{Auto, List};
use crate::{Chain, Codec, CodecId, Compressed, Malformed, Scratch, UnknownCodec};

/// The prefix of every such name.
pub(crate) const PREFIX: &str = "auto=";

/// The longest name: room for a list of [`MOST_ENTRIES`].
const NAME: usize = 32 * MOST_ENTRIES;

/// The most choosers in one process.
pub(crate) const SLOTS: usize = 16;

/// A chooser and its name.
struct Named {
    auto: Auto,
    name: [u8; NAME],
    len: usize,
}

impl Codec for Named {
    fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.len]).unwrap_or_default()
    }

    fn id(&self) -> CodecId {
        self.auto.id()
    }

    fn bound(&self, len: usize) -> usize {
        self.auto.bound(len)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        self.auto.compress_scratch(len)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        self.auto.decompress_scratch(len)
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        self.auto.compress(src, dst, threshold, scratch)
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        self.auto.decompress(src, dst, scratch)
    }
}

struct Slot {
    state: AtomicU8,
    named: UnsafeCell<MaybeUninit<Named>>,
}

const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
const READY: u8 = 2;

// SAFETY: only the thread that took the slot writes its content, and others read it only after that thread
// has made it ready.
unsafe impl Sync for Slot {}

static SLOTTED: [Slot; SLOTS] =
    [const { Slot { state: AtomicU8::new(EMPTY), named: UnsafeCell::new(MaybeUninit::uninit()) } }; SLOTS];

impl Slot {
    fn get(&self) -> Option<&Named> {
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: ready, so written, and never written again.
        Some(unsafe { (*self.named.get()).assume_init_ref() })
    }

    /// Makes a chooser here if the slot is free.
    fn put(&self, name: &str, chains: &[Chain]) -> Option<&Named> {
        self.state.compare_exchange(EMPTY, TAKEN, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let effort: Effort = presets::OWN;
        let auto = Auto { name: "auto", list: List::new(), acceptance: effort.acceptance.into(), effort };
        if auto.set_list(chains).is_err() {
            self.state.store(EMPTY, Ordering::Release);
            return None;
        }
        let mut named = Named { auto, name: [0; NAME], len: name.len() };
        named.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the slot was empty and belongs to this thread alone until it is made ready.
        unsafe { (*self.named.get()).write(named) };
        self.state.store(READY, Ordering::Release);
        self.get()
    }
}

/// The chooser of that name, which lives for ever. As with pipelines, no thread waits for another, and two
/// threads that ask at the same moment may get two.
pub(crate) fn interned(name: &str) -> Result<&'static dyn Codec, UnknownCodec> {
    let entries = name.strip_prefix(PREFIX).filter(|_| name.len() <= NAME).ok_or(UnknownCodec)?;
    if let Some(there) = SLOTTED.iter().filter_map(Slot::get).find(|named| named.name() == name) {
        return Ok(there);
    }
    let (mut chains, mut len) = ([None; MOST_ENTRIES], 0);
    for entry in entries.split('/') {
        *chains.get_mut(len).ok_or(UnknownCodec)? = Some(entry.parse::<Chain>()?);
        len += 1;
    }
    let first = chains[0].ok_or(UnknownCodec)?;
    let chains = chains.map(|chain| chain.unwrap_or(first));
    let put = |slot: &'static Slot| slot.put(name, &chains[..len]);
    SLOTTED.iter().find_map(put).map(|named| named as &dyn Codec).ok_or(UnknownCodec)
}
