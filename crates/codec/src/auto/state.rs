//! The state of a thread, and its working memory: all of it is in the scratch that the caller supplies.
//!
//! ```text
//! scratch  +-------+------------+---------+--------+----------+---------+---------+------+------+---
//!          | State | candidates | entries | class.| one form | buffer  | buffer  | work | kept | kept ...
//!          +-------+------------+---------+--------+----------+---------+---------+------+------+---
//! ```
//!
//! - candidates: the list as it was when the memory was set up, prepared for use.
//! - entries, classes: the results of each candidate on the blocks of each class, and when its next
//!   exploratory trial is due.
//! - buffers, work: for the steps of pipelines, one candidate at a time.
//! - kept: for codecs that keep a context from block to block, such as zstd. As far as there are enough
//!   contexts, each level has its own; sharing one means setting it up anew for each block.
//!
//! It is set up for a list and blocks of up to a certain length, and again when one of these changes. The
//! state may change the choice, never the decoded block.

use core::ptr::NonNull;

use super::cost;
use super::estimate::{CLASSES, Key};
use super::form::ChainIndex;
use super::list::{List, MOST_ENTRIES};
use crate::pipeline::{Element, ScratchSource};
use crate::scratch::Kept;
use crate::scratch::parts::{Parts, Plain, part};
use crate::{Chain, CodecId, Scratch};

/// Contexts that are kept at the same time.
const CONTEXTS: usize = 4;

/// The most different estimates for one block.
pub(super) const KEYS: usize = 32;

/// An entry of the list, prepared for use.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Candidate {
    chain: u64,
    /// Nanoseconds for a page, roughly.
    pub cost: u16,
    pub tag: [u8; 2],
    pub tag_len: u8,
    /// The index of its estimate; [`KEYS`] is none.
    pub key: u8,
    /// The index of its context.
    context: u8,
    spare: u8,
}

// SAFETY: numbers only, and no padding: 8 + 2 + 2 + 4 bytes.
unsafe impl Plain for Candidate {}

impl Candidate {
    pub(super) fn chain(&self) -> Option<Chain> {
        Chain::from_number(self.chain)
    }
}

/// The record of a candidate in a class of blocks.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Entry {
    /// Its size relative to the best one for the same block: the recent mean, in 1024ths. [`Entry::UNSEEN`]
    /// if it was never tried.
    pub ratio: u16,
    /// The factor for the estimate, in 1024ths.
    pub factor: u16,
    /// The visit of the class at which its next exploratory trial is due.
    pub due: u16,
    /// The distance to the next such visit: a power of two.
    pub interval: u16,
    /// Its saving when it was not tried first: the recent mean, in 4096ths of the best size before.
    pub gain: u16,
    /// The part of its promise that it kept when it was not tried first: the recent mean, in 1024ths.
    pub trust: u16,
}

// SAFETY: numbers only, all of the same size, so without padding.
unsafe impl Plain for Entry {}

impl Entry {
    pub(super) const UNSEEN: u16 = u16::MAX;
    pub(super) const NEW: Entry =
        Entry { ratio: Entry::UNSEEN, factor: 1024, due: 0, interval: 0, gain: 0, trust: 1024 };
}

/// The recent record of a class.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Class {
    /// The number of its blocks so far.
    pub count: u32,
    /// The size that the best of the list reaches: the recent mean, in 4096ths. It is slightly above the
    /// allowed size if blocks did not compress.
    pub level: u32,
    /// The visit at which residuals are estimated next.
    pub estimate_at: u32,
    /// The number of visits until the one after that.
    pub pause: u32,
}

// SAFETY: numbers only, and no padding.
unsafe impl Plain for Class {}

/// The winner of the previous block, whatever its class. Blocks often arrive in address order, and neighbours
/// are alike in ways that classes do not show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recent {
    /// [`Recent::NOBODY`] if no candidate helped.
    pub winner: usize,
    /// Blocks for which it had no trial of its own.
    pub count: u16,
    /// The count at which its next exploratory trial is due.
    pub due: u16,
    /// The distance to the next such count: a power of two.
    pub interval: u16,
    /// Its saving when it was not tried first, as [`Entry::gain`].
    pub gain: u16,
    /// How many blocks in a row it has won.
    pub streak: u16,
    /// The size that it reached on the previous block, in 4096ths.
    pub size: u16,
    /// The time that exploratory trials and estimates may take, in the unit of [`Candidate::cost`]. The last
    /// one may exceed it.
    pub credit: i32,
}

impl Recent {
    pub(super) const NOBODY: usize = usize::MAX;
    /// The most credit, with which a thread begins: a quarter of a millisecond.
    pub(super) const MOST_CREDIT: i32 = 16_000;
    const NEW: Recent = Recent {
        winner: Recent::NOBODY,
        count: 0,
        due: 0,
        interval: 0,
        gain: 0,
        streak: 0,
        size: 0,
        credit: Recent::MOST_CREDIT,
    };
}

