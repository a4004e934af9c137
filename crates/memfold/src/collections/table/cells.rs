//! The cells of one column, in the nodes that hold them.
//!
//! Every node has the cells of as many groups as fit; the first one is short at first. A full-length node is
//! as long as a block allows, so that nothing else is in its block.

use std::vec;
use std::vec::Vec;

use crate::collections::content::Content;
use crate::heap::{Error, Handle, Session};

/// Rows for which the first node has room at first.
const FIRST_ROWS: usize = 64;
/// A node longer than this gets the length of a block.
const SHORT: usize = 8 << 10;

/// The width of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Bit,
    Bytes(usize),
    /// A handle, which is zero for an empty element.
    Reference,
}

impl Width {
    /// Bytes of this many cells.
    pub fn bytes(self, cells: usize) -> usize {
        match self {
            Width::Bit => cells.div_ceil(8),
            Width::Bytes(bytes) => bytes * cells,
            Width::Reference => size_of::<u64>() * cells,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Cells {
    pub width: Width,
    nodes: Vec<Handle>,
    /// Cells of a full-length node, and its bytes.
    per_node: usize,
    node_bytes: usize,
    /// Cells that the first node has room for.
    first: usize,
}

impl Cells {
    /// No cells yet; nodes will have at most `longest` bytes unless a group is longer.
    pub fn new(width: Width, per_group: usize, longest: usize) -> Self {
        let group = width.bytes(per_group);
        let groups = (longest / group.max(1)).max(1);
        let node_bytes = longest.max(group);
        Cells { width, nodes: Vec::new(), per_node: groups * per_group, node_bytes, first: 0 }
    }

    pub fn own_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Handle>()
    }

    pub fn nodes(&self) -> &[Handle] {
        &self.nodes
    }

    /// How many cells are in sequence in a cell's node, from that cell on.
    pub fn run(&self, row: u64) -> usize {
        let at = (row % self.per_node as u64) as usize;
        let end = if row < self.per_node as u64 { self.first } else { self.per_node };
        end.saturating_sub(at)
    }

    /// Where a cell is: its node, and the offset in it.
    #[inline(always)]
    pub fn place(&self, row: u64) -> Result<(Handle, usize), Error> {
        let (node, cell) = (row / self.per_node as u64, (row % self.per_node as u64) as usize);
        if node == 0 && cell >= self.first {
            return Err(Error::Damaged);
        }
        let node = self.nodes.get(node as usize).ok_or(Error::Damaged)?;
        Ok((*node, if self.width == Width::Bit { cell / 8 } else { self.width.bytes(cell) }))
    }

    /// Makes room for a row's cell, unless it has room; if not, it must be the first one without.
    #[inline(always)]
    pub fn provide(&mut self, session: &Session<'_>, row: u64) -> Result<(), Error> {
        let has_room = match row.checked_sub(self.per_node as u64) {
            None => row < self.first as u64,
            Some(_) => row / (self.per_node as u64) < self.nodes.len() as u64,
        };
        if has_room { Ok(()) } else { self.grow(session) }
    }

    #[cold]
    fn grow(&mut self, session: &Session<'_>) -> Result<(), Error> {
        self.nodes.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        if self.first == self.per_node {
            self.nodes.push(session.alloc(self.node_bytes)?);
            return Ok(());
        }
        let mut cells = (2 * self.first).max(FIRST_ROWS).min(self.per_node);
        let mut bytes = self.width.bytes(cells);
        if bytes > SHORT.min(self.node_bytes) || cells == self.per_node {
            (cells, bytes) = (self.per_node, self.node_bytes);
        }
        let new = session.alloc(bytes)?;
        if let Some(old) = self.nodes.first() {
            let copied = session.read(*old).and_then(|old| {
                session.change_in_place(new, |new| new.iter_mut().zip(old).for_each(|(new, old)| *new = old))
            });
            if let Err(error) = copied {
                session.discard(new);
                return Err(error);
            }
            session.discard(*old);
        }
        self.nodes.clear();
        self.nodes.push(new);
        self.first = cells;
        Ok(())
    }

    #[inline(always)]
    pub fn get_bit(&self, session: &Session<'_>, row: u64) -> Result<bool, Error> {
        if row < self.per_node as u64 && row >= self.first as u64 {
            return Ok(false);
        }
        let (node, at) = self.place(row)?;
        Ok(session.get_at::<u8>(node, at)? >> (row % 8) & 1 == 1)
    }

    pub fn set_bit(&self, session: &Session<'_>, row: u64, to: bool) -> Result<(), Error> {
        let (node, at) = self.place(row)?;
        session.change_in_place(node, |bytes| {
            let byte = bytes.get_mut(at).ok_or(Error::Damaged)?;
            let bit = 1 << (row % 8);
            *byte = if to { *byte | bit } else { *byte & !bit };
            Ok(())
        })?
    }

    /// Copies `count` cells from a row on to `to`; they must be in one node.
    pub fn copy(&self, session: &Session<'_>, row: u64, count: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        let (node, at) = self.place(row)?;
        to.resize(self.width.bytes(count), 0);
        if session.view(node, |view| view.copy_to(at, to))? { Ok(()) } else { Err(Error::Damaged) }
    }

    /// Frees all nodes; if one can't be freed now, that is an error, and it is freed later.
    pub fn free(&mut self, session: &Session<'_>) -> Result<(), Error> {
        self.first = 0;
        let mut result = Ok(());
        for node in self.nodes.drain(..) {
            result = result.and(session.free_or_defer(node));
        }
        result
    }
}

/// Overwrites bytes of a node.
#[inline(always)]
pub fn write(session: &Session<'_>, node: Handle, at: usize, bytes: &[u8]) -> Result<(), Error> {
    session.change_in_place(node, |to| {
        let part = to.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())).ok_or(Error::Damaged)?;
        part.copy_from_slice(bytes);
        Ok(())
    })?
}

/// Exchanges bytes of a node with others.
pub fn swap(session: &Session<'_>, node: Handle, at: usize, bytes: &mut [u8]) -> Result<(), Error> {
    session.change_in_place(node, |to| {
        let part = to.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())).ok_or(Error::Damaged)?;
        part.swap_with_slice(bytes);
        Ok(())
    })?
}

/// An element of any length.
pub fn read_element<T: Content + ?Sized>(
    session: &Session<'_>,
    element: Option<Handle>,
) -> Result<T::Owned, Error> {
    let owned = match element {
        Some(node) => session.view(node, |view| T::read(view, 0, view.len()))?,
        None => T::from_bytes(&[]),
    };
    owned.ok_or(Error::Damaged)
}

/// Makes a node for an element; none for an empty one.
pub fn make_element(session: &Session<'_>, bytes: &[u8]) -> Result<Option<Handle>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let node = session.alloc(bytes.len())?;
    match write(session, node, 0, bytes) {
        Ok(()) => Ok(Some(node)),
        Err(error) => {
            session.discard(node);
            Err(error)
        }
    }
}

/// A buffer for a cell's bytes, all zero.
pub fn zeros(width: Width) -> Vec<u8> {
    vec![0; width.bytes(1)]
}
