//! Sessions by their numbers, of each thread.
//!
//! ```text
//!   number   "mf" | serial, 36 bits | place in the thread's table, 10 bits | 2
//! ```
//!
//! The serial number distinguishes a session from every other session that ever existed, including those of other
//! threads: their tables are not searched.

pub mod lists;
pub mod node;
pub mod pin;

use std::cell::RefCell;
use std::ffi::c_int;
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::bound::{Bound, Seat};
use crate::entry::{Out, attempt, entry};
use crate::error::{Code, Failure};
use crate::heap::{memfold_heap, number, take_seat};
use crate::session::lists::Lists;
use crate::session::pin::Pins;

/// C's view of a session: a number, see the module.
#[repr(C)]
pub struct memfold_session {
    _nothing: [u8; 0],
}

/// The kind of sessions.
const SESSION: u64 = 2;
/// Bits of a place.
const PLACE: u32 = 10;

static MADE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Has no destructor, which makes access fast; `END` closes the sessions.
    static SESSIONS: RefCell<ManuallyDrop<Table>> = const { RefCell::new(ManuallyDrop::new(Table(Vec::new()))) };
    static END: End = const { End };
}

/// The sessions of a thread.
struct Table(Vec<Option<Open>>);

/// Closes a thread's sessions when it ends; threads that open no session have none of these.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let left = SESSIONS
            .with(|sessions| sessions.try_borrow_mut().map(|mut sessions| mem::take(&mut sessions.0)));
        for open in left.unwrap_or_default().into_iter().flatten() {
            let _ = attempt(|| close(open));
        }
    }
}

/// A session, found by its number.
struct Open {
    number: usize,
    seat: Arc<Seat>,
    access: Access,
}

/// What functions work with.
pub struct Access {
    /// Pointers into these become invalid first.
    pub pins: Pins,
    /// These have their own sessions of the heap, too.
    pub lists: Lists,
    /// For everything but pins: writing needs a session that has lent nothing.
    pub bound: Bound,
    /// A buffer for copies on their way to C.
    pub copy: Vec<u8>,
}

/// Uses a session of this thread. Nothing here writes to memory that other threads write to.
#[inline(always)]
pub fn in_session(
    session: *mut memfold_session,
    work: impl FnOnce(&mut Access) -> Result<(), Failure>,
) -> c_int {
    entry(|| {
        if session.is_null() {
            return Err(Code::Null.into());
        }
        SESSIONS.with(|sessions| {
            let mut sessions = sessions.try_borrow_mut().map_err(|_| Code::Callback)?;
            let Open { seat, access, .. } =
                sessions.place(session.addr()).and_then(Option::as_mut).ok_or(Code::NoSession)?;
            seat.shared().guarded(|| work(access))
        })
    })
}

/// The number of an object in a session of this thread, the `serial`th ever made: it contains the session's place
/// in the table.
pub fn number_within(owner: usize, serial: u64, kind: u64) -> usize {
    number(serial << PLACE | place_of(owner) as u64, kind)
}

/// The table place in a number.
fn place_of(number: usize) -> usize {
    number >> 2 & ((1 << PLACE) - 1)
}

/// Uses the session of this thread whose place is in this number, if there is one; `work` looks up the object.
#[inline(always)]
pub fn in_owner(number: usize, work: impl FnOnce(&mut Access) -> Result<(), Failure>) -> Result<(), Failure> {
    SESSIONS.with(|sessions| {
        let mut sessions = sessions.try_borrow_mut().map_err(|_| Code::Callback)?;
        let Open { seat, access, .. } =
            sessions.0.get_mut(place_of(number)).and_then(Option::as_mut).ok_or(Code::NoList)?;
        seat.shared().guarded(|| work(access))
    })
}

/// The same with two sessions, which may be the same one.
pub fn in_owners(
    numbers: [usize; 2],
    work: impl FnOnce(&Access, &Access) -> Result<(), Failure>,
) -> Result<(), Failure> {
    SESSIONS.with(|sessions| {
        let sessions = sessions.try_borrow().map_err(|_| Code::Callback)?;
        let owner = |number| sessions.0.get(place_of(number)).and_then(Option::as_ref).ok_or(Code::NoList);
        let (one, other) = (owner(numbers[0])?, owner(numbers[1])?);
        one.seat.shared().guarded(|| other.seat.shared().guarded(|| work(&one.access, &other.access)))
    })
}

impl Table {
    /// The place of the session with that number, if it exists.
    fn place(&mut self, number: usize) -> Option<&mut Option<Open>> {
        self.0
            .get_mut(place_of(number))
            .filter(|open| open.as_ref().is_some_and(|open| open.number == number))
    }

    /// Stores a session and returns its number.
    fn keep(&mut self, bound: Bound) -> Result<usize, Failure> {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if free >> PLACE != 0 {
            let most = 1 << PLACE;
            return Err(Failure::new(Code::NoMemory, format!("a thread can have {most} sessions")));
        }
        let serial = MADE.fetch_add(1, Relaxed) + 1;
        let number = number(serial << PLACE | free as u64, SESSION);
        let seat = bound.seat().clone();
        let (pins, lists) = (Pins::default(), Lists::new(&seat));
        let open = Open { number, seat, access: Access { pins, lists, bound, copy: Vec::new() } };
        match self.0.get_mut(free) {
            Some(place) => *place = Some(open),
            None => self.0.push(Some(open)),
        }
        Ok(number)
    }
}

/// Ends a session. The locks of a broken heap are left alone.
fn close(open: Open) -> Result<(), Failure> {
    let Open { seat, access, .. } = open;
    let _ = seat.shared().guarded(move || {
        drop(access);
        Ok(())
    });
    Ok(())
}

/// Opens a session, this thread's access to a heap.
///
/// # Safety
/// A pointer can be written to `session`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_session_open(
    heap: *mut memfold_heap,
    session: *mut *mut memfold_session,
) -> c_int {
    entry(|| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(session) }?;
        let seat = take_seat(heap)?;
        let number = seat.shared().guarded(|| {
            let bound = Bound::new(&seat)?;
            // From here on its sessions are closed when the thread ends. A thread that is already ending can no
            // longer close them.
            let ending = |_| Failure::new(Code::NoSession, "the thread is ending and cannot open a session");
            END.try_with(|_| ()).map_err(ending)?;
            SESSIONS.with(|sessions| sessions.try_borrow_mut().map_err(|_| Code::Callback)?.keep(bound))
        })?;
        out.set(ptr::without_provenance_mut(number));
        Ok(())
    })
}

/// Ends a session of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_session_close(session: *mut memfold_session) -> c_int {
    entry(|| {
        if session.is_null() {
            return Err(Code::Null.into());
        }
        SESSIONS.with(|sessions| {
            let mut sessions = sessions.try_borrow_mut().map_err(|_| Code::Callback)?;
            let open = sessions.place(session.addr()).and_then(Option::take).ok_or(Code::NoSession)?;
            drop(sessions);
            close(open)
        })
    })
}
