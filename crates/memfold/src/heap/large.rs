//! Nodes longer than a block.
//!
//! ```text
//!   Handle ──> Large: len, parts ──> [ node ] [ node ] none [ node ]      none: all zero
//!                       whole, while a guard lives: all parts in one piece
//! ```
//!
//! A large node is kept in parts, which are nodes like others, each about as long as a block or the longest node. So reading and writing a piece of it brings
//! only the blocks of that piece, and a part that was never written takes no room. Whoever wants all of it in one piece, by a pin or a guard
//! to write, gets a copy of the parts, which is the node from then on: what was changed goes back into the parts when the last guard
//! is dropped. If it can't, because there is no memory, the copy stays what the node is, and the next one tries again.
//!
//! Numbers of blocks from [`FIRST`] on are those of large nodes:
//!
//! ```text
//!   63..48 generation │ 47..16 block: FIRST + index / 65536 │ 15..0 index % 65536
//! ```

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::vec::Vec;

use super::core::{Core, locked};
use super::error::Error;
use super::file;
use super::frames::pause;
use super::free::PATIENCE;
use super::handle::{Handle, Parts};
use super::session::Session;

/// No block has this number or a higher one.
pub const FIRST: u32 = 0xffff_0000;

/// All of a node in one piece.
struct Whole {
    bytes: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory that is reached under the node's lock, or by a guard whose user takes care.
unsafe impl Send for Whole {}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: made with this layout.
        unsafe { dealloc(self.bytes.as_ptr(), self.layout) };
    }
}

/// What a large node is; under its lock.
#[derive(Default)]
struct State {
    len: usize,
    parts: Vec<Option<Handle>>,
    whole: Option<Whole>,
    /// `whole` holds what the parts don't.
    changed: bool,
    /// Guards that use `whole`, and whether one of them writes.
    guards: u32,
    writing: bool,
    freed: bool,
}

/// See the module.
pub struct Large(Mutex<State>);

#[derive(Default)]
struct Entry {
    node: Option<Arc<Large>>,
    generation: u16,
}

impl Entry {
    /// The handle of the node at this index.
    fn handle(&self, index: u32) -> Handle {
        let [check, incarnation] = self.generation.to_be_bytes();
        let block = FIRST + (index >> 16);
        Handle::new(Parts { check, incarnation, block, place: index as u16 })
    }
}

/// Large nodes by their indices.
#[derive(Default)]
pub struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Nodes that nothing leads to, and their bytes: see `waiting.rs`.
    pub waiting: VecDeque<(Handle, usize)>,
}

