//! A session: one thread's access to a heap.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::heap::Heap;
use crate::heap::access::bytes::Bytes;
use crate::heap::access::bytes::NodeBytes;
use crate::heap::access::cache::TranslationCache;
use crate::heap::access::peeks::Peeks;
use crate::heap::access::translation::{Freed, Translation};
use crate::heap::alloc::allocator::{Access, Allocator};
use crate::heap::block::handle::Handle;
use crate::heap::core::Core;
use crate::heap::error::Error;
use crate::heap::residency::frames::PATIENCE;
use crate::heap::residency::frames::{Frame, Stripe, pause};
use crate::heap::sync::participants::SLOTS;

/// Opens more sessions of a heap.
#[cfg(feature = "rayon")]
#[derive(Clone, Copy)]
pub(crate) struct Opener<'h>(&'h Core);

#[cfg(feature = "rayon")]
impl<'h> Opener<'h> {
    pub(crate) fn open(self) -> Result<Session<'h>, Error> {
        Session::of(self.0)
    }
}

/// Access to a heap for one thread at a time. Each thread has its own session.
///
/// Reading copies a node: the copy belongs to the caller and is whole and of a single moment, whatever other
/// threads do. Writing changes the node in place, through a guard that keeps all others from the node.
pub struct Session<'h> {
    access: Access<'h>,
    /// The heap's clock.
    clock: &'h AtomicU32,
    allocator: RefCell<Allocator<'h>>,
    /// The translation cache.
    translations: TranslationCache<'h>,
    /// Guards of each pin.
    pub(super) guards: [Cell<u32>; SLOTS],
    /// A node is being changed in place.
    changing: Cell<bool>,
    pub(crate) peeks: Peeks,
    #[cfg(test)]
    pub(crate) faults: crate::heap::tests::faults::Faults,
    /// A session belongs to one thread at a time.
    _one: PhantomData<Cell<()>>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<'h> Session<'h> {
    pub(crate) fn new(heap: &'h Heap) -> Result<Self, Error> {
        Self::of(heap.core())
    }

    /// Opens more sessions of the same heap, for other threads.
    #[cfg(feature = "rayon")]
    pub(crate) fn opener(&self) -> Opener<'h> {
        Opener(self.core())
    }

    fn of(core: &'h Core) -> Result<Self, Error> {
        if !core.reserve_deferred() {
            return Err(Error::OutOfMemory);
        }
        let (number, participant) = core.participants.take()?;
        let access = Access { core, participant, me: number as u16, fences: core.participants.fences };
        Ok(Session {
            access,
            clock: &core.clock,
            allocator: RefCell::new(Allocator::new(access)),
            translations: TranslationCache::new(core),
            guards: Default::default(),
            changing: Cell::new(false),
            peeks: Peeks::default(),
            #[cfg(test)]
            faults: Default::default(),
            _one: PhantomData,
        })
    }

    /// The session as one of a heap that lives just as long as the session is borrowed. A structure that
    /// borrows both then needs only one lifetime.
    pub(crate) fn borrowed(&self) -> &Session<'_> {
        // SAFETY: every reference to the heap that a session keeps comes from the heap, never from its
        // callers. So a reference that it stores while it is used with the shorter lifetime lives as long as
        // the heap, too.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    /// Whether a guard of this session currently refers to a node's bytes.
    pub(crate) fn has_guards(&self) -> bool {
        self.changing.get() || self.guards.iter().any(|guards| guards.get() > 0)
    }

    /// Returns a guard; while it lives, this session can't change other nodes in place.
    #[inline]
    pub(crate) fn change_alone(&self) -> Result<Changing<'_>, Error> {
        if self.changing.replace(true) { Err(Error::Busy) } else { Ok(Changing(&self.changing)) }
    }

    #[inline]
    pub(crate) fn core(&self) -> &'h Core {
        self.access.core
    }

    #[inline(always)]
    pub(crate) fn access(&self) -> Access<'h> {
        self.access
    }

    /// The cached translation that may be that of the handle's block.
    #[inline(always)]
    fn translation(&self, handle: Handle) -> &Translation<'h> {
        // SAFETY: a session is used by one thread, and nothing changes translations while one is used:
        // `translate` is called only afterwards, and no code of the program runs before that.
        unsafe { self.translations.get(handle) }
    }

    /// Makes a translation of the handle's block, which is faulted in if necessary.
    pub(crate) fn translate(&self, handle: Handle) -> Result<&Translation<'h>, Error> {
        let translation = self.core().translation_of(self.access.me, handle)?;
        if !translation.leads_to(handle) {
            return Err(Error::Stale);
        }
        // SAFETY: as in `translation`; no translation is in use.
        unsafe { self.translations.put(self.core(), handle, translation) };
        Ok(self.translation(handle))
    }

    /// Calls `read` with a node's bytes, more than once if other threads change the node meanwhile; the last
    /// call counts.
    ///
    /// Functions that are called for each node call `look_once` first, and this one only if that fails. So
    /// the usual path makes no calls, and keeps everything in registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn look<R>(&self, handle: Handle, mut read: impl FnMut(Bytes) -> R) -> Result<R, Error> {
        if let Some(plain) = self.core().plain() {
            return plain.look(handle, read);
        }
        match self.look_times(handle, u32::MAX, &mut read)? {
            Some(result) => Ok(result),
            None => Err(Error::Busy),
        }
    }

    /// As `look`, but `read` is called no more than `most` times; `None` if something changed each time. If
    /// `read` itself looks at other nodes, the node's block may be evicted.
    pub(crate) fn look_times<R>(
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
            let translation = self.translation(handle);
            let (seen, frame) = (Seen::of(translation, handle), translation.frame);
            if let Some(spot) = translation.find(handle)
                && let Some(result) = seen.look(|| look(Bytes::in_frame(spot)))
            {
                self.access.touch(frame);
                return Ok(Some(result));
            }
            self.look_for(handle, &mut turn)?;
        }
        Ok(None)
    }

    /// As `look`, if the node can be looked at now, lies at a multiple of eight bytes, and the use of its
    /// block is noted already.
    #[inline(always)]
    pub(crate) fn look_once<R>(&self, handle: Handle, read: impl FnOnce(Bytes) -> Option<R>) -> Option<R> {
        let translation = self.translation(handle);
        if translation.frame.last() != self.clock.load(Relaxed) {
            return None;
        }
        let seen = Seen::of(translation, handle);
        let spot = translation.find_words(handle)?;
        seen.look(|| read(Bytes::in_words(spot)))
    }

    /// Finds out why a node could not be looked at, and renews the translation of its block.
    #[cold]
    #[inline(never)]
    fn look_for(&self, handle: Handle, turn: &mut u32) -> Result<(), Error> {
        let translation = self.translate(handle)?;
        let stripe = translation.frame.stripe(handle.place());
        if let Some(sequence) = stripe.sequence()
            && translation.find(handle).is_none()
        {
            let error = self.core().why_not(translation, handle);
            if stripe.is_still(sequence) && translation.is_good() {
                return Err(error);
            }
        }
        if *turn > PATIENCE {
            return Err(Error::Busy);
        }
        pause(turn);
        Ok(())
    }

    /// The translation of the handle's block, if the block's use is noted already and the session may change
    /// the block while it is busy, provided that the translation is valid then.
    #[inline(always)]
    fn own_translation(&self, handle: Handle) -> Option<&Translation<'h>> {
        let translation = self.translation(handle);
        // The check of the place may be read before the session is busy: during a tenancy in which it owns
        // the block, nobody else makes nodes there.
        let is_own = translation.names_place(handle)
            && translation.is_own()
            && translation.frame.last() == self.clock.load(Relaxed);
        if is_own { Some(translation) } else { None }
    }

    /// Calls `change` for a node of a block that the session owns; `None` if it doesn't own the block, or in
    /// another unusual case.
    #[inline(always)]
    pub(crate) fn change<R>(
        &self,
        handle: Handle,
        change: impl FnOnce(&Translation<'h>, NodeBytes, u32) -> Option<R>,
    ) -> Option<R> {
        let translation = self.own_translation(handle)?;
        let Access { participant, fences, .. } = self.access;
        participant.enter(fences);
        let found = if translation.is_good() { translation.find_free(handle) } else { None };
        let result = match found {
            Some((spot, sequence)) => change(translation, spot, sequence),
            None => None,
        };
        participant.leave();
        result
    }

    #[inline(always)]
    pub(crate) fn alloc_node(&self, len: usize) -> Result<Handle, Error> {
        #[cfg(test)]
        self.faults.strike(false)?;
        let mut allocator = self.allocator.borrow_mut();
        if allocator.does(len) {
            return allocator.alloc(len);
        }
        drop(allocator);
        self.alloc_other(len)
    }

    /// The longest node that is alone in its block, which it fills.
    pub fn longest(&self) -> usize {
        self.core().longest_alone()
    }

    /// Allocates a node that does not share a block with others.
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
    pub(crate) fn free_node(&self, handle: Handle) -> Result<(), Error> {
        #[cfg(test)]
        self.faults.strike(true)?;
        // If the block becomes empty it is vacated, which takes its lock.
        match self.own_translation(handle) {
            Some(translation) if translation.is_short() => {
                match self.free_by(translation, |translation| translation.free_short(handle, false)) {
                    Some(Freed::Done) => Ok(()),
                    freed => self.freed(handle, freed),
                }
            }
            Some(_) => self.free_long(handle),
            None => self.free_hard(handle),
        }
    }

    /// Frees a node that has a header, or is not short. It is out of line, so that freeing short ones makes
    /// no calls. It looks the translation up again: one passed in would have to stay unchanged until this
    /// returns.
    #[inline(never)]
    fn free_long(&self, handle: Handle) -> Result<(), Error> {
        let own = self.own_translation(handle);
        match own
            .and_then(|translation| self.free_by(translation, |translation| translation.free(handle, false)))
        {
            Some(Freed::Done) => Ok(()),
            freed => self.freed(handle, freed),
        }
    }

    /// Calls `free` for a node of a block that the session owns, if nothing has changed since the translation
    /// was made.
    #[inline(always)]
    fn free_by(
        &self,
        translation: &Translation<'h>,
        free: impl FnOnce(&Translation<'h>) -> Option<Freed>,
    ) -> Option<Freed> {
        let Access { participant, fences, .. } = self.access;
        participant.enter(fences);
        let freed = if translation.is_good() { free(translation) } else { None };
        participant.leave();
        freed
    }

    /// Finishes freeing a node; if the quick attempt failed, frees it under a claim.
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
        let translation = self.translation(handle);
        let known =
            translation.leads_to(handle) && translation.is_good() && self.access.is_noted(translation.frame);
        // The block is dirty by now, so the session may have become its owner since the translation was made.
        let grown = !translation.is_own() && translation.frame.dirty.load(Relaxed);
        if !known || grown {
            match self.translate(handle) {
                // Freeing deals with a lost block itself.
                Err(Error::Lost) => {}
                translation => self.access.touch(translation?.frame),
            }
            let own = self.own_translation(handle);
            let freed = own.and_then(|translation| {
                self.free_by(translation, |translation| translation.free(handle, false))
            });
            if freed.is_some() {
                return self.freed(handle, freed);
            }
        }
        self.core().free(self.access.me, handle)
    }

    pub(crate) fn alloc_node_near(&self, len: usize, near: Handle) -> Result<Handle, Error> {
        // A stale `near` is an error, whatever lies there now.
        self.size(near)?;
        let beside =
            if self.is_large(near) { None } else { self.allocator.borrow_mut().alloc_near(len, near)? };
        match beside {
            Some(handle) => Ok(handle),
            None => self.alloc_node(len),
        }
    }
}

/// The state that must be unchanged after a look at a node. It borrows nothing from the session, because the
/// code that looks may use the session too, which replaces translations.
struct Seen<'c> {
    frame: &'c Frame,
    tenancy: u64,
    stripe: Stripe<'c>,
    sequence: u32,
}

impl<'c> Seen<'c> {
    #[inline(always)]
    fn of(translation: &Translation<'c>, handle: Handle) -> Self {
        let stripe = translation.frame.stripe(handle.place());
        Seen {
            frame: translation.frame,
            tenancy: translation.tenancy(),
            stripe,
            sequence: stripe.sequence_or_past(),
        }
    }

    /// Calls `look`; `None` if another thread changed something meanwhile.
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
        self.access.core.participants.give(self.access.me.into(), self.access.participant);
    }
}
