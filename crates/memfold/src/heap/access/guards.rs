//! Guards, which a program holds while it reads or writes a node in place.

use std::boxed::Box;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use crate::heap::access::bytes::Bytes;
use crate::heap::access::session::Session;
use crate::heap::alloc::allocator::Access;
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;
use crate::heap::large::hold::Held;
use crate::heap::residency::frames::{Frame, Stripe};
use crate::heap::sync::participants::SLOTS;

/// A node that stays where it is.
///
/// Pointers to it are valid as long as this lives. A pin is not a lock: other threads may write to the node
/// or free it.
pub struct Pin<'s> {
    pub(crate) bytes: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) handle: Handle,
    pub(crate) hold: Hold<'s>,
}

/// The hold that keeps a pinned node where it is.
pub enum Hold<'s> {
    /// A pin of its block, with the number of guards that share it.
    Slot { slot: usize, access: Access<'s>, guards: &'s Cell<u32> },
    /// A hold on a large node, in one piece.
    Large(Held<'s>),
}

impl Session<'_> {
    /// Keeps a node in place as long as the guard lives, for pointers into it.
    pub fn pin(&self, handle: Handle) -> Result<Pin<'_>, Error> {
        if self.is_large(handle) {
            let (held, bytes, len) = self.hold_large(handle, false)?;
            return Ok(Pin { bytes, len, handle, hold: Hold::Large(held) });
        }
        let (participant, block) = (self.access().participant, handle.block());
        let pinned = |slot: &usize| self.guards[*slot].get() > 0 && participant.pinned(*slot) == block;
        let slot = (0..SLOTS).find(pinned);
        let slot = match slot.or_else(|| (0..SLOTS).find(|&slot| self.guards[slot].get() == 0)) {
            Some(slot) => slot,
            None => return Err(Error::Pinned),
        };
        if self.guards[slot].get() == 0 {
            participant.pin(slot, block, self.access().fences);
        }
        self.guards[slot].set(self.guards[slot].get() + 1);
        // From here on the guard releases the pin.
        let guards = &self.guards[slot];
        let hold = Hold::Slot { slot, access: self.access(), guards };
        let mut pin = Pin { bytes: NonNull::dangling(), len: 0, handle, hold };
        let spot = self.look(handle, Bytes::spot)?;
        (pin.bytes, pin.len) = (spot.bytes, spot.len);
        Ok(pin)
    }
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

    /// As `as_ptr`, for writing: marks the node changed.
    pub fn as_mut_ptr(&mut self) -> Result<*mut u8, Error> {
        let Access { core, me, .. } = match &self.hold {
            Hold::Slot { access, .. } => *access,
            Hold::Large(held) => {
                held.will_change()?;
                return Ok(self.bytes.as_ptr());
            }
        };
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
    /// While the bytes are used, nobody writes to the node, resizes it or frees it.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the node's bytes; the block can't be evicted, and the caller guarantees the rest.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Hold::Slot { slot, access, guards } = self {
            guards.set(guards.get() - 1);
            if guards.get() == 0 {
                access.participant.unpin(*slot);
            }
        }
    }
}

/// A node that is being written.
pub struct NodeMut<'s> {
    bytes: NonNull<u8>,
    len: usize,
    /// Held only to be dropped.
    _held: HeldFor<'s>,
    session: PhantomData<&'s mut [u8]>,
}

/// The hold that keeps all others from a node.
enum HeldFor<'s> {
    Stripe(Stripe<'s>),
    /// A large node. Held only to be dropped.
    Large {
        _held: Box<Held<'s>>,
    },
}

impl fmt::Debug for NodeMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMut").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'s> NodeMut<'s> {
    /// A guard of a node whose stripe is held.
    #[inline(always)]
    pub(crate) fn new(frame: &'s Frame, place: u16, bytes: NonNull<u8>, len: usize) -> Self {
        NodeMut { bytes, len, _held: HeldFor::Stripe(frame.stripe(place)), session: PhantomData }
    }

    /// A guard of a large node, in one piece.
    pub(crate) fn large(held: Held<'s>, bytes: NonNull<u8>, len: usize) -> Self {
        let _held = HeldFor::Large { _held: Box::new(held) };
        NodeMut { bytes, len, _held, session: PhantomData }
    }
}

impl Deref for NodeMut<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the node's bytes, which are this guard's alone while it holds the stripe; the block can't
        // be evicted.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for NodeMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; readers that still read them discard the result.
        unsafe { slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for HeldFor<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let HeldFor::Stripe(stripe) = self {
            stripe.release();
        }
    }
}