impl Table {
    fn put(&mut self, large: Arc<Large>) -> Result<Handle, Error> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.push(Entry::default())?,
        };
        let entry = self.entries.get_mut(index as usize).ok_or(Error::Damaged)?;
        entry.node = Some(large);
        Ok(entry.handle(index))
    }

    /// Adds an entry: its index, an error when all are in use.
    fn push(&mut self, entry: Entry) -> Result<u32, Error> {
        // A file says how many there are, in 32 bits, too.
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index < u32::MAX);
        let index = index.ok_or(Error::Limit)?;
        // Whatever becomes of the node, there is room for its index from now on.
        self.entries.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        let free = self.entries.len() + 1 - self.free.len();
        self.free.try_reserve(free).map_err(|_| Error::OutOfMemory)?;
        self.entries.push(entry);
        Ok(index)
    }

    fn entry(&mut self, handle: Handle) -> Option<(u32, &mut Entry)> {
        let index = (handle.block() - FIRST) << 16 | u32::from(handle.place());
        let generation = u16::from_be_bytes([handle.check(), handle.incarnation()]);
        let entry = self.entries.get_mut(index as usize).filter(|entry| entry.generation == generation)?;
        Some((index, entry))
    }

    /// All large nodes.
    pub fn all(&self) -> Vec<Arc<Large>> {
        self.entries.iter().filter_map(|entry| entry.node.clone()).collect()
    }

    /// Every entry in order, as a file keeps it: its generation, and the node's bytes and parts if there is one.
    pub fn saved(&self) -> impl Iterator<Item = (u16, usize, Vec<Option<Handle>>)> + '_ {
        self.entries.iter().map(|entry| match &entry.node {
            Some(large) => {
                let state = locked(&large.0);
                (entry.generation, state.len, state.parts.clone())
            }
            None => (entry.generation, 0, Vec::new()),
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The handles of nodes that have a part of which something is true.
    pub fn with_part(&self, mut is_so: impl FnMut(&Handle) -> bool) -> Vec<Handle> {
        let mut found = Vec::new();
        for (index, entry) in (0..).zip(&self.entries) {
            let Some(large) = &entry.node else { continue };
            if locked(&large.0).parts.iter().flatten().any(&mut is_so) {
                found.push(entry.handle(index));
            }
        }
        found
    }

    /// The handle of the first node of which a part is none (see [`file::Parts`]), where blocks have so many nodes.
    pub fn with_gone_part(&self, core: &Core, nodes: u64) -> Result<Option<Handle>, Error> {
        let mut seen = file::Parts::new(core);
        for (index, entry) in (0..).zip(&self.entries) {
            let Some(large) = &entry.node else { continue };
            for part in locked(&large.0).parts.iter().flatten() {
                if !seen.add(*part, nodes)? {
                    return Ok(Some(entry.handle(index)));
                }
            }
        }
        Ok(None)
    }

    /// Adds an entry as it was saved: with a node if `len` is not 0, which has as many parts as its length makes.
    pub fn restore(
        &mut self,
        generation: u16,
        len: usize,
        parts: Vec<Option<Handle>>,
        paranoid: bool,
    ) -> Result<(), Error> {
        let large = Large(Mutex::new(State { len, parts, ..State::default() }));
        let node = (len > 0).then(|| Arc::new(large));
        // The handles of one that was in use before all of its generations were gone.
        let is_free = node.is_none() && !(paranoid && generation == 0);
        let index = self.push(Entry { node, generation })?;
        if is_free {
            self.free.push(index);
        }
        Ok(())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>()
            + self.waiting.capacity() * size_of::<(Handle, usize)>()) as u64
    }
}

/// What large nodes come to.
#[derive(Default)]
pub struct Counts {
    pub nodes: u64,
    pub bytes: u64,
    /// Their parts, which are nodes too, and the bytes of those.
    pub parts: u64,
    pub part_bytes: u64,
    /// Memory beside the parts.
    pub memory: u64,
}

impl State {
    /// Which bytes the part of this number has.
    fn span(&self, number: usize, part: usize) -> Range<usize> {
        (number * part).min(self.len)..(number * part + part).min(self.len)
    }

    /// Takes out the parts from this number on: their handles and bytes.
    fn take_parts(&mut self, from: usize, part: usize) -> Vec<(Handle, usize)> {
        let of = |number: usize| Some((self.parts[number]?, self.span(number, part).len()));
        let taken = (from..self.parts.len()).filter_map(of).collect();
        self.parts.truncate(from);
        taken
    }

    /// What is in `whole`, if it is there.
    fn whole(&self, range: Range<usize>) -> Option<NonNull<u8>> {
        debug_assert!(range.end <= self.len);
        // SAFETY: within the memory, which is as long as the node.
        self.whole.as_ref().map(|whole| unsafe { whole.bytes.add(range.start) })
    }
}

/// What the guards of a large node need when they are dropped: the session that they come from.
pub trait Keeper {
    /// From now on the node counts as changed, and putting it back needs no more room.
    fn will_change(&self, large: &Large) -> Result<(), Error>;
    /// A guard goes, which wrote if `wrote`.
    fn let_go(&self, large: &Large, wrote: bool);
}

/// A guard's hold on a large node.
pub struct Held<'s> {
    large: Arc<Large>,
    keeper: &'s dyn Keeper,
    writes: bool,
}

impl Held<'_> {
    /// The node counts as changed from now on.
    pub fn will_change(&self) -> Result<(), Error> {
        self.keeper.will_change(&self.large)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.keeper.let_go(&self.large, self.writes);
    }
}

impl Core {
    /// Whether a handle is that of a large node.
    #[inline]
    pub fn is_large(handle: Handle) -> bool {
        handle.block() >= FIRST
    }

