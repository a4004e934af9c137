//! Leaves of elements of any length: strings and bytes. `change.rs` changes them, `batch.rs` holds them
//! outside the heap.
//!
//! ```text
//!   0        16                16 + 8 count        low                     the leaf's end
//!   | header | slot | slot | .. |        zero       | record | hole | record |
//!     |        |
//!     |        head u32 │ offset u16 │ length u16, in the order of the elements
//!     count u16, prefix u16, low u32, holes u32, longs u32
//! ```
//!
//! A slot is one word: offset and length of the record, and the **head** of its element. The head is the four
//! bytes after the **prefix** that all elements of the leaf share, the first of them highest. So a search
//! compares adjacent numbers, and looks at records only if heads are equal. If the order is not that of
//! bytes, prefix and heads are 0.
//!
//! The record of a short element (see [`INLINE`]) is the element itself. A longer one has a node of its own,
//! and its record refers to that ([`LONG`]): handle u64, length u64, and the first 48 bytes, from which the
//! prefix, which is shorter, and the heads can be computed again.
//!
//! Holes between records are closed when their space is needed. Bytes outside records are zero.

mod batch;
mod change;
mod element;
mod find;

use std::boxed::Box;
use std::ops::Range;
use std::vec::Vec;

pub use self::batch::Strings;
use self::change::Leaf;
use super::{Element, Format, Gone, LeafPosition, Memo, Put, Seek, Wanted};
use crate::heap::{Error, Handle, Session, View};

/// Bytes before slots.
const HEADER: usize = 16;
/// Bytes of a slot.
const SLOT: usize = 8;
/// A longer element than this part of the longest leaf has a node of its own.
const INLINE: usize = 8;
/// The length in the slot of an element whose record refers to a node.
const LONG: usize = 0xffff;
/// Bytes of such a record, and how many of them are the element's beginning.
const LONG_BYTES: usize = 64;
const BEGIN: usize = LONG_BYTES - 16;
/// The longest prefix that is left out: heads are computed from the records of long elements.
const PREFIX: usize = BEGIN - 4;
/// The most bytes of a leaf: offsets have 16 bits.
const MOST_BYTES: usize = 0xfff8;
/// Elements that are copied at once.
const PART: usize = 64;

/// The layout of a leaf.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    bytes: usize,
    natural: bool,
}

/// A record: the element, or a reference to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held<'e> {
    Inline(&'e [u8]),
    /// The element's node, its length and how it begins.
    Long {
        node: Handle,
        len: u64,
        begin: &'e [u8],
    },
}

impl Held<'_> {
    /// Bytes of the record.
    fn bytes(self) -> usize {
        match self {
            Held::Inline(bytes) => bytes.len(),
            Held::Long { .. } => LONG_BYTES,
        }
    }

    /// The element's beginning.
    fn begin(&self) -> &[u8] {
        match self {
            Held::Inline(bytes) => bytes,
            Held::Long { begin, .. } => begin,
        }
    }
}

/// What sublayers store of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// With a copy of the first eight bytes, the first of them highest: usually these decide, and the other
    /// bytes need not be read.
    Inline {
        head: u64,
        bytes: Box<[u8]>,
    },
    Long(Handle),
}

impl Key {
    fn inline(bytes: &[u8]) -> Self {
        Key::Inline { head: long_head_of(bytes), bytes: bytes.into() }
    }
}

/// Eight bytes as a number with the same order.
#[inline(always)]
fn long_head_of(bytes: &[u8]) -> u64 {
    if let Some(head) = bytes.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(head)
}

/// The greatest such number of an element that is equal to the target.
#[inline(always)]
fn long_head_up_to(wanted: Wanted<'_>) -> u64 {
    let head = long_head_of(wanted.bytes);
    if wanted.is_begin && wanted.bytes.len() < 8 { head | u64::MAX >> (8 * wanted.bytes.len()) } else { head }
}

/// What the search has read.
#[derive(Debug, Default)]
pub struct Found {
    /// The element under comparison.
    element: Vec<u8>,
    longs: Vec<(Handle, Vec<u8>)>,
    wanted: Option<Handle>,
    damaged: bool,
}

impl Memo for Found {
    fn wanted(&mut self) -> Option<Handle> {
        self.wanted.take()
    }

    fn learn(&mut self, node: Handle, bytes: Vec<u8>) {
        self.longs.push((node, bytes));
    }

    fn is_damaged(&self) -> bool {
        self.damaged
    }
}

/// Four bytes as a number with the same order.
fn head_of(bytes: &[u8]) -> u32 {
    let mut head = [0; 4];
    let len = bytes.len().min(4);
    head[..len].copy_from_slice(&bytes[..len]);
    u32::from_be_bytes(head)
}