impl Recent {
    /// Adds to the credit of exploratory trials, or takes from it.
    pub(super) fn earn(&mut self, cost: i32) {
        self.credit = (self.credit + cost).min(Recent::MOST_CREDIT);
    }
}

/// The memory as it was set up.
pub(super) struct State {
    recent: Recent,
    count: usize,
    keys: [u8; KEYS],
    key_count: usize,
    capacity: usize,
    each: usize,
    /// The bytes from the candidates to the buffers.
    memory: NonNull<u8>,
    len: usize,
    scratches: Scratches,
}

/// Scratch for elements.
pub(super) struct Scratches {
    work: Scratch<'static>,
    contexts: [Scratch<'static>; CONTEXTS],
    /// The index of the context for the current candidate.
    context: usize,
}

impl ScratchSource for Scratches {
    fn lend<R>(&mut self, element: Element, work: impl FnOnce(&mut Scratch<'_>) -> R) -> R {
        work(if keeps(element) { &mut self.contexts[self.context] } else { &mut self.work })
    }
}

/// The parts that [`State::view`] hands out.
pub(super) struct View<'a> {
    pub candidates: &'a [Candidate],
    pub keys: &'a [u8],
    /// One per candidate for each class; then one per candidate for all classes together.
    pub entries: &'a mut [Entry],
    pub classes: &'a mut [Class],
    pub form: &'a mut [u8],
    pub buffers: &'a mut [u8],
    pub each: usize,
    pub recent: &'a mut Recent,
    pub scratches: &'a mut Scratches,
}

impl View<'_> {
    /// Selects the context of a candidate.
    pub(super) fn serve(&mut self, candidate: usize) {
        self.scratches.context = usize::from(self.candidates[candidate].context);
    }
}

/// Whether it sets up a context that is worth keeping.
fn keeps(element: Element) -> bool {
    matches!(element, Element::Codec(codec) if [CodecId::ZSTD, CodecId::DEFLATE].contains(&codec.id()))
}

/// The block length that the memory for blocks of `len` bytes is made for.
fn capacity(len: usize) -> usize {
    len.checked_next_power_of_two().unwrap_or(len).max(4096)
}

/// The division of the memory for the first `count` entries of a list.
struct Layout {
    count: usize,
    each: usize,
    work: usize,
    contexts: [usize; CONTEXTS],
    /// The codecs that the contexts are for, by the codes of chains.
    owners: [u64; CONTEXTS],
}

type Chains = [Option<Chain>; MOST_ENTRIES];

impl Layout {
    fn of(chains: &[Option<Chain>], capacity: usize) -> Self {
        let mut layout =
            Layout { count: chains.len(), each: 0, work: 0, contexts: [0; CONTEXTS], owners: [0; CONTEXTS] };
        for chain in chains.iter().flatten() {
            layout.each = layout.each.max(part::<u8>(chain.buffer(capacity)));
            let mut bound = capacity;
            for (code, element) in chain.codes().zip(chain.elements()) {
                let size = element.forward_scratch(bound).next_multiple_of(Scratch::ALIGN);
                if keeps(element) {
                    let context = layout.context(code);
                    layout.contexts[context] = layout.contexts[context].max(size);
                } else {
                    layout.work = layout.work.max(size);
                }
                bound = element.bound(bound);
            }
        }
        layout
    }

    /// The context of a codec: its own while there are free ones, otherwise the last, which is shared.
    fn context(&mut self, code: u64) -> usize {
        let place = self.owners.iter().position(|&owner| owner == code || owner == 0).unwrap_or(CONTEXTS - 1);
        self.owners[place] = code;
        place
    }

    fn parts(&self, capacity: usize) -> usize {
        part::<Candidate>(self.count)
            + part::<Entry>((CLASSES + 1) * self.count)
            + part::<Class>(CLASSES)
            + part::<u8>(capacity + 2)
            + 2 * self.each
    }

    fn size(&self, capacity: usize) -> usize {
        STATE + self.parts(capacity) + self.work + self.contexts.iter().sum::<usize>()
    }
}

/// Bytes before the parts.
const STATE: usize = size_of::<State>().next_multiple_of(Scratch::ALIGN);

/// Bytes of scratch for the present list.
pub(super) fn size(list: &List, len: usize) -> usize {
    let mut chains: Chains = [None; MOST_ENTRIES];
    let count = list.copy(&mut chains);
    Layout::of(&chains[..count], capacity(len)).size(capacity(len))
}

