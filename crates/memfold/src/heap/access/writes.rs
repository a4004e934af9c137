//! Changing nodes: a whole node through a guard, or a part without one.
//!
//! The functions that are called for each node change it by a cached translation, if the session owns its
//! block (`change`). Everything else is out of line.

use std::ptr::NonNull;

use crate::heap::access::bytes::NodeBytes;
use crate::heap::access::guards::NodeMut;
use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;

impl<'h> Session<'h> {
    /// Overwrites the part of a node that begins at `from`. Of a large node only that part is faulted in.
    #[inline]
    pub fn write_at(&mut self, handle: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
        match self.write_once(handle, from, bytes, |_| true) {
            Some(()) => Ok(()),
            None => self.write_at_hard(handle, from, bytes),
        }
    }

    /// Overwrites a part of a node whose length satisfies `does`, without a guard, if its block can be
    /// changed now.
    #[inline(always)]
    pub(crate) fn write_once(
        &self,
        handle: Handle,
        from: usize,
        bytes: &[u8],
        does: impl FnOnce(usize) -> bool,
    ) -> Option<()> {
        self.change(handle, |translation, spot, sequence| {
            if from > spot.len || bytes.len() > spot.len - from || !does(spot.len) {
                return None;
            }
            let stripe = translation.frame.stripe(handle.place());
            stripe.hold(sequence);
            // SAFETY: within the node, whose stripe is held. The source lies elsewhere: no reference to a
            // node outlives its guard, which borrows the session.
            unsafe {
                spot.bytes.add(from).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
            };
            stripe.release_from(sequence);
            Some(())
        })
    }

    #[cold]
    #[inline(never)]
    fn write_at_hard(&mut self, handle: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
        if self.is_large(handle) {
            return self.write_large(handle, from, bytes);
        }
        let mut node = self.write(handle)?;
        let (len, value) = (node.len(), from.saturating_add(bytes.len()));
        let part = node.get_mut(from..value).ok_or(Error::Mismatch { node: len, value })?;
        part.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn resize_node(&mut self, handle: Handle, len: usize) -> Result<Handle, Error> {
        if let Some(plain) = self.core().plain() {
            return plain.resize(handle, len);
        }
        if len == 0 || len > crate::heap::MAX_NODE {
            return Err(Error::Size(len));
        }
        if self.is_large(handle) {
            return self.resize_large(handle, len).map(|()| handle);
        }
        if self.core().resize(self.access().me, handle, len)? {
            return Ok(handle);
        }
        let mut old = self.read(handle)?;
        let new = self.alloc_near(len, handle)?;
        old.truncate(len);
        match self.write_at(new, 0, &old).and_then(|()| self.free(handle)) {
            Ok(()) => Ok(new),
            Err(error) => {
                self.discard(new);
                Err(error)
            }
        }
    }

    /// Locks a node for writing: nobody else reads or writes it as long as the guard lives.
    #[inline]
    pub fn write(&mut self, handle: Handle) -> Result<NodeMut<'_>, Error> {
        self.write_shared(handle)
    }

    /// As `write`; the caller makes sure that the session has one guard at a time.
    #[inline(always)]
    pub(crate) fn write_shared(&self, handle: Handle) -> Result<NodeMut<'_>, Error> {
        #[cfg(test)]
        self.faults.strike(false)?;
        let held = self.change(handle, |translation, spot, sequence| {
            translation.frame.stripe(handle.place()).hold(sequence);
            Some((translation.frame, spot))
        });
        match held {
            Some((frame, NodeBytes { bytes, len })) => Ok(NodeMut::new(frame, handle.place(), bytes, len)),
            None => self.write_hard(handle),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_hard(&self, handle: Handle) -> Result<NodeMut<'_>, Error> {
        if self.is_large(handle) {
            let (held, bytes, len) = self.hold_large(handle, true)?;
            return Ok(NodeMut::large(held, bytes, len));
        }
        let (frame, NodeBytes { bytes, len }) = self.hold(handle)?;
        Ok(NodeMut::new(frame, handle.place(), bytes, len))
    }

    /// Takes the stripe of a node.
    pub(crate) fn hold(&self, handle: Handle) -> Result<(&'h Frame, NodeBytes), Error> {
        if let Some(plain) = self.core().plain() {
            return plain.hold(handle);
        }
        let (claim, _, spot, sequence) = self.core().claim_node(self.access().me, handle)?;
        self.core().changed(claim.number, claim.frame);
        claim.frame.stripe(handle.place()).hold(sequence);
        let frame = claim.frame;
        drop(claim);
        self.access().touch(frame);
        // A new translation makes the next call faster.
        let _ = self.translate(handle);
        Ok((frame, spot))
    }
}
