//! What a thread does with a heap.

use std::boxed::Box;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::vec::Vec;

use super::Heap;
use super::allocator::{Access, Allocator};
use super::bytes::Bytes;
use super::core::Core;
use super::error::Error;
use super::frames::{Frame, pause};
use super::free::PATIENCE;
use super::guards::{Hold, NodeMut, Pin};
use super::handle::Handle;
use super::seats::SLOTS;
use super::typed::Plain;
use super::way::{Spot, Way};

/// Blocks that a session finds at once.
const WAYS: usize = 256;

/// Access to a heap for one thread at a time. Threads have one each.
///
/// Reading copies: what a session reads is its own, whole and of one moment, whatever other threads do. Writing goes to the
/// node in place, through a guard that keeps all others from the node.
pub struct Session<'h> {
    access: Access<'h>,
    allocator: RefCell<Allocator<'h>>,
    /// How the blocks that were used lately were found.
    ways: Box<[UnsafeCell<Way<'h>>; WAYS]>,
    /// Guards of each pin.
    guards: [Cell<u32>; SLOTS],
    /// A session is one thread's.
    _one: PhantomData<Cell<()>>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<'h> Session<'h> {
    pub(super) fn new(heap: &'h Heap) -> Result<Self, Error> {
        let core = heap.core();
        let (number, seat) = core.seats.take().ok_or(Error::OutOfMemory)?;
        let access = Access { core, seat, me: number as u16, fences: core.seats.fences };
        let ways: Box<[_]> = (0..WAYS).map(|_| UnsafeCell::new(Way::none(core))).collect();
        Ok(Session {
            access,
            allocator: RefCell::new(Allocator::new(access)),
            ways: ways.try_into().map_err(|_| Error::OutOfMemory)?,
            guards: Default::default(),
            _one: PhantomData,
        })
    }

    #[inline]
    pub(super) fn core(&self) -> &'h Core {
        self.access.core
    }

    /// The way that may lead to the handle's block.
    #[inline(always)]
    fn way(&self, handle: Handle) -> &Way<'h> {
        // SAFETY: a session is one thread's, and nothing changes ways while one is used: `find_way` is called afterwards.
        unsafe { &*self.ways[handle.block() as usize % WAYS].get() }
    }

    /// Finds the way to the handle's block, which is brought back if need be.
    fn find_way(&self, handle: Handle) -> Result<Way<'h>, Error> {
        let way = self.core().way_to(self.access.me, handle)?;
        if !way.leads_to(handle) {
            return Err(Error::Stale);
        }
        // SAFETY: as in `way`; no way is in use.
        unsafe { *self.ways[handle.block() as usize % WAYS].get() = way };
        Ok(way)
    }

    /// Lets `read` look at a node, more than once if others change it meanwhile: what comes last counts.
    ///
    /// What is called for each node calls `look_once` first, and all of this only if that fails: so the usual way calls nothing, and keeps all in
    /// registers.
    #[cold]
    #[inline(never)]
    fn look<R>(&self, handle: Handle, mut read: impl FnMut(Bytes) -> R) -> Result<R, Error> {
        if let Some(plain) = self.core().plain() {
            return plain.look(handle, read);
        }
        let mut turn = 0;
        loop {
            if let Some(result) = self.look_by(self.way(handle), handle, &mut read) {
                self.access.touch(self.way(handle).frame);
                return Ok(result);
            }
            self.look_for(handle, &mut turn)?;
        }
    }

    /// As `look`, if the node can be looked at just now, and the use of its block is noted already.
    #[inline(always)]
    fn look_once<R>(&self, handle: Handle, read: impl FnOnce(Bytes) -> R) -> Option<R> {
        let way = self.way(handle);
        if !self.access.is_noted(way.frame) { None } else { self.look_by(way, handle, read) }
    }

    #[inline(always)]
    fn look_by<R>(&self, way: &Way<'h>, handle: Handle, read: impl FnOnce(Bytes) -> R) -> Option<R> {
        if !way.leads_to(handle) {
            return None;
        }
        let stripe = way.frame.stripe(handle.place());
        let sequence = stripe.sequence()?;
        let result = read(Bytes(way.find(handle)?));
        (stripe.is_still(sequence) && way.is_good()).then_some(result)
    }

    /// Finds out why a node could not be looked at, and finds the way to it.
    #[cold]
    #[inline(never)]
    fn look_for(&self, handle: Handle, turn: &mut u32) -> Result<(), Error> {
        let way = self.find_way(handle)?;
        let stripe = way.frame.stripe(handle.place());
        if let Some(sequence) = stripe.sequence()
            && way.find(handle).is_none()
        {
            let error = self.core().why_not(&way, handle);
            if stripe.is_still(sequence) && way.is_good() {
                return Err(error);
            }
        }
        if *turn > PATIENCE {
            return Err(Error::Busy);
        }
        pause(turn);
        Ok(())
    }

    /// Lets `change` change a node of a block that the session owns; `None` if it doesn't, or something else is not as it mostly is.
    #[inline(always)]
    fn change<R>(&self, handle: Handle, change: impl FnOnce(&Way<'h>, Spot, u32) -> Option<R>) -> Option<R> {
        let Access { seat, fences, .. } = self.access;
        let way = self.way(handle);
        if !way.leads_to(handle) || !way.is_own() || !self.access.is_noted(way.frame) {
            return None;
        }
        seat.enter(fences);
        let found = if way.is_good() && way.is_dirty() { way.find_free(handle) } else { None };
        let result = match found {
            Some((spot, sequence)) => change(way, spot, sequence),
            None => None,
        };
        seat.leave();
        result
    }

    /// Makes a node of `len` bytes, all zero.
    #[inline]
    pub fn alloc(&self, len: usize) -> Result<Handle, Error> {
        let mut allocator = self.allocator.borrow_mut();
        if allocator.does(len) { allocator.alloc(len) } else { self.alloc_other(len) }
    }

    /// A node that doesn't go into a block with others.
    #[cold]
    #[inline(never)]
    fn alloc_other(&self, len: usize) -> Result<Handle, Error> {
        match self.core().plain() {
            Some(plain) => plain.alloc(len),
            None => self.alloc_large(len),
        }
    }

    /// Frees a node.
    #[inline]
    pub fn free(&self, handle: Handle) -> Result<(), Error> {
        match self.free_own(handle) {
            Some(freed) => freed,
            None => self.free_hard(handle),
        }
    }

    #[inline(always)]
    fn free_own(&self, handle: Handle) -> Option<Result<(), Error>> {
        let freed = self.change(handle, |way, spot, sequence| {
            way.has_others().then(|| way.free(handle, spot, sequence, self.core().options.block_size))
        })?;
        match freed {
            Ok(false) => Some(Ok(())),
            Ok(true) => {
                self.core().list_freed(handle.block(), handle.incarnation());
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_hard(&self, handle: Handle) -> Result<(), Error> {
        if let Some(plain) = self.core().plain() {
            return plain.free(handle);
        }
        if Core::is_large(handle) {
            return self.free_large(handle);
        }
        let way = self.way(handle);
        if !way.leads_to(handle) || !way.is_good() || !self.access.is_noted(way.frame) {
            let way = self.find_way(handle)?;
            self.access.touch(way.frame);
            if let Some(freed) = self.free_own(handle) {
                return freed;
            }
        }
        self.core().free(self.access.me, handle)
    }

    /// Bytes of a node.
    #[inline]
    pub fn size(&self, handle: Handle) -> Result<usize, Error> {
        match self.look_once(handle, Bytes::len) {
            Some(len) => Ok(len),
            None => self.size_hard(handle),
        }
    }

    #[cold]
    #[inline(never)]
    fn size_hard(&self, handle: Handle) -> Result<usize, Error> {
        if self.is_large(handle) { self.large_size(handle) } else { self.look(handle, Bytes::len) }
    }

    /// Copies a node to `to`, whose old contents go.
    pub fn read_into(&self, handle: Handle, to: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_large(handle) {
            return self.read_whole(handle, to);
        }
        let mut read = |bytes: Bytes| {
            to.clear();
            to.resize(bytes.len(), 0);
            bytes.copy_to(0, to);
        };
        match self.look_once(handle, &mut read) {
            Some(()) => Ok(()),
            None => self.look(handle, read),
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
                // It became shorter meanwhile.
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

    /// Whether a node is kept in parts.
    #[inline]
    pub(super) fn is_large(&self, handle: Handle) -> bool {
        Core::is_large(handle) && self.core().plain().is_none()
    }

    /// Copies the part of a node that begins at `from` to `to`.
    #[inline]
    pub fn read_at(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        match self.look_once(handle, |bytes| bytes.copy_short(from, to)) {
            Some(true) => Ok(()),
            _ => self.read_at_hard(handle, from, to),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_at_hard(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        if self.is_large(handle) {
            return self.read_large(handle, from, to);
        }
        let value = to.len();
        let (copied, node) = self.look(handle, |bytes| (bytes.copy_to(from, to), bytes.len()))?;
        if copied { Ok(()) } else { Err(Error::Mismatch { node, value: from.saturating_add(value) }) }
    }

    /// The value of a node that is as long as the value.
    #[inline]
    pub fn get<T: Plain>(&self, handle: Handle) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        let same = |bytes: Bytes| bytes.len() == size_of::<T>() && bytes.copy_short(0, value.as_mut_bytes());
        match self.look_once(handle, same) {
            Some(true) => Ok(value),
            _ => self.get_hard(handle),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_hard<T: Plain>(&self, handle: Handle) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        if self.is_large(handle) {
            let node = self.large_size(handle)?;
            self.read_large(handle, 0, value.as_mut_bytes())?;
            let value = if node == size_of::<T>() { Ok(value) } else { Err(node) };
            return value.map_err(|node| Error::Mismatch { node, value: size_of::<T>() });
        }
        let node = self.look(handle, |bytes| {
            if bytes.len() == size_of::<T>() {
                bytes.copy_to(0, value.as_mut_bytes());
            }
            bytes.len()
        })?;
        if node == size_of::<T>() { Ok(value) } else { Err(Error::Mismatch { node, value: size_of::<T>() }) }
    }

    /// Makes a node of `len` bytes, all zero, in the block of `near` if there is room, so that both are resident together.
    pub fn alloc_near(&self, len: usize, near: Handle) -> Result<Handle, Error> {
        // A stale neighbour is an error, whatever lies there now.
        self.size(near)?;
        let beside =
            if self.is_large(near) { None } else { self.allocator.borrow_mut().alloc_near(len, near)? };
        match beside {
            Some(handle) => Ok(handle),
            None => self.alloc(len),
        }
    }

    /// Makes a node longer or shorter. What it holds stays, up to the new size; bytes that it gets are zero. The handle that is given back is
    /// the node's from now on; it is the old one where the node could stay.
    pub fn resize(&mut self, handle: Handle, len: usize) -> Result<Handle, Error> {
        if let Some(plain) = self.core().plain() {
            return plain.resize(handle, len);
        }
        if len == 0 || len > super::MAX_NODE {
            return Err(Error::Size(len));
        }
        if self.is_large(handle) {
            return self.resize_large(handle, len).map(|()| handle);
        }
        if self.core().resize(self.access.me, handle, len)? {
            return Ok(handle);
        }
        let mut old = self.read(handle)?;
        let new = self.alloc_near(len, handle)?;
        old.truncate(len);
        match self.write_at(new, 0, &old).and_then(|()| self.free(handle)) {
            Ok(()) => Ok(new),
            Err(error) => {
                self.free(new)?;
                Err(error)
            }
        }
    }

    /// Writes over the part of a node that begins at `from`. Of a large node only that part is brought.
    pub fn write_at(&mut self, handle: Handle, from: usize, bytes: &[u8]) -> Result<(), Error> {
        if self.is_large(handle) {
            return self.write_large(handle, from, bytes);
        }
        let mut node = self.write(handle)?;
        let (len, value) = (node.len(), from.saturating_add(bytes.len()));
        let part = node.get_mut(from..value).ok_or(Error::Mismatch { node: len, value })?;
        part.copy_from_slice(bytes);
        Ok(())
    }

    /// Keeps a node where it is as long as the guard lives, for pointers into it.
    pub fn pin(&self, handle: Handle) -> Result<Pin<'_>, Error> {
        if self.is_large(handle) {
            let (held, bytes, len) = self.hold_large(handle, false)?;
            return Ok(Pin { bytes, len, handle, hold: Hold::Large(held) });
        }
        let (seat, block) = (self.access.seat, handle.block());
        let pinned = |slot: &usize| self.guards[*slot].get() > 0 && seat.pinned(*slot) == block;
        let slot = (0..SLOTS).find(pinned);
        let slot = match slot.or_else(|| (0..SLOTS).find(|&slot| self.guards[slot].get() == 0)) {
            Some(slot) => slot,
            None => return Err(Error::Pinned),
        };
        if self.guards[slot].get() == 0 {
            seat.pin(slot, block, self.access.fences);
        }
        self.guards[slot].set(self.guards[slot].get() + 1);
        // From here on the guard takes the pin off.
        let guards = &self.guards[slot];
        let hold = Hold::Slot { slot, access: self.access, guards };
        let mut pin = Pin { bytes: NonNull::dangling(), len: 0, handle, hold };
        let Bytes(spot) = self.look(handle, |bytes| bytes)?;
        (pin.bytes, pin.len) = (spot.bytes, spot.len);
        Ok(pin)
    }

    /// A node to be written, which nobody else reads or writes as long as the guard lives.
    #[inline]
    pub fn write(&mut self, handle: Handle) -> Result<NodeMut<'_>, Error> {
        let held = self.change(handle, |way, spot, sequence| {
            way.frame.stripe(handle.place()).hold(sequence);
            Some((way.frame, spot))
        });
        match held {
            Some((frame, Spot { bytes, len })) => Ok(NodeMut::new(frame, handle.place(), bytes, len)),
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
        let (frame, Spot { bytes, len }) = self.hold(handle)?;
        Ok(NodeMut::new(frame, handle.place(), bytes, len))
    }

    /// Takes the stripe of a node.
    pub(super) fn hold(&self, handle: Handle) -> Result<(&'h Frame, Spot), Error> {
        if let Some(plain) = self.core().plain() {
            return plain.hold(handle);
        }
        let (claim, _, spot, sequence) = self.core().claim_node(self.access.me, handle)?;
        self.core().changed(claim.number, claim.frame);
        claim.frame.stripe(handle.place()).hold(sequence);
        let frame = claim.frame;
        drop(claim);
        self.access.touch(frame);
        // The next one is found faster.
        let _ = self.find_way(handle);
        Ok((frame, spot))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.allocator.get_mut().disown_all();
        self.access.core.seats.give(self.access.seat);
    }
}
