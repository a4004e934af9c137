//! Trees: entries with a parent, children and siblings, plain data and a name. A directory tree with hard
//! links is an example.
//!
//! ```
//! use memfold::collections::Tree;
//! use memfold::collections::tree::At;
//! use memfold::heap::{Heap, Options};
//!
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;
//! let mut tree: Tree<u64> = Tree::new(&session);
//! let home = tree.add(At::Last(None), &0, b"home")?;
//! let readme = tree.add(At::Last(Some(home)), &100, b"README")?;
//! let doc = tree.add(At::Last(Some(home)), &0, b"doc")?;
//! let same = tree.add(At::Last(Some(doc)), &100, b"README")?;
//! tree.link(readme, same)?;
//! // Each directory gets the size of what is in it, a file of several names once.
//! tree.sum_up(None, |size| *size, |a, b| a + b, |size, sum| *size = sum)?;
//! assert_eq!((tree.get(doc)?, tree.get(home)?), (100, 100));
//! assert_eq!(tree.path(same, b'/')?, b"home/doc/README");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!   home                                  parent:   up, of each child
//!    │ child                              child:    the first one
//!    v                                    next:     the next sibling
//!   README ──next──> doc                  previous: the sibling before; of the first one, the last
//!    │ ^              │ child             same:     another entry of the same file, and so on in a ring
//!    │ └───same───┐   v
//!    └───same───> README
//!
//!   a node:  | parent, 8 | child, 8 | next, 8 | previous, 8 | same, 8 | data, T | name .. |
//! ```
//!
//! There may be several entries without a parent: the top of the tree. `None` stands for their parent.
//!
//! Invariants:
//! - All entries are found from the first one at the top, by `child` and `next`. `parent` leads back from any
//!   child, `previous` from a sibling to the one before it and from the first sibling to the last.
//! - Entries are of one file if they are in one ring. The only entry of a file has no link to another one.
//! - An operation that fails has changed nothing, unless it says otherwise. If some nodes were changed,
//!   another could not be, and the first ones could not be changed back, the tree is **broken**: everything
//!   that changes links, or walks the whole tree, is [`Error::Damaged`] from then on.
//! - Nothing is recursive: trees may have any depth.

mod check;
mod place;
mod remove;
mod rings;
mod sums;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::marker::PhantomData;
use std::vec::Vec;

pub use place::At;
pub use rings::Ring;
pub use walk::{Ancestors, Children, Edge, Edges, Walk};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::links::{Failure, LINK};
use crate::heap::{Error, Handle, Plain, Session};
use crate::room::{gather, push, room};

/// The name of an entry in its tree: it stays valid until the entry is removed. Then it is [`Error::Stale`],
/// as a node's handle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(Handle);

impl NodeId {
    /// As a number, to be stored in nodes: never zero.
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The entry that a number stands for; `None` for zero.
    pub fn from_bits(bits: u64) -> Option<Self> {
        Handle::from_bits(bits).map(NodeId)
    }
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<T> {
    /// Of the same length in all entries.
    pub data: T,
    /// Of any length.
    pub name: Vec<u8>,
}

/// The links of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Links {
    parent: u64,
    child: u64,
    next: u64,
    previous: u64,
    same: u64,
}

/// Their offsets.
const PARENT: usize = 0;
const CHILD: usize = LINK;
const NEXT: usize = 2 * LINK;
const PREVIOUS: usize = 3 * LINK;
const SAME: usize = 4 * LINK;
const DATA: usize = 5 * LINK;

/// A tree: see the module.
pub struct Tree<'s, T: Plain + Copy> {
    session: &'s Session<'s>,
    /// The first entry at the top.
    top: Option<Handle>,
    len: u64,
    broken: bool,
    data: PhantomData<fn(T) -> T>,
}

impl<T: Plain + Copy> fmt::Debug for Tree<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'s, T: Plain + Copy> Tree<'s, T> {
    /// The offset of the name.
    const NAME: usize = DATA + size_of::<T>();

