//! Leaves in a row, whatever their order means: what sorted and ordered lists of all formats have in common.
//!
//! `leaves.rs` makes leaves, `packing.rs` keeps them full, `whole.rs` goes over many of them, `parts.rs` tells what of one is looked at.

mod coming;
mod leaves;
mod packing;
mod parts;
mod whole;

use std::borrow::Borrow;
use std::vec::Vec;

pub use self::coming::Coming;
use self::leaves::{alike, format_of, leaf_bytes, most_bytes};
use self::parts::{Numbered, Sought};
use super::element::Element;
use super::format::{Batch, Format, LeafPosition, Memo, Put, Seek};
use super::layers::{Layers, LeafIndex, LeafRef};
use super::options::{Packing, Stats};
use crate::heap::{Error, Handle, Session, View};

/// Elements that go between two looks at what could be packed.
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
    /// Of the leaf.
    pub spot: LeafIndex,
    /// In the leaf.
    pub place: LeafPosition,
}

/// The place of the element before one, in the same slab.
#[inline(always)]
fn before(place: LeafPosition) -> LeafPosition {
    LeafPosition { at: place.at.wrapping_sub(1), ..place }
}

/// How leaves are made.
#[derive(Debug, Clone, Copy)]
pub struct Making {
    pub per_slab: u8,
    /// Leaves of a group at most.
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
    /// The last element, if it is known and cheap to keep. As long as it is, all that comes behind it comes by `LeafPosition::END`, so that it stays right.
    last: Option<Key<E>>,
    /// Elements that went since the last look at what could be packed.
    gone: u32,
    pub stats: Stats,
}

impl<E: ?Sized + Element> Slabs<E> {
    /// Of elements in their order, which are not many.
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

    /// An error if leaves can't have such elements.
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

    /// Where the leaf is in which something is looked for.
    #[inline(always)]
    fn leaf_with<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<LeafIndex, Error> {
        let mut failed = None;
        let spot = self.layers.find(|key| E::Format::key_is_before(session, key, seek, &mut failed));
        failed.map_or(Ok(spot), Err)
    }

