//! What leaves of all formats have in common: `fixed` has elements of one size, `text` those of any length.
//!
//! A leaf is as full as the sum of its elements' **weights**: one each where all have one size, else their bytes and what leads to them.
//!
//! Formats read a [`View`], which may show anything while another thread evicts the leaf's block, and believe nothing that they find there: what leads outside of the
//! leaf is no place. Then the heap calls them again.

use std::borrow::ToOwned;
use std::cmp::Ordering;
use std::ops::Range;
use std::vec::Vec;

use super::element::Element;
use crate::heap::{Error, Handle, Session, View};

/// Where an element is or belongs in a leaf: the place of its slab in the order, and its own in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafPosition {
    /// Of the slab in the order.
    pub slab: usize,
    /// Of the element in the slab.
    pub at: usize,
}

impl LeafPosition {
    /// Before all elements.
    pub const FIRST: Self = LeafPosition { slab: 0, at: 0 };
    /// Behind all elements, wherever that is.
    pub const END: Self = LeafPosition { slab: usize::MAX, at: 0 };
}

/// Whether there was room for an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is there now; how much heavier the leaf is.
    Done(i32),
    /// The leaf is full, or so nearly that it would have to be packed anew each few times.
    Full,
}

/// An element that was taken out.
#[derive(Debug, Clone, Copy)]
pub struct Gone {
    pub weight: u32,
    /// The node that has the rest of it.
    pub long: Option<Handle>,
}

/// What is looked for: a place in the order.
pub trait Seek<E: ?Sized> {
    /// Whether an element is before that place.
    fn is_before(&self, other: &E) -> bool;

    /// Whether an element that is before it, or after it if that is where it is looked for, is equal to what is looked for.
    fn is_equal(&self, other: &E) -> bool;

    /// The bytes that are looked for, if all elements are in the order of theirs.
    fn natural(&self) -> Option<Wanted<'_>>;
}

/// Bytes that are looked for among elements that are in the order of their bytes.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'b> {
    pub bytes: &'b [u8],
    /// The place is behind those that are equal, not before them.
    pub behind: bool,
    /// Elements that begin with these bytes are equal, whatever follows: a map's keys are so before its values.
    /// No other element is a beginning of these bytes.
    pub is_begin: bool,
}

impl Wanted<'_> {
    /// How many bytes of an element are compared.
    #[inline(always)]
    pub fn len_of(&self, element: usize) -> usize {
        if self.is_begin { element.min(self.bytes.len()) } else { element }
    }

    /// Whether what stands so to the bytes is before the place.
    #[inline(always)]
    pub fn is_before(&self, order: Ordering) -> bool {
        if self.behind { order.is_le() } else { order.is_lt() }
    }
}

/// What was found out on the way, and what else has to be known.
pub trait Memo: Default {
    /// The node that has to be read before going on.
    fn wanted(&mut self) -> Option<Handle>;

    /// What the node holds.
    fn learn(&mut self, node: Handle, bytes: Vec<u8>);

    /// Something that was seen last is no element.
    fn is_damaged(&self) -> bool;
}

impl Memo for () {
    #[inline(always)]
    fn wanted(&mut self) -> Option<Handle> {
        None
    }

    fn learn(&mut self, _: Handle, _: Vec<u8>) {}

    #[inline(always)]
    fn is_damaged(&self) -> bool {
        false
    }
}

