//! A leaf: a node of the heap with slabs in ascending order, and the sublayer that leads to them.
//!
//! ```text
//!   0        8         slots       fills       firsts            slabs
//!   | header | slots   | fills     | firsts    | slab 0 | slab 1 | .. |
//!     |        u8 each   u8 each     an element each, `slabs` of them
//!     count u32, used u16
//! ```
//!
//! The `used` slabs come in order: the one at place `i` of the order lies in slab `slots[i]`, has `fills[i]` elements, at least one, and begins with
//! `firsts[i]`. What lies behind a slab's last element is a copy of some element that was there, so that a leaf compresses.
//!
//! Searching reads a [`View`] and believes nothing that it finds there: places that lead outside of the leaf are none.

use std::marker::PhantomData;
use std::vec::Vec;

use zerocopy::IntoBytes;

use crate::heap::{Plain, View};

/// Bytes before `slots`.
const HEADER: usize = 8;
/// Elements of a slab at most: fills have 8 bits.
pub const MOST_PER_SLAB: usize = 255;

/// How a leaf is laid out.
#[derive(Debug)]
pub struct Shape<T> {
    slabs: usize,
    per_slab: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Shape<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shape<T> {}

/// Where an element is or belongs: the place of its slab in the order, and its own in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Of the slab in the order.
    pub slab: usize,
    /// Of the element in the slab.
    pub at: usize,
}

impl<T: Plain + Copy> Shape<T> {
    const SIZE: usize = size_of::<T>();

    /// For leaves of so many bytes with slabs of `per_slab` elements.
    pub fn new(bytes: usize, per_slab: usize) -> Self {
        let per_slab = per_slab.clamp(2, MOST_PER_SLAB);
        let fits = |slabs| Shape::<T> { slabs, per_slab, element: PhantomData }.bytes() <= bytes;
        let most = (bytes / (per_slab * Self::SIZE)).min(255);
        let slabs = (1..=most).rev().find(|slabs| fits(*slabs)).unwrap_or(0);
        Shape { slabs, per_slab, element: PhantomData }
    }

    /// How many elements a slab has room for.
    pub fn per_slab(self) -> usize {
        self.per_slab
    }

    /// How many elements there is room for.
    pub fn room(self) -> usize {
        self.slabs * self.per_slab
    }

    /// Bytes of a leaf.
    pub fn bytes(self) -> usize {
        self.slab_at(self.slabs)
    }

    fn slots_at(self) -> usize {
        HEADER
    }

    fn fills_at(self) -> usize {
        HEADER + self.slabs
    }

    #[inline(always)]
    fn firsts_at(self) -> usize {
        (HEADER + 2 * self.slabs).next_multiple_of(8)
    }

    #[inline(always)]
    fn slab_at(self, slot: usize) -> usize {
        (self.firsts_at() + self.slabs * Self::SIZE).next_multiple_of(8) + slot * self.per_slab * Self::SIZE
    }

    /// How many slabs are in use.
    #[inline(always)]
    pub fn used(self, leaf: View<'_>) -> usize {
        usize::from(leaf.get::<u16>(4).unwrap_or(0)).min(self.slabs)
    }

    #[inline(always)]
    fn slot(self, leaf: View<'_>, slab: usize) -> usize {
        usize::from(leaf.get::<u8>(self.slots_at() + slab).unwrap_or(0)).min(self.slabs - 1)
    }

    /// How many elements a slab has.
    #[inline(always)]
    pub fn fill(self, leaf: View<'_>, slab: usize) -> usize {
        usize::from(leaf.get::<u8>(self.fills_at() + slab).unwrap_or(0)).min(self.per_slab)
    }

    /// The elements of a slab, copied to `to`.
    pub fn copy_slab(self, leaf: View<'_>, slab: usize, to: &mut [T]) -> usize {
        let (fill, at) = (self.fill(leaf, slab).min(to.len()), self.slab_at(self.slot(leaf, slab)));
        let _ = leaf.copy_to(at, to[..fill].as_mut_bytes());
        fill
    }

