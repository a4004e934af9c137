//! The debugging twin: the same interface, each node an allocation of its own (compll, section 6.3).
//!
//! A program that misbehaves is run with [`HeapKind::Plain`](crate::heap::HeapKind) under a sanitizer or
//! valgrind, which then see what it does to its nodes. Each node has exactly the length that was asked for,
//! is an allocation of its own, is released when it is freed, and moves when it is resized. Nothing is
//! compressed, and one lock covers everything.
//!
//! A handle is a number in a table, with a generation: a stale handle is refused until its number has been
//! used 2^32 times.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::vec::Vec;

use crate::heap::access::bytes::{Bytes, NodeBytes};
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;
use crate::heap::residency::frames::{Frame, PATIENCE, pause};
use crate::heap::sync::locked;

/// Bits of a handle that are the number, which is never 0.
const NUMBER_BITS: u32 = 32;

#[derive(Clone, Copy)]
struct Node {
    bytes: NonNull<u8>,
    len: usize,
}

#[derive(Default)]
struct Entry {
    node: Option<Node>,
    generation: u32,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
    nodes: u64,
    bytes: u64,
}

/// See the module.
pub struct Plain {
    table: Mutex<Table>,
    align: usize,
    /// Its stripes protect nodes that are being written. They stand for all nodes of the heap, by the places
    /// in the nodes' handles.
    pub frame: Frame,
}

// SAFETY: nodes are reached through the table's lock alone, or by guards that hold a stripe.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

impl Table {
    fn entry(&mut self, handle: Handle) -> Result<&mut Entry, Error> {
        let bits = handle.to_bits();
        let (number, generation) = (bits as u32, (bits >> NUMBER_BITS) as u32);
        let entry = self.entries.get_mut((number as usize).wrapping_sub(1));
        entry.filter(|entry| entry.generation == generation && entry.node.is_some()).ok_or(Error::Stale)
    }

    fn node(&mut self, handle: Handle) -> Result<NodeBytes, Error> {
        let entry = self.entry(handle)?;
        entry.node.as_ref().map(|node| NodeBytes { bytes: node.bytes, len: node.len }).ok_or(Error::Stale)
    }
}

impl Plain {
    /// An empty heap, whose nodes lie at multiples of `align`.
    pub fn new(align: usize) -> Self {
        Plain { table: Mutex::default(), align, frame: Frame::new() }
    }

    fn layout(&self, len: usize) -> Result<Layout, Error> {
        Layout::from_size_align(len, self.align).map_err(|_| Error::Size(len))
    }

    fn make(&self, len: usize) -> Result<Node, Error> {
        if len == 0 || len > crate::heap::MAX_NODE {
            return Err(Error::Size(len));
        }
        // SAFETY: the size is not zero.
        let bytes = NonNull::new(unsafe { alloc_zeroed(self.layout(len)?) }).ok_or(Error::OutOfMemory)?;
        Ok(Node { bytes, len })
    }

    fn give(&self, node: Node) {
        if let Ok(layout) = self.layout(node.len) {
            // SAFETY: the node was made with this layout, and is no longer in the table.
            unsafe { dealloc(node.bytes.as_ptr(), layout) };
        }
    }

    /// A node of `len` bytes.
    pub fn alloc(&self, len: usize) -> Result<Handle, Error> {
        let node = self.make(len)?;
        let mut table = locked(&self.table);
        let number = match table.free.pop() {
            Some(number) => number,
            None => {
                table.entries.push(Entry::default());
                table.entries.len() as u32
            }
        };
        let entry = &mut table.entries[number as usize - 1];
        entry.node = Some(node);
        let bits = u64::from(entry.generation) << NUMBER_BITS | u64::from(number);
        table.nodes += 1;
        table.bytes += len as u64;
        Handle::from_bits(bits).ok_or(Error::OutOfMemory)
    }

    /// Calls `f` with a node that no guard holds, under the table's lock.
    fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut Table, NodeBytes, u32) -> R) -> Result<R, Error> {
        let mut turn = 0;
        loop {
            let mut table = locked(&self.table);
            let spot = table.node(handle)?;
            if let Some(sequence) = self.frame.stripe(handle.place()).sequence() {
                return Ok(f(&mut table, spot, sequence));
            }
            drop(table);
            if turn > PATIENCE {
                return Err(Error::Busy);
            }
            pause(&mut turn);
        }
    }

    /// Calls `read` with a node's bytes.
    pub fn look<R>(&self, handle: Handle, read: impl FnOnce(Bytes) -> R) -> Result<R, Error> {
        self.with(handle, |_, spot, _| read(Bytes::alone(spot)))
    }

    /// Takes the stripe of a node.
    pub fn hold(&self, handle: Handle) -> Result<(&Frame, NodeBytes), Error> {
        self.with(handle, |_, spot, sequence| {
            self.frame.stripe(handle.place()).hold(sequence);
            (&self.frame, spot)
        })
    }

    /// Frees a node.
    pub fn free(&self, handle: Handle) -> Result<(), Error> {
        let node = self.with(handle, |table, NodeBytes { bytes, len }, _| {
            let entry = table.entry(handle)?;
            entry.node = None;
            entry.generation = entry.generation.wrapping_add(1);
            table.free.push(handle.to_bits() as u32);
            table.nodes -= 1;
            table.bytes -= len as u64;
            Ok::<_, Error>(Node { bytes, len })
        })??;
        self.give(node);
        Ok(())
    }

    /// Makes a node longer or shorter; it always moves.
    pub fn resize(&self, handle: Handle, len: usize) -> Result<Handle, Error> {
        let new = self.make(len)?;
        let old = self.with(handle, |table, NodeBytes { bytes, len: old }, _| {
            // SAFETY: both have as many bytes, and nobody writes to the old one.
            unsafe { new.bytes.copy_from_nonoverlapping(bytes, len.min(old)) };
            table.entry(handle)?.node = Some(new);
            table.bytes = table.bytes + len as u64 - old as u64;
            Ok::<_, Error>(Node { bytes, len: old })
        });
        match old.flatten() {
            Ok(old) => {
                self.give(old);
                Ok(handle)
            }
            Err(error) => {
                self.give(new);
                Err(error)
            }
        }
    }

    /// The number of nodes, and their bytes.
    pub fn counts(&self) -> (u64, u64) {
        let table = locked(&self.table);
        (table.nodes, table.bytes)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let entries = std::mem::take(&mut locked(&self.table).entries);
        entries.into_iter().filter_map(|entry| entry.node).for_each(|node| self.give(node));
    }
}
