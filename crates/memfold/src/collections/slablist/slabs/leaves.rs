//! Making leaves, and putting elements of some into others.
//!
//! Leaves are not packed in place: new ones are made, put in place of the old ones, and those are freed. An error before that leaves all as it was.

use std::ops::Range;
use std::vec::Vec;

use super::{BatchOf, Key, Making, Slabs};
use crate::collections::slablist::element::Element;
use crate::collections::slablist::format::{Batch, Format};
use crate::collections::slablist::layers::{LeafIndex, LeafRef};
use crate::heap::{Error, Handle, Session};

/// Leaves have a block each up to this length; else they have so many bytes.
const ALONE: usize = 64 << 10;
const BESIDE: usize = 31 << 10;

impl<E: ?Sized + Element> Slabs<E> {
    /// Whether a leaf is as long as leaves get.
    pub(super) fn is_long(&self, session: &Session<'_>) -> bool {
        self.format.room() >= format_of::<E>(session, usize::MAX, self.making).room()
    }

    /// Bytes of leaves at most: what is too long for them gets a node of its own.
    pub fn longest(session: &Session<'_>) -> usize {
        most_bytes(session)
    }

    /// Makes leaves with the elements of a batch, of so much weight each.
    pub(super) fn make(
        &mut self,
        session: &Session<'_>,
        elements: &BatchOf<E>,
        parts: &[u64],
        made: &mut Vec<(Key<E>, LeafRef)>,
    ) -> Result<(), Error> {
        let mut rest = Rest { at: 0, total: elements.total() };
        self.flush(session, elements, &mut rest, &mut Parts::new(parts), made, true)
    }

    /// Makes a leaf of these elements of a batch.
    pub(super) fn make_leaf(
        &mut self,
        session: &Session<'_>,
        elements: &BatchOf<E>,
        range: Range<usize>,
    ) -> Result<Handle, Error> {
        let (handle, count) = (session.alloc(self.bytes)?, range.len());
        match session.change_in_place(handle, |leaf| self.format.pack(leaf, elements, range)) {
            Ok(()) => {
                self.stats.leaves_made += 1;
                crate::probe!(slab_alloc, handle.to_bits(), self.bytes, count);
                Ok(handle)
            }
            Err(error) => {
                session.discard(handle);
                Err(error)
            }
        }
    }

    /// Frees leaves that were made, and are no part of the list.
    pub(super) fn unmake(&mut self, session: &Session<'_>, made: &[(Key<E>, LeafRef)]) {
        self.stats.leaves_freed += made.len() as u64;
        made.iter().for_each(|(_, leaf)| self.release_leaf(session, leaf));
    }

