//! The table of large nodes, by the numbers in their handles.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, TryLockError};
use std::vec::Vec;

use super::{Large, State};
use crate::heap::block::handle::{FIRST_LARGE, Handle, Parts};
use crate::heap::error::Error;
use crate::heap::sync::locked;
use crate::room::{gather, push};

#[derive(Default)]
pub struct Entry {
    pub(super) node: Option<Arc<Large>>,
    pub(super) generation: u16,
}

impl Entry {
    /// The handle of the node at this index.
    fn handle(&self, index: u32) -> Handle {
        let [check, incarnation] = self.generation.to_be_bytes();
        let block = FIRST_LARGE + (index >> 16);
        Handle::new(Parts { check, incarnation, block, place: index as u16 })
    }
}

/// Large nodes by their indices.
#[derive(Default)]
pub struct Table {
    entries: Vec<Entry>,
    pub(super) free: Vec<u32>,
    /// Unreachable nodes that wait to be freed, and their bytes: see `alloc/deferred.rs`.
    pub waiting: VecDeque<(Handle, usize)>,
}

impl Table {
    pub(super) fn put(&mut self, large: Arc<Large>) -> Result<Handle, Error> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.push(Entry::default())?,
        };
        let entry = self.entries.get_mut(index as usize).ok_or(Error::Damaged)?;
        entry.node = Some(large);
        Ok(entry.handle(index))
    }

    /// Adds an entry; returns its index, or an error if all are in use.
    fn push(&mut self, entry: Entry) -> Result<u32, Error> {
        // A file also stores their number in 32 bits.
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index < u32::MAX);
        let index = index.ok_or(Error::Limit)?;
        // Memory is reserved now, so that freeing the index can't fail later.
        self.entries.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        let free = self.entries.len() + 1 - self.free.len();
        self.free.try_reserve(free).map_err(|_| Error::OutOfMemory)?;
        self.entries.push(entry);
        Ok(index)
    }

    pub(super) fn entry(&mut self, handle: Handle) -> Option<(u32, &mut Entry)> {
        let index = (handle.block() - FIRST_LARGE) << 16 | u32::from(handle.place());
        let generation = u16::from_be_bytes([handle.check(), handle.incarnation()]);
        let entry = self.entries.get_mut(index as usize).filter(|entry| entry.generation == generation)?;
        Some((index, entry))
    }

    /// The node at this index, if there is one.
    pub fn at(&self, index: usize) -> Option<Arc<Large>> {
        self.entries.get(index)?.node.clone()
    }

    /// Whether a node is locked.
    pub fn is_any_locked(&self) -> bool {
        self.all().any(|large| matches!(large.0.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// All large nodes.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Large>> {
        self.entries.iter().filter_map(|entry| entry.node.as_ref())
    }

    /// Every entry in order, as a file stores it: its generation, and the node's bytes and parts if there is
    /// one.
    pub fn saved(&self) -> impl Iterator<Item = Result<(u16, usize, Vec<Option<Handle>>), Error>> + '_ {
        self.entries.iter().map(|entry| match &entry.node {
            Some(large) => {
                let state = locked(&large.0);
                Ok((entry.generation, state.len, gather(state.parts.iter().copied())?))
            }
            None => Ok((entry.generation, 0, Vec::new())),
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The handles of nodes that have a part for which `is_so` holds.
    pub fn with_part(&self, mut is_so: impl FnMut(&Handle) -> bool) -> Result<Vec<Handle>, Error> {
        let mut found = Vec::new();
        for (index, entry) in (0..).zip(&self.entries) {
            let Some(large) = &entry.node else { continue };
            if locked(&large.0).parts.iter().flatten().any(&mut is_so) {
                push(&mut found, entry.handle(index))?;
            }
        }
        Ok(found)
    }

    /// The handle of the first node that has a part for which `is_so` holds.
    pub fn first_with_part(
        &self,
        mut is_so: impl FnMut(Handle) -> Result<bool, Error>,
    ) -> Result<Option<Handle>, Error> {
        for (index, entry) in (0..).zip(&self.entries) {
            let Some(large) = &entry.node else { continue };
            for part in locked(&large.0).parts.iter().flatten() {
                if is_so(*part)? {
                    return Ok(Some(entry.handle(index)));
                }
            }
        }
        Ok(None)
    }

    /// Adds an entry as it was saved. If `len` is not 0, the entry has a node, with as many parts as `len`
    /// requires.
    pub fn restore(
        &mut self,
        generation: u16,
        len: usize,
        parts: Vec<Option<Handle>>,
        paranoid: bool,
    ) -> Result<(), Error> {
        let large = Large(Mutex::new(State { len, parts, ..State::default() }));
        let node = (len > 0).then(|| Arc::new(large));
        // In a paranoid heap, an entry that has used up its generations is not reused.
        let is_free = node.is_none() && !(paranoid && generation == 0);
        let index = self.push(Entry { node, generation })?;
        if is_free {
            self.free.push(index);
        }
        Ok(())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>()
            + self.waiting.capacity() * size_of::<(Handle, usize)>()) as u64
    }
}
