//! Walking a tree: it reads only links, and keeps nothing but its position.

use super::{CHILD, NEXT, NodeId, PARENT, Tree, link_at};
use crate::heap::{Error, Handle, Plain, Session};

/// A step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// To an entry, from above or from its sibling.
    Enter(NodeId),
    /// Out of an entry: everything below it has been visited.
    Leave(NodeId),
}

impl<T: Plain + Copy> Tree<'_, T> {
    /// The children of an entry, or the entries at the top, in order.
    pub fn children(&self, of: Option<NodeId>) -> Children<'_> {
        Children(Chain {
            session: self.session.borrowed(),
            next: self.first_child(of),
            at: NEXT,
            left: self.len,
        })
    }

    /// The ancestors of an entry, from its parent up.
    pub fn ancestors(&self, of: NodeId) -> Ancestors<'_> {
        Ancestors(Chain {
            session: self.session.borrowed(),
            next: self.parent(of),
            at: PARENT,
            left: self.len,
        })
    }

    /// An entry and everything below it, or the whole tree, depth first: each entry once before the entries
    /// below it, and once after them.
    pub fn edges(&self, top: Option<NodeId>) -> Edges<'_> {
        let first = match top {
            _ if self.broken => Err(Error::Damaged),
            Some(top) => Ok(Some(Edge::Enter(top))),
            None => Ok(self.top.map(|first| Edge::Enter(NodeId(first)))),
        };
        Edges { session: self.session.borrowed(), top, next: first, left: 2 * self.len }
    }

    /// An entry and everything below it, or the whole tree, depth first, each with its depth: 0 where the
    /// walk begins.
    pub fn walk(&self, top: Option<NodeId>) -> Walk<'_> {
        Walk { edges: self.edges(top), depth: 0 }
    }
}

/// A chain of entries.
#[derive(Debug)]
struct Chain<'t> {
    session: &'t Session<'t>,
    next: Result<Option<NodeId>, Error>,
    at: usize,
    /// How many more there can be.
    left: u64,
}

impl Chain<'_> {
    fn step(&mut self) -> Option<Result<NodeId, Error>> {
        let node = match std::mem::replace(&mut self.next, Ok(None)) {
            Ok(node) => node?,
            Err(error) => return Some(Err(error)),
        };
        let Some(left) = self.left.checked_sub(1) else { return Some(Err(Error::Damaged)) };
        self.left = left;
        self.next = link_at(self.session, node.0, self.at).map(NodeId::from_bits);
        Some(Ok(node))
    }
}

/// Siblings. An entry that can't be read is an error, and ends the iteration; this also applies to the other
/// iterators here.
#[derive(Debug)]
pub struct Children<'t>(Chain<'t>);

impl Iterator for Children<'_> {
    type Item = Result<NodeId, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step()
    }
}

/// Ancestors, from the parent up.
#[derive(Debug)]
pub struct Ancestors<'t>(Chain<'t>);

impl Iterator for Ancestors<'_> {
    type Item = Result<NodeId, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step()
    }
}

/// Steps of a walk.
#[derive(Debug)]
pub struct Edges<'t> {
    session: &'t Session<'t>,
    top: Option<NodeId>,
    next: Result<Option<Edge>, Error>,
    /// How many more steps there can be.
    left: u64,
}

impl Edges<'_> {
    fn after(&self, edge: Edge) -> Result<Option<Edge>, Error> {
        let node = match edge {
            Edge::Enter(node) => {
                let child = Handle::from_bits(link_at(self.session, node.0, CHILD)?);
                return Ok(Some(child.map_or(Edge::Leave(node), |child| Edge::Enter(NodeId(child)))));
            }
            Edge::Leave(node) => node,
        };
        if self.top == Some(node) {
            return Ok(None);
        }
        if let Some(next) = Handle::from_bits(link_at(self.session, node.0, NEXT)?) {
            return Ok(Some(Edge::Enter(NodeId(next))));
        }
        Ok(NodeId::from_bits(link_at(self.session, node.0, PARENT)?).map(Edge::Leave))
    }
}

impl Iterator for Edges<'_> {
    type Item = Result<Edge, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let edge = match std::mem::replace(&mut self.next, Ok(None)) {
            Ok(edge) => edge?,
            Err(error) => return Some(Err(error)),
        };
        let Some(left) = self.left.checked_sub(1) else { return Some(Err(Error::Damaged)) };
        self.left = left;
        self.next = self.after(edge);
        Some(Ok(edge))
    }
}

/// Entries with their depths.
#[derive(Debug)]
pub struct Walk<'t> {
    edges: Edges<'t>,
    depth: u64,
}

impl Iterator for Walk<'_> {
    type Item = Result<(NodeId, u64), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.edges.next()? {
                Ok(Edge::Enter(node)) => {
                    self.depth += 1;
                    return Some(Ok((node, self.depth - 1)));
                }
                Ok(Edge::Leave(_)) => self.depth -= 1,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
