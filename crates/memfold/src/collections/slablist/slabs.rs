//! Leaves in a row, whatever their order means: what sorted and ordered lists have in common.
//!
//! How full leaves are: elements that come find room in their slab, in the slabs beside it, in their leaf packed anew, in the leaves around; and only if those are
//! full too, there is one leaf more. A leaf is split in two without further ado as long as all leaves together stay full enough ([`DENSITY`]). When elements go, the
//! leaves around are packed into one fewer as soon as they fit: so nothing has to be done at once for all of a list (a reap that never stalls).
//!
//! Leaves are not packed in place: new ones are made, put in place of the old ones, and those are freed. An error before that leaves all as it was.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::layers::{Layers, LeafRef, Spot};
use super::leaf::{Place, Put, Shape};
use crate::heap::{Error, Handle, Plain, Session};

/// Leaves have so much of their room in use, if that can be had: numerator and denominator.
const DENSITY: (usize, usize) = (61, 64);
/// Leaves that are packed together at most.
const WINDOW: usize = 24;
/// Elements that go between two looks at what could be packed.
const PATIENCE: u32 = 64;
/// Bytes of the first leaf of a list.
const FIRST_BYTES: usize = 1 << 10;
/// Leaves have a block each up to this length; else they have so many bytes.
const ALONE: usize = 64 << 10;
const BESIDE: usize = 31 << 10;

/// Where an element is or belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Of the leaf.
    pub spot: Spot,
    /// In the leaf.
    pub place: Place,
}

/// See the module.
#[derive(Debug)]
pub struct Slabs<T> {
    pub layers: Layers<T>,
    pub shape: Shape<T>,
    /// Bytes of a leaf's node.
    bytes: usize,
    per_slab: usize,
    len: u64,
    /// Elements that went since the last look at what could be packed.
    gone: u32,
}

impl<T: Plain + Copy> Slabs<T> {
    /// Of elements in their order, which are not many.
    pub fn new(session: &Session<'_>, per_slab: usize, elements: &[T]) -> Result<Self, Error> {
        // Short blocks have short slabs: a leaf is for some of them.
        let per_slab = per_slab.min(most_bytes(session) / 4 / size_of::<T>().max(1)).max(2);
        let mut bytes = FIRST_BYTES;
        let mut shape = shape_of(session, bytes, per_slab);
        while shape.room() <= elements.len() + shape.room() / 8 && bytes < most_bytes(session) {
            bytes *= 2;
            shape = shape_of(session, bytes, per_slab);
        }
        if shape.room() == 0 {
            return Err(Error::Size(per_slab * size_of::<T>()));
        }
        let (len, bytes) = (elements.len() as u64, leaf_bytes(session, shape));
        let mut slabs = Slabs { layers: Layers::new(), shape, bytes, per_slab, len, gone: 0 };
        let room = shape.room() * DENSITY.0 / DENSITY.1;
        let leaves = alike(elements.len(), elements.len().div_ceil(room).max(1));
        let mut rest = elements;
        let parts: Vec<&[T]> =
            leaves.iter().map(|count| rest.split_off(..*count).unwrap_or_default()).collect();
        let made = slabs.make(session, &parts)?;
        slabs.layers.replace(None, 0, &made);
        Ok(slabs)
    }

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether a leaf is as long as leaves get.
    fn is_long(&self, session: &Session<'_>) -> bool {
        self.shape.room() >= shape_of::<T>(session, usize::MAX, self.per_slab).room()
    }