impl State {
    /// The state in a scratch, for blocks of `len` bytes and the present list. Sets it up if there is none.
    /// If the scratch is too small, entries at the end of the list are left out.
    ///
    /// # Panics
    /// If the scratch is too small for the first entry alone.
    pub(super) fn of<'a>(list: &List, len: usize, scratch: &'a mut Scratch<'_>) -> &'a mut State {
        let (capacity, available) = (capacity(len), scratch.len());
        let level = list.version().cast_signed();
        let kept = Kept { codec: CodecId::AUTO, compress: true, level, block_len: capacity };
        let mut plan = None;
        let slot = core::cell::Cell::from_mut(&mut plan);
        let size = || {
            let mut chains: Chains = [None; MOST_ENTRIES];
            let mut count = list.copy(&mut chains);
            let mut layout = Layout::of(&chains[..count], capacity);
            while layout.size(capacity) > available && count > 1 {
                count -= 1;
                layout = Layout::of(&chains[..count], capacity);
            }
            let size = layout.size(capacity);
            slot.set(Some((chains, layout)));
            size
        };
        let set_up = |memory: NonNull<u8>| {
            let (chains, layout) = slot.take().expect("the size was asked for");
            // SAFETY: the scratch has as many bytes as the layout needs, aligned and initialised, and nothing
            // else uses them while it holds this context.
            unsafe { State::set_up(memory, &chains[..layout.count], layout, capacity) }
            memory
        };
        let (_, at) = scratch.keep(kept, size, set_up);
        // SAFETY: `set_up` has put a state there, for this list and capacity; since then nothing else has
        // used the memory. It is borrowed as long as the scratch is.
        unsafe { at.cast::<State>().as_mut() }
    }

    /// # Safety
    /// `memory` begins at a multiple of [`Scratch::ALIGN`] and has `layout.size(capacity)` initialised bytes,
    /// which belong to the state alone as long as it lives.
    unsafe fn set_up(memory: NonNull<u8>, chains: &[Option<Chain>], mut layout: Layout, capacity: usize) {
        let mut at = STATE;
        let mut next = |size: usize| {
            // SAFETY: sizes add up to no more than there is.
            let part = unsafe { memory.add(at) };
            at += size;
            part
        };
        let len = layout.parts(capacity);
        let parts = next(len);
        // SAFETY: the parts of the memory do not overlap and are as the caller guarantees. All sizes are
        // multiples of the alignment.
        let work = unsafe { Scratch::kept(next(layout.work), layout.work) };
        // SAFETY: as above.
        let contexts = layout.contexts.map(|size| unsafe { Scratch::kept(next(size), size) });
        let mut state = State {
            recent: Recent::NEW,
            count: layout.count,
            keys: [0; KEYS],
            key_count: 0,
            capacity,
            each: layout.each,
            memory: parts,
            len,
            scratches: Scratches { work, contexts, context: 0 },
        };
        for (i, chain) in chains.iter().enumerate() {
            let candidate = state.candidate(*chain, &mut layout);
            // SAFETY: the candidates are the first part, which is aligned and long enough.
            unsafe { parts.cast::<Candidate>().add(i).write(candidate) };
        }
        let view = state.view();
        view.entries.fill(Entry::NEW);
        view.classes.fill(Class { count: 0, level: 0, estimate_at: 0, pause: 1 });
        // SAFETY: the state comes first; it needs no drop.
        unsafe { memory.cast::<State>().write(state) };
    }

    fn candidate(&mut self, chain: Option<Chain>, layout: &mut Layout) -> Candidate {
        let none =
            Candidate { chain: 0, cost: 0, tag: [0; 2], tag_len: 0, key: KEYS as u8, context: 0, spare: 0 };
        let Some((chain, place)) = chain.and_then(|chain| Some((chain, ChainIndex::of(chain)?))) else {
            return none;
        };
        let context = chain.codes().zip(chain.elements()).find(|(_, element)| keeps(*element));
        let context = context.map_or(0, |(code, _)| layout.context(code));
        let (tag, tag_len) = place.tag();
        Candidate {
            chain: chain.number(),
            cost: cost::of(chain),
            tag,
            tag_len: tag_len as u8,
            key: self.key(Key::of(chain)) as u8,
            context: context as u8,
            spare: 0,
        }
    }

    /// The index of a key's estimate. Once all [`KEYS`] are taken, further chains get none.
    fn key(&mut self, key: Key) -> usize {
        let known = self.keys[..self.key_count].iter().position(|&number| number == key.number());
        match known {
            _ if key == Key::NONE => KEYS,
            Some(place) => place,
            None if self.key_count < KEYS => {
                self.keys[self.key_count] = key.number();
                self.key_count += 1;
                self.key_count - 1
            }
            None => KEYS,
        }
    }

    /// All parts.
    pub(super) fn view(&mut self) -> View<'_> {
        // SAFETY: these bytes belong to the state, see `set_up`, and are borrowed as long as it is.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) };
        let (bytes, buffers) = bytes.split_at_mut(self.len - 2 * self.each);
        let mut parts = Parts::new(bytes);
        View {
            candidates: parts.take(self.count),
            keys: &self.keys[..self.key_count],
            entries: parts.take((CLASSES + 1) * self.count),
            classes: parts.take(CLASSES),
            form: parts.take(self.capacity + 2),
            buffers,
            each: self.each,
            recent: &mut self.recent,
            scratches: &mut self.scratches,
        }
    }
}
