//! A session together with its heap.
//!
//! Sessions borrow their heap, and C has no lifetimes: so a session here holds a count of the heap, and both lie where they don't move. A heap
//! in which there was a panic may have locks that nobody gives back: it is **broken**, and neither it nor its sessions are touched any more.

use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use memfold::heap::{Error, Handle, Heap, Session};

use crate::callbacks::Callbacks;
use crate::error::{Code, Failure};

/// Damaged blocks that an allocation passes.
const DAMAGED: usize = 16;

/// A heap, for all that use it.
pub struct Shared {
    /// Sessions refer to it without the lock as long as they are counted: who takes it to write looks at the count first.
    heap: RwLock<Heap>,
    /// Sessions that are open, or about to be: seats are taken while the table of heaps is locked, so that nobody destroys the heap in between.
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

    /// For what needs the heap alone; an error as long as there are sessions. Who opens one meanwhile waits.
    pub fn alone(&self) -> Result<RwLockWriteGuard<'_, Heap>, Failure> {
        let heap = self.heap.write().unwrap_or_else(PoisonError::into_inner);
        if self.sessions.load(Acquire) == 0 { Ok(heap) } else { Err(Code::Open.into()) }
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Acquire)
    }

    /// Does something with the heap, unless it is broken. A panic breaks it, and goes on.
    #[inline(always)]
    pub fn guarded<R>(self: &Arc<Self>, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        struct Armed<'a>(&'a Arc<Shared>);
        impl Drop for Armed<'_> {
            fn drop(&mut self) {
                self.0.broken.store(true, Release);
                // Others may be at it, for ever: it is never given back.
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

/// A place in the count of a heap's sessions. Both sessions that one of C's may need share it.
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

/// See the module.
pub struct Bound {
    session: NonNull<Session<'static>>,
    seat: Arc<Seat>,
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Session<'static>>();
    is_send::<Arc<Seat>>();
};

// SAFETY: it is a session and a seat, and both may go from thread to thread.
unsafe impl Send for Bound {}

impl Bound {
    pub fn new(seat: &Arc<Seat>) -> Result<Self, Error> {
        let heap: *const Heap = &*seat.0.read();
        // SAFETY: the heap lies in what the seat keeps, and this keeps the seat longer than the session. As long as a seat is taken, nobody
        // gets the heap to write.
        let session = unsafe { &*heap }.session()?;
        Ok(Bound { session: NonNull::from(Box::leak(Box::new(session))), seat: Arc::clone(seat) })
    }

    pub fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    pub fn session(&self) -> &Session<'static> {
        // SAFETY: it is there until `drop`.
        unsafe { self.session.as_ref() }
    }

    pub fn session_mut(&mut self) -> &mut Session<'static> {
        // SAFETY: as above, and what `session` gave out borrows this.
        unsafe { self.session.as_mut() }
    }

    /// The session for what is to live as long as this.
    ///
    /// # Safety
    /// Whatever borrows it is gone before this is, and `session_mut` is not called meanwhile.
    pub unsafe fn session_static(&self) -> &'static Session<'static> {
        // SAFETY: the caller looks to it.
        unsafe { self.session.as_ref() }
    }

    /// Allocates by `alloc`. A block from which the session allocates, or one with room that others left, may turn out to be damaged: then
    /// a new session begins, with other blocks. It must not be lent for longer (`session_static`).
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
        // Ending a session takes locks, which in a broken heap nobody may ever give back.
        if !self.seat.0.is_broken() {
            // SAFETY: made by `Box::leak`, and nobody uses it after this.
            drop(unsafe { Box::from_raw(self.session.as_ptr()) });
        }
    }
}
