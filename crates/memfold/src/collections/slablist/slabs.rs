//! Leaves in a row, whatever their order means: what sorted and ordered lists of all formats have in common.
//!
//! How full leaves are: elements that come find room in their slab, in the slabs beside it, in their leaf packed anew, in the leaves around; and only if those are
//! full too, there is one leaf more. A leaf is split in two without further ado as long as all leaves together stay full enough ([`Format::DENSITY`]). When elements go, the
//! leaves around are packed into one fewer as soon as they fit: so nothing has to be done at once for all of a list (a reap that never stalls).
//!
//! Leaves are not packed in place: new ones are made, put in place of the old ones, and those are freed. An error before that leaves all as it was.

use std::borrow::Borrow;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::element::Element;
use super::format::{Batch, Format, Memo, Place, Put, Seek};
use super::layers::{Layers, LeafRef, Spot};
use super::options::{Packing, Stats};
use crate::heap::{Error, Handle, Session};

/// Leaves that are packed together at most.
const WINDOW: usize = 24;
/// Elements that go between two looks at what could be packed.
const PATIENCE: u32 = 64;
/// Bytes of the first leaf of a list.
const FIRST_BYTES: usize = 1 << 10;
/// Leaves have a block each up to this length; else they have so many bytes.
const ALONE: usize = 64 << 10;
const BESIDE: usize = 31 << 10;

type Key<E> = <<E as Element>::Format as Format<E>>::Key;
type Held<'e, E> = <<E as Element>::Format as Format<E>>::Held<'e>;
/// Elements in plain memory.
pub type BatchOf<E> = <<E as Element>::Format as Format<E>>::Batch;

