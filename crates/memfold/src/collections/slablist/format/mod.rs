//! Elements of lists, and what leaf formats have in common: `fixed` has elements of one size, `text` elements
//! of any length.
//!
//! A leaf's fill is the sum of its elements' **weights**: one each if all have one size, otherwise their
//! bytes and the slots that refer to them.
//!
//! Formats read a [`View`], which may show anything while another thread evicts the leaf's block. So they
//! trust nothing that they find there, offsets for example; the heap calls them again afterwards.

pub mod fixed;
pub mod text;

use std::borrow::ToOwned;
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::vec::Vec;

use crate::heap::{Error, Handle, Session, View};

/// What a list can store: plain old data, `str`, and `[u8]` of any length.
pub trait Element: ToOwned<Owned: Send + Sync> + sealed::Sealed + 'static {
    /// How leaves store it.
    #[doc(hidden)]
    type Format: Format<Self>;

    /// The bytes, if elements can have any length; their natural order is then that of the bytes.
    #[doc(hidden)]
    fn text(&self) -> Option<&[u8]>;

    /// The element with these bytes, if there is such an element and elements can have any length.
    #[doc(hidden)]
    fn from_text(bytes: &[u8]) -> Option<&Self>;

    /// Appends its bytes.
    #[doc(hidden)]
    fn append_to(&self, bytes: &mut Vec<u8>);

    /// Calls `look` with the element that has these bytes, if there is one.
    #[doc(hidden)]
    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R>;
}

mod sealed {
    pub trait Sealed {}
    impl<T: crate::heap::Plain + Copy + Send + Sync> Sealed for T {}
    impl Sealed for str {}
    impl Sealed for [u8] {}
}

/// Where an element is or belongs in a leaf: the position of its slab in the order, and its own in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafPosition {
    /// Position of the slab in the order.
    pub slab: usize,
    /// Position of the element in the slab.
    pub at: usize,
}

impl LeafPosition {
    /// Before all elements.
    pub const FIRST: Self = LeafPosition { slab: 0, at: 0 };
    /// After all elements, wherever that is.
    pub const END: Self = LeafPosition { slab: usize::MAX, at: 0 };
}

/// Whether there was room for an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is in the leaf now; by how much the leaf's weight grew.
    Done(i32),
    /// The leaf is full, or so nearly full that it would have to be repacked every few insertions.
    Full,
}

/// An element that was removed.
#[derive(Debug, Clone, Copy)]
pub struct Gone {
    pub weight: u32,
    /// The node with the rest of it.
    pub long: Option<Handle>,
}

/// The target of a search: a place in the order.
pub trait Seek<E: ?Sized> {
    /// Whether an element is before that place.
    fn is_before(&self, other: &E) -> bool;

    /// Whether `other`, the neighbour before the place (or after it, for a search from there), is equal to
    /// the element sought.
    fn is_equal(&self, other: &E) -> bool;

    /// The bytes sought, if all elements are in the order of their bytes.
    fn natural(&self) -> Option<Wanted<'_>>;
}

/// Bytes sought among elements that are in the order of their bytes.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'b> {
    pub bytes: &'b [u8],
    /// The place is after equal elements, not before them.
    pub behind: bool,
    /// Elements that begin with these bytes are equal, whatever follows, as with a map's keys, which precede
    /// the values. No other element is a prefix of these bytes.
    pub is_begin: bool,
}

impl Wanted<'_> {
    /// How many bytes of an element are compared.
    #[inline(always)]
    pub fn len_of(&self, element: usize) -> usize {
        if self.is_begin { element.min(self.bytes.len()) } else { element }
    }

    /// Whether an element that compares to the bytes as `order` is before the place.
    #[inline(always)]
    pub fn is_before(&self, order: Ordering) -> bool {
        if self.behind { order.is_le() } else { order.is_lt() }
    }
}

/// What a search has learned, and what else it needs.
pub trait Memo: Default {
    /// The node that has to be read before the search continues.
    fn wanted(&mut self) -> Option<Handle>;

