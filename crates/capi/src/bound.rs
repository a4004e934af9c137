//! A session together with its heap.
//!
//! Sessions borrow their heap, and C has no lifetimes. So a session here holds a count of the heap, and both are
//! at fixed addresses. A heap in which a panic occurred may have locks that are never released: it is **broken**,
//! and neither it nor its sessions are touched any more.

use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use memfold::heap::{Error, Handle, Heap, Session};

use crate::error::{Code, Failure};
use crate::heap::callbacks::Callbacks;

/// The number of damaged blocks that an allocation skips.
const DAMAGED: usize = 16;

/// A heap, shared by everything that uses it.
pub struct Shared {
    /// Sessions refer to it without the lock while they are counted: code that takes the lock to write checks the
    /// count first.
    heap: RwLock<Heap>,
    /// Sessions that are open or about to be opened. Seats are taken with the table of heaps locked, so that
    /// nobody destroys the heap in between.
    pub sessions: AtomicUsize,
    pub callbacks: Option<Arc<Callbacks>>,
    broken: AtomicBool,
}

impl Shared {
    pub fn new(heap: Heap, callbacks: Option<Arc<Callbacks>>) -> Arc<Self> {
        Arc::new(Shared {
            heap: RwLock::new(heap),
            sessions: AtomicUsize::new(0),
            callbacks,
            broken: AtomicBool::new(false),
        })
    }

    pub fn read(&self) -> RwLockReadGuard<'_, Heap> {
        self.heap.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exclusive access to the heap; an error while there are sessions. A thread that opens a session meanwhile
    /// waits.
    pub fn alone(&self) -> Result<RwLockWriteGuard<'_, Heap>, Failure> {
        let heap = self.heap.write().unwrap_or_else(PoisonError::into_inner);
        if self.sessions.load(Acquire) == 0 { Ok(heap) } else { Err(Code::Open.into()) }
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Acquire)
    }

    /// Runs `work` on the heap, unless the heap is broken. A panic marks the heap as broken and propagates.
    #[inline(always)]
    pub fn guarded<R>(self: &Arc<Self>, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        struct Armed<'a>(&'a Arc<Shared>);
        impl Drop for Armed<'_> {
            fn drop(&mut self) {
                self.0.broken.store(true, Release);
                // Other threads may be using it and never finish, so it is never freed.
                mem::forget(Arc::clone(self.0));
            }
        }
        if self.is_broken() {
            return Err(Code::Bug.into());
        }
        let armed = Armed(self);
        let result = work();
        mem::forget(armed);
        result
    }
}

/// A place in the count of a heap's sessions. The two sessions that one C session may need share it.
pub struct Seat(Arc<Shared>);

impl Seat {
    pub fn take(shared: Arc<Shared>) -> Arc<Self> {
        shared.sessions.fetch_add(1, AcqRel);
        Arc::new(Seat(shared))
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, AcqRel);
    }
}

/// The session and its seat; see the module.
pub struct Bound {
    session: NonNull<Session<'static>>,
    seat: Arc<Seat>,
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Session<'static>>();
    is_send::<Arc<Seat>>();
};

// SAFETY: it consists of a session and a seat, and both may move between threads.
unsafe impl Send for Bound {}

impl Bound {
    pub fn new(seat: &Arc<Seat>) -> Result<Self, Error> {
        let heap: *const Heap = &*seat.0.read();
        // SAFETY: the seat owns the heap, and this value keeps the seat longer than the session. While a seat is
        // taken, nobody gets write access to the heap.
        let session = unsafe { &*heap }.session()?;
        Ok(Bound { session: NonNull::from(Box::leak(Box::new(session))), seat: Arc::clone(seat) })
    }

    pub fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    pub fn session(&self) -> &Session<'static> {
        // SAFETY: it exists until `drop`.
        unsafe { self.session.as_ref() }
    }

    pub fn session_mut(&mut self) -> &mut Session<'static> {
        // SAFETY: as above, and everything that `session` returned borrows this value.
        unsafe { self.session.as_mut() }
    }

    /// The session, for values that live as long as this one.
    ///
    /// # Safety
    /// Everything that borrows it must be dropped before this value, and `session_mut` must not be called
    /// meanwhile.
    pub unsafe fn session_static(&self) -> &'static Session<'static> {
        // SAFETY: the caller guarantees it.
        unsafe { self.session.as_ref() }
    }

    /// Allocates by calling `alloc`. If the block from which the session allocates, or one in which others
    /// left room, is damaged, a new session with other blocks replaces the session. So nothing may borrow the
    /// old one for longer (`session_static`).
    pub fn alloc(
        &mut self,
        alloc: impl Fn(&Session<'static>) -> Result<Handle, Error>,
    ) -> Result<Handle, Error> {
        for _ in 0..DAMAGED {
            match alloc(self.session()) {
                Err(Error::Damaged) => *self = Bound::new(&self.seat)?,
                result => return result,
            }
        }
        alloc(self.session())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Ending a session takes locks, which in a broken heap may never be released.
        if !self.seat.0.is_broken() {
            // SAFETY: made by `Box::leak`, and nobody uses it after this.
            drop(unsafe { Box::from_raw(self.session.as_ptr()) });
        }
    }
}