/// Where an element is or belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Of the leaf.
    pub spot: Spot,
    /// In the leaf.
    pub place: Place,
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
    /// The last element, if it is known and cheap to keep.
    last: Option<Key<E>>,
    /// Elements that went since the last look at what could be packed.
    gone: u32,
    /// Nodes that are no part of the list any more and could not be freed, since something is damaged. They are tried again with the list's last ones, and then that is an error.
    left: Vec<Handle>,
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
            return Err(Error::Size(most.saturating_add(1)));
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
            left: Vec::new(),
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

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether a leaf is as long as leaves get.
    fn is_long(&self, session: &Session<'_>) -> bool {
        self.format.room() >= format_of::<E>(session, usize::MAX, self.making).room()
    }

    /// Bytes of leaves at most: what is too long for them gets a node of its own.
    pub fn longest(session: &Session<'_>) -> usize {
        most_bytes(session)
    }

    /// Makes leaves with the elements of a batch, of so much weight each.
    fn make(
        &mut self,
        session: &Session<'_>,
        elements: &BatchOf<E>,
        parts: &[u64],
        made: &mut Vec<(Key<E>, LeafRef)>,
    ) -> Result<(), Error> {
        let mut all = BatchOf::<E>::default();
        (0..elements.len()).for_each(|at| all.push(E::Format::held(elements, at)));
        let mut parts = Parts::new(parts);
        self.flush(session, &mut all, &mut parts, made, true)
    }

    fn make_leaf(
        &mut self,
        session: &Session<'_>,
        elements: &BatchOf<E>,
        count: usize,
    ) -> Result<Handle, Error> {
        let handle = session.alloc(self.bytes)?;
        match session.change_in_place(handle, |leaf| self.format.pack(leaf, elements, count)) {
            Ok(()) => {
                self.stats.leaves_made += 1;
                Ok(handle)
            }
            Err(error) => session.free(handle).and(Err(error)),
        }
    }

    /// Frees leaves that were made, and are no part of the list.
    fn unmake(&mut self, session: &Session<'_>, made: &[(Key<E>, LeafRef)]) {
        self.stats.leaves_freed += made.len() as u64;
        made.iter().for_each(|(_, leaf)| self.release(session, leaf.handle));
    }

    /// Frees leaves that are no part of the list any more.
    fn free_leaves(&mut self, session: &Session<'_>, gone: &[LeafRef]) {
        self.stats.leaves_freed += gone.len() as u64;
        gone.iter().for_each(|leaf| self.release(session, leaf.handle));
    }

    /// Frees a node that is no part of the list any more. The change is done: it can't fail by that.
    fn release(&mut self, session: &Session<'_>, node: Handle) {
        if session.free(node).is_err() {
            self.left.push(node);
        }
    }

    /// Appends a leaf's elements.
    pub fn append_leaf(
        &self,
        session: &Session<'_>,
        leaf: LeafRef,
        to: &mut BatchOf<E>,
    ) -> Result<(), Error> {
        let before = to.len();
        session.view(leaf.handle, |view| {
            to.keep(0, before);
            self.format.copy_all(view, to);
        })?;
        // More or fewer: the heap's memory is not what it was.
        if to.len() - before == leaf.count as usize { Ok(()) } else { Err(Error::Damaged) }
    }

    /// Puts leaves with so much weight each in place of some of a group, which weigh as much together. At no time more than three leaves' elements are outside of the heap.
    /// Returns how many there are now.
    fn spread(
        &mut self,
        session: &Session<'_>,
        spot: Spot,
        old: usize,
        parts: &[u64],
    ) -> Result<usize, Error> {
        let gone: Vec<LeafRef> = self.layers.rest_of_group(spot)[..old].to_vec();
        let mut made = Vec::new();
        if let Err(error) = self.copy_to_new(session, &gone, parts, &mut made) {
            self.unmake(session, &made);
            return Err(error);
        }
        self.layers.replace(Some(spot), old, &made);
        self.stats.packs += 1;
        self.free_leaves(session, &gone);
        Ok(made.len())
    }

    /// Makes leaves with the elements of others; those that were made are in `made`, whatever comes of it.
    fn copy_to_new(
        &mut self,
        session: &Session<'_>,
        from: &[LeafRef],
        parts: &[u64],
        made: &mut Vec<(Key<E>, LeafRef)>,
    ) -> Result<(), Error> {
        made.try_reserve_exact(parts.len() + 1).map_err(|_| Error::OutOfMemory)?;
        let (mut elements, mut parts) = (BatchOf::<E>::default(), Parts::new(parts));
        for (number, leaf) in from.iter().enumerate() {
            self.append_leaf(session, *leaf, &mut elements)?;
            self.flush(session, &mut elements, &mut parts, made, number + 1 == from.len())?;
        }
        Ok(())
    }

    /// Makes leaves of the first elements of a batch, and takes those out, as long as there are enough for the next part; or of all.
    fn flush(
        &mut self,
        session: &Session<'_>,
        elements: &mut BatchOf<E>,
        parts: &mut Parts<'_>,
        made: &mut Vec<(Key<E>, LeafRef)>,
        all: bool,
    ) -> Result<(), Error> {
        while elements.len() > 0 && (all || elements.total() > parts.next()) {
            let (wanted, room) = (parts.next(), self.format.room());
            let (mut count, mut weight) = (0, 0);
            while count < elements.len() {
                let more = elements.weight(count);
                if count > 0 && weight + more > wanted.min(room) {
                    break;
                }
                (count, weight) = (count + 1, weight + more);
            }
            let handle = self.make_leaf(session, elements, count)?;
            let leaf = LeafRef { handle, count: count as u32, weight: weight as u32 };
            made.push((elements.key(0), leaf));
            parts.take(weight);
            elements.keep(count, elements.len());
        }
        Ok(())
    }

    /// What some leaves of a group weigh together.
    fn weigh(&self, spot: Spot, leaves: usize) -> usize {
        self.layers.rest_of_group(spot)[..leaves].iter().map(|leaf| leaf.weight as usize).sum()
    }

    /// The position behind the last element that is before what is looked for, and whether that element is equal to it.
    #[inline(always)]
    pub fn find<S: Seek<E>>(&self, session: &Session<'_>, seek: &S) -> Result<(Position, bool), Error> {
        let mut failed = None;
        let spot = self.layers.find(|key| E::Format::key_is_before(session, key, seek, &mut failed));
        if let Some(error) = failed {
            return Err(error);
        }
        let handle = self.layers.get(spot).handle;
        let mut memo = <E::Format as Format<E>>::Memo::default();
        loop {
            let (place, is_equal) = session.view(handle, |leaf| self.format.find(leaf, seek, &mut memo))?;
            if memo.is_damaged() {
                return Err(Error::Damaged);
            }
            match memo.wanted() {
                None => return Ok((Position { spot, place }, is_equal)),
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

    /// Behind all elements.
    pub fn end(&self) -> Option<Position> {
        self.layers.last().map(|spot| Position { spot, place: Place::END })
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
        if place == Place::FIRST {
            self.layers.set_first(spot, E::Format::key(element));
        }
        if place == Place::END {
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
        let held = E::Format::hold(session, Self::longest(session), element)?;
        let mut turn = 0;
        let failed = loop {
            match self.set(session, at, held, turn) {
                Ok(Some(node)) => {
                    node.into_iter().for_each(|node| self.release(session, node));
                    return Ok(());
                }
                Ok(None) => turn += 1,
                Err(error) => break error,
            }
            match find(self) {
                Ok(found) => at = found,
                Err(error) => break error,
            }
        };
        E::Format::let_go(session, held);
        Err(failed)
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
        if place == Place::FIRST {
            self.layers.set_first(spot, E::Format::key(element));
        }
        self.last = None;
        Ok(Some(gone))
    }

    /// Finds out what the last element is, if that is cheap, and somebody looked for a place in the last leaf.
    #[inline]
    fn learn_last(&mut self, session: &Session<'_>, spot: Spot) -> Result<(), Error> {
        if E::Format::HAS_LONG || self.last.is_some() || Some(spot) != self.layers.last() {
            return Ok(());
        }
        let LeafRef { handle, count, .. } = self.layers.get(spot);
        let last = session
            .view(handle, |leaf| self.format.peek(leaf, self.format.place(leaf, count as usize - 1)))?;
        self.last = last.as_ref().and_then(|last| E::Format::cheap_key(E::Format::inline(last.borrow())));
        Ok(())
    }

    /// Makes room in a leaf that is full, or in those around it, for so much.
    #[cold]
    fn make_room(
        &mut self,
        session: &Session<'_>,
        at: Position,
        need: usize,
        turn: u32,
    ) -> Result<(), Error> {
        let spot = at.spot;
        if !self.is_long(session) {
            return self.lengthen(session, spot);
        }
        let room = self.format.room();
        let leaves = self.layers.leaves() as u64;
        // Who adds in order, up or down, fills each leaf: a new one gets one element, so that it is where the next one belongs.
        let count = self.layers.get(spot).count;
        if turn == 0 && count > 1 {
            if Some(spot) == self.layers.last() {
                let place = at.place;
                let handle = self.layers.get(spot).handle;
                let is_behind = place == Place::END
                    || session.view(handle, |leaf| self.format.index(leaf, place))? >= count as usize;
                if is_behind {
                    return self.split_off(session, spot, count as usize - 1);
                }
            }
            if Some(spot) == self.layers.first() && at.place == Place::FIRST {
                return self.split_off(session, spot, 0);
            }
        }
        let is_dense = self.weight * 64 >= (leaves + 1) * room as u64 * E::Format::DENSITY;
        // Elements that are so long that there is no room for them around: two halves have room for any.
        if is_dense || turn > 2 {
            let parts = alike(self.weigh(spot, 1), 2);
            return self.spread(session, spot, 1, &parts).map(|_| ());
        }
        let (first, count, more) = self.window(spot, need);
        let parts = alike(self.weigh(first, count), count + usize::from(more));
        self.spread(session, first, count, &parts).map(|_| ())
    }

    /// The only leaf, which is short, becomes twice as long.
    fn lengthen(&mut self, session: &Session<'_>, spot: Spot) -> Result<(), Error> {
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
            let handle = self.make_leaf(session, &all, all.len())?;
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

    /// A new leaf gets the first element of the first leaf, before it, or the last of the last, behind it.
    fn split_off(&mut self, session: &Session<'_>, spot: Spot, index: usize) -> Result<(), Error> {
        let (leaf, format) = (self.layers.get(spot), self.format);
        let mut element = BatchOf::<E>::default();
        let place = session.view(leaf.handle, |view| {
            element.clear();
            let place = format.place(view, index);
            format.copy_one(view, place, &mut element).then_some(place)
        })?;
        let place = place.ok_or(Error::Damaged)?;
        let weight = element.weight(0) as u32;
        let handle = self.make_leaf(session, &element, 1)?;
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
        Ok(())
    }

    /// Leaves around one that have room together, as few as will do: the first, how many, and whether one more is needed.
    fn window(&self, spot: Spot, need: usize) -> (Spot, usize, bool) {
        let (before, after) = self.layers.around(spot);
        let (mut left, mut right) = (0, 1);
        let room = self.format.room();
        // Afterwards each has room for some more.
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
            (element, gone.weight, if place == Place::FIRST { Some(format.first(bytes)) } else { None })
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
            session.free(leaf.handle)?;
            self.stats.leaves_freed += 1;
            self.layers.replace(Some(spot), 1, &[]);
            self.len -= 1;
            self.weight -= u64::from(leaf.weight);
            self.last = None;
        } else {
            let (weight, first) = session.change_in_place(leaf.handle, |bytes| {
                let gone = format.remove(bytes, place);
                (gone.weight, if place == Place::FIRST { Some(format.first(bytes)) } else { None })
            })?;
            self.removed(session, spot, weight, first);
        }
        batch.long(0).into_iter().for_each(|node| self.release(session, node));
        Ok(element)
    }

    /// An element went from a leaf that has others, and perhaps begins with another one now.
    #[inline(always)]
    fn removed(&mut self, session: &Session<'_>, spot: Spot, weight: u32, first: Option<Key<E>>) {
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

    /// Packs the leaves around one into one fewer, if they fit and it is worth it; or all, if the list is one that is packed at once.
    #[cold]
    fn pack_around(&mut self, session: &Session<'_>, spot: Spot) -> Result<(), Error> {
        let room = self.format.room();
        if self.making.packing == Packing::Never {
            return Ok(());
        }
        if let Packing::AtOnce { least_slabs, least_percent } = self.making.packing {
            let slab = self.format.slab_weight().max(1);
            let slabs = self.layers.leaves() * room / slab;
            let spare = slabs.saturating_sub((self.weight as usize).div_ceil(slab));
            // Less than a leaf is not given back to the heap.
            let is_worth = spare * slab > room
                && spare >= least_slabs as usize
                && spare * 100 >= slabs * usize::from(least_percent);
            return if is_worth { self.pack(session).map(|_| ()) } else { Ok(()) };
        }
        if self.weight * 64 >= (self.layers.leaves() * room) as u64 * E::Format::DENSITY {
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

    /// Packs all elements as close as they go. Returns how many leaves that spared.
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
            // The last of them may not be full: the next ones fill it, if they are of the same group.
            spot = self.layers.moved(spot, parts as isize - 1);
            next = if rest > count && count > 1 { Some(spot) } else { self.layers.next(spot) };
        }
        Ok(before.saturating_sub(self.layers.leaves()))
    }

    /// Takes out the elements from one number to another, those of them that there are. Nothing is done if it fails.
    pub fn remove_between(&mut self, session: &Session<'_>, from: u64, to: u64) -> Result<(), Error> {
        let to = to.min(self.len);
        if from >= to {
            return Ok(());
        }
        let at = |number| self.layers.at(number).ok_or(Error::Damaged);
        let ((first, start), (last, end)) = (at(from)?, at(to - 1)?);
        // What stays of the leaves at both ends goes into a new one, or two.
        let (mut stays, mut tail) = (BatchOf::<E>::default(), BatchOf::<E>::default());
        let (mut gone, mut longs) = (vec![], vec![]);
        self.append_leaf(session, self.layers.get(first), &mut stays)?;
        let count = stays.len();
        if first == last {
            (start..=end).for_each(|at| longs.extend(stays.long(at)));
            (end + 1..count).for_each(|at| tail.push(E::Format::held(&stays, at)));
        } else {
            (start..count).for_each(|at| longs.extend(stays.long(at)));
            self.append_leaf(session, self.layers.get(last), &mut tail)?;
            (0..=end).for_each(|at| longs.extend(tail.long(at)));
            tail.keep(end + 1, tail.len());
        }
        let mut spot = first;
        loop {
            let leaf = self.layers.get(spot);
            if spot != first && spot != last && E::Format::HAS_LONG {
                let mut all = BatchOf::<E>::default();
                self.append_leaf(session, leaf, &mut all)?;
                (0..all.len()).for_each(|at| longs.extend(all.long(at)));
            }
            gone.push(leaf);
            match self.layers.next(spot) {
                Some(next) if spot != last => spot = next,
                _ => break,
            }
        }
        stays.keep(0, start);
        let (kept, more) = (stays.total(), tail.total());
        (0..tail.len()).for_each(|at| stays.push(E::Format::held(&tail, at)));
        let mut made = Vec::new();
        let parts = if kept + more <= self.format.room() {
            alike(kept + more, 1)
        } else {
            vec![kept as u64, more as u64]
        };
        if stays.len() > 0
            && let Err(error) = self.make(session, &stays, &parts, &mut made)
        {
            self.unmake(session, &made);
            return Err(error);
        }
        let before: u64 = gone.iter().map(|leaf| u64::from(leaf.weight)).sum();
        self.layers.replace_between(first, last, &made);
        self.len -= to - from;
        self.weight = self.weight - before + (kept + more) as u64;
        self.last = None;
        longs.iter().for_each(|node| self.release(session, *node));
        self.free_leaves(session, &gone);
        Ok(())
    }

    /// Looks at each leaf and at what is known of it.
    pub fn check(&self, session: &Session<'_>) -> Result<(), String> {
        let (mut len, mut weight) = (0, 0);
        for (number, (first, leaf)) in self.layers.all().enumerate() {
            let bytes = session.read(leaf.handle).map_err(|error| format!("leaf {number}: {error}"))?;
            let known = self.format.measure(&bytes);
            if known != Some((leaf.count as usize, leaf.weight as usize)) {
                return Err(format!("leaf {number} is not as it should be"));
            }
            if !E::Format::key_is(&self.format.first(&bytes), first) {
                return Err(format!("leaf {number} begins with another element than its sublayer says"));
            }
            (len, weight) = (len + u64::from(leaf.count), weight + u64::from(leaf.weight));
        }
        if self.layers.is_sound() && len == self.len && weight == self.weight {
            Ok(())
        } else {
            Err(format!("sublayers contradict each other: {len} elements, not {}", self.len))
        }
    }

    /// Frees all leaves, and the nodes of long elements.
    pub fn free(&self, session: &Session<'_>) -> Result<(), Error> {
        let mut result = Ok(());
        for (_, leaf) in self.layers.all() {
            let mut all = BatchOf::<E>::default();
            if E::Format::HAS_LONG {
                result = result.and(self.append_leaf(session, leaf, &mut all));
                for node in (0..all.len()).filter_map(|at| all.long(at)) {
                    result = result.and(session.free(node));
                }
            }
            result = result.and(session.free(leaf.handle));
        }
        self.left.iter().fold(result, |result, node| result.and(session.free(*node)))
    }

    /// Bytes of plain memory.
    pub fn own_bytes(&self) -> usize {
        let left = self.left.capacity() * size_of::<Handle>();
        size_of::<Self>() + left + self.layers.bytes(|key| E::Format::key_bytes(key))
    }
}

/// What the next leaves are to weigh. What one is lighter or heavier than it should be, the next one makes up for.
struct Parts<'p> {
    rest: &'p [u64],
    off: i64,
}

impl<'p> Parts<'p> {
    fn new(rest: &'p [u64]) -> Self {
        Parts { rest, off: 0 }
    }

    /// Weight of the next one; without end behind the last.
    fn next(&self) -> usize {
        match self.rest {
            [next, _, ..] => next.saturating_add_signed(self.off) as usize,
            _ => usize::MAX,
        }
    }

    /// One was made that weighs so much.
    fn take(&mut self, weight: usize) {
        if let [next, rest @ ..] = self.rest {
            self.off += *next as i64 - weight as i64;
            self.rest = rest;
        }
    }
}

/// Bytes of leaves at most: a block's, or, where those are longer, so many that little is left when it is full of leaves.
fn most_bytes(session: &Session<'_>) -> usize {
    if session.longest() <= ALONE { session.longest() } else { BESIDE }
}

/// Leaves of so many bytes, if they can be so long.
fn format_of<E: ?Sized + Element>(session: &Session<'_>, bytes: usize, making: Making) -> E::Format {
    let most = most_bytes(session);
    // Short blocks have short slabs: a leaf is for some of them.
    let per_slab = usize::from(making.per_slab).min(most / 4 / E::Format::ELEMENT.max(1)).max(2);
    E::Format::new(bytes.min(most), per_slab, making.natural)
}

/// So much in so many parts, all alike.
fn alike(weight: usize, parts: usize) -> Vec<u64> {
    let at = |part: usize| (weight * part / parts) as u64;
    (0..parts).map(|part| at(part + 1) - at(part)).collect()
}

/// Bytes of the node for a leaf: all of a block for the longest, which then has one for itself.
fn leaf_bytes<E: ?Sized + Element>(session: &Session<'_>, format: E::Format, making: Making) -> usize {
    let (most, longest) = (most_bytes(session), session.longest());
    let is_longest = format.room() >= format_of::<E>(session, usize::MAX, making).room();
    if is_longest && most == longest { longest } else { format.bytes() }
}
