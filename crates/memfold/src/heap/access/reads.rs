//! Reading nodes: copies, each of a single moment.
//!
//! The functions that are called for each node look at it once, by a cached translation (`look_once`).
//! Everything else is out of line, for when that fails: the node is a large one, its block is not resident or
//! its use is not noted, or another thread was writing.

use std::vec::Vec;

use crate::heap::access::bytes::Bytes;
use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::core::Core;
use crate::heap::error::Error;

impl Session<'_> {
    /// Bytes of a node.
    #[inline]
    pub fn size(&self, handle: Handle) -> Result<usize, Error> {
        match self.look_once(handle, |bytes| Some(bytes.len())) {
            Some(len) => Ok(len),
            None => self.size_hard(handle),
        }
    }

    #[cold]
    #[inline(never)]
    fn size_hard(&self, handle: Handle) -> Result<usize, Error> {
        if self.is_large(handle) { self.large_size(handle) } else { self.look(handle, Bytes::len) }
    }

    /// Copies a node to `to`, replacing its content.
    #[inline]
    pub fn read_into(&self, handle: Handle, to: &mut Vec<u8>) -> Result<(), Error> {
        match self.look_once(handle, |bytes| {
            bytes.copy_all(to);
            Some(())
        }) {
            Some(()) => Ok(()),
            None => self.read_into_hard(handle, to),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_into_hard(&self, handle: Handle, to: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_large(handle) {
            self.read_whole(handle, to)
        } else {
            self.look(handle, |bytes| bytes.copy_all(to))
        }
    }

    /// Copies a large node to `to`.
    fn read_whole(&self, handle: Handle, to: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            let len = self.large_size(handle)?;
            to.clear();
            to.try_reserve_exact(len).map_err(|_| Error::OutOfMemory)?;
            to.resize(len, 0);
            match self.read_large(handle, 0, to) {
                // The node became shorter meanwhile.
                Err(Error::Mismatch { .. }) => {}
                result => return result,
            }
        }
    }

    /// A copy of a node.
    pub fn read(&self, handle: Handle) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.read_into(handle, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether a node consists of parts.
    #[inline]
    pub(crate) fn is_large(&self, handle: Handle) -> bool {
        Core::is_large(handle) && self.core().plain().is_none()
    }

    /// Copies the part of a node that begins at `from` to `to`.
    #[inline]
    pub fn read_at(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        match self.look_once(handle, |bytes| bytes.copy_words(from, to).then_some(())) {
            Some(()) => Ok(()),
            None => self.read_at_hard(handle, from, to),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn read_at_hard(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        if self.is_large(handle) {
            return self.read_large(handle, from, to);
        }
        let value = to.len();
        let (copied, node) = self.look(handle, |bytes| (bytes.copy_to(from, to), bytes.len()))?;
        if copied { Ok(()) } else { Err(Error::Mismatch { node, value: from.saturating_add(value) }) }
    }
}
