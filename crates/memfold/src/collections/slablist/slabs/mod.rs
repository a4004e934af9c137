//! A sequence of leaves: what sorted and ordered lists of all formats have in common.
//!
//! `layers.rs` refers to leaves, `leaves.rs` makes them, `search.rs` finds elements in them, `packing.rs` keeps
//! them full, `whole.rs` processes many of them, `parts.rs` says which parts of one are read.

mod coming;
pub mod layers;
mod leaves;
mod packing;
mod parts;
mod search;
mod whole;

use std::borrow::Borrow;
use std::vec::Vec;

pub use self::coming::PendingElement;
use self::layers::{Layers, LeafIndex, LeafRef};
use self::leaves::{alike, format_of, leaf_bytes, most_bytes};
use super::format::Element;
use super::format::{Batch, Format, LeafPosition, Put, Seek};
use super::options::{Packing, Stats};
use crate::heap::{Error, Handle, Session};

/// How many elements are removed between two checks for leaves to pack.
const PATIENCE: u32 = 64;
/// Bytes of the first leaf of a list.
const FIRST_BYTES: usize = 1 << 10;

type Key<E> = <<E as Element>::Format as Format<E>>::Key;
type MemoOf<E> = <<E as Element>::Format as Format<E>>::Memo;
type Held<'e, E> = <<E as Element>::Format as Format<E>>::Held<'e>;
/// Elements in plain memory.
pub type BatchOf<E> = <<E as Element>::Format as Format<E>>::Batch;

/// Where an element is or belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Which leaf.
    pub spot: LeafIndex,
    /// Where in the leaf.
    pub place: LeafPosition,
}

/// How leaves are made.
#[derive(Debug, Clone, Copy)]
pub struct Making {
    pub per_slab: u8,
    /// The most leaves of a group.
    pub per_sublayer: u16,
    pub natural: bool,
    pub packing: Packing,
}

/// See the module.
pub struct Slabs<E: ?Sized + Element> {
    pub layers: Layers<Key<E>>,
    pub format: E::Format,
    /// Bytes of a leaf's node.
    bytes: usize,
    making: Making,
    len: u64,
    weight: u64,
    /// The last element, if it is known and cheap to keep. While it is known, elements after it are added at
    /// `LeafPosition::END`, so that it stays right.
    last: Option<Key<E>>,
    /// Elements removed since the last check for leaves to pack.
    gone: u32,
    pub stats: Stats,
}

impl<E: ?Sized + Element> Slabs<E> {
    /// Makes leaves of a few elements, which are in order.
    pub fn new(session: &Session<'_>, making: Making, elements: &BatchOf<E>) -> Result<Self, Error> {
        let most = most_bytes(session);
        let mut bytes = FIRST_BYTES;
        let mut format = format_of::<E>(session, bytes, making);
        let total = elements.total();
        while format.room() <= total + format.room() / 8 && bytes < most {
            bytes *= 2;
            format = format_of::<E>(session, bytes, making);
        }
        if format.room() == 0 {
            return Err(Error::Element(E::Format::ELEMENT));
        }
        let bytes = leaf_bytes::<E>(session, format, making);
        let mut slabs = Slabs {
            layers: Layers::new(making.per_sublayer.into()),
            format,
            bytes,
            making,
            len: 0,
            weight: 0,
            last: None,
            gone: 0,
            stats: Stats::default(),
        };
        let mut made = Vec::new();
        let room = format.room() - format.room() / E::Format::SLACK;
        let parts = alike(total, total.div_ceil(room).max(1));
        if let Err(error) = slabs.make(session, elements, &parts, &mut made) {
            slabs.unmake(session, &made);
            return Err(error);
        }
        slabs.layers.replace(None, 0, &made);
        (slabs.len, slabs.weight) = (elements.len() as u64, total as u64);
        Ok(slabs)
    }

    /// Returns an error if leaves can't have such elements.
    pub fn may_have(session: &Session<'_>, making: Making) -> Result<(), Error> {
        let format = format_of::<E>(session, most_bytes(session), making);
        if format.room() == 0 { Err(Error::Element(E::Format::ELEMENT)) } else { Ok(()) }
    }

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of a leaf's node.
    pub fn leaf_bytes(&self) -> usize {
        self.bytes
    }