    /// Bytes of each part but the last.
    pub fn part(&self) -> usize {
        (self.shape.longest() & !7).max(1)
    }

    fn large(&self, handle: Handle) -> Result<Arc<Large>, Error> {
        let mut table = locked(&self.large);
        table.entry(handle).and_then(|(_, entry)| entry.node.clone()).ok_or(Error::Stale)
    }
}

impl Core {
    /// Counts of all large nodes, one after the other.
    pub fn large_counts(&self) -> Counts {
        let (all, mut counts) = {
            let table = locked(&self.large);
            let (parts, part_bytes) =
                (table.waiting.len(), table.waiting.iter().map(|part| part.1).sum::<usize>());
            let (parts, part_bytes) = (parts as u64, part_bytes as u64);
            (table.all(), Counts { parts, part_bytes, memory: table.bytes(), ..Counts::default() })
        };
        counts.nodes = all.len() as u64;
        for large in all {
            let state = locked(&large.0);
            let parts = (0..state.parts.len()).filter(|&number| state.parts[number].is_some());
            for number in parts {
                counts.parts += 1;
                counts.part_bytes += state.span(number, self.part()).len() as u64;
            }
            let whole = state.whole.as_ref().map_or(0, |whole| whole.layout.size());
            counts.bytes += state.len as u64;
            counts.memory +=
                (state.parts.capacity() * size_of::<Option<Handle>>() + whole + size_of::<Large>()) as u64;
        }
        counts
    }
}

impl Large {
    /// There are no guards, whatever was forgotten.
    pub fn let_go(&self) {
        let mut state = locked(&self.0);
        (state.guards, state.writing) = (0, false);
        if !state.changed {
            state.whole = None;
        }
    }

    /// The node, while no guard writes it.
    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.lock_within(PATIENCE)
    }

    /// The same, after so many turns of waiting at most.
    fn lock_within(&self, patience: u32) -> Result<MutexGuard<'_, State>, Error> {
        let mut turn = 0;
        loop {
            let state = locked(&self.0);
            if state.freed {
                return Err(Error::Stale);
            }
            if !state.writing {
                return Ok(state);
            }
            drop(state);
            if turn >= patience {
                return Err(Error::Busy);
            }
            pause(&mut turn);
        }
    }
}

/// An error that a part caused, as one of the node: a part that is gone or has another length is not what the node's handle stands for.
pub fn of_part(error: Error) -> Error {
    match error {
        Error::Stale | Error::Mismatch { .. } => Error::Damaged,
        error => error,
    }
}

