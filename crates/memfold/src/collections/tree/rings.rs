//! Entries of one file: a ring in which each links to another, so that all are found from any.

use super::{NodeId, SAME, Tree, link_at};
use crate::collections::links::Few;
use crate::heap::{Error, Handle, Plain, Session};

/// The other entries of one file. An entry that can't be read is an error, and ends the iteration.
#[derive(Debug)]
pub struct Ring<'t> {
    session: &'t Session<'t>,
    of: NodeId,
    next: Result<Option<NodeId>, Error>,
    left: u64,
}

impl Iterator for Ring<'_> {
    type Item = Result<NodeId, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let node = match std::mem::replace(&mut self.next, Ok(None)) {
            Ok(node) => node.filter(|node| *node != self.of)?,
            Err(error) => return Some(Err(error)),
        };
        let Some(left) = self.left.checked_sub(1) else { return Some(Err(Error::Damaged)) };
        self.left = left;
        self.next = link_at(self.session, node.0, SAME).map(NodeId::from_bits);
        Some(Ok(node))
    }
}

impl<T: Plain + Copy> Tree<'_, T> {
    /// The other entries of the same file.
    pub fn same(&self, of: NodeId) -> Ring<'_> {
        let next = self.link_of(of.0, SAME).map(NodeId::from_bits);
        Ring { session: self.session.borrowed(), of, next, left: self.len }
    }

    /// Links two entries, and all that are linked with either, as entries of one file; false if they were
    /// already.
    pub fn link(&mut self, a: NodeId, b: NodeId) -> Result<bool, Error> {
        self.sound()?;
        let (after_a, after_b) = (self.link_of(a.0, SAME)?, self.link_of(b.0, SAME)?);
        if a == b {
            return Ok(false);
        }
        for other in self.same(a) {
            if other? == b {
                return Ok(false);
            }
        }
        // If an entry of one ring and one of another exchange links, the two rings become one.
        let mut links = Few::new();
        let or = |link: u64, node: NodeId| if link == 0 { node.to_bits() } else { link };
        links.add(a.0, SAME, after_a, or(after_b, b));
        links.add(b.0, SAME, after_b, or(after_a, a));
        let done = links.change(self.session);
        self.noted(done)?;
        Ok(true)
    }

    /// Makes an entry the only one of its file; false if it was already. This reads all other entries of the
    /// file.
    pub fn unlink(&mut self, node: NodeId) -> Result<bool, Error> {
        self.sound()?;
        let Some(links) = self.unlink_ring_changes(node.0)? else { return Ok(false) };
        let done = links.change(self.session);
        self.noted(done)?;
        Ok(true)
    }

    /// The changes that take an entry out of its ring, if it is in one.
    pub(super) fn unlink_ring_changes(&self, node: Handle) -> Result<Option<Few>, Error> {
        let next = self.link_of(node, SAME)?;
        if next == 0 {
            return Ok(None);
        }
        let mut before = None;
        for other in self.same(NodeId(node)) {
            before = Some(other?);
        }
        let before = before.ok_or(Error::Damaged)?.0;
        let mut links = Few::new();
        let alone = before.to_bits() == next;
        links.add(before, SAME, node.to_bits(), if alone { 0 } else { next });
        links.add(node, SAME, next, 0);
        Ok(Some(links))
    }
}
