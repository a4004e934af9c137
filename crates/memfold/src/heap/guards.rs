//! What a program holds while it looks at a node or writes it.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use super::allocator::Access;
use super::error::Error;
use super::frames::Frame;
use super::handle::Handle;

/// A node that stays where it is.
///
/// Pointers to it are good as long as this lives. It is no lock: other threads may write to the node or free it.
pub struct Pin<'s> {
    pub(super) slot: usize,
    pub(super) bytes: NonNull<u8>,
    pub(super) len: usize,
    pub(super) handle: Handle,
    pub(super) access: Access<'s>,
    pub(super) guards: &'s Cell<u32>,
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("handle", &self.handle).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Pin<'_> {
    /// The node's first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// The same, to write: the node counts as changed from now on.
    pub fn as_mut_ptr(&mut self) -> Result<*mut u8, Error> {
        let Access { core, me, .. } = self.access;
        if core.plain().is_some() {
            return Ok(self.bytes.as_ptr());
        }
        let claim = core.claim(me, self.handle.block(), self.handle.incarnation())?;
        core.changed(claim.number, claim.frame);
        Ok(self.bytes.as_ptr())
    }

    /// Bytes of the node.
    #[expect(clippy::len_without_is_empty, reason = "no node is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The node.
    ///
    /// # Safety
    /// Nobody writes to the node, resizes or frees it as long as the bytes are used.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the node's bytes; the block can't leave, and the caller promises the rest.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.guards.set(self.guards.get() - 1);
        if self.guards.get() == 0 {
            self.access.seat.unpin(self.slot);
        }
    }
}

/// A node that is being written.
#[derive(Debug)]
pub struct NodeMut<'s> {
    pub(super) frame: &'s Frame,
    pub(super) place: u16,
    pub(super) bytes: NonNull<u8>,
    pub(super) len: usize,
    pub(super) session: PhantomData<&'s mut [u8]>,
}

impl Deref for NodeMut<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the node's bytes, which are this guard's alone while it holds the stripe; the block can't leave.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for NodeMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; readers who look nevertheless throw away what they see.
        unsafe { slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for NodeMut<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frame.stripe(self.place).release();
    }
}