    /// Makes a leaf of each part.
    fn make(&self, session: &Session<'_>, parts: &[&[T]]) -> Result<Vec<(T, LeafRef)>, Error> {
        let mut made: Vec<(T, LeafRef)> = Vec::new();
        made.try_reserve_exact(parts.len()).map_err(|_| Error::OutOfMemory)?;
        for part in parts {
            match self.make_leaf(session, part) {
                Ok(handle) => made.push((part[0], LeafRef { handle, count: part.len() as u32 })),
                Err(error) => {
                    made.iter().try_for_each(|(_, leaf)| session.free(leaf.handle))?;
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    fn make_leaf(&self, session: &Session<'_>, elements: &[T]) -> Result<Handle, Error> {
        let handle = session.alloc(self.bytes)?;
        match session.change_in_place(handle, |leaf| self.shape.change(leaf).pack(elements)) {
            Ok(()) => Ok(handle),
            Err(error) => session.free(handle).and(Err(error)),
        }
    }

    /// Appends a leaf's elements.
    pub fn append_leaf(&self, session: &Session<'_>, handle: Handle, to: &mut Vec<T>) -> Result<(), Error> {
        let before = to.len();
        session.view(handle, |leaf| {
            to.truncate(before);
            for slab in 0..self.shape.used(leaf) {
                let at = to.len();
                to.resize(at + self.shape.fill(leaf, slab), T::new_zeroed());
                self.shape.copy_slab(leaf, slab, &mut to[at..]);
            }
        })
    }

    /// Puts leaves with so many elements each in place of some of a group, which have as many together. At no time more than two leaves' elements are outside of the heap.
    fn spread(
        &mut self,
        session: &Session<'_>,
        spot: Spot,
        old: usize,
        parts: &[usize],
    ) -> Result<(), Error> {
        let gone: Vec<LeafRef> = self.layers.rest_of_group(spot)[..old].to_vec();
        let mut made = Vec::new();
        if let Err(error) = self.copy_to_new(session, &gone, parts, &mut made) {
            made.iter().try_for_each(|(_, leaf): &(T, LeafRef)| session.free(leaf.handle))?;
            return Err(error);
        }
        self.layers.replace(Some(spot), old, &made);
        gone.iter().try_for_each(|leaf| session.free(leaf.handle))
    }

    /// Makes leaves with the elements of others; those that were made are in `made`, whatever comes of it.
    fn copy_to_new(
        &self,
        session: &Session<'_>,
        from: &[LeafRef],
        parts: &[usize],
        made: &mut Vec<(T, LeafRef)>,
    ) -> Result<(), Error> {
        made.try_reserve_exact(parts.len()).map_err(|_| Error::OutOfMemory)?;
        let mut elements = Vec::new();
        elements.try_reserve_exact(2 * self.shape.room()).map_err(|_| Error::OutOfMemory)?;
        let mut parts = parts.iter();
        let mut next = parts.next();
        for leaf in from {
            let before = elements.len();
            self.append_leaf(session, leaf.handle, &mut elements)?;
            if elements.len() - before != leaf.count as usize {
                // More or fewer: the heap's memory is not what it was.
                return Err(Error::Damaged);
            }
            while let Some(&count) = next.filter(|count| **count <= elements.len()) {
                let leaf =
                    LeafRef { handle: self.make_leaf(session, &elements[..count])?, count: count as u32 };
                made.push((elements[0], leaf));
                elements.drain(..count);
                next = parts.next();
            }
        }
        debug_assert!(elements.is_empty() && next.is_none());
        Ok(())
    }

    /// How many elements some leaves of a group have together.
    fn count(&self, spot: Spot, leaves: usize) -> usize {
        self.layers.rest_of_group(spot)[..leaves].iter().map(|leaf| leaf.count as usize).sum()
    }

    /// Puts an element at a position; false if there is no room: then leaves are others now, and it is to be looked for again.
    pub fn insert(&mut self, session: &Session<'_>, at: Position, element: &T) -> Result<bool, Error> {
        let Position { spot, place } = at;
        let handle = self.layers.get(spot).handle;
        let put = session.change_in_place(handle, |leaf| self.shape.change(leaf).insert(place, element))?;
        if put == Put::Full {
            self.make_room(session, at)?;
            return Ok(false);
        }
        self.layers.add(spot, 1);
        self.len += 1;
        if place == (Place { slab: 0, at: 0 }) {
            self.layers.set_first(spot, *element);
        }
        Ok(true)
    }

    /// Makes room in a leaf that is full, or in those around it.
    #[cold]
    fn make_room(&mut self, session: &Session<'_>, at: Position) -> Result<(), Error> {
        let spot = at.spot;
        if !self.is_long(session) {
            // The only one: it becomes twice as long.
            let old_leaf = self.layers.get(spot);
            let mut all = Vec::new();
            self.append_leaf(session, old_leaf.handle, &mut all)?;
            if all.len() != old_leaf.count as usize {
                return Err(Error::Damaged);
            }
            let bytes = (self.shape.bytes() * 2).next_power_of_two();
            let old = (self.shape, self.bytes);
            self.shape = shape_of(session, bytes, self.per_slab);
            self.bytes = leaf_bytes(session, self.shape);
            let made = self.make(session, &[&all]);
            if made.is_err() {
                (self.shape, self.bytes) = old;
            }
            self.layers.replace(Some(spot), 1, &made?);
            return session.free(old_leaf.handle);
        }
        let room = self.shape.room();
        let leaves = self.layers.leaves();
        let is_dense = |leaves: usize| self.len as usize * DENSITY.1 >= leaves * room * DENSITY.0;
        // Who adds in order, up or down, fills each leaf: a new one gets one element, so that it is where the next one belongs.
        if Some(spot) == self.layers.last() && self.is_behind(session, at)? {
            let last = Place { at: at.place.at - 1, ..at.place };
            return self.split_off(session, spot, last);
        }
        if Some(spot) == self.layers.first() && at.place == (Place { slab: 0, at: 0 }) {
            return self.split_off(session, spot, at.place);
        }
        if is_dense(leaves + 1) {
            return self.spread(session, spot, 1, &alike(self.count(spot, 1), 2));
        }
        let (first, count, more) = self.window(spot);
        self.spread(session, first, count, &alike(self.count(first, count), count + usize::from(more)))
    }

    /// Whether a position is behind all elements of its leaf.
    fn is_behind(&self, session: &Session<'_>, at: Position) -> Result<bool, Error> {
        let handle = self.layers.get(at.spot).handle;
        session.view(handle, |leaf| {
            at.place.slab + 1 == self.shape.used(leaf) && at.place.at >= self.shape.fill(leaf, at.place.slab)
        })
    }

    /// A new leaf gets the first element of the first leaf, before it, or the last of the last, behind it.
    fn split_off(&mut self, session: &Session<'_>, spot: Spot, place: Place) -> Result<(), Error> {
        let handle = self.layers.get(spot).handle;
        let element = session.view(handle, |leaf| self.shape.get(leaf, place))?.ok_or(Error::Damaged)?;
        let made = self.make(session, &[&[element]])?;
        let rest = session.change_in_place(handle, |leaf| {
            let mut leaf = self.shape.change(leaf);
            leaf.remove(place);
            leaf.first()
        });
        let rest = match rest {
            Ok(rest) => rest,
            Err(error) => {
                made.iter().try_for_each(|(_, leaf)| session.free(leaf.handle))?;
                return Err(error);
            }
        };
        self.layers.add(spot, -1);
        if place == (Place { slab: 0, at: 0 }) {
            self.layers.set_first(spot, rest);
            self.layers.replace(Some(spot), 0, &made);
        } else {
            made.into_iter().for_each(|(first, leaf)| self.layers.push(first, leaf));
        }
        Ok(())
    }

    /// Leaves around one that have room together, as few as will do: the first, how many, and whether one more is needed.
    fn window(&self, spot: Spot) -> (Spot, usize, bool) {
        let (before, after) = self.layers.around(spot);
        let (mut left, mut right) = (0, 1);
        loop {
            let first = self.layers.moved(spot, -(left as isize));
            let count = left + right;
            let used = self.count(first, count);
            // Afterwards each has room for some more.
            if used + count * (self.shape.room() / 32) <= count * self.shape.room() {
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

    /// Takes out the element at a position, which there is.
    pub fn remove(&mut self, session: &Session<'_>, Position { spot, place }: Position) -> Result<(), Error> {
        let leaf = self.layers.get(spot);
        if leaf.count == 1 {
            session.free(leaf.handle)?;
            self.layers.replace(Some(spot), 1, &[]);
            self.len -= 1;
            return Ok(());
        }
        let first = session.change_in_place(leaf.handle, |bytes| {
            let mut leaf = self.shape.change(bytes);
            leaf.remove(place);
            leaf.first()
        })?;
        self.layers.add(spot, -1);
        self.len -= 1;
        if place == (Place { slab: 0, at: 0 }) {
            self.layers.set_first(spot, first);
        }
        self.gone += 1;
        if self.gone >= PATIENCE {
            self.gone = 0;
            // The element is out. What can't be packed, for want of memory, is as it was, and tried again later; a damaged leaf is an error for who reads it.
            let _ = self.pack_around(session, spot);
        }
        Ok(())
    }

    /// Packs the leaves around one into one fewer, if they fit and it is worth it.
    #[cold]
    fn pack_around(&mut self, session: &Session<'_>, spot: Spot) -> Result<(), Error> {
        let room = self.shape.room();
        if self.len as usize * DENSITY.1 >= self.layers.leaves() * room * DENSITY.0 {
            return Ok(());
        }
        let (before, after) = self.layers.around(spot);
        for count in 2..=WINDOW.min(before + after) {
            let left = before.min(count / 2).max(count.saturating_sub(after));
            let first = self.layers.moved(spot, -(left as isize));
            let used = self.count(first, count);
            if used <= (count - 1) * (room - room / 64) {
                return self.spread(session, first, count, &alike(used, count - 1));
            }
        }
        Ok(())
    }

    /// Packs all elements as close as they go. Returns how many leaves that spared.
    pub fn pack(&mut self, session: &Session<'_>) -> Result<usize, Error> {
        let (before, room) = (self.layers.leaves(), self.shape.room());
        let mut next = self.layers.first();
        while let Some(mut spot) = next {
            let (_, rest) = self.layers.around(spot);
            let count = rest.min(WINDOW);
            let mut parts = count;
            if self.layers.rest_of_group(spot)[..count].iter().any(|leaf| (leaf.count as usize) < room) {
                let all = self.count(spot, count);
                let full: Vec<usize> = (0..all).step_by(room).map(|from| room.min(all - from)).collect();
                parts = full.len();
                self.spread(session, spot, count, &full)?;
            }
            // The last of them may not be full: the next ones fill it, if they are of the same group.
            if rest > count && count > 1 {
                spot = self.layers.moved(spot, parts as isize - 1);
                next = Some(spot);
            } else {
                spot = self.layers.moved(spot, parts as isize - 1);
                next = self.layers.next(spot);
            }
        }
        Ok(before - self.layers.leaves())
    }

    /// The element at a position.
    pub fn get(&self, session: &Session<'_>, at: u64) -> Result<Option<T>, Error> {
        let Some((spot, index)) = self.layers.at(at) else { return Ok(None) };
        let handle = self.layers.get(spot).handle;
        session.view(handle, |leaf| self.shape.get(leaf, self.place_of(leaf, index)))
    }

    /// The place of an element by its number in the leaf; behind the last if there are no more.
    pub fn place_of(&self, leaf: crate::heap::View<'_>, mut index: usize) -> Place {
        let used = self.shape.used(leaf);
        for slab in 0..used {
            let fill = self.shape.fill(leaf, slab);
            if index < fill || slab + 1 == used {
                return Place { slab, at: index.min(fill) };
            }
            index -= fill;
        }
        Place { slab: 0, at: 0 }
    }

    /// Looks at each leaf and at what is known of it.
    pub fn check(&self, session: &Session<'_>) -> Result<(), String> {
        let mut len = 0;
        for (number, (first, leaf)) in self.layers.all().enumerate() {
            let mut bytes = session.read(leaf.handle).map_err(|error| format!("leaf {number}: {error}"))?;
            let known = self.shape.change(&mut bytes);
            let place = Place { slab: 0, at: 0 };
            let is_first = session.view(leaf.handle, |leaf| self.shape.get(leaf, place));
            let is_first =
                is_first.ok().flatten().is_some_and(|element| element.as_bytes() == first.as_bytes());
            if !known.is_sound() || known.count() != leaf.count as usize || !is_first {
                return Err(format!("leaf {number} is not as it should be"));
            }
            len += u64::from(leaf.count);
        }
        let fits = self.layers.is_sound() && len == self.len;
        if fits {
            Ok(())
        } else {
            Err(format!("sublayers contradict each other: {len} elements, not {}", self.len))
        }
    }

    /// Frees all leaves.
    pub fn free(&self, session: &Session<'_>) -> Result<(), Error> {
        self.layers.all().try_for_each(|(_, leaf)| session.free(leaf.handle))
    }
}

/// Bytes of leaves at most: a block's, or, where those are longer, so many that little is left when it is full of leaves.
fn most_bytes(session: &Session<'_>) -> usize {
    if session.longest() <= ALONE { session.longest() } else { BESIDE }
}

/// Leaves of so many bytes, if they can be so long.
fn shape_of<T: Plain + Copy>(session: &Session<'_>, bytes: usize, per_slab: usize) -> Shape<T> {
    Shape::new(bytes.min(most_bytes(session)), per_slab)
}

/// So many elements in so many parts, all alike.
fn alike(elements: usize, parts: usize) -> Vec<usize> {
    let at = |part: usize| elements * part / parts;
    (0..parts).map(|part| at(part + 1) - at(part)).collect()
}

/// Bytes of the node for a leaf: all of a block for the longest, which then has one for itself.
fn leaf_bytes<T: Plain + Copy>(session: &Session<'_>, shape: Shape<T>) -> usize {
    let (most, longest) = (most_bytes(session), session.longest());
    let is_longest = shape.room() >= Shape::<T>::new(most, shape.per_slab()).room();
    if is_longest && most == longest { longest } else { shape.bytes() }
}
