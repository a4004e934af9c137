//! What a thread does with a heap.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Heap;
use super::allocator::{Access, Allocator};
use super::bytes::Bytes;
use super::core::Core;
use super::error::Error;
use super::frames::{Frame, Stripe, pause};
use super::free::PATIENCE;
use super::guards::{Hold, Pin};
use super::handle::Handle;
use super::peek::Peeks;
use super::seats::SLOTS;
use super::way::{Freed, Spot, Way};
use super::ways::Ways;

/// What opens more sessions of a heap.
#[cfg(feature = "rayon")]
#[derive(Clone, Copy)]
pub(crate) struct Opener<'h>(&'h Core);

#[cfg(feature = "rayon")]
impl<'h> Opener<'h> {
    pub(crate) fn open(self) -> Result<Session<'h>, Error> {
        Session::of(self.0)
    }
}

/// Access to a heap for one thread at a time. Threads have one each.
///
/// Reading copies: what a session reads is its own, whole and of one moment, whatever other threads do. Writing goes to the
/// node in place, through a guard that keeps all others from the node.
pub struct Session<'h> {
    access: Access<'h>,
    /// The heap's.
    clock: &'h AtomicU32,
    allocator: RefCell<Allocator<'h>>,
    /// How the blocks that were used lately were found.
    ways: Ways<'h>,
    /// Guards of each pin.
    guards: [Cell<u32>; SLOTS],
    /// A node is being changed in place.
    changing: Cell<bool>,
    pub(super) peeks: Peeks,
    #[cfg(test)]
    pub(super) faults: super::faults::Faults,
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
        Self::of(heap.core())
    }

    /// One more of the same heap, for another thread.
    #[cfg(feature = "rayon")]
    pub(crate) fn opener(&self) -> Opener<'h> {
        Opener(self.core())
    }

    fn of(core: &'h Core) -> Result<Self, Error> {
        if !core.make_waiting_room() {
            return Err(Error::OutOfMemory);
        }
        let (number, seat) = core.seats.take()?;
        let access = Access { core, seat, me: number as u16, fences: core.seats.fences };
        Ok(Session {
            access,
            clock: &core.clock,
            allocator: RefCell::new(Allocator::new(access)),
            ways: Ways::new(core),
            guards: Default::default(),
            changing: Cell::new(false),
            peeks: Peeks::default(),
            #[cfg(test)]
            faults: Default::default(),
            _one: PhantomData,
        })
    }

    /// The session as one of a heap that lives just as long as the session is borrowed: for what borrows both, one lifetime will do.
    pub(crate) fn borrowed(&self) -> &Session<'_> {
        // SAFETY: what a session keeps of the heap it has from the heap, never from its callers; so all that it is made to keep while it goes by the
        // shorter lifetime lives as long as the heap, too.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    /// Whether a guard of this session leads to a node's bytes just now.
    pub(super) fn has_guards(&self) -> bool {
        self.changing.get() || self.guards.iter().any(|guards| guards.get() > 0)
    }

    /// Nodes can't be changed in place otherwise as long as the guard lives.
    #[inline]
    pub(super) fn change_alone(&self) -> Result<Changing<'_>, Error> {
        if self.changing.replace(true) { Err(Error::Busy) } else { Ok(Changing(&self.changing)) }
    }

    #[inline]
    pub(super) fn core(&self) -> &'h Core {
        self.access.core
    }

    #[inline(always)]
    pub(super) fn access(&self) -> Access<'h> {
        self.access
    }

    /// The way that may lead to the handle's block.
    #[inline(always)]
    fn way(&self, handle: Handle) -> &Way<'h> {
        // SAFETY: a session is one thread's, and nothing changes ways while one is used: `find_way` is called afterwards, and no code of a program's before that.
        unsafe { self.ways.get(handle) }
    }

    /// Finds the way to the handle's block, which is brought back if need be.
    pub(super) fn find_way(&self, handle: Handle) -> Result<&Way<'h>, Error> {
        let way = self.core().way_to(self.access.me, handle)?;
        if !way.leads_to(handle) {
            return Err(Error::Stale);
        }
        // SAFETY: as in `way`; no way is in use.
        unsafe { self.ways.put(self.core(), handle, way) };
        Ok(self.way(handle))
    }

    /// Lets `read` look at a node, more than once if others change it meanwhile: what comes last counts.
    ///
    /// What is called for each node calls `look_once` first, and all of this only if that fails: so the usual way calls nothing, and keeps all in
    /// registers.
    #[cold]
    #[inline(never)]
    pub(super) fn look<R>(&self, handle: Handle, mut read: impl FnMut(Bytes) -> R) -> Result<R, Error> {
        if let Some(plain) = self.core().plain() {
            return plain.look(handle, read);
        }
        match self.look_times(handle, u32::MAX, &mut read)? {
            Some(result) => Ok(result),
            None => Err(Error::Busy),
        }
    }

    /// As `look`, but `read` looks no more than `most` times; `None` if something had changed each time. What it looks at itself may make the node's block go.
    pub(super) fn look_times<R>(
        &self,
        handle: Handle,
        most: u32,
        read: &mut impl FnMut(Bytes) -> R,
    ) -> Result<Option<R>, Error> {
        let (mut turn, mut looked) = (0, 0);
        while looked < most {
            let mut look = |bytes| {
                looked += 1;
                Some(read(bytes))
            };
            let way = self.way(handle);
            let (seen, frame) = (Seen::of(way, handle), way.frame);
            if let Some(spot) = way.find(handle)
                && let Some(result) = seen.look(|| look(Bytes::in_frame(spot)))
            {
                self.access.touch(frame);
                return Ok(Some(result));
            }
            self.look_for(handle, &mut turn)?;
        }
        Ok(None)
    }

    /// As `look`, if the node can be looked at just now, lies at a multiple of eight bytes, and the use of its block is noted already.
    #[inline(always)]
    pub(super) fn look_once<R>(&self, handle: Handle, read: impl FnOnce(Bytes) -> Option<R>) -> Option<R> {
        let way = self.way(handle);
        if way.frame.last() != self.clock.load(Relaxed) {
            return None;
        }
        let seen = Seen::of(way, handle);
        let spot = way.find_words(handle)?;
        seen.look(|| read(Bytes::in_words(spot)))
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
            let error = self.core().why_not(way, handle);
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

    /// The way to the handle's block, if the session may change it while it is busy and the way is good, and its use is noted already.
    #[inline(always)]
    fn own_way(&self, handle: Handle) -> Option<&Way<'h>> {
        let way = self.way(handle);
        // What a place's check is, is known before the session is busy: in a tenancy in which it owns the block, nobody else makes nodes there.
        let is_own = way.names_place(handle) && way.is_own() && way.frame.last() == self.clock.load(Relaxed);
        if is_own { Some(way) } else { None }
    }

    /// Lets `change` change a node of a block that the session owns; `None` if it doesn't, or something else is not as it mostly is.
    #[inline(always)]
    pub(super) fn change<R>(
        &self,
        handle: Handle,
        change: impl FnOnce(&Way<'h>, Spot, u32) -> Option<R>,
    ) -> Option<R> {
        let way = self.own_way(handle)?;
        let Access { seat, fences, .. } = self.access;
        seat.enter(fences);
        let found = if way.is_good() { way.find_free(handle) } else { None };
        let result = match found {
            Some((spot, sequence)) => change(way, spot, sequence),
            None => None,
        };
        seat.leave();
        result
    }

    #[inline(always)]
    pub(super) fn alloc_node(&self, len: usize) -> Result<Handle, Error> {
        #[cfg(test)]
        self.faults.strike(false)?;
        let mut allocator = self.allocator.borrow_mut();
        if allocator.does(len) {
            return allocator.alloc(len);
        }
        drop(allocator);
        self.alloc_other(len)
    }

    /// The length of nodes that have a block each, which they fill.
    pub fn longest(&self) -> usize {
        self.core().longest_alone()
    }

    /// A node that doesn't go into a block with others.
    #[cold]
    #[inline(never)]
    fn alloc_other(&self, len: usize) -> Result<Handle, Error> {
        match self.core().plain() {
            Some(plain) => plain.alloc(len),
            None => {
                let alone = len == self.longest();
                let node = if alone { self.allocator.borrow_mut().alloc_alone(len)? } else { None };
                node.map_or_else(|| self.alloc_large(len), Ok)
            }
        }
    }

    #[inline(always)]
    pub(super) fn free_node(&self, handle: Handle) -> Result<(), Error> {
        #[cfg(test)]
        self.faults.strike(true)?;
        // A block that gets empty is given back, which takes its lock.
        match self.own_way(handle) {
            Some(way) if way.is_short() => match self.free_by(way, |way| way.free_short(handle, false)) {
                Some(Freed::Done) => Ok(()),
                freed => self.freed(handle, freed),
            },
            Some(_) => self.free_long(handle),
            None => self.free_hard(handle),
        }
    }

    /// Frees a node that has a header, or is not short. Out of line, so that freeing short ones calls nothing. The way is looked up again: one that
    /// is handed over would have to stay as it is until this returns.
    #[inline(never)]
    fn free_long(&self, handle: Handle) -> Result<(), Error> {
        let own = self.own_way(handle);
        match own.and_then(|way| self.free_by(way, |way| way.free(handle, false))) {
            Some(Freed::Done) => Ok(()),
            freed => self.freed(handle, freed),
        }
    }

    /// Lets `free` free a node of a block that the session owns, if all is as it was when the way was found.
    #[inline(always)]
    fn free_by(&self, way: &Way<'h>, free: impl FnOnce(&Way<'h>) -> Option<Freed>) -> Option<Freed> {
        let Access { seat, fences, .. } = self.access;
        seat.enter(fences);
        let freed = if way.is_good() { free(way) } else { None };
        seat.leave();
        freed
    }

    /// After a node was freed, or could not be just so.
    #[cold]
    #[inline(never)]
    fn freed(&self, handle: Handle, freed: Option<Freed>) -> Result<(), Error> {
        match freed {
            Some(Freed::Done) => Ok(()),
            Some(Freed::ToList) => {
                self.core().list_freed(handle.block(), handle.incarnation());
                Ok(())
            }
            Some(Freed::Damaged) => Err(Error::Damaged),
            None => self.free_hard(handle),
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
        let known = way.leads_to(handle) && way.is_good() && self.access.is_noted(way.frame);
        // It is the session's own since the way was found, for it is changed now.
        let grown = !way.is_own() && way.frame.dirty.load(Relaxed);
        if !known || grown {
            match self.find_way(handle) {
                // Who frees it looks once more.
                Err(Error::Lost) => {}
                way => self.access.touch(way?.frame),
            }
            let own = self.own_way(handle);
            let freed = own.and_then(|way| self.free_by(way, |way| way.free(handle, false)));
            if freed.is_some() {
                return self.freed(handle, freed);
            }
        }
        self.core().free(self.access.me, handle)
    }

    pub(super) fn alloc_node_near(&self, len: usize, near: Handle) -> Result<Handle, Error> {
        // A stale neighbour is an error, whatever lies there now.
        self.size(near)?;
        let beside =
            if self.is_large(near) { None } else { self.allocator.borrow_mut().alloc_near(len, near)? };
        match beside {
            Some(handle) => Ok(handle),
            None => self.alloc_node(len),
        }
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
        let spot = self.look(handle, Bytes::spot)?;
        (pin.bytes, pin.len) = (spot.bytes, spot.len);
        Ok(pin)
    }
}

/// What must be as it was after a node has been looked at. It is none of the session's: who looks may use the session too, and ways come and go by that.
struct Seen<'c> {
    frame: &'c Frame,
    tenancy: u64,
    stripe: Stripe<'c>,
    sequence: u32,
}

impl<'c> Seen<'c> {
    #[inline(always)]
    fn of(way: &Way<'c>, handle: Handle) -> Self {
        let stripe = way.frame.stripe(handle.place());
        Seen { frame: way.frame, tenancy: way.tenancy(), stripe, sequence: stripe.sequence_or_past() }
    }

    /// Lets `look` look; `None` if somebody changed something meanwhile.
    #[inline(always)]
    fn look<R>(self, look: impl FnOnce() -> Option<R>) -> Option<R> {
        let result = look()?;
        if self.stripe.is_still(self.sequence) && self.frame.is_tenancy(self.tenancy) {
            Some(result)
        } else {
            None
        }
    }
}

/// See [`Session::change_alone`].
pub struct Changing<'s>(&'s Cell<bool>);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.free_waiting();
        self.allocator.get_mut().disown_all();
        self.core().counts.work_bytes.fetch_sub(self.peeks.bytes() as u64, Relaxed);
        self.access.core.seats.give(self.access.seat);
    }
}