impl Session<'_> {
    /// A node of `len` bytes, none of which takes room yet.
    pub(super) fn alloc_large(&self, len: usize) -> Result<Handle, Error> {
        if len == 0 || len > super::MAX_NODE {
            return Err(Error::Size(len));
        }
        let mut parts = Vec::new();
        let count = len.div_ceil(self.core().part());
        parts.try_reserve_exact(count).map_err(|_| Error::OutOfMemory)?;
        parts.resize(count, None);
        let large = Arc::new(Large(Mutex::new(State { len, parts, ..State::default() })));
        locked(&self.core().large).put(large)
    }

    pub(super) fn large_size(&self, handle: Handle) -> Result<usize, Error> {
        Ok(locked(&self.core().large(handle)?.0).len)
    }

    pub(super) fn free_large(&self, handle: Handle) -> Result<(), Error> {
        self.free_large_within(handle, PATIENCE)
    }

    /// The same, after so many turns of waiting at most.
    pub(super) fn free_large_within(&self, handle: Handle, patience: u32) -> Result<(), Error> {
        let core = self.core();
        let large = core.large(handle)?;
        let mut state = large.lock_within(patience)?;
        {
            let mut table = locked(&core.large);
            let (index, entry) = table.entry(handle).ok_or(Error::Stale)?;
            entry.node = None;
            entry.generation = entry.generation.wrapping_add(1);
            // A paranoid heap never gives a handle out twice.
            if !core.options.paranoid || entry.generation != 0 {
                table.free.push(index);
            }
        }
        state.freed = true;
        state.changed = false;
        if state.guards == 0 {
            state.whole = None;
        }
        let parts = state.take_parts(0, core.part());
        drop(state);
        self.free_parts(parts)
    }

    /// Copies the part of a node that begins at `from`.
    pub(super) fn read_large(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        let large = self.core().large(handle)?;
        let state = large.lock()?;
        self.read_state(&state, from, to)
    }

    fn read_state(&self, state: &State, from: usize, to: &mut [u8]) -> Result<(), Error> {
        let end = from.checked_add(to.len()).filter(|&end| end <= state.len);
        let end = end.ok_or(Error::Mismatch { node: state.len, value: from.saturating_add(to.len()) })?;
        if let Some(bytes) = state.whole(from..end) {
            // SAFETY: within the node; users of pins see to it that nobody writes meanwhile.
            unsafe { bytes.copy_to_nonoverlapping(NonNull::from(&mut *to).cast(), to.len()) };
            return Ok(());
        }
        self.each_part(from..end, |number, within, place| match state.parts[number] {
            Some(part) => self.read_at(part, within.start, &mut to[place]).map_err(of_part),
            None => {
                to[place].fill(0);
                Ok(())
            }
        })
    }

    /// Calls `f` with the number of each part of a range, what of the part is meant, and where that is in the range.
    fn each_part(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(usize, Range<usize>, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let part = self.core().part();
        let mut at = range.start;
        while at < range.end {
            let (number, within) = (at / part, at % part);
            let bytes = (part - within).min(range.end - at);
            f(number, within..within + bytes, at - range.start..at - range.start + bytes)?;
            at += bytes;
        }
        Ok(())
    }

    /// Writes over the part of a node that begins at `from`.
    pub(super) fn write_large(&self, handle: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
        let large = self.core().large(handle)?;
        let mut state = large.lock()?;
        let end = from.checked_add(bytes.len()).filter(|&end| end <= state.len);
        let end = end.ok_or(Error::Mismatch { node: state.len, value: from.saturating_add(bytes.len()) })?;
        if let Some(to) = state.whole(from..end) {
            self.make_parts(&mut state)?;
            state.changed = true;
            // SAFETY: within the node; users of pins see to it that nobody reads meanwhile.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
            return Ok(());
        }
        // What there is no room for fails before anything is changed.
        self.each_part(from..end, |number, _, _| self.make_part(&mut state, number).map(|_| ()))?;
        self.each_part(from..end, |number, within, place| {
            let part = self.make_part(&mut state, number)?;
            self.write_part(part, within.start, &bytes[place])
        })
    }

    /// The part of this number, which is made if it is not there.
    fn make_part(&self, state: &mut State, number: usize) -> Result<Handle, Error> {
        match state.parts[number] {
            Some(part) => Ok(part),
            None => {
                let part = self.alloc(state.span(number, self.core().part()).len())?;
                state.parts[number] = Some(part);
                Ok(part)
            }
        }
    }

    fn make_parts(&self, state: &mut State) -> Result<(), Error> {
        (0..state.parts.len()).try_for_each(|number| self.make_part(state, number).map(|_| ()))
    }

    fn write_part(&self, part: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
        let (frame, spot) = self.hold(part).map_err(of_part)?;
        let fits = from <= spot.len && bytes.len() <= spot.len - from;
        if fits {
            // SAFETY: within the part, whose stripe is held.
            unsafe {
                spot.bytes.add(from).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
            };
        }
        frame.stripe(part.place()).release();
        if fits { Ok(()) } else { Err(Error::Damaged) }
    }

    /// Makes a node longer or shorter; its handle stays.
    pub(super) fn resize_large(&self, handle: Handle, len: usize) -> Result<(), Error> {
        if len == 0 || len > super::MAX_NODE {
            return Err(Error::Size(len));
        }
        let large = self.core().large(handle)?;
        let mut state = large.lock()?;
        if state.guards > 0 {
            return Err(Error::Busy);
        }
        self.put_back(&mut state)?;
        let part = self.core().part();
        let (old, count) = (state.len, len.div_ceil(part));
        // The last part of the shorter one: it may have another length afterwards.
        let last = (old.min(len) - 1) / part;
        let kept = last * part..old.min(len);
        let span = |of: usize| (last * part + part).min(of) - last * part;
        let new = if state.parts[last].is_some() && span(old) != span(len) {
            let mut bytes = std::vec![0; kept.len()];
            self.read_state(&state, kept.start, &mut bytes)?;
            let new = self.alloc(span(len))?;
            self.write_part(new, 0, &bytes).inspect_err(|_| self.discard(new))?;
            Some(new)
        } else {
            None
        };
        let more = count.saturating_sub(state.parts.len());
        if state.parts.try_reserve(more).is_err() {
            new.into_iter().for_each(|new| self.discard(new));
            return Err(Error::OutOfMemory);
        }
        let mut gone = state.take_parts(last + 1, part);
        if let Some(new) = new {
            gone.extend(state.parts[last].replace(new).map(|part| (part, span(old))));
        }
        state.parts.resize(count, None);
        state.len = len;
        drop(state);
        self.free_parts(gone)
    }

    /// Holds all of a node in one piece, to write it or to look at it.
    pub(super) fn hold_large(
        &self,
        handle: Handle,
        writes: bool,
    ) -> Result<(Held<'_>, NonNull<u8>, usize), Error> {
        let core = self.core();
        let large = core.large(handle)?;
        let mut state = large.lock()?;
        if writes && state.guards > 0 {
            return Err(Error::Busy);
        }
        if state.whole.is_none() {
            let layout = Layout::from_size_align(state.len, core.options.alignment.max(8));
            let layout = layout.map_err(|_| Error::OutOfMemory)?;
            // SAFETY: no node is empty.
            let bytes = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::OutOfMemory)?;
            let whole = Whole { bytes, layout };
            // SAFETY: memory of that length, which nobody else knows of.
            let all = unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr(), state.len) };
            self.read_state(&state, 0, all)?;
            state.whole = Some(whole);
        }
        let len = state.len;
        let bytes = state.whole(0..len).ok_or(Error::Damaged)?;
        if writes {
            self.make_parts(&mut state)?;
            state.changed = true;
        }
        state.guards += 1;
        state.writing = writes;
        drop(state);
        Ok((Held { large, keeper: self, writes }, bytes, len))
    }

    /// What guards left in one piece goes back into the parts.
    fn put_back(&self, state: &mut State) -> Result<(), Error> {
        if state.changed {
            let part = self.core().part();
            for number in 0..state.parts.len() {
                let span = state.span(number, part);
                let part = self.make_part(state, number)?;
                let Some(bytes) = state.whole(span.clone()) else { break };
                // SAFETY: within the node, which nobody writes: no guard is left.
                let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), span.len()) };
                match self.write_part(part, 0, bytes) {
                    // All that was in it is here.
                    Err(Error::Lost) => {
                        self.free(part).map_err(of_part)?;
                        state.parts[number] = None;
                        let part = self.make_part(state, number)?;
                        self.write_part(part, 0, bytes)?;
                    }
                    written => written?,
                }
            }
            state.changed = false;
        }
        if state.guards == 0 {
            state.whole = None;
        }
        Ok(())
    }

    /// Puts back what is still in one piece, of all large nodes: nothing of them is elsewhere than in their parts then. While no guard lives.
    pub(super) fn put_all_back(&self) -> Result<(), Error> {
        self.free_waiting();
        let all = locked(&self.core().large).all();
        all.iter().try_for_each(|large| self.put_back(&mut locked(&large.0)))
    }
}

impl Keeper for Session<'_> {
    fn will_change(&self, large: &Large) -> Result<(), Error> {
        let mut state = locked(&large.0);
        if !state.freed {
            self.make_parts(&mut state)?;
            state.changed = true;
        }
        Ok(())
    }

    fn let_go(&self, large: &Large, wrote: bool) {
        let mut state = locked(&large.0);
        state.guards -= 1;
        state.writing &= !wrote;
        if state.guards == 0 {
            if state.freed {
                state.whole = None;
            } else {
                // What can't go back now stays: it is the node.
                let _ = self.put_back(&mut state);
            }
        }
    }
}