    /// As `find`, only to look what is there: what `read` makes of it, where all elements have one size, and the leaf. One that is not in a frame may stay so.
    #[inline(always)]
    pub fn look_up<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut read: impl FnMut(View<'_>, LeafPosition, bool) -> R,
    ) -> Result<(R, LeafIndex), Error> {
        let spot = self.leaf_with(session, seek)?;
        let look = |leaf: View<'_>| {
            let (place, is_equal) = self.format.find(leaf, seek, &mut Default::default());
            read(leaf, place, is_equal)
        };
        let parts = Sought::<E, S> { format: self.format, seek };
        Ok((session.view_parts(self.layers.get(spot).handle, look, &parts)?, spot))
    }

    /// The element with a number, in the same way.
    pub fn at(&self, session: &Session<'_>, number: u64) -> Result<Option<E::Owned>, Error> {
        let Some((spot, index)) = self.layers.at(number) else { return Ok(None) };
        if E::Format::HAS_LONG {
            let at = self.position(session, number)?.ok_or(Error::Damaged)?;
            return self.get(session, at);
        }
        let look = |leaf: View<'_>| self.format.peek(leaf, self.format.place(leaf, index));
        let parts = Numbered::<E> { format: self.format, index };
        session.view_parts(self.layers.get(spot).handle, look, &parts)
    }

    /// The number of the element behind which something belongs, if they are equal.
    pub fn number_of<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<Option<u64>, Error> {
        if E::Format::HAS_LONG {
            let (position, is_equal) = self.find(session, seek)?;
            return if is_equal { Ok(self.number(session, position)?.checked_sub(1)) } else { Ok(None) };
        }
        let (index, spot) = self.look_up(session, seek, |leaf, place, is_equal| {
            if is_equal { self.format.index(leaf, place).checked_sub(1) } else { None }
        })?;
        Ok(index.map(|index| self.layers.before(spot) + index as u64))
    }

    /// What `look` sees in that element. It may be asked more often than once, about bytes that are no element
    /// any more too: what it says the last time counts.
    #[inline(always)]
    pub fn element<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut look: impl FnMut(&E) -> R,
    ) -> Result<Option<R>, Error> {
        if E::Format::HAS_LONG {
            return Ok(self.find_and_look(session, seek, look)?.2);
        }
        let mut memo = Default::default();
        let (element, _) = self.look_up(session, seek, |leaf, place, is_equal| {
            if is_equal { self.format.look(leaf, before(place), &mut memo, &mut look) } else { None }
        })?;
        Ok(element)
    }

    /// Whether there is one.
    #[inline(always)]
    pub fn has<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<bool, Error> {
        if E::Format::HAS_LONG {
            return Ok(self.find(session, seek)?.1);
        }
        Ok(self.look_up(session, seek, |_, _, is_equal| is_equal)?.0)
    }

    /// The position behind the last element that is before what is looked for, and whether that element is equal to it.
    #[inline(always)]
    pub fn find<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<(Position, bool), Error> {
        let find = |leaf: View<'_>, memo: &mut MemoOf<E>| self.format.find(leaf, seek, memo);
        let (spot, (place, is_equal)) = self.search(session, seek, find)?;
        Ok((Position { spot, place }, is_equal))
    }

    /// As `find`, with what `look` sees in that element if it is equal. It is asked as `element` asks it.
    #[inline(always)]
    pub fn find_and_look<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut look: impl FnMut(&E) -> R,
    ) -> Result<(Position, bool, Option<R>), Error> {
        let find = |leaf: View<'_>, memo: &mut MemoOf<E>| {
            let (place, is_equal) = self.format.find(leaf, seek, memo);
            let seen = if is_equal { self.format.look(leaf, before(place), memo, &mut look) } else { None };
            (place, is_equal, seen)
        };
        let (spot, (place, is_equal, seen)) = self.search(session, seek, find)?;
        Ok((Position { spot, place }, is_equal, seen))
    }

    /// What `find` finds in the leaf with what is looked for, which nodes that it wants are read for.
    #[inline(always)]
    fn search<S: Seek<E>, R>(
        &self,
        session: &Session<'_>,
        seek: &S,
        mut find: impl FnMut(View<'_>, &mut MemoOf<E>) -> R,
    ) -> Result<(LeafIndex, R), Error> {
        let spot = self.leaf_with(session, seek)?;
        let handle = self.layers.get(spot).handle;
        let mut memo = MemoOf::<E>::default();
        loop {
            let found = session.view(handle, |leaf| find(leaf, &mut memo))?;
            if memo.is_damaged() {
                return Err(Error::Damaged);
            }
            match memo.wanted() {
                None => return Ok((spot, found)),
                Some(node) => memo.learn(node, session.read(node)?),
            }
        }
    }

    /// The position behind all elements, if it is known without looking at a leaf that what is looked for belongs there, and whether the last one is equal to it.
    #[inline(always)]
    fn place_behind<S: Seek<E>>(
        &self,
        session: &Session<'_>,
        seek: &S,
    ) -> Result<Option<(Position, bool)>, Error> {
        let Some(last) = &self.last else { return Ok(None) };
        if !E::Format::key_is_before(session, last, seek, &mut None) {
            return Ok(None);
        }
        let end = self.end().ok_or(Error::Damaged)?;
        Ok(Some((end, E::Format::key_is_equal(last, seek))))
    }

    /// As `find`, for an element that is to be put there.
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

    /// As `find_to_insert`, with what `look` sees in the element if it is equal; nothing yet where the position
    /// is behind all.
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

    /// Behind all elements.
    pub fn end(&self) -> Option<Position> {
        self.layers.last().map(|spot| Position { spot, place: LeafPosition::END })
    }

    /// The position of the element with this number; behind the last one if there are as many.
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

    /// Copies the element at a position; whether there is one.
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

    /// Puts an element at a position; false if there is no room: then leaves are others now, and it is to be looked for again. `turn`: how often that was so.
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

    /// Puts an element in the place of the one at a position, which is found anew by `find` if leaves are others then.
    pub fn put(
        &mut self,
        session: &Session<'_>,
        mut at: Position,
        element: &E,
        find: impl Fn(&Self) -> Result<Position, Error>,
    ) -> Result<(), Error> {
        let coming = Coming::new(session, element)?;
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

    /// As `insert`, in the place of the element there, whose node, if it has one, comes back.
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

    /// Finds out what the last element is, if that is cheap, and somebody looked for a place in the last leaf.
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

    /// Takes out the element at a position, which there is, and gives it back.
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

    /// As `remove`, an element that may have a node of its own, or is the last one of its leaf.
    fn remove_with_node(&mut self, session: &Session<'_>, at: Position) -> Result<E::Owned, Error> {
        let Position { spot, place } = at;
        let (leaf, format) = (self.layers.get(spot), self.format);
        let mut batch = BatchOf::<E>::default();
        if !self.copy(session, at, &mut batch)? {
            return Err(Error::Damaged);
        }
        // All that may fail comes before anything changes.
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

    /// An element went from a leaf that has others, and perhaps begins with another one now.
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
            // The element is out. What can't be packed, for want of memory, is as it was, and tried again later; a damaged leaf is an error for who reads it.
            let _ = self.pack_around(session, spot);
        }
    }
}