/// Elements in plain memory, in a row.
pub trait Batch<E: ?Sized + Element>: Default {
    fn len(&self) -> usize;
    fn clear(&mut self);
    /// Adds one behind the others.
    fn push(&mut self, element: <E::Format as Format<E>>::Held<'_>);
    /// A copy of one; what is longer is read from its node.
    fn owned(&self, session: &Session<'_>, at: usize) -> Result<<E as ToOwned>::Owned, Error>;
    /// What sublayers keep of one.
    fn key(&self, at: usize) -> <E::Format as Format<E>>::Key;
    fn weight(&self, at: usize) -> usize;
    /// All weights.
    fn total(&self) -> usize;
    /// How many elements from `from` on weigh no more than `most` together, at least one if there is one, and what they weigh.
    fn fit(&self, from: usize, most: usize) -> (usize, usize) {
        let (mut to, mut weight) = (from, 0);
        while to < self.len() && (to == from || weight + self.weight(to) <= most) {
            (to, weight) = (to + 1, weight + self.weight(to));
        }
        (to - from, weight)
    }
    /// The node that has the rest of one.
    fn long(&self, at: usize) -> Option<Handle>;
    /// Keeps these.
    fn keep(&mut self, from: usize, to: usize);
    fn reverse(&mut self);
}

/// How leaves keep elements, by which bytes; a leaf is used by one of them all its life.
pub trait Format<E: ?Sized + Element<Format = Self>>: Copy + Send + Sync {
    /// What sublayers keep of a leaf's first element.
    type Key: Clone + Send + Sync;
    /// An element on its way into a leaf.
    type Held<'e>: Copy;
    type Batch: Batch<E>;
    type Memo: Memo;
    /// A leaf that is filled at once is filled up to what is left by this part of it.
    const SLACK: usize;
    /// Leaves have so many 64ths of their room in use, if that can be had.
    const DENSITY: u64;
    /// The part of its room that each leaf has left, at least, when elements were spread over some.
    const SPARE: usize;
    /// Elements can have nodes of their own.
    const HAS_LONG: bool;
    /// Bytes of an element, if all have as many; else 1.
    const ELEMENT: usize;

    /// For leaves of up to so many bytes. `natural`: elements are in the order of their bytes.
    fn new(bytes: usize, per_slab: usize, natural: bool) -> Self;
    /// Bytes of a leaf.
    fn bytes(self) -> usize;
    /// Weight that a leaf has room for.
    fn room(self) -> usize;
    /// Weight that a slab has room for.
    fn slab_weight(self) -> usize;

    /// Prepares an element for a list with leaves of up to so many bytes: what is longer than these can hold gets a node of its own.
    fn hold<'e>(session: &Session<'_>, longest: usize, element: &'e E) -> Result<Self::Held<'e>, Error>;
    /// An element that is short enough for any leaf.
    fn inline(element: &E) -> Self::Held<'_>;
    /// Whether an element is that short.
    fn is_short(longest: usize, element: &E) -> bool;
    /// Undoes `hold`.
    fn let_go(session: &Session<'_>, held: Self::Held<'_>);
    /// The same element, out of a batch whose elements stay in the heap.
    fn held(batch: &Self::Batch, at: usize) -> Self::Held<'_>;
    fn weight(held: Self::Held<'_>) -> usize;
    fn key(held: Self::Held<'_>) -> Self::Key;
    /// The same, if it costs nothing.
    fn cheap_key(held: Self::Held<'_>) -> Option<Self::Key>;
    fn key_is_before<S: Seek<E>>(
        session: &Session<'_>,
        key: &Self::Key,
        seek: &S,
        failed: &mut Option<Error>,
    ) -> bool;
    fn key_is_equal<S: Seek<E>>(key: &Self::Key, seek: &S) -> bool;
    /// Bytes that a key has outside of itself.
    fn key_bytes(key: &Self::Key) -> usize;

    /// The place behind the last element that is before what is looked for, and whether that element is equal to it.
    fn find<S: Seek<E>>(self, leaf: View<'_>, seek: &S, memo: &mut Self::Memo) -> (LeafPosition, bool);
    /// The bytes of the sublayer, if it leads to slabs of which one is looked at.
    fn sublayer(self) -> Option<Range<usize>> {
        None
    }
    /// The place in the order of the slab with the last element that is before what is looked for: the sublayer tells.
    fn slab_of<S: Seek<E>>(self, leaf: View<'_>, seek: &S) -> usize {
        let _ = (leaf, seek);
        0
    }
    /// The bytes of a slab's elements.
    fn slab_bytes(self, leaf: View<'_>, slab: usize) -> Range<usize> {
        let _ = slab;
        0..leaf.len()
    }
    /// The bytes of an element.
    fn element_bytes(self, leaf: View<'_>, place: LeafPosition) -> Range<usize> {
        let _ = place;
        0..leaf.len()
    }
    /// Whether an element is one word of eight bytes.
    const IS_WORD: bool = false;
    /// Whether such a one is before what is looked for.
    fn word_is_before<S: Seek<E>>(word: u64, seek: &S) -> bool {
        let _ = (word, seek);
        false
    }
    /// How many elements there are.
    fn count(self, leaf: View<'_>) -> usize;
    /// The place of an element by its number; behind the last one if there are no more.
    fn place(self, leaf: View<'_>, index: usize) -> LeafPosition;
    /// The number of the element at a place.
    fn index(self, leaf: View<'_>, place: LeafPosition) -> usize;
    /// Appends the elements of a part of the leaf, and says how many; `None` if it has fewer parts. Parts are in order, and none is empty.
    fn copy_part(self, leaf: View<'_>, part: usize, to: &mut Self::Batch) -> Option<usize>;
    /// Appends all elements of the leaf.
    fn copy_all(self, leaf: View<'_>, to: &mut Self::Batch) {
        (0..self.parts(leaf)).for_each(|part| {
            self.copy_part(leaf, part, to);
        });
    }
    /// How many parts there are.
    fn parts(self, leaf: View<'_>) -> usize;
    /// The part with the element of a number, and its number there.
    fn part_of(self, leaf: View<'_>, index: usize) -> (usize, usize);
    /// The element at a place, if all have one size.
    fn peek(self, leaf: View<'_>, place: LeafPosition) -> Option<E::Owned>;
    /// Lets `look` look at the element at a place; `None` if there is none, or if its node has to be read first.
    fn look<R>(
        self,
        leaf: View<'_>,
        place: LeafPosition,
        memo: &mut Self::Memo,
        look: impl FnOnce(&E) -> R,
    ) -> Option<R>;
    /// Appends the element at a place; whether there is one.
    fn copy_one(self, leaf: View<'_>, place: LeafPosition, to: &mut Self::Batch) -> bool;

    /// Puts an element at a place, before what is there.
    fn insert(self, leaf: &mut [u8], place: LeafPosition, element: Self::Held<'_>) -> Put;
    /// Puts an element in the place of another one, if there is room; how much heavier the leaf is then, and the node of the other one.
    fn set(
        self,
        leaf: &mut [u8],
        place: LeafPosition,
        element: Self::Held<'_>,
    ) -> Option<(i32, Option<Handle>)>;
    /// Takes out the element at a place, which there is.
    fn remove(self, leaf: &mut [u8], place: LeafPosition) -> Gone;
    /// The element at a place, if all have one size.
    fn peek_in(self, leaf: &[u8], place: LeafPosition) -> Option<E::Owned>;
    /// What sublayers keep of the first element.
    fn first(self, leaf: &[u8]) -> Self::Key;
    /// Makes these elements of a batch the leaf's; they fit.
    fn pack(self, leaf: &mut [u8], batch: &Self::Batch, elements: Range<usize>);
    /// How many elements there are and what they weigh, if the leaf does not contradict itself.
    fn measure(self, leaf: &[u8]) -> Option<(usize, usize)>;
    fn key_is(key: &Self::Key, other: &Self::Key) -> bool;
}