    /// Takes the content of the node.
    fn learn(&mut self, node: Handle, bytes: Vec<u8>);

    /// Whether the search last saw something that is not an element.
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

/// A sequence of elements in plain memory.
pub trait Batch<E: ?Sized + Element>: Default {
    fn len(&self) -> usize;
    fn clear(&mut self);
    /// Adds one at the end.
    fn push(&mut self, element: <E::Format as Format<E>>::Held<'_>);
    /// A copy of one; the rest of a long one is read from its node.
    fn owned(&self, session: &Session<'_>, at: usize) -> Result<<E as ToOwned>::Owned, Error>;
    /// What sublayers store of one.
    fn key(&self, at: usize) -> <E::Format as Format<E>>::Key;
    fn weight(&self, at: usize) -> usize;
    /// The sum of all weights.
    fn total(&self) -> usize;
    /// How many elements from `from` on weigh at most `most` together, and their weight; at least one
    /// element, if there is one.
    fn fit(&self, from: usize, most: usize) -> (usize, usize) {
        let (mut to, mut weight) = (from, 0);
        while to < self.len() && (to == from || weight + self.weight(to) <= most) {
            (to, weight) = (to + 1, weight + self.weight(to));
        }
        (to - from, weight)
    }
    /// The node with the rest of one.
    fn long(&self, at: usize) -> Option<Handle>;
    /// Keeps only these.
    fn keep(&mut self, from: usize, to: usize);
    fn reverse(&mut self);
}

/// How leaves store elements; a leaf has one format all its life.
pub trait Format<E: ?Sized + Element<Format = Self>>: Copy + Send + Sync {
    /// What sublayers store of a leaf's first element.
    type Key: Clone + Send + Sync;
    /// An element about to enter a leaf.
    type Held<'e>: Copy;
    type Batch: Batch<E>;
    type Memo: Memo;
    /// When a leaf is filled at once, this part of it is left free.
    const SLACK: usize;
    /// Leaves should have this many 64ths of their room in use.
    const DENSITY: u64;
    /// Each leaf has at least this part of its room free after elements were spread over several leaves.
    const SPARE: usize;
    /// Elements can have nodes of their own.
    const HAS_LONG: bool;
    /// Bytes of an element, if all have the same length; otherwise 1.
    const ELEMENT: usize;

    /// The format for leaves of up to this many bytes. `natural`: elements are in the order of their bytes.
    fn new(bytes: usize, per_slab: usize, natural: bool) -> Self;
    /// Bytes of a leaf.
    fn bytes(self) -> usize;
    /// The weight that a leaf can hold.
    fn room(self) -> usize;
    /// The weight that a slab can hold.
    fn slab_weight(self) -> usize;

    /// Prepares an element for a list with leaves of up to this many bytes: an element too long for those
    /// gets a node of its own.
    fn hold<'e>(session: &Session<'_>, longest: usize, element: &'e E) -> Result<Self::Held<'e>, Error>;
    /// An element that is short enough for any leaf.
    fn inline(element: &E) -> Self::Held<'_>;
    /// Whether an element is that short.
    fn is_short(longest: usize, element: &E) -> bool;
    /// Undoes `hold`.
    fn let_go(session: &Session<'_>, held: Self::Held<'_>);
    /// As `hold`, for an element of a batch; the node of a long one stays as it is.
    fn held(batch: &Self::Batch, at: usize) -> Self::Held<'_>;
    fn weight(held: Self::Held<'_>) -> usize;
    fn key(held: Self::Held<'_>) -> Self::Key;
    /// The key, if it costs nothing.
    fn cheap_key(held: Self::Held<'_>) -> Option<Self::Key>;
    fn key_is_before<S: Seek<E>>(
        session: &Session<'_>,
        key: &Self::Key,
        seek: &S,
        failed: &mut Option<Error>,
    ) -> bool;
    fn key_is_equal<S: Seek<E>>(key: &Self::Key, seek: &S) -> bool;
    /// Bytes that a key occupies outside itself.
    fn key_bytes(key: &Self::Key) -> usize;

    /// The place after the last element that is before the target, and whether that element is equal to the
    /// target.
    fn find<S: Seek<E>>(self, leaf: View<'_>, seek: &S, memo: &mut Self::Memo) -> (LeafPosition, bool);
    /// The bytes of the sublayer, if it selects one slab to look at.
    fn sublayer(self) -> Option<Range<usize>> {
        None
    }
    /// The position of the slab with the last element before the target, according to the sublayer.
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
    /// Whether such a word is before the target.
    fn word_is_before<S: Seek<E>>(word: u64, seek: &S) -> bool {
        let _ = (word, seek);
        false
    }
    /// How many elements there are.
    fn count(self, leaf: View<'_>) -> usize;
    /// The place of an element by its number; after the last one if there are fewer.
    fn place(self, leaf: View<'_>, index: usize) -> LeafPosition;
    /// The number of the element at a place.
    fn index(self, leaf: View<'_>, place: LeafPosition) -> usize;
    /// Appends the elements of a part of the leaf, and returns how many there are; `None` if it has fewer
    /// parts. Parts are in order, and none is empty.
    fn copy_part(self, leaf: View<'_>, part: usize, to: &mut Self::Batch) -> Option<usize>;
    /// Appends all elements of the leaf.
    fn copy_all(self, leaf: View<'_>, to: &mut Self::Batch) {
        (0..self.parts(leaf)).for_each(|part| {
            self.copy_part(leaf, part, to);
        });
    }
    /// How many parts there are.
    fn parts(self, leaf: View<'_>) -> usize;
    /// The part that contains the element of a number, and its number in the part.
    fn part_of(self, leaf: View<'_>, index: usize) -> (usize, usize);
    /// The element at a place, if all have one size.
    fn peek(self, leaf: View<'_>, place: LeafPosition) -> Option<E::Owned>;
    /// Calls `look` with the element at a place; `None` if there is none, or if its node has to be read
    /// first.
    fn look<R>(
        self,
        leaf: View<'_>,
        place: LeafPosition,
        memo: &mut Self::Memo,
        look: impl FnOnce(&E) -> R,
    ) -> Option<R>;
    /// Appends the element at a place; returns whether there is one.
    fn copy_one(self, leaf: View<'_>, place: LeafPosition, to: &mut Self::Batch) -> bool;

    /// Inserts an element at a place, before the one that is there.
    fn insert(self, leaf: &mut [u8], place: LeafPosition, element: Self::Held<'_>) -> Put;
    /// Replaces an element, if there is room; returns by how much the leaf's weight grew, and the node of the
    /// old element.
    fn set(
        self,
        leaf: &mut [u8],
        place: LeafPosition,
        element: Self::Held<'_>,
    ) -> Option<(i32, Option<Handle>)>;
    /// Removes the element at a place; there must be one.
    fn remove(self, leaf: &mut [u8], place: LeafPosition) -> Gone;
    /// The element at a place, if all have one size.
    fn peek_in(self, leaf: &[u8], place: LeafPosition) -> Option<E::Owned>;
    /// What sublayers store of the first element.
    fn first(self, leaf: &[u8]) -> Self::Key;
    /// Fills the leaf with these elements of a batch; they must fit.
    fn pack(self, leaf: &mut [u8], batch: &Self::Batch, elements: Range<usize>);
    /// The number of elements and their weight, if the leaf does not contradict itself.
    fn measure(self, leaf: &[u8]) -> Option<(usize, usize)>;
    fn key_is(key: &Self::Key, other: &Self::Key) -> bool;
}

/// For how many of `count` elements `is_before` holds; it must hold for the first ones and no others.
#[inline(always)]
pub fn partition(count: usize, mut is_before: impl FnMut(usize) -> bool) -> usize {
    let (mut base, mut left) = (0, count);
    // Each step halves the rest without a branch that could be mispredicted.
    while left > 1 {
        let half = left / 2;
        base = select_unpredictable(is_before(base + half - 1), base + half, base);
        left -= half;
    }
    base + usize::from(count > 0 && is_before(base))
}