    /// As `find`, for an element that will be put there.
    #[inline(always)]
    pub fn find_to_insert<S: Seek<E>>(
        &mut self,
        session: &Session<'_>,
        seek: &S,
    ) -> Result<(Position, bool), Error> {
        if let Some(found) = self.place_behind(session, seek)? {
            return Ok(found);
        }
        let found = self.find(session, seek)?;
        self.learn_last(session, found.0.spot)?;
        Ok(self.place_behind(session, seek)?.unwrap_or(found))
    }

    /// As `find_to_insert`, with what `look` sees in the element if it is equal; nothing yet if the position
    /// is after all elements.
    #[inline(always)]
    pub fn find_to_change<S: Seek<E>, R>(
        &mut self,
        session: &Session<'_>,
        seek: &S,
        look: impl FnMut(&E) -> R,
    ) -> Result<(Position, bool, Option<R>), Error> {
        if let Some((end, is_equal)) = self.place_behind(session, seek)? {
            return Ok((end, is_equal, None));
        }
        let found = self.find_and_look(session, seek, look)?;
        self.learn_last(session, found.0.spot)?;
        let behind = self.place_behind(session, seek)?;
        Ok(behind.map_or(found, |(end, is_equal)| (end, is_equal, None)))
    }

    /// The position after all elements.
    pub fn end(&self) -> Option<Position> {
        self.layers.last().map(|spot| Position { spot, place: LeafPosition::END })
    }

    /// The position of the element with this number; after the last one if there are exactly that many.
    pub fn position(&self, session: &Session<'_>, number: u64) -> Result<Option<Position>, Error> {
        let Some((spot, index)) = self.layers.at(number) else {
            return Ok(if number == self.len { self.end() } else { None });
        };
        let handle = self.layers.get(spot).handle;
        let place = session.view(handle, |leaf| self.format.place(leaf, index))?;
        Ok(Some(Position { spot, place }))
    }

    /// How many elements are before a position.
    pub fn number(&self, session: &Session<'_>, Position { spot, place }: Position) -> Result<u64, Error> {
        let index = session.view(self.layers.get(spot).handle, |leaf| self.format.index(leaf, place))?;
        Ok(self.layers.before(spot) + index as u64)
    }

    /// The element at a position; `None` if there is none there.
    pub fn get(&self, session: &Session<'_>, at: Position) -> Result<Option<E::Owned>, Error> {
        if !E::Format::HAS_LONG {
            return session.view(self.layers.get(at.spot).handle, |leaf| self.format.peek(leaf, at.place));
        }
        let mut batch = BatchOf::<E>::default();
        let is = self.copy(session, at, &mut batch)?;
        if is { batch.owned(session, 0).map(Some) } else { Ok(None) }
    }

    /// Copies the element at a position; returns whether there is one.
    fn copy(
        &self,
        session: &Session<'_>,
        Position { spot, place }: Position,
        to: &mut BatchOf<E>,
    ) -> Result<bool, Error> {
        session.view(self.layers.get(spot).handle, |leaf| {
            to.clear();
            self.format.copy_one(leaf, place, to)
        })
    }

    /// Inserts an element at a position; false if there is no room: then leaves have changed, and the caller
    /// has to search again. `turn`: how often that happened.
    #[inline]
    pub fn insert(
        &mut self,
        session: &Session<'_>,
        at: Position,
        element: Held<'_, E>,
        turn: u32,
    ) -> Result<bool, Error> {
        let Position { spot, place } = at;
        let LeafRef { handle, .. } = self.layers.get(spot);
        let format = self.format;
        let put = session.change_in_place(handle, |leaf| format.insert(leaf, place, element))?;
        let Put::Done(more) = put else {
            self.make_room(session, at, E::Format::weight(element), turn)?;
            return Ok(false);
        };
        self.layers.add(spot, 1, more);
        self.len += 1;
        self.weight = self.weight.wrapping_add_signed(more.into());
        if place == LeafPosition::FIRST {
            self.layers.set_first(spot, E::Format::key(element));
        }
        if place == LeafPosition::END {
            self.last = E::Format::cheap_key(element);
        }
        Ok(true)
    }

    /// Replaces the element at a position; `find` finds it again if leaves have changed.
    pub fn put(
        &mut self,
        session: &Session<'_>,
        mut at: Position,
        element: &E,
        find: impl Fn(&Self) -> Result<Position, Error>,
    ) -> Result<(), Error> {
        let coming = PendingElement::new(session, element)?;
        let mut turn = 0;
        loop {
            if let Some(node) = self.set(session, at, coming.held(), turn)? {
                coming.arrived();
                node.into_iter().for_each(|node| session.discard(node));
                return Ok(());
            }
            (at, turn) = (find(self)?, turn + 1);
        }
    }

