//! Leaves of elements of one size. `change.rs` changes them.
//!
//! A leaf is a node of the heap with slabs in ascending order, and the sublayer that refers to them.
//!
//! ```text
//!   0        8         slots       fills       firsts            slabs
//!   | header | slots   | fills     | firsts    | slab 0 | slab 1 | .. |
//!     |        u8 each   u8 each     an element each, `slabs` of them
//!     count u32, used u16
//! ```
//!
//! The `used` slabs are in order: the one at position `i` of the order is slab `slots[i]`, has `fills[i]`
//! elements, at least one, and begins with `firsts[i]`. The space after a slab's last element holds copies of
//! some element that was there, so that a leaf compresses well.

mod change;

use std::marker::PhantomData;
use std::ops::Range;
use std::vec::Vec;

use self::change::{Leaf, measure};
use super::{Batch, Element, Format, Gone, LeafPosition, Put, Seek, partition};
use crate::heap::{Error, Handle, Plain, Session, View};

/// Bytes before `slots`.
const HEADER: usize = 8;
/// The most elements of a slab: fills have 8 bits.
pub const MOST_PER_SLAB: usize = 255;

/// The layout of a leaf.
pub struct Fixed<T> {
    slabs: usize,
    per_slab: usize,
    element: PhantomData<fn() -> T>,
}

/// What sublayers store of an element: the element. It is copied bit by bit, because it is also copied while
/// sublayers change, and a type's own `Clone` is code of the program, which may panic.
pub struct First<T>(T);

impl<T: Copy> Clone for First<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for First<T> {}

impl<T> Clone for Fixed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Fixed<T> {}

impl<T: Plain + Copy + Send + Sync + 'static> Batch<T> for Vec<T> {
    #[inline(always)]
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn push(&mut self, element: &T) {
        Vec::push(self, *element);
    }

    #[inline(always)]
    fn owned(&self, _: &Session<'_>, at: usize) -> Result<T, Error> {
        Ok(self[at])
    }

    fn key(&self, at: usize) -> First<T> {
        First(self[at])
    }

    fn weight(&self, _: usize) -> usize {
        1
    }

    fn total(&self) -> usize {
        Vec::len(self)
    }

    fn fit(&self, from: usize, most: usize) -> (usize, usize) {
        let count = most.max(1).min(Vec::len(self) - from);
        (count, count)
    }

    fn long(&self, _: usize) -> Option<Handle> {
        None
    }

    fn keep(&mut self, from: usize, to: usize) {
        self.truncate(to);
        self.drain(..from);
    }

    fn reverse(&mut self) {
        self.as_mut_slice().reverse();
    }
}

impl<T: Plain + Copy + Send + Sync + 'static> Fixed<T> {
    const SIZE: usize = size_of::<T>();

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
    fn used(self, leaf: View<'_>) -> usize {
        usize::from(leaf.get::<u16>(4).unwrap_or(0)).min(self.slabs)
    }

    #[inline(always)]
    fn slot(self, leaf: View<'_>, slab: usize) -> usize {
        usize::from(leaf.get::<u8>(self.slots_at() + slab).unwrap_or(0)).min(self.slabs - 1)
    }

    /// How many elements a slab has.
    #[inline(always)]
    fn fill(self, leaf: View<'_>, slab: usize) -> usize {
        usize::from(leaf.get::<u8>(self.fills_at() + slab).unwrap_or(0)).min(self.per_slab)
    }

    /// How many of `count` consecutive ascending elements are before the one sought.
    #[inline(always)]
    fn partition(leaf: View<'_>, at: usize, count: usize, seek: &impl Seek<T>) -> usize {
        match leaf.array::<T>(at, count) {
            Some(all) => partition(all.len(), |i| seek.is_before(&all.get(i))),
            None => partition(count, |i| {
                leaf.get::<T>(at + i * Self::SIZE).is_some_and(|other| seek.is_before(&other))
            }),
        }
    }

    /// The element at byte `at`.
    fn copied(leaf: &[u8], at: usize) -> Option<T> {
        let mut element = T::new_zeroed();
        element.as_mut_bytes().copy_from_slice(leaf.get(at..at + Self::SIZE)?);
        Some(element)
    }

    /// A leaf to change.
    fn change(self, bytes: &mut [u8]) -> Leaf<'_, T> {
        assert!(bytes.len() >= self.bytes());
        Leaf { shape: self, bytes }
    }
}

