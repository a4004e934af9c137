//! Making leaves, and moving elements between them.
//!
//! Leaves are not packed in place: new ones are made, they replace the old ones, and those are freed. An
//! error before that changes nothing.

use std::ops::Range;
use std::vec::Vec;

use super::{BatchOf, Key, Making, Slabs};
use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::{Batch, Format};
use crate::collections::slablist::slabs::layers::{LeafIndex, LeafRef};
use crate::heap::{Error, Handle, Session};

/// If a block has room for up to this many bytes, a leaf fills it; in longer blocks leaves have `BESIDE`
/// bytes.
const ALONE: usize = 64 << 10;
const BESIDE: usize = 31 << 10;

impl<E: ?Sized + Element> Slabs<E> {
    /// Whether a leaf has the maximal length.
    pub(super) fn is_long(&self, session: &Session<'_>) -> bool {
        self.format.room() >= format_of::<E>(session, usize::MAX, self.making).room()
    }

    /// The most bytes of a leaf: an element too long for it gets a node of its own.
    pub fn longest(session: &Session<'_>) -> usize {
        most_bytes(session)
    }

    /// Makes leaves with the elements of a batch, with the weights of `parts`.
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

    /// Frees leaves that were made, but did not become part of the list.
    pub(super) fn unmake(&mut self, session: &Session<'_>, made: &[(Key<E>, LeafRef)]) {
        self.stats.leaves_freed += made.len() as u64;
        made.iter().for_each(|(_, leaf)| self.release_leaf(session, leaf));
    }

    /// Frees leaves that no longer belong to the list.
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
        // More or fewer elements: the heap's memory was overwritten.
        if to.len() - before == leaf.count as usize { Ok(()) } else { Err(Error::Damaged) }
    }

    /// Replaces some leaves of a group by leaves with these weights, which have the same sum. The elements of
    /// only a few leaves are outside the heap at a time. Returns the number of new leaves.
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

    /// Makes leaves with the elements of others; `made` has those that were made, even after an error.
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
            // Elements that are in new leaves are dropped, but not each time, because dropping moves the
            // rest.
            if rest.at > 2 * (elements.len() - rest.at) {
                elements.keep(rest.at, elements.len());
                rest.at = 0;
            }
        }
        Ok(())
    }

    /// Makes leaves of the rest of a batch as long as it suffices for the next part; with `all`, of all of
    /// it.
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

    /// The total weight of some leaves of a group.
    pub(super) fn weigh(&self, spot: LeafIndex, leaves: usize) -> usize {
        self.layers.rest_of_group(spot)[..leaves].iter().map(|leaf| leaf.weight as usize).sum()
    }
}

/// The elements of a batch that are not in leaves yet: the number of the first, and their total weight.
struct Rest {
    at: usize,
    total: usize,
}

/// The weights of the next leaves. If one deviates from its target, the next one compensates.
pub struct Parts<'p> {
    rest: &'p [u64],
    off: i64,
}

impl<'p> Parts<'p> {
    pub fn new(rest: &'p [u64]) -> Self {
        Parts { rest, off: 0 }
    }

    /// The weight of the next one; unlimited after the last.
    pub fn next(&self) -> usize {
        match self.rest {
            [next, _, ..] => next.saturating_add_signed(self.off) as usize,
            _ => usize::MAX,
        }
    }

    /// Notes that one of this weight was made.
    pub fn take(&mut self, weight: usize) {
        if let [next, rest @ ..] = self.rest {
            self.off += *next as i64 - weight as i64;
            self.rest = rest;
        }
    }
}

/// The most bytes of a leaf: those of a block or, if blocks are longer, so many that a block full of leaves
/// has little room left.
pub fn most_bytes(session: &Session<'_>) -> usize {
    if session.longest() <= ALONE { session.longest() } else { BESIDE }
}

/// The format for leaves of this many bytes, if they can be that long.
pub fn format_of<E: ?Sized + Element>(session: &Session<'_>, bytes: usize, making: Making) -> E::Format {
    let most = most_bytes(session);
    // Short blocks have short slabs: a leaf should hold several.
    let per_slab = usize::from(making.per_slab).min(most / 4 / E::Format::ELEMENT.max(1)).max(2);
    E::Format::new(bytes.min(most), per_slab, making.natural)
}

/// Divides a weight into equal parts.
pub fn alike(weight: usize, parts: usize) -> Vec<u64> {
    let at = |part: usize| (weight * part / parts) as u64;
    (0..parts).map(|part| at(part + 1) - at(part)).collect()
}

/// Bytes of the node for a leaf: a whole block for the longest, which then is alone in it.
pub fn leaf_bytes<E: ?Sized + Element>(session: &Session<'_>, format: E::Format, making: Making) -> usize {
    let (most, longest) = (most_bytes(session), session.longest());
    let is_longest = format.room() >= format_of::<E>(session, usize::MAX, making).room();
    if is_longest && most == longest { longest } else { format.bytes() }
}