    /// Frees leaves that are no part of the list any more.
    pub(super) fn free_leaves(&mut self, session: &Session<'_>, gone: &[LeafRef]) {
        self.stats.leaves_freed += gone.len() as u64;
        gone.iter().for_each(|leaf| self.release_leaf(session, leaf));
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

    /// Puts leaves with so much weight each in place of some of a group, which weigh as much together. At no time more than some leaves' elements are outside of the heap.
    /// Returns how many there are now.
    pub(super) fn spread(
        &mut self,
        session: &Session<'_>,
        spot: LeafIndex,
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
        self.spread_done(session, &gone, made.len());
        self.free_leaves(session, &gone);
        Ok(made.len())
    }

    /// Makes leaves with the elements of others; those that were made are in `made`, whatever comes of it.
    pub(super) fn copy_to_new(
        &mut self,
        session: &Session<'_>,
        from: &[LeafRef],
        parts: &[u64],
        made: &mut Vec<(Key<E>, LeafRef)>,
    ) -> Result<(), Error> {
        made.try_reserve_exact(parts.len() + 1).map_err(|_| Error::OutOfMemory)?;
        let (mut elements, mut rest) = (BatchOf::<E>::default(), Rest { at: 0, total: 0 });
        let mut parts = Parts::new(parts);
        for (number, leaf) in from.iter().enumerate() {
            let before = elements.total();
            self.append_leaf(session, *leaf, &mut elements)?;
            rest.total += elements.total() - before;
            self.flush(session, &elements, &mut rest, &mut parts, made, number + 1 == from.len())?;
            // Those that are in leaves now go, but not each time, since those behind them are moved.
            if rest.at > 2 * (elements.len() - rest.at) {
                elements.keep(rest.at, elements.len());
                rest.at = 0;
            }
        }
        Ok(())
    }

    /// Makes leaves of the rest of a batch as long as it is enough for the next part; or of all.
    fn flush(
        &mut self,
        session: &Session<'_>,
        elements: &BatchOf<E>,
        rest: &mut Rest,
        parts: &mut Parts<'_>,
        made: &mut Vec<(Key<E>, LeafRef)>,
        all: bool,
    ) -> Result<(), Error> {
        while rest.at < elements.len() && (all || rest.total > parts.next()) {
            let (count, weight) = elements.fit(rest.at, parts.next().min(self.format.room()));
            let handle = self.make_leaf(session, elements, rest.at..rest.at + count)?;
            let leaf = LeafRef { handle, count: count as u32, weight: weight as u32 };
            made.push((elements.key(rest.at), leaf));
            parts.take(weight);
            (rest.at, rest.total) = (rest.at + count, rest.total - weight);
        }
        Ok(())
    }

    /// What some leaves of a group weigh together.
    pub(super) fn weigh(&self, spot: LeafIndex, leaves: usize) -> usize {
        self.layers.rest_of_group(spot)[..leaves].iter().map(|leaf| leaf.weight as usize).sum()
    }
}

/// The elements of a batch that are not in leaves yet: from which on, and what they weigh.
struct Rest {
    at: usize,
    total: usize,
}

/// What the next leaves are to weigh. What one is lighter or heavier than it should be, the next one makes up for.
pub struct Parts<'p> {
    rest: &'p [u64],
    off: i64,
}

impl<'p> Parts<'p> {
    pub fn new(rest: &'p [u64]) -> Self {
        Parts { rest, off: 0 }
    }

    /// Weight of the next one; without end behind the last.
    pub fn next(&self) -> usize {
        match self.rest {
            [next, _, ..] => next.saturating_add_signed(self.off) as usize,
            _ => usize::MAX,
        }
    }

    /// One was made that weighs so much.
    pub fn take(&mut self, weight: usize) {
        if let [next, rest @ ..] = self.rest {
            self.off += *next as i64 - weight as i64;
            self.rest = rest;
        }
    }
}

/// Bytes of leaves at most: a block's, or, where those are longer, so many that little is left when it is full of leaves.
pub fn most_bytes(session: &Session<'_>) -> usize {
    if session.longest() <= ALONE { session.longest() } else { BESIDE }
}

/// Leaves of so many bytes, if they can be so long.
pub fn format_of<E: ?Sized + Element>(session: &Session<'_>, bytes: usize, making: Making) -> E::Format {
    let most = most_bytes(session);
    // Short blocks have short slabs: a leaf is for some of them.
    let per_slab = usize::from(making.per_slab).min(most / 4 / E::Format::ELEMENT.max(1)).max(2);
    E::Format::new(bytes.min(most), per_slab, making.natural)
}

/// So much in so many parts, all alike.
pub fn alike(weight: usize, parts: usize) -> Vec<u64> {
    let at = |part: usize| (weight * part / parts) as u64;
    (0..parts).map(|part| at(part + 1) - at(part)).collect()
}

/// Bytes of the node for a leaf: all of a block for the longest, which then has one for itself.
pub fn leaf_bytes<E: ?Sized + Element>(session: &Session<'_>, format: E::Format, making: Making) -> usize {
    let (most, longest) = (most_bytes(session), session.longest());
    let is_longest = format.room() >= format_of::<E>(session, usize::MAX, making).room();
    if is_longest && most == longest { longest } else { format.bytes() }
}
