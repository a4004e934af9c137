//! The place of an entry: adding, moving, sorting.

use std::cmp::Ordering;

use zerocopy::IntoBytes;

use super::{CHILD, DATA, Entry, Links, NEXT, NodeId, PARENT, PREVIOUS, Tree};
use crate::collections::links::{Few, Link, bits, change_all};
use crate::collections::sorted::{Sorted, sort_numbered};
use crate::heap::{Error, Handle, Plain};
use crate::room::{push, room};

/// Where to put an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// As the first child of this one, or first at the top.
    First(Option<NodeId>),
    /// As the last child of this one, or last at the top.
    Last(Option<NodeId>),
    /// Before this sibling.
    Before(NodeId),
    /// After this sibling.
    After(NodeId),
}

/// A place between two siblings; at an end, one of them is missing.
struct Gap {
    parent: Option<Handle>,
    before: Option<Handle>,
    after: Option<Handle>,
    first: Option<Handle>,
    last: Option<Handle>,
}

impl<T: Plain + Copy> Tree<'_, T> {
    /// Adds an entry.
    pub fn add(&mut self, at: At, data: &T, name: &[u8]) -> Result<NodeId, Error> {
        self.sound()?;
        let spot = self.spot(at, self.top)?;
        let node = self.session.alloc(Self::NAME.saturating_add(name.len()))?;
        let links = spot.links(node, Links { parent: 0, child: 0, next: 0, previous: 0, same: 0 });
        let filled = self.session.change_in_place(node, |bytes| {
            bytes[..DATA].copy_from_slice(links.as_bytes());
            bytes[DATA..Self::NAME].copy_from_slice(data.as_bytes());
            bytes[Self::NAME..].copy_from_slice(name);
        });
        let done = filled.and_then(|()| {
            let done = spot.around(node).change(self.session);
            self.noted(done)
        });
        if let Err(error) = done {
            self.session.discard(node);
            return Err(error);
        }
        if spot.is_top() {
            self.top = Some(node);
        }
        self.len += 1;
        Ok(NodeId(node))
    }

    /// Moves an entry with everything below it; returns false, and moves nothing, if it would be below
    /// itself.
    pub fn move_to(&mut self, node: NodeId, at: At) -> Result<bool, Error> {
        self.sound()?;
        if let At::Before(sibling) | At::After(sibling) = at
            && sibling == node
        {
            return self.parent(node).map(|_| true);
        }
        let above = match at {
            At::First(parent) | At::Last(parent) => parent,
            At::Before(sibling) | At::After(sibling) => self.parent(sibling)?,
        };
        if let Some(above) = above {
            for ancestor in std::iter::once(Ok(above)).chain(self.ancestors(above)) {
                if ancestor? == node {
                    return Ok(false);
                }
            }
        }
        let old = self.links_of(node.0)?;
        let (out, mut top) = self.way_out(node.0, old)?;
        let mut lost = false;
        let done = out.change_and(self.session, || {
            let spot = self.spot(at, top)?;
            let new = spot.links(node.0, old);
            let mut links = spot.around(node.0);
            links.add(node.0, PARENT, old.parent, new.parent);
            links.add(node.0, NEXT, old.next, new.next);
            links.add(node.0, PREVIOUS, old.previous, new.previous);
            if spot.is_top() {
                top = Some(node.0);
            }
            links.change(self.session).map_err(|failure| {
                lost = !failure.undone;
                failure.error
            })
        });
        self.broken |= lost;
        self.noted(done)?;
        self.top = top;
        Ok(true)
    }

    /// Where an entry would be, in a tree that begins with `top`.
    fn spot(&self, at: At, top: Option<Handle>) -> Result<Gap, Error> {
        let (parent, sibling) = match at {
            At::First(parent) | At::Last(parent) => (parent.map(|parent| parent.0), None),
            At::Before(sibling) | At::After(sibling) => {
                let links = self.links_of(sibling.0)?;
                (Handle::from_bits(links.parent), Some(links))
            }
        };
        let first = match parent {
            Some(parent) => Handle::from_bits(self.link_of(parent, CHILD)?),
            None => top,
        };
        let last = match first {
            Some(first) => Handle::from_bits(self.link_of(first, PREVIOUS)?),
            None => None,
        };
        let (before, after) = match (at, sibling) {
            (At::First(_), _) => (None, first),
            (At::Before(NodeId(node)), Some(links)) => {
                (Handle::from_bits(links.previous).filter(|_| first != Some(node)), Some(node))
            }
            (At::After(NodeId(node)), Some(links)) => (Some(node), Handle::from_bits(links.next)),
            _ => (last, None),
        };
        Ok(Gap { parent, before, after, first, last })
    }

    /// The changes that take an entry out from between its siblings, and the first entry of the tree
    /// afterwards.
    pub(super) fn way_out(&self, node: Handle, links: Links) -> Result<(Few, Option<Handle>), Error> {
        let (parent, next) = (Handle::from_bits(links.parent), Handle::from_bits(links.next));
        let first = self.first_of(parent)?.ok_or(Error::Stale)?;
        let (mut few, mut top) = (Few::new(), self.top);
        if first != node {
            let before = Handle::from_bits(links.previous).ok_or(Error::Stale)?;
            few.add(before, NEXT, node.to_bits(), links.next);
            // The first one links back to the last.
            few.add(next.unwrap_or(first), PREVIOUS, node.to_bits(), links.previous);
            return Ok((few, top));
        }
        match parent {
            Some(parent) => few.add(parent, CHILD, node.to_bits(), links.next),
            None => top = next,
        }
        if let Some(next) = next {
            few.add(next, PREVIOUS, node.to_bits(), links.previous);
        }
        Ok((few, top))
    }

    /// Sorts the children of an entry, or the entries at the top, by a comparison; the sort is stable. The
    /// entries are copied to plain memory for it. The comparison is called only before anything changes; then
    /// links are changed, in the old order of the entries.
    pub fn sort_children(
        &mut self,
        of: Option<NodeId>,
        compare: impl FnMut(&Entry<T>, &Entry<T>) -> Ordering,
    ) -> Result<(), Error> {
        self.sound()?;
        let (mut nodes, mut entries) = (room(0)?, room(0)?);
        for child in self.children(of) {
            let child = child?;
            let number = u32::try_from(nodes.len()).map_err(|_| Error::OutOfMemory)?;
            push(&mut entries, (self.entry(child)?, number))?;
            push(&mut nodes, child.0)?;
        }
        sort_numbered(&mut entries, compare);
        let mut order = room(nodes.len())?;
        order.extend(entries.into_iter().map(|(_, number)| number));
        let (count, old) = (nodes.len(), nodes.first().copied());
        let sorted = Sorted::new(nodes, order)?;
        let first = sorted.first_and_last().map(|(first, _)| first);
        let head = of.map(|of| Link { node: of.0, at: CHILD, from: bits(old), to: bits(first) });
        let links = |number: usize| match number / 2 {
            child if child == count => head,
            child if number.is_multiple_of(2) => sorted.link(child, true, NEXT, false, true),
            child => sorted.link(child, false, PREVIOUS, false, true),
        };
        let done = change_all(self.session, 2 * count + 1, links);
        self.noted(done)?;
        if of.is_none() {
            self.top = first;
        }
        Ok(())
    }
}

impl Gap {
    /// Whether an entry here is the first of all.
    fn is_top(&self) -> bool {
        self.parent.is_none() && self.before.is_none()
    }

    /// The links of a node at this place; its other links stay.
    fn links(&self, node: Handle, others: Links) -> Links {
        let previous = self.before.or(self.last).unwrap_or(node);
        Links { parent: bits(self.parent), next: bits(self.after), previous: previous.to_bits(), ..others }
    }

    /// The changes that link the neighbours to a node at this place.
    fn around(&self, node: Handle) -> Few {
        let (node, mut few) = (node.to_bits(), Few::new());
        match (self.before, self.parent) {
            (Some(before), _) => few.add(before, NEXT, bits(self.after), node),
            (None, Some(parent)) => few.add(parent, CHILD, bits(self.first), node),
            (None, None) => {}
        }
        // The first one links back to the last.
        if let Some(after) = self.after.or(self.first) {
            few.add(after, PREVIOUS, bits(self.before.or(self.last)), node);
        }
        few
    }
}