    /// The element at a place.
    #[inline(always)]
    pub fn get(self, leaf: View<'_>, place: Place) -> Option<T> {
        if place.slab >= self.used(leaf) || place.at >= self.fill(leaf, place.slab) {
            return None;
        }
        leaf.get(self.slab_at(self.slot(leaf, place.slab)) + place.at * Self::SIZE)
    }

    /// How many of `count` elements that follow each other, ascending, `is_before` holds for: it does for the first of them, and not for the others.
    #[inline(always)]
    fn partition(leaf: View<'_>, at: usize, count: usize, is_before: &mut impl FnMut(T) -> bool) -> usize {
        let mut before = |i: usize| leaf.get::<T>(at + i * Self::SIZE).is_some_and(&mut *is_before);
        let (mut base, mut left) = (0, count);
        // Half of what is left is decided each time without a branch that could be predicted wrongly.
        while left > 1 {
            let half = left / 2;
            base += if before(base + half - 1) { half } else { 0 };
            left -= half;
        }
        base + usize::from(count > 0 && before(base))
    }

    /// The place behind the last element for which `is_before` holds, which is not at the beginning of a slab but of the first, and that element.
    #[inline(always)]
    pub fn find(self, leaf: View<'_>, mut is_before: impl FnMut(T) -> bool) -> (Place, Option<T>) {
        // All lines of the sublayer at once, and then all of the slab: what is searched waits for memory twice.
        leaf.prefetch(0, self.firsts_at() + self.slabs * Self::SIZE);
        let used = self.used(leaf);
        let slab = Self::partition(leaf, self.firsts_at(), used, &mut is_before).saturating_sub(1);
        let start = self.slab_at(self.slot(leaf, slab));
        leaf.prefetch(start, self.per_slab * Self::SIZE);
        let fill = self.fill(leaf, slab);
        let at = Self::partition(leaf, start, fill, &mut is_before);
        let last = if at > 0 { leaf.get(start + (at - 1) * Self::SIZE) } else { None };
        (Place { slab, at }, last)
    }

    /// A leaf to be changed.
    pub fn change(self, bytes: &mut [u8]) -> Leaf<'_, T> {
        assert!(bytes.len() >= self.bytes());
        Leaf { shape: self, bytes }
    }
}

/// A leaf that is being changed.
pub struct Leaf<'n, T> {
    shape: Shape<T>,
    bytes: &'n mut [u8],
}

/// Where there is room for an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is there now.
    Done,
    /// The leaf is full, or so nearly that it would have to be packed anew each few times.
    Full,
}