impl<T: Plain + Copy + Send + Sync + 'static> Format<T> for Fixed<T> {
    type Key = First<T>;
    type Held<'e> = &'e T;
    type Batch = Vec<T>;
    type Memo = ();
    const SLACK: usize = 64;
    const DENSITY: u64 = 61;
    const SPARE: usize = 32;
    const HAS_LONG: bool = false;
    const ELEMENT: usize = Self::SIZE;

    fn new(bytes: usize, per_slab: usize, _: bool) -> Self {
        let per_slab = per_slab.clamp(2, MOST_PER_SLAB);
        let fits = |slabs| Fixed::<T> { slabs, per_slab, element: PhantomData }.bytes() <= bytes;
        let most = (bytes / (per_slab * Self::SIZE).max(1)).min(255);
        let slabs = (1..=most).rev().find(|slabs| fits(*slabs)).unwrap_or(0);
        Fixed { slabs, per_slab, element: PhantomData }
    }

    fn bytes(self) -> usize {
        self.slab_at(self.slabs)
    }

    fn room(self) -> usize {
        self.slabs * self.per_slab
    }

    fn slab_weight(self) -> usize {
        self.per_slab
    }

    #[inline(always)]
    fn hold<'e>(_: &Session<'_>, _: usize, element: &'e T) -> Result<&'e T, Error> {
        Ok(element)
    }

    fn inline(element: &T) -> &T {
        element
    }

    fn is_short(_: usize, _: &T) -> bool {
        true
    }

    #[inline(always)]
    fn let_go(_: &Session<'_>, _: &T) {}

    fn held(batch: &Vec<T>, at: usize) -> &T {
        &batch[at]
    }

    #[inline(always)]
    fn weight(_: &T) -> usize {
        1
    }

    #[inline(always)]
    fn key(held: &T) -> First<T> {
        First(*held)
    }

    #[inline(always)]
    fn cheap_key(held: &T) -> Option<First<T>> {
        Some(First(*held))
    }

    #[inline(always)]
    fn key_is_before<S: Seek<T>>(_: &Session<'_>, key: &First<T>, seek: &S, _: &mut Option<Error>) -> bool {
        seek.is_before(&key.0)
    }

    #[inline(always)]
    fn key_is_equal<S: Seek<T>>(key: &First<T>, seek: &S) -> bool {
        seek.is_equal(&key.0)
    }

    fn key_bytes(_: &First<T>) -> usize {
        0
    }

    fn key_is(key: &First<T>, other: &First<T>) -> bool {
        key.0.as_bytes() == other.0.as_bytes()
    }

    #[inline(always)]
    fn find<S: Seek<T>>(self, leaf: View<'_>, seek: &S, _: &mut ()) -> (LeafPosition, bool) {
        // Prefetch all lines of the sublayer at once, and then all of the slab, so that a search waits for
        // memory only twice.
        leaf.prefetch(0, self.firsts_at() + self.slabs * Self::SIZE);
        let slab = self.slab_of(leaf, seek);
        let start = self.slab_at(self.slot(leaf, slab));
        leaf.prefetch(start, self.per_slab * Self::SIZE);
        let fill = self.fill(leaf, slab);
        let at = Self::partition(leaf, start, fill, seek);
        let is_equal =
            at > 0 && leaf.get(start + (at - 1) * Self::SIZE).is_some_and(|last| seek.is_equal(&last));
        (LeafPosition { slab, at }, is_equal)
    }

    fn sublayer(self) -> Option<Range<usize>> {
        Some(0..self.firsts_at() + self.slabs * Self::SIZE)
    }

    #[inline(always)]
    fn slab_of<S: Seek<T>>(self, leaf: View<'_>, seek: &S) -> usize {
        Self::partition(leaf, self.firsts_at(), self.used(leaf), seek).saturating_sub(1)
    }

    fn slab_bytes(self, leaf: View<'_>, slab: usize) -> Range<usize> {
        let start = self.slab_at(self.slot(leaf, slab));
        start..start + self.fill(leaf, slab) * Self::SIZE
    }

    fn element_bytes(self, leaf: View<'_>, place: LeafPosition) -> Range<usize> {
        let at = self.slab_at(self.slot(leaf, place.slab)) + place.at.min(self.per_slab - 1) * Self::SIZE;
        at..at + Self::SIZE
    }

    const IS_WORD: bool = Self::SIZE == size_of::<u64>();

    #[inline(always)]
    fn word_is_before<S: Seek<T>>(word: u64, seek: &S) -> bool {
        T::read_from_bytes(&word.to_le_bytes()).is_ok_and(|element| seek.is_before(&element))
    }

    fn count(self, leaf: View<'_>) -> usize {
        (0..self.used(leaf)).map(|slab| self.fill(leaf, slab)).sum()
    }

    fn place(self, leaf: View<'_>, mut index: usize) -> LeafPosition {
        let used = self.used(leaf);
        for slab in 0..used {
            let fill = self.fill(leaf, slab);
            if index < fill || slab + 1 == used {
                return LeafPosition { slab, at: index.min(fill) };
            }
            index -= fill;
        }
        LeafPosition::FIRST
    }

    fn index(self, leaf: View<'_>, place: LeafPosition) -> usize {
        (0..place.slab.min(self.used(leaf))).map(|slab| self.fill(leaf, slab)).sum::<usize>() + place.at
    }

    fn parts(self, leaf: View<'_>) -> usize {
        self.used(leaf)
    }

    fn part_of(self, leaf: View<'_>, index: usize) -> (usize, usize) {
        let place = self.place(leaf, index);
        (place.slab, place.at)
    }

    fn copy_part(self, leaf: View<'_>, part: usize, to: &mut Vec<T>) -> Option<usize> {
        if part >= self.used(leaf) {
            return None;
        }
        let (fill, at) = (self.fill(leaf, part), self.slab_at(self.slot(leaf, part)));
        // Slabs are in any order, so the processor's own prefetching ends with this one.
        leaf.prefetch(self.slab_at(self.slot(leaf, (part + 1).min(self.slabs - 1))), fill * Self::SIZE);
        leaf.append(at, fill, to);
        Some(fill)
    }

    #[inline(always)]
    fn peek(self, leaf: View<'_>, place: LeafPosition) -> Option<T> {
        if place.slab >= self.used(leaf) || place.at >= self.fill(leaf, place.slab) {
            return None;
        }
        leaf.get(self.slab_at(self.slot(leaf, place.slab)) + place.at * Self::SIZE)
    }

    #[inline(always)]
    fn look<R>(
        self,
        leaf: View<'_>,
        place: LeafPosition,
        _: &mut (),
        look: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        Format::<T>::peek(self, leaf, place).map(|element| look(&element))
    }

    fn copy_one(self, leaf: View<'_>, place: LeafPosition, to: &mut Vec<T>) -> bool {
        self.peek(leaf, place).map(|element| to.push(element)).is_some()
    }

    #[inline(always)]
    fn insert(self, leaf: &mut [u8], place: LeafPosition, element: &T) -> Put {
        self.change(leaf).insert(place, element)
    }

    fn set(self, leaf: &mut [u8], place: LeafPosition, element: &T) -> Option<(i32, Option<Handle>)> {
        self.change(leaf).set(place, element);
        Some((0, None))
    }

    #[inline(always)]
    fn remove(self, leaf: &mut [u8], place: LeafPosition) -> Gone {
        self.change(leaf).remove(place);
        Gone { weight: 1, long: None }
    }

    fn peek_in(self, leaf: &[u8], LeafPosition { slab, at }: LeafPosition) -> Option<T> {
        let slot = usize::from(*leaf.get(self.slots_at() + slab)?).min(self.slabs - 1);
        Self::copied(leaf, self.slab_at(slot) + at * Self::SIZE)
    }

    fn first(self, leaf: &[u8]) -> First<T> {
        First(Self::copied(leaf, self.firsts_at()).unwrap_or(T::new_zeroed()))
    }

    fn pack(self, leaf: &mut [u8], batch: &Vec<T>, elements: Range<usize>) {
        self.change(leaf).pack(&batch[elements]);
    }

    fn measure(self, leaf: &[u8]) -> Option<(usize, usize)> {
        measure::<T>(self, leaf)
    }
}
impl<T: Plain + Copy + Send + Sync + 'static> Element for T {
    type Format = Fixed<T>;

    #[inline(always)]
    fn text(&self) -> Option<&[u8]> {
        None
    }

    fn from_text(_: &[u8]) -> Option<&Self> {
        None
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_bytes());
    }

    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R> {
        T::read_from_bytes(bytes).ok().map(|element| look(&element))
    }
}