    /// An empty tree.
    pub fn new(session: &'s Session<'_>) -> Self {
        Tree { session: session.borrowed(), top: None, len: 0, broken: false, data: PhantomData }
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The data of an entry.
    pub fn get(&self, node: NodeId) -> Result<T, Error> {
        self.session.get_at(node.0, DATA).map_err(of_no_node)
    }

    /// Replaces the data of an entry.
    pub fn set(&mut self, node: NodeId, data: &T) -> Result<(), Error> {
        self.update(node, |old| *old = *data)
    }

    /// Changes the data of an entry.
    pub fn update<R>(&mut self, node: NodeId, change: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        self.session.change_in_place(node.0, |bytes| {
            let part = bytes.get_mut(DATA..Self::NAME).ok_or(Error::Stale)?;
            let mut data = T::new_zeroed();
            data.as_mut_bytes().copy_from_slice(part);
            let result = change(&mut data);
            part.copy_from_slice(data.as_bytes());
            Ok(result)
        })?
    }

    /// The name of an entry.
    pub fn name(&self, node: NodeId) -> Result<Vec<u8>, Error> {
        self.entry(node).map(|entry| entry.name)
    }

    /// The data and the name of an entry.
    pub fn entry(&self, node: NodeId) -> Result<Entry<T>, Error> {
        let entry = self.session.view(node.0, |view| {
            let data = view.get(DATA)?;
            let mut name = std::vec![0; view.len().checked_sub(Self::NAME)?];
            view.copy_to(Self::NAME, &mut name).then_some(Entry { data, name })
        })?;
        entry.ok_or(Error::Stale)
    }

    /// The names on the path from the top to an entry, with `separator` between them.
    pub fn path(&self, node: NodeId, separator: u8) -> Result<Vec<u8>, Error> {
        let mut names = gather([self.name(node)?])?;
        for ancestor in self.ancestors(node) {
            push(&mut names, self.name(ancestor?)?)?;
        }
        let mut path = room(names.iter().map(|name| name.len() + 1).sum())?;
        for name in names.into_iter().rev() {
            path.extend(name);
            path.push(separator);
        }
        path.pop();
        Ok(path)
    }

    /// The first child of an entry, or the first entry at the top.
    pub fn first_child(&self, of: Option<NodeId>) -> Result<Option<NodeId>, Error> {
        Ok(self.first_of(of.map(|node| node.0))?.map(NodeId))
    }

    /// The last child of an entry, or the last entry at the top.
    pub fn last_child(&self, of: Option<NodeId>) -> Result<Option<NodeId>, Error> {
        match self.first_of(of.map(|node| node.0))? {
            Some(first) => Ok(NodeId::from_bits(self.link_of(first, PREVIOUS)?)),
            None => Ok(None),
        }
    }

    /// The parent of an entry; `None` at the top.
    pub fn parent(&self, of: NodeId) -> Result<Option<NodeId>, Error> {
        Ok(NodeId::from_bits(self.link_of(of.0, PARENT)?))
    }

    /// The next sibling of an entry.
    pub fn next(&self, of: NodeId) -> Result<Option<NodeId>, Error> {
        Ok(NodeId::from_bits(self.link_of(of.0, NEXT)?))
    }

    /// The previous sibling of an entry.
    pub fn previous(&self, of: NodeId) -> Result<Option<NodeId>, Error> {
        let links = self.links_of(of.0)?;
        let first = self.first_of(Handle::from_bits(links.parent))?;
        Ok(NodeId::from_bits(links.previous).filter(|_| first != Some(of.0)))
    }

    /// The first child of a node, or the first entry at the top.
    fn first_of(&self, parent: Option<Handle>) -> Result<Option<Handle>, Error> {
        match parent {
            Some(parent) => Ok(Handle::from_bits(self.link_of(parent, CHILD)?)),
            None => Ok(self.top),
        }
    }

    #[inline(always)]
    fn link_of(&self, node: Handle, at: usize) -> Result<u64, Error> {
        link_at(self.session, node, at)
    }

    fn links_of(&self, node: Handle) -> Result<Links, Error> {
        self.session.get_at(node, 0).map_err(of_no_node)
    }

    /// Returns an error if the tree is broken.
    fn sound(&self) -> Result<(), Error> {
        if self.broken { Err(Error::Damaged) } else { Ok(()) }
    }

    /// Notes whether the tree is broken, after a change of links.
    fn noted(&mut self, done: Result<(), Failure>) -> Result<(), Error> {
        done.map_err(|failure| {
            self.broken |= !failure.undone;
            failure.error
        })
    }
}

#[inline(always)]
fn link_at(session: &Session<'_>, node: Handle, at: usize) -> Result<u64, Error> {
    session.get_at(node, at).map_err(of_no_node)
}

/// A node too short for the links of a tree is not a node of the tree.
fn of_no_node(error: Error) -> Error {
    if matches!(error, Error::Mismatch { .. }) { Error::Stale } else { error }
}