impl<T: Plain + Copy> Leaf<'_, T> {
    const SIZE: usize = size_of::<T>();

    /// Elements of the leaf.
    pub fn count(&self) -> usize {
        u32::from_le_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]) as usize
    }

    fn set_count(&mut self, count: usize) {
        self.bytes[..4].copy_from_slice(&(count as u32).to_le_bytes());
    }

    /// Slabs in use.
    pub fn used(&self) -> usize {
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

    /// The first element.
    pub fn first(&self) -> T {
        let at = self.shape.firsts_at();
        let mut first = T::new_zeroed();
        first.as_mut_bytes().copy_from_slice(&self.bytes[at..at + Self::SIZE]);
        first
    }

    /// Puts an element at a place, before what is there.
    pub fn insert(&mut self, place: Place, element: &T) -> Put {
        let count = self.count();
        if self.fill(place.slab) < self.shape.per_slab {
            self.put_in_slab(place, element);
        } else if !self.make_room(place, element) {
            return Put::Full;
        }
        self.set_count(count + 1);
        Put::Done
    }

    /// Puts an element into a slab with room.
    fn put_in_slab(&mut self, Place { slab, at }: Place, element: &T) {
        let slot = self.slot(slab);
        let (from, end) = (self.element_at(slot, at), self.element_at(slot, self.shape.per_slab));
        // What is behind the last element moves too: the last of it goes.
        self.bytes.copy_within(from..end - Self::SIZE, from + Self::SIZE);
        self.put(from, element);
        self.set_fill(slab, self.fill(slab) + 1);
        if at == 0 {
            self.set_first(slab);
        }
    }

    /// A slab that is not in use comes to place `slab` of the order, without elements.
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

    /// Takes a slab without elements out of the order.
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

    /// Puts an element where its slab is full; whether it could.
    fn make_room(&mut self, Place { slab, at }: Place, element: &T) -> bool {
        let (used, per_slab) = (self.used(), self.shape.per_slab);
        if used < self.shape.slabs {
            // Who adds in order, up or down, fills each slab; else the new one gets half.
            if slab == 0 && at == 0 {
                self.open(0);
                self.put_in_slab(Place { slab, at }, element);
                return true;
            }
            let moved = if at == per_slab { 0 } else { per_slab / 2 };
            self.open(slab + 1);
            if moved > 0 {
                self.move_to_next(slab, moved);
            }
            let stays = per_slab - moved;
            let place = if at > stays || moved == 0 {
                Place { slab: slab + 1, at: at - stays }
            } else {
                Place { slab, at }
            };
            self.put_in_slab(place, element);
            return true;
        }
        let room = |slab: usize| per_slab - self.fill(slab);
        let (before, after) =
            (if slab > 0 { room(slab - 1) } else { 0 }, if slab + 1 < used { room(slab + 1) } else { 0 });
        if before.max(after) < 2 {
            return self.pack_and_insert(Place { slab, at }, element);
        }
        if after >= before {
            let moved = after.div_ceil(2);
            self.move_to_next(slab, moved);
            let stays = per_slab - moved;
            let place =
                if at > stays { Place { slab: slab + 1, at: at - stays } } else { Place { slab, at } };
            self.put_in_slab(place, element);
        } else {
            let (moved, there) = (before.div_ceil(2), self.fill(slab - 1));
            self.move_to_previous(slab, moved);
            let place = if at < moved {
                Place { slab: slab - 1, at: there + at }
            } else {
                Place { slab, at: at - moved }
            };
            self.put_in_slab(place, element);
        }
        true
    }

    /// Moves the last elements of a slab to the beginning of the next one, which has room.
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

    /// Moves the first elements of a slab to the end of the one before, which has room.
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

    /// What is behind the last element becomes like it.
    fn fill_up(&mut self, slab: usize) {
        let (slot, fill) = (self.slot(slab), self.fill(slab));
        let last = self.element_at(slot, fill - 1);
        for at in fill..self.shape.per_slab {
            let to = self.element_at(slot, at);
            self.bytes.copy_within(last..last + Self::SIZE, to);
        }
    }

    /// Packs all anew so that each slab has as much room as the others, with the element at its place; whether there is enough.
    fn pack_and_insert(&mut self, place: Place, element: &T) -> bool {
        let count = self.count();
        // So full that it would have to be packed anew each few times.
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

    /// Makes these elements the leaf's, in all slabs alike.
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

    /// Takes out the element at a place, which there is.
    pub fn remove(&mut self, Place { slab, at }: Place) {
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

    /// Whether the sublayer is right about the slabs.
    pub fn is_sound(&self) -> bool {
        let Shape { slabs, per_slab, .. } = self.shape;
        let used = self.used();
        if used > slabs {
            return false;
        }
        let mut seen = [false; 256];
        let mut is_sound = |slab: usize| {
            let (slot, fill) = (self.slot(slab), self.fill(slab));
            if slot >= slabs || fill == 0 || fill > per_slab || std::mem::replace(&mut seen[slot], true) {
                return false;
            }
            let (first, of_slab) = (self.shape.firsts_at() + slab * Self::SIZE, self.element_at(slot, 0));
            self.bytes[first..first + Self::SIZE] == self.bytes[of_slab..of_slab + Self::SIZE]
        };
        (0..used).all(&mut is_sound) && (0..used).map(|slab| self.fill(slab)).sum::<usize>() == self.count()
    }
}
