//! Slab lists and slab maps of sessions: the functions `memfold_slablist_*` and `memfold_slabmap_*`.
//!
//! ```text
//!   number   "mf" | serial, 36 bits | place of the session in the thread's table, 10 bits | 3: a list, 0: a map
//!
//!   slablist.rs, sorted.rs, positions.rs, ordered.rs, cursor.rs   the functions of lists    kind.rs      elements in C's form, orders that C provides
//!   slabmap.rs                                                    those of maps             options.rs   options of a new one
//!   list.rs, map.rs                                               lists and maps of any kind
//! ```
//!
//! Rules:
//! - A list is looked up in its session, which is in the table of the calling thread. It ends when it is freed,
//!   or when its session is closed.
//! - Lists borrow sessions of the heap that nothing else uses, and are dropped before those sessions. In a
//!   broken heap they are never dropped.
//! - Orders that C provides are called while nothing is being changed, and may not call the library. They are not
//!   trusted: elements may end up anywhere, but are never lost.

mod cursor;
mod kind;
mod list;
mod map;
mod options;
mod ordered;
mod positions;
mod slablist;
mod slabmap;
mod sorted;

#[cfg(test)]
pub use {
    slablist::{memfold_slablist, memfold_slablist_free, memfold_slablist_new},
    sorted::memfold_slablist_add_u64,
};

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use memfold::heap::Session;

use crate::bound::{Bound, Seat};
use crate::entry::{Out, length};
use crate::error::{Code, Failure};
use crate::session::lists::list::AnyList;
use crate::session::lists::map::AnyMap;
use crate::session::number_within;

/// As in `memfold.h`.
pub type memfold_visit = Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int>;
/// As in `memfold.h`.
pub type memfold_visit_entry =
    Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int>;

/// The kinds of objects in numbers.
const LIST: u64 = 3;
const MAP: u64 = 0;

static MADE: AtomicU64 = AtomicU64::new(0);

/// A serial number that is unique in the process.
fn serial() -> u64 {
    MADE.fetch_add(1, Relaxed) + 1
}

/// The lists and maps of a session, by their numbers.
pub struct Lists {
    lists: BTreeMap<usize, Box<dyn AnyList>>,
    maps: BTreeMap<usize, Box<dyn AnyMap>>,
    /// The session that they borrow. It is dropped after them.
    bound: Option<Bound>,
    seat: Arc<Seat>,
    /// A block from which that session allocates may be damaged: once no list or map is left, the next one
    /// gets another session.
    damaged: bool,
}

impl Lists {
    pub fn new(seat: &Arc<Seat>) -> Self {
        Lists {
            lists: BTreeMap::new(),
            maps: BTreeMap::new(),
            bound: None,
            seat: Arc::clone(seat),
            damaged: false,
        }
    }

    /// A session of the heap for a new list or map, which must be stored here.
    fn session(&mut self) -> Result<&'static Session<'static>, Failure> {
        if self.damaged && self.lists.is_empty() && self.maps.is_empty() {
            (self.bound, self.damaged) = (None, false);
        }
        let bound = match &mut self.bound {
            Some(bound) => bound,
            none => none.insert(Bound::new(&self.seat)?),
        };
        // SAFETY: `lists` and `maps` are dropped before `bound`, which is replaced only when there are none,
        // and nothing else uses it.
        Ok(unsafe { bound.session_static() })
    }

    /// Stores a list and returns its number.
    fn keep(&mut self, owner: usize, list: Box<dyn AnyList>) -> usize {
        let number = number_within(owner, serial(), LIST);
        self.lists.insert(number, list);
        number
    }

    fn keep_map(&mut self, owner: usize, map: Box<dyn AnyMap>) -> usize {
        let number = number_within(owner, serial(), MAP);
        self.maps.insert(number, map);
        number
    }

    fn list(&self, number: usize) -> Result<&dyn AnyList, Failure> {
        self.lists.get(&number).map(|list| &**list).ok_or_else(|| Code::NoList.into())
    }

    /// Uses a list.
    fn with_list(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut dyn AnyList) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let list = self.lists.get_mut(&number).ok_or(Code::NoList)?;
        let result = work(&mut **list);
        self.damaged |= is_damage(&result);
        result
    }

    /// Uses a map.
    fn with_map(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut dyn AnyMap) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let map = self.maps.get_mut(&number).ok_or(Code::NoList)?;
        let result = work(&mut **map);
        self.damaged |= is_damage(&result);
        result
    }
}

fn is_damage(result: &Result<(), Failure>) -> bool {
    result.as_ref().is_err_and(|failure| failure.code == Code::Damaged)
}

impl Drop for Lists {
    fn drop(&mut self) {
        // Lists free their nodes, which takes locks that in a broken heap may never be released.
        if self.seat.shared().is_broken() {
            mem::forget(mem::take(&mut self.lists));
            mem::forget(mem::take(&mut self.maps));
        }
    }
}

/// Bytes from C.
///
/// # Safety
/// `from` is null, or `len` bytes can be read there while the result is used.
unsafe fn bytes<'a>(from: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    let len = length(len)?;
    match (from.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::Null.into()),
        // SAFETY: as promised.
        (false, _) => Ok(unsafe { slice::from_raw_parts(from.cast(), len) }),
    }
}

/// Returns a result to C, if C wants it.
///
/// # Safety
/// `to` is null, or a `T` may be written there.
unsafe fn say<T>(to: *mut T, value: T) {
    // SAFETY: as promised.
    if let Ok(out) = unsafe { Out::new(to) } {
        out.set(value);
    }
}

/// C's room for an element.
struct Room<'a> {
    to: &'a mut [u8],
    len: *mut usize,
}

impl Room<'_> {
    /// # Safety
    /// `room` bytes can be written to `to`, and a number to `len`, unless they are null, and nobody else
    /// accesses them meanwhile, as long as this lives.
    unsafe fn new(to: *mut c_void, room: usize, len: *mut usize) -> Result<Self, Failure> {
        // SAFETY: as promised.
        Ok(Room { to: unsafe { crate::session::node::memory(to, room) }?, len })
    }

    /// Returns the length of an element.
    fn say(&self, element: &[u8]) {
        // SAFETY: as promised when this was made.
        unsafe { say(self.len, element.len()) };
    }

    /// An error if an element does not fit.
    fn fits(&self, element: &[u8]) -> Result<(), Failure> {
        let (len, room) = (element.len(), self.to.len());
        if len <= room {
            return Ok(());
        }
        Err(Failure::new(
            Code::Range,
            format!("the element has {len} bytes, but there is room for only {room}"),
        ))
    }

    /// Copies an element that fits.
    fn copy(&mut self, element: &[u8]) {
        self.to[..element.len()].copy_from_slice(element);
    }

    /// All three.
    fn put(&mut self, element: &[u8]) -> Result<(), Failure> {
        self.say(element);
        self.fits(element)?;
        self.copy(element);
        Ok(())
    }
}
