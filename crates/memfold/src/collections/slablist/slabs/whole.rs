//! Operations on many leaves: removing everything between two numbers, checking, freeing.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::leaves::alike;
use super::{BatchOf, Slabs};
use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::{Batch, Format};
use crate::heap::{Error, Session};

impl<E: ?Sized + Element> Slabs<E> {
    /// Removes the elements from one number to another, as far as they exist. If it fails, nothing is done.
    pub fn remove_between(&mut self, session: &Session<'_>, from: u64, to: u64) -> Result<(), Error> {
        let to = to.min(self.len);
        if from >= to {
            return Ok(());
        }
        let at = |number| self.layers.at(number).ok_or(Error::Damaged);
        let ((first, start), (last, end)) = (at(from)?, at(to - 1)?);
        // The remaining elements of the leaves at both ends go into one new leaf, or two.
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
        longs.iter().for_each(|node| session.discard(*node));
        self.free_leaves(session, &gone);
        Ok(())
    }

    /// Checks each leaf, and what is recorded of it.
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

    /// Frees all leaves, and the nodes of long elements. If one can't be freed now, that is an error, and it
    /// is freed later; if a leaf can't be read, the nodes that it refers to stay.
    pub fn free(&self, session: &Session<'_>) -> Result<(), Error> {
        let mut result = Ok(());
        for (_, leaf) in self.layers.all() {
            let mut all = BatchOf::<E>::default();
            if E::Format::HAS_LONG {
                result = result.and(self.append_leaf(session, leaf, &mut all));
                for node in (0..all.len()).filter_map(|at| all.long(at)) {
                    result = result.and(session.free_or_defer(node));
                }
            }
            result = result.and(self.free_leaf(session, &leaf));
        }
        result
    }

    /// Bytes of plain memory.
    pub fn own_bytes(&self) -> usize {
        size_of::<Self>() + self.layers.bytes(|key| E::Format::key_bytes(key))
    }
}
