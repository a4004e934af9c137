//! Making, reading, writing and freeing large nodes, part by part.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::{Counts, Large, State, of_part};
use crate::heap::access::session::Session;
use crate::heap::block::handle::{FIRST_LARGE, Handle};
use crate::heap::core::Core;
use crate::heap::error::Error;
use crate::heap::residency::frames::PATIENCE;
use crate::heap::sync::locked;

impl Core {
    /// Whether a handle is that of a large node.
    #[inline]
    pub fn is_large(handle: Handle) -> bool {
        handle.block() >= FIRST_LARGE
    }

    /// Bytes of each part but the last.
    pub fn part(&self) -> usize {
        (self.shape.longest() & !7).max(1)
    }

    pub(super) fn large(&self, handle: Handle) -> Result<Arc<Large>, Error> {
        let mut table = locked(&self.large);
        table.entry(handle).and_then(|(_, entry)| entry.node.clone()).ok_or(Error::Stale)
    }

    /// Counts of all large nodes, taken one by one.
    pub fn large_counts(&self) -> Counts {
        let (entries, mut counts) = {
            let table = locked(&self.large);
            let (parts, part_bytes) =
                (table.waiting.len(), table.waiting.iter().map(|part| part.1).sum::<usize>());
            let (parts, part_bytes) = (parts as u64, part_bytes as u64);
            (table.len(), Counts { parts, part_bytes, memory: table.bytes(), ..Counts::default() })
        };
        for index in 0..entries {
            // A thread that holds a node's lock may take the table's, so the table's is not held meanwhile.
            let Some(large) = locked(&self.large).at(index) else { continue };
            counts.nodes += 1;
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

impl Session<'_> {
    /// Makes a node of `len` bytes, which takes no memory for content yet.
    pub(crate) fn alloc_large(&self, len: usize) -> Result<Handle, Error> {
        if len == 0 || len > crate::heap::MAX_NODE {
            return Err(Error::Size(len));
        }
        let mut parts = Vec::new();
        let count = len.div_ceil(self.core().part());
        parts.try_reserve_exact(count).map_err(|_| Error::OutOfMemory)?;
        parts.resize(count, None);
        let large = Arc::new(Large(Mutex::new(State { len, parts, ..State::default() })));
        locked(&self.core().large).put(large)
    }

    pub(crate) fn large_size(&self, handle: Handle) -> Result<usize, Error> {
        Ok(locked(&self.core().large(handle)?.0).len)
    }

    pub(crate) fn free_large(&self, handle: Handle) -> Result<(), Error> {
        self.free_large_within(handle, PATIENCE)
    }

    /// The same, with at most `patience` turns of waiting.
    pub(crate) fn free_large_within(&self, handle: Handle, patience: u32) -> Result<(), Error> {
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
    pub(crate) fn read_large(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        let large = self.core().large(handle)?;
        let state = large.lock()?;
        self.read_state(&state, from, to)
    }

    pub(super) fn read_state(&self, state: &State, from: usize, to: &mut [u8]) -> Result<(), Error> {
        let end = from.checked_add(to.len()).filter(|&end| end <= state.len);
        let end = end.ok_or(Error::Mismatch { node: state.len, value: from.saturating_add(to.len()) })?;
        if let Some(bytes) = state.whole(from..end) {
            // SAFETY: within the node; users of pins make sure that nobody writes meanwhile.
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

    /// Calls `f` for each part that a range touches: with the part's number, the affected range of the part,
    /// and its position in the range.
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

    /// Overwrites the part of a node that begins at `from`.
    pub(crate) fn write_large(&self, handle: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
        let large = self.core().large(handle)?;
        let mut state = large.lock()?;
        let end = from.checked_add(bytes.len()).filter(|&end| end <= state.len);
        let end = end.ok_or(Error::Mismatch { node: state.len, value: from.saturating_add(bytes.len()) })?;
        if let Some(to) = state.whole(from..end) {
            self.make_parts(&mut state)?;
            state.changed = true;
            // SAFETY: within the node; users of pins make sure that nobody reads meanwhile.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
            return Ok(());
        }
        // A lack of memory is an error before anything is changed.
        self.each_part(from..end, |number, _, _| self.make_part(&mut state, number).map(|_| ()))?;
        self.each_part(from..end, |number, within, place| {
            let part = self.make_part(&mut state, number)?;
            self.write_part(part, within.start, &bytes[place])
        })
    }

    /// The part of this number; it is made if it does not exist.
    pub(super) fn make_part(&self, state: &mut State, number: usize) -> Result<Handle, Error> {
        match state.parts[number] {
            Some(part) => Ok(part),
            None => {
                let part = self.alloc(state.span(number, self.core().part()).len())?;
                state.parts[number] = Some(part);
                Ok(part)
            }
        }
    }

    pub(super) fn make_parts(&self, state: &mut State) -> Result<(), Error> {
        (0..state.parts.len()).try_for_each(|number| self.make_part(state, number).map(|_| ()))
    }

    pub(super) fn write_part(&self, part: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
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
    pub(crate) fn resize_large(&self, handle: Handle, len: usize) -> Result<(), Error> {
        if len == 0 || len > crate::heap::MAX_NODE {
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
        // The last part of the shorter length: its own length may change.
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
}
