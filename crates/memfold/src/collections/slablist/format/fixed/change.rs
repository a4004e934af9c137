//! Changing a leaf: adding and removing elements, and repacking slabs.

use std::vec::Vec;

use zerocopy::IntoBytes;

use super::Fixed;
use crate::collections::slablist::format::{Format, LeafPosition, Put};
use crate::heap::Plain;

/// A leaf being changed.
pub struct Leaf<'n, T> {
    pub shape: Fixed<T>,
    pub bytes: &'n mut [u8],
}

impl<T: Plain + Copy + Send + Sync + 'static> Leaf<'_, T> {
    const SIZE: usize = size_of::<T>();

    /// Elements of the leaf.
    fn count(&self) -> usize {
        u32::from_le_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]) as usize
    }

    fn set_count(&mut self, count: usize) {
        self.bytes[..4].copy_from_slice(&(count as u32).to_le_bytes());
    }

    /// Slabs in use.
    fn used(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[4], self.bytes[5]]))
    }

    fn set_used(&mut self, used: usize) {
        self.bytes[4..6].copy_from_slice(&(used as u16).to_le_bytes());
    }

    fn slot(&self, slab: usize) -> usize {
        self.bytes[self.shape.slots_at() + slab].into()
    }

    fn fill(&self, slab: usize) -> usize {
        self.bytes[self.shape.fills_at() + slab].into()
    }

    fn set_fill(&mut self, slab: usize, fill: usize) {
        self.bytes[self.shape.fills_at() + slab] = fill as u8;
    }

    fn element_at(&self, slot: usize, at: usize) -> usize {
        self.shape.slab_at(slot) + at * Self::SIZE
    }

    fn put(&mut self, at: usize, element: &T) {
        self.bytes[at..at + Self::SIZE].copy_from_slice(element.as_bytes());
    }

    fn set_first(&mut self, slab: usize) {
        let (from, to) = (self.element_at(self.slot(slab), 0), self.shape.firsts_at() + slab * Self::SIZE);
        self.bytes.copy_within(from..from + Self::SIZE, to);
    }

    /// Inserts an element at a place, before the one that is there.
    #[inline(always)]
    pub fn insert(&mut self, mut place: LeafPosition, element: &T) -> Put {
        let count = self.count();
        if place == LeafPosition::END {
            let slab = self.used() - 1;
            place = LeafPosition { slab, at: self.fill(slab) };
        }
        if self.fill(place.slab) < self.shape.per_slab {
            self.put_in_slab(place, element);
        } else if !self.make_room(place, element) {
            return Put::Full;
        }
        self.set_count(count + 1);
        Put::Done(1)
    }

    /// Replaces an element.
    pub fn set(&mut self, LeafPosition { slab, at }: LeafPosition, element: &T) {
        let to = self.element_at(self.slot(slab), at);
        self.put(to, element);
        if at == 0 {
            self.set_first(slab);
        }
    }

    /// Inserts an element into a slab with room.
    fn put_in_slab(&mut self, LeafPosition { slab, at }: LeafPosition, element: &T) {
        let slot = self.slot(slab);
        let (from, end) = (self.element_at(slot, at), self.element_at(slot, self.shape.per_slab));
        // The bytes after the last element move too, and the last of them are dropped.
        self.bytes.copy_within(from..end - Self::SIZE, from + Self::SIZE);
        self.put(from, element);
        self.set_fill(slab, self.fill(slab) + 1);
        if at == 0 {
            self.set_first(slab);
        }
    }

    /// Puts an unused slab, without elements, at place `slab` of the order.
    fn open(&mut self, slab: usize) {
        let used = self.used();
        let mut taken = [false; 256];
        (0..used).for_each(|slab| taken[self.slot(slab)] = true);
        let slot = taken.iter().position(|taken| !taken).unwrap_or(0);
        debug_assert!(used < self.shape.slabs && slot < self.shape.slabs);
        for at in [self.shape.slots_at(), self.shape.fills_at()] {
            self.bytes.copy_within(at + slab..at + used, at + slab + 1);
        }
        let firsts = self.shape.firsts_at();
        self.bytes.copy_within(
            firsts + slab * Self::SIZE..firsts + used * Self::SIZE,
            firsts + (slab + 1) * Self::SIZE,
        );
        self.bytes[self.shape.slots_at() + slab] = slot as u8;
        self.set_fill(slab, 0);
        self.set_used(used + 1);
    }

    /// Takes an empty slab out of the order.
    fn close(&mut self, slab: usize) {
        let used = self.used();
        for at in [self.shape.slots_at(), self.shape.fills_at()] {
            self.bytes.copy_within(at + slab + 1..at + used, at + slab);
        }
        let firsts = self.shape.firsts_at();
        self.bytes.copy_within(
            firsts + (slab + 1) * Self::SIZE..firsts + used * Self::SIZE,
            firsts + slab * Self::SIZE,
        );
        self.set_used(used - 1);
    }

    /// Inserts an element into a full slab, after making room; returns whether that was possible.
    fn make_room(&mut self, LeafPosition { slab, at }: LeafPosition, element: &T) -> bool {
        let (used, per_slab) = (self.used(), self.shape.per_slab);
        if used < self.shape.slabs {
            // Adding in order, upwards or downwards, fills each slab; otherwise the new slab gets half.
            if slab == 0 && at == 0 {
                self.open(0);
                self.put_in_slab(LeafPosition { slab, at }, element);
                return true;
            }
            let moved = if at == per_slab { 0 } else { per_slab / 2 };
            self.open(slab + 1);
            if moved > 0 {
                self.move_to_next(slab, moved);
            }
            let stays = per_slab - moved;
            let place = if at > stays || moved == 0 {
                LeafPosition { slab: slab + 1, at: at - stays }
            } else {
                LeafPosition { slab, at }
            };
            self.put_in_slab(place, element);
            return true;
        }
        let room = |slab: usize| per_slab - self.fill(slab);
        let (before, after) =
            (if slab > 0 { room(slab - 1) } else { 0 }, if slab + 1 < used { room(slab + 1) } else { 0 });
        if before.max(after) < 2 {
            return self.pack_and_insert(LeafPosition { slab, at }, element);
        }
        if after >= before {
            let moved = after.div_ceil(2);
            self.move_to_next(slab, moved);
            let stays = per_slab - moved;
            let place = if at > stays {
                LeafPosition { slab: slab + 1, at: at - stays }
            } else {
                LeafPosition { slab, at }
            };
            self.put_in_slab(place, element);
        } else {
            let (moved, there) = (before.div_ceil(2), self.fill(slab - 1));
            self.move_to_previous(slab, moved);
            let place = if at < moved {
                LeafPosition { slab: slab - 1, at: there + at }
            } else {
                LeafPosition { slab, at: at - moved }
            };
            self.put_in_slab(place, element);
        }
        true
    }

    /// Moves the last elements of a slab to the start of the next one, which has room.
    fn move_to_next(&mut self, slab: usize, count: usize) {
        let (fill, there) = (self.fill(slab), self.fill(slab + 1));
        let (from, to) =
            (self.element_at(self.slot(slab), fill - count), self.element_at(self.slot(slab + 1), 0));
        self.bytes.copy_within(to..to + there * Self::SIZE, to + count * Self::SIZE);
        self.bytes.copy_within(from..from + count * Self::SIZE, to);
        self.set_fill(slab, fill - count);
        self.set_fill(slab + 1, there + count);
        self.set_first(slab + 1);
        self.fill_up(slab);
        self.fill_up(slab + 1);
    }

    /// Moves the first elements of a slab to the end of the previous one, which has room.
    fn move_to_previous(&mut self, slab: usize, count: usize) {
        let (fill, there) = (self.fill(slab), self.fill(slab - 1));
        let (from, to) = (self.element_at(self.slot(slab), 0), self.element_at(self.slot(slab - 1), there));
        self.bytes.copy_within(from..from + count * Self::SIZE, to);
        self.bytes.copy_within(from + count * Self::SIZE..from + fill * Self::SIZE, from);
        self.set_fill(slab, fill - count);
        self.set_fill(slab - 1, there + count);
        self.set_first(slab);
        self.fill_up(slab);
    }

    /// Fills the space after the last element with copies of it.
    fn fill_up(&mut self, slab: usize) {
        let (slot, fill) = (self.slot(slab), self.fill(slab));
        let last = self.element_at(slot, fill - 1);
        for at in fill..self.shape.per_slab {
            let to = self.element_at(slot, at);
            self.bytes.copy_within(last..last + Self::SIZE, to);
        }
    }

    /// Repacks all slabs so that each has equal room, with the element at its place; returns whether there is
    /// enough room.
    fn pack_and_insert(&mut self, place: LeafPosition, element: &T) -> bool {
        let count = self.count();
        // The leaf is so full that it would have to be repacked every few insertions.
        if count + self.shape.room() / 64 >= self.shape.room() {
            return false;
        }
        let mut all = Vec::with_capacity(count + 1);
        let mut at = place.at;
        for slab in 0..self.used() {
            if slab < place.slab {
                at += self.fill(slab);
            }
            self.append_slab(slab, &mut all);
        }
        all.insert(at.min(all.len()), *element);
        self.pack(&all);
        true
    }

    fn append_slab(&self, slab: usize, to: &mut Vec<T>) {
        let (from, fill) = (self.element_at(self.slot(slab), 0), self.fill(slab));
        let old = to.len();
        to.resize(old + fill, T::new_zeroed());
        to[old..].as_mut_bytes().copy_from_slice(&self.bytes[from..from + fill * Self::SIZE]);
    }

    /// Fills the leaf with these elements, evenly over all slabs.
    pub fn pack(&mut self, elements: &[T]) {
        let slabs = self.shape.slabs;
        assert!(elements.len() <= self.shape.room());
        // No slab is empty.
        let used = slabs.min(elements.len());
        let mut from = 0;
        for slab in 0..used {
            let end = elements.len() * (slab + 1) / used;
            let at = self.element_at(slab, 0);
            let bytes = elements[from..end].as_bytes();
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            self.bytes[self.shape.slots_at() + slab] = slab as u8;
            self.set_fill(slab, end - from);
            self.set_first(slab);
            self.fill_up(slab);
            from = end;
        }
        self.set_used(used);
        self.set_count(elements.len());
    }

    /// Removes the element at a place; there must be one.
    pub fn remove(&mut self, LeafPosition { slab, at }: LeafPosition) {
        let slot = self.slot(slab);
        let (from, end) = (self.element_at(slot, at), self.element_at(slot, self.shape.per_slab));
        self.bytes.copy_within(from + Self::SIZE..end, from);
        let fill = self.fill(slab) - 1;
        self.set_fill(slab, fill);
        if fill == 0 {
            self.close(slab);
        } else if at == 0 {
            self.set_first(slab);
        }
        self.set_count(self.count() - 1);
    }
}

