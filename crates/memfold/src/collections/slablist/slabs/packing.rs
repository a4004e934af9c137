//! How full leaves are.
//!
//! An added element finds room in its slab, in the neighbouring slabs, in its leaf after repacking, or in the
//! surrounding leaves; only if those are full too, a leaf is added. A leaf is simply split in two while all
//! leaves together stay full enough ([`Format::DENSITY`]). When elements are removed, the surrounding leaves
//! are packed into one fewer as soon as they fit: so the whole list never has to be processed at once (a reap
//! that never stalls).

use std::vec::Vec;

use super::leaves::{alike, format_of, leaf_bytes};
use super::{BatchOf, Position, Slabs};
use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::{Batch, Format, LeafPosition};
use crate::collections::slablist::options::Packing;
use crate::collections::slablist::slabs::layers::{LeafIndex, LeafRef};
use crate::heap::{Error, Session};

/// The most leaves that are packed together.
const WINDOW: usize = 24;

impl<E: ?Sized + Element> Slabs<E> {
    /// Makes room for this weight in a full leaf, or in those around it.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        session: &Session<'_>,
        at: Position,
        need: usize,
        turn: u32,
    ) -> Result<(), Error> {
        let spot = at.spot;
        // The caller searches again. If the place is in the last leaf then, it is not `LeafPosition::END`,
        // and `last` would not be updated.
        self.last = None;
        if !self.is_long(session) {
            return self.lengthen(session, spot);
        }
        let room = self.format.room();
        let leaves = self.layers.leaves() as u64;
        // Adding in order, upwards or downwards, fills each leaf: a new one gets one element, so that the
        // next one belongs there.
        let count = self.layers.get(spot).count;
        if turn == 0 && count > 1 {
            if Some(spot) == self.layers.last() {
                let place = at.place;
                let handle = self.layers.get(spot).handle;
                let is_behind = place == LeafPosition::END
                    || session.view(handle, |leaf| self.format.index(leaf, place))? >= count as usize;
                if is_behind {
                    return self.split_off(session, spot, count as usize - 1);
                }
            }
            if Some(spot) == self.layers.first() && at.place == LeafPosition::FIRST {
                return self.split_off(session, spot, 0);
            }
        }
        let is_dense = self.weight * 64 >= (leaves + 1) * room as u64 * E::Format::DENSITY;
        // Elements so long that the surrounding leaves have no room for them: two halves have room for any.
        if is_dense || turn > 2 {
            let parts = alike(self.weigh(spot, 1), 2);
            return self.spread(session, spot, 1, &parts).map(|_| ());
        }
        let (first, count, more) = self.window(spot, need);
        let parts = alike(self.weigh(first, count), count + usize::from(more));
        self.spread(session, first, count, &parts).map(|_| ())
    }

    /// Doubles the length of the only leaf, which is short.
    pub(super) fn lengthen(&mut self, session: &Session<'_>, spot: LeafIndex) -> Result<(), Error> {
        let old = (self.format, self.bytes);
        let mut bytes = (self.format.bytes() * 2).next_power_of_two();
        while self.format.room() <= old.0.room() && !self.is_long(session) {
            self.format = format_of::<E>(session, bytes, self.making);
            bytes *= 2;
        }
        self.bytes = leaf_bytes::<E>(session, self.format, self.making);
        let leaf = self.layers.get(spot);
        let mut made = Vec::new();
        // Elements are read by the old format, and written by the new one.
        let (format, mut all) = (self.format, BatchOf::<E>::default());
        self.format = old.0;
        let copied = self.append_leaf(session, leaf, &mut all);
        self.format = format;
        let done = copied.and_then(|()| {
            let handle = self.make_leaf(session, &all, 0..all.len())?;
            made.push((all.key(0), LeafRef { handle, ..leaf }));
            Ok(())
        });
        if let Err(error) = done {
            (self.format, self.bytes) = old;
            return Err(error);
        }
        self.layers.replace(Some(spot), 1, &made);
        self.free_leaves(session, &[leaf]);
        Ok(())
    }

    /// A new leaf gets the first element of the first leaf, before it, or the last element of the last leaf,
    /// after it.
    pub(super) fn split_off(
        &mut self,
        session: &Session<'_>,
        spot: LeafIndex,
        index: usize,
    ) -> Result<(), Error> {
        let (leaf, format) = (self.layers.get(spot), self.format);
        let mut element = BatchOf::<E>::default();
        let place = session.view(leaf.handle, |view| {
            element.clear();
            let place = format.place(view, index);
            format.copy_one(view, place, &mut element).then_some(place)
        })?;
        let place = place.ok_or(Error::Damaged)?;
        let weight = element.weight(0) as u32;
        let handle = self.make_leaf(session, &element, 0..1)?;
        let made = [(element.key(0), LeafRef { handle, count: 1, weight })];
        let rest = session.change_in_place(leaf.handle, |leaf| {
            let gone = format.remove(leaf, place);
            (gone.weight, format.first(leaf))
        });
        let (gone, rest) = match rest {
            Ok(rest) => rest,
            Err(error) => {
                self.unmake(session, &made);
                return Err(error);
            }
        };
        self.layers.add(spot, -1, -(gone as i32));
        if index == 0 {
            self.layers.set_first(spot, rest);
            self.layers.replace(Some(spot), 0, &made);
        } else {
            made.into_iter().for_each(|(first, leaf)| self.layers.push(first, leaf));
        }
        self.spread_done(session, &[leaf], 2);
        Ok(())
    }

    /// The fewest leaves around `spot` that together have room: the first, how many, and whether one more is
    /// needed.
    pub(super) fn window(&self, spot: LeafIndex, need: usize) -> (LeafIndex, usize, bool) {
        let (before, after) = self.layers.around(spot);
        let (mut left, mut right) = (0, 1);
        let room = self.format.room();
        // Afterwards each has room for some more elements.
        let spare = (room / E::Format::SPARE).max(2 * need);
        loop {
            let first = self.layers.moved(spot, -(left as isize));
            let count = left + right;
            if self.weigh(first, count) + count * spare <= count * room {
                return (first, count, false);
            }
            if count == WINDOW || left == before && right == after {
                return (first, count, true);
            }
            if right < after && (right <= left + 1 || left == before) {
                right += 1;
            } else {
                left += 1;
            }
        }
    }

    /// Packs the surrounding leaves into one fewer, if they fit and it pays; or all leaves, if the list is
    /// packed all at once.
    #[cold]
    pub(super) fn pack_around(&mut self, session: &Session<'_>, spot: LeafIndex) -> Result<(), Error> {
        let room = self.format.room();
        if self.making.packing == Packing::Never {
            return Ok(());
        }
        if let Packing::AtOnce { least_slabs, least_percent } = self.making.packing {
            let slab = self.format.slab_weight().max(1);
            let slabs = self.layers.leaves() * room / slab;
            let spare = slabs.saturating_sub((self.weight as usize).div_ceil(slab));
            // Less than a leaf can't be returned to the heap.
            let is_worth = spare * slab > room
                && spare >= least_slabs as usize
                && spare * 100 >= slabs * usize::from(least_percent);
            return if is_worth { self.pack(session).map(|_| ()) } else { Ok(()) };
        }
        // Half a 64th fuller than leaves are when one is split: what is left of a list is as dense as a list
        // that was filled.
        if self.weight * 128 >= (self.layers.leaves() * room) as u64 * (2 * E::Format::DENSITY + 1) {
            return Ok(());
        }
        let (before, after) = self.layers.around(spot);
        for count in 2..=WINDOW.min(before + after) {
            let left = before.min(count / 2).max(count.saturating_sub(after));
            let first = self.layers.moved(spot, -(left as isize));
            let used = self.weigh(first, count);
            if used <= (count - 1) * (room - room / E::Format::SLACK) {
                let parts = alike(used, count - 1);
                return self.spread(session, first, count, &parts).map(|_| ());
            }
        }
        Ok(())
    }

    /// Packs all elements as densely as possible. Returns how many leaves that saved.
    pub fn pack(&mut self, session: &Session<'_>) -> Result<usize, Error> {
        let (before, room) = (self.layers.leaves(), self.format.room());
        let full = room - room / (4 * E::Format::SLACK);
        let mut next = self.layers.first();
        while let Some(mut spot) = next {
            let (_, rest) = self.layers.around(spot);
            let count = rest.min(WINDOW);
            let mut parts = count;
            let leaves = &self.layers.rest_of_group(spot)[..count];
            if leaves.iter().any(|leaf| (leaf.weight as usize) < full) {
                let all = self.weigh(spot, count);
                let full: Vec<u64> = (0..all).step_by(room).map(|from| room.min(all - from) as u64).collect();
                parts = self.spread(session, spot, count, &full)?;
            }
            // The last of them may not be full: the next ones fill it, if they are in the same group.
            spot = self.layers.moved(spot, parts as isize - 1);
            next = if rest > count && count > 1 { Some(spot) } else { self.layers.next(spot) };
        }
        Ok(before.saturating_sub(self.layers.leaves()))
    }
}