    /// As `insert`, but replaces the element there and returns its node, if it has one.
    fn set(
        &mut self,
        session: &Session<'_>,
        at: Position,
        element: Held<'_, E>,
        turn: u32,
    ) -> Result<Option<Option<Handle>>, Error> {
        let Position { spot, place } = at;
        let LeafRef { handle, .. } = self.layers.get(spot);
        let format = self.format;
        let Some((more, gone)) = session.change_in_place(handle, |leaf| format.set(leaf, place, element))?
        else {
            self.make_room(session, at, E::Format::weight(element), turn)?;
            return Ok(None);
        };
        self.layers.add(spot, 0, more);
        self.weight = self.weight.wrapping_add_signed(more.into());
        if place == LeafPosition::FIRST {
            self.layers.set_first(spot, E::Format::key(element));
        }
        self.last = None;
        Ok(Some(gone))
    }

    /// Learns the last element, if that is cheap and the search ended in the last leaf.
    #[inline]
    fn learn_last(&mut self, session: &Session<'_>, spot: LeafIndex) -> Result<(), Error> {
        if E::Format::HAS_LONG || self.last.is_some() || Some(spot) != self.layers.last() {
            return Ok(());
        }
        let LeafRef { handle, count, .. } = self.layers.get(spot);
        let last = session
            .view(handle, |leaf| self.format.peek(leaf, self.format.place(leaf, count as usize - 1)))?;
        self.last = last.as_ref().and_then(|last| E::Format::cheap_key(E::Format::inline(last.borrow())));
        Ok(())
    }

    /// Removes and returns the element at a position; there must be one.
    pub fn remove(&mut self, session: &Session<'_>, at: Position) -> Result<E::Owned, Error> {
        let Position { spot, place } = at;
        let (leaf, format) = (self.layers.get(spot), self.format);
        if E::Format::HAS_LONG || leaf.count == 1 {
            return self.remove_with_node(session, at);
        }
        let (gone, weight, first) = session.change_in_place(leaf.handle, |bytes| {
            let element = format.peek_in(bytes, place);
            let gone = format.remove(bytes, place);
            (
                element,
                gone.weight,
                if place == LeafPosition::FIRST { Some(format.first(bytes)) } else { None },
            )
        })?;
        self.removed(session, spot, weight, first);
        gone.ok_or(Error::Damaged)
    }

    /// As `remove`, for an element that may have a node of its own, or is the last one of its leaf.
    fn remove_with_node(&mut self, session: &Session<'_>, at: Position) -> Result<E::Owned, Error> {
        let Position { spot, place } = at;
        let (leaf, format) = (self.layers.get(spot), self.format);
        let mut batch = BatchOf::<E>::default();
        if !self.copy(session, at, &mut batch)? {
            return Err(Error::Damaged);
        }
        // Everything that may fail comes before any change.
        let element = batch.owned(session, 0)?;
        if leaf.count == 1 {
            self.release_leaf(session, &leaf);
            self.stats.leaves_freed += 1;
            self.layers.replace(Some(spot), 1, &[]);
            self.len -= 1;
            self.weight -= u64::from(leaf.weight);
            self.last = None;
        } else {
            let (weight, first) = session.change_in_place(leaf.handle, |bytes| {
                let gone = format.remove(bytes, place);
                (gone.weight, if place == LeafPosition::FIRST { Some(format.first(bytes)) } else { None })
            })?;
            self.removed(session, spot, weight, first);
        }
        batch.long(0).into_iter().for_each(|node| session.discard(node));
        Ok(element)
    }

    /// Updates everything after an element was removed from a leaf that has others; `first`: if the leaf
    /// begins with another element now.
    #[inline(always)]
    fn removed(&mut self, session: &Session<'_>, spot: LeafIndex, weight: u32, first: Option<Key<E>>) {
        self.layers.add(spot, -1, -(weight as i32));
        self.len -= 1;
        self.weight -= u64::from(weight);
        if let Some(first) = first {
            self.layers.set_first(spot, first);
        }
        if self.last.is_some() && Some(spot) == self.layers.last() {
            self.last = None;
        }
        self.gone += 1;
        if self.gone >= PATIENCE {
            self.gone = 0;
            // The element has been removed. Leaves that can't be packed for lack of memory are unchanged, and
            // packing is tried again later; a damaged leaf is an error for its next reader.
            let _ = self.pack_around(session, spot);
        }
    }
}