/// The number of elements of a leaf and their weight, which is the same number, if its sublayer agrees with
/// the slabs.
pub fn measure<T: Plain + Copy + Send + Sync + 'static>(
    shape: Fixed<T>,
    leaf: &[u8],
) -> Option<(usize, usize)> {
    let Fixed { slabs, per_slab, .. } = shape;
    if leaf.len() < shape.bytes() {
        return None;
    }
    let byte = |at: usize| usize::from(leaf[at]);
    let (count, used) = (u32::from_le_bytes([leaf[0], leaf[1], leaf[2], leaf[3]]), byte(4) + 256 * byte(5));
    if used > slabs {
        return None;
    }
    let mut seen = [false; 256];
    let mut all = 0;
    for slab in 0..used {
        let (slot, fill) = (byte(shape.slots_at() + slab), byte(shape.fills_at() + slab));
        if slot >= slabs || fill == 0 || fill > per_slab || std::mem::replace(&mut seen[slot], true) {
            return None;
        }
        let (first, of_slab) = (shape.firsts_at() + slab * size_of::<T>(), shape.slab_at(slot));
        if leaf[first..first + size_of::<T>()] != leaf[of_slab..of_slab + size_of::<T>()] {
            return None;
        }
        all += fill;
    }
    (all == count as usize).then_some((all, all))
}