/// The greatest head of an element that begins with these bytes.
fn head_up_to(bytes: &[u8]) -> u32 {
    let head = head_of(bytes);
    if bytes.len() < 4 { head | u32::MAX >> (8 * bytes.len()) } else { head }
}

/// A slot.
#[derive(Clone, Copy)]
pub struct Slot(u64);

impl Slot {
    fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn offset(self) -> usize {
        (self.0 >> 16) as usize & 0xffff
    }

    fn len(self) -> usize {
        self.0 as usize & 0xffff
    }

    fn is_long(self) -> bool {
        self.len() == LONG
    }

    /// Bytes of its record.
    fn bytes(self) -> usize {
        if self.is_long() { LONG_BYTES } else { self.len() }
    }
}

impl Text {
    #[inline(always)]
    fn len(self, leaf: View<'_>) -> usize {
        usize::from(leaf.get::<u16>(0).map_or(0, u16::from_le)).min((self.bytes - HEADER) / SLOT)
    }

    #[inline(always)]
    fn slot(leaf: View<'_>, at: usize) -> Slot {
        Slot(leaf.get::<u64>(HEADER + SLOT * at).map_or(0, u64::from_le))
    }

    /// A leaf to change.
    fn change(self, bytes: &mut [u8]) -> Leaf<'_> {
        assert!(bytes.len() >= self.bytes);
        Leaf { natural: self.natural, bytes: &mut bytes[..self.bytes] }
    }
}

impl<E: ?Sized + Element<Format = Text>> Format<E> for Text {
    type Key = Key;
    type Held<'e> = Held<'e>;
    type Batch = Strings;
    type Memo = Found;
    const SLACK: usize = 16;
    // Packing costs more than with elements of one size.
    const DENSITY: u64 = 55;
    const SPARE: usize = 10;
    const HAS_LONG: bool = true;
    const ELEMENT: usize = 1;

    fn new(bytes: usize, _: usize, natural: bool) -> Self {
        Text { bytes: bytes.min(MOST_BYTES) & !7, natural }
    }

    fn bytes(self) -> usize {
        self.bytes
    }

    fn room(self) -> usize {
        self.bytes - HEADER
    }

    fn slab_weight(self) -> usize {
        // About the bytes of a slab of elements of one size.
        1024
    }

    fn hold<'e>(session: &Session<'_>, longest: usize, element: &'e E) -> Result<Held<'e>, Error> {
        let bytes = element.text().unwrap_or_default();
        if <Self as Format<E>>::is_short(longest, element) {
            return Ok(Held::Inline(bytes));
        }
        let node = session.alloc(bytes.len())?;
        if let Err(error) = session.change_in_place(node, |to| to.copy_from_slice(bytes)) {
            session.discard(node);
            return Err(error);
        }
        Ok(Held::Long { node, len: bytes.len() as u64, begin: &bytes[..bytes.len().min(BEGIN)] })
    }

    fn inline(element: &E) -> Held<'_> {
        Held::Inline(element.text().unwrap_or_default())
    }

    fn is_short(longest: usize, element: &E) -> bool {
        let len = element.text().map_or(0, <[u8]>::len);
        len <= (longest.min(MOST_BYTES) / INLINE).max(LONG_BYTES)
    }

    fn let_go(session: &Session<'_>, held: Held<'_>) {
        if let Held::Long { node, .. } = held {
            session.discard(node);
        }
    }

    fn held(batch: &Strings, at: usize) -> Held<'_> {
        batch.get(at)
    }

    fn weight(held: Held<'_>) -> usize {
        held.bytes() + SLOT
    }

    fn key(held: Held<'_>) -> Key {
        match held {
            Held::Inline(bytes) => Key::inline(bytes),
            Held::Long { node, .. } => Key::Long(node),
        }
    }

    fn cheap_key(_: Held<'_>) -> Option<Key> {
        None
    }

    #[inline]
    fn key_is_before<S: Seek<E>>(
        session: &Session<'_>,
        key: &Key,
        seek: &S,
        failed: &mut Option<Error>,
    ) -> bool {
        let natural = seek.natural();
        if let (Key::Inline { head, .. }, Some(wanted)) = (key, natural) {
            let (low, high) = (long_head_of(wanted.bytes), long_head_up_to(wanted));
            if *head < low || *head > high {
                return *head < low;
            }
        }
        let long;
        let bytes: &[u8] = match key {
            Key::Inline { bytes, .. } => bytes,
            Key::Long(node) => {
                long = session.read(*node).unwrap_or_else(|error| {
                    *failed = Some(error);
                    Vec::new()
                });
                &long
            }
        };
        if let Some(wanted) = natural {
            return wanted.is_before(bytes[..wanted.len_of(bytes.len())].cmp(wanted.bytes));
        }
        E::from_text(bytes).map_or_else(
            || {
                failed.get_or_insert(Error::Damaged);
                false
            },
            |element| seek.is_before(element),
        )
    }

    fn key_is_equal<S: Seek<E>>(_: &Key, _: &S) -> bool {
        false
    }

    fn key_bytes(key: &Key) -> usize {
        match key {
            // The size of a malloc allocation for them.
            Key::Inline { bytes, .. } => (bytes.len() + 8).next_multiple_of(16).max(32),
            Key::Long(_) => 0,
        }
    }

    fn key_is(key: &Key, other: &Key) -> bool {
        key == other
    }

    fn find<S: Seek<E>>(self, leaf: View<'_>, seek: &S, memo: &mut Found) -> (LeafPosition, bool) {
        (memo.wanted, memo.damaged) = (None, false);
        let found = match seek.natural() {
            Some(wanted) if self.natural => self.find_natural(leaf, wanted, seek, memo),
            _ => self.find_other(leaf, seek, memo),
        };
        let (at, is_equal) = found.unwrap_or((0, false));
        (LeafPosition { slab: 0, at }, is_equal)
    }

    fn count(self, leaf: View<'_>) -> usize {
        self.len(leaf)
    }

    fn place(self, leaf: View<'_>, index: usize) -> LeafPosition {
        LeafPosition { slab: 0, at: index.min(self.len(leaf)) }
    }

    fn index(self, leaf: View<'_>, place: LeafPosition) -> usize {
        if place == LeafPosition::END { self.len(leaf) } else { place.at }
    }

    fn parts(self, leaf: View<'_>) -> usize {
        self.len(leaf).div_ceil(PART)
    }

    fn part_of(self, _: View<'_>, index: usize) -> (usize, usize) {
        (index / PART, index % PART)
    }

    fn copy_part(self, leaf: View<'_>, part: usize, to: &mut Strings) -> Option<usize> {
        let len = self.len(leaf);
        let from = part.checked_mul(PART).filter(|from| *from < len)?;
        let count = PART.min(len - from);
        (from..from + count).for_each(|at| to.copy(leaf, Self::slot(leaf, at)));
        Some(count)
    }

    fn peek(self, _: View<'_>, _: LeafPosition) -> Option<E::Owned> {
        None
    }

    fn look<R>(
        self,
        leaf: View<'_>,
        place: LeafPosition,
        memo: &mut Found,
        look: impl FnOnce(&E) -> R,
    ) -> Option<R> {
        if place.at < self.len(leaf) {
            Self::with(leaf, Self::slot(leaf, place.at), memo, look)
        } else {
            None
        }
    }

    fn copy_all(self, leaf: View<'_>, to: &mut Strings) {
        to.copy_leaf(leaf, self.bytes, self.len(leaf));
    }

    fn copy_one(self, leaf: View<'_>, place: LeafPosition, to: &mut Strings) -> bool {
        let is = place.at < self.len(leaf);
        if is {
            to.copy(leaf, Self::slot(leaf, place.at));
        }
        is
    }

    fn insert(self, leaf: &mut [u8], place: LeafPosition, element: Held<'_>) -> Put {
        let mut leaf = self.change(leaf);
        let at = if place == LeafPosition::END { leaf.count() } else { place.at };
        let weight = (element.bytes() + SLOT) as i32;
        if leaf.insert(at, element) { Put::Done(weight) } else { Put::Full }
    }

    fn set(self, leaf: &mut [u8], place: LeafPosition, element: Held<'_>) -> Option<(i32, Option<Handle>)> {
        self.change(leaf).set(place.at, element)
    }

    fn remove(self, leaf: &mut [u8], place: LeafPosition) -> Gone {
        self.change(leaf).remove(place.at)
    }

    fn peek_in(self, _: &[u8], _: LeafPosition) -> Option<E::Owned> {
        None
    }

    fn first(self, leaf: &[u8]) -> Key {
        match change::held(leaf, change::slot(leaf, 0)) {
            Some(Held::Inline(bytes)) => Key::inline(bytes),
            Some(Held::Long { node, .. }) => Key::Long(node),
            None => Key::inline(&[]),
        }
    }

    fn pack(self, leaf: &mut [u8], batch: &Strings, elements: Range<usize>) {
        self.change(leaf).pack(elements.map(|at| batch.get(at)));
    }

    fn measure(self, leaf: &[u8]) -> Option<(usize, usize)> {
        change::measure(leaf.get(..self.bytes)?, self.natural)
    }
}
