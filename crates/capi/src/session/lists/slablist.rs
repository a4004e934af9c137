//! Lists as a whole.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::entry::{Out, entry};
use crate::error::{Code, Failure};
use crate::heap::options::read;
use crate::session::lists::list::{self, AnyList};
use crate::session::lists::options::{Settled, memfold_slablist_options};
use crate::session::lists::say;
use crate::session::{in_owner, in_owners, in_session, memfold_session};

/// C's view of a list: a number, see the parent module.
#[repr(C)]
pub struct memfold_slablist {
    _nothing: [u8; 0],
}

/// The number of a list, unless it is null.
pub fn not_null(list: *mut memfold_slablist) -> Result<usize, Failure> {
    if list.is_null() { Err(Code::Null.into()) } else { Ok(list.addr()) }
}

/// Uses a list of this thread.
pub fn in_list(
    list: *mut memfold_slablist,
    work: impl FnOnce(&mut dyn AnyList) -> Result<(), Failure>,
) -> c_int {
    entry(|| {
        let number = not_null(list)?;
        in_owner(number, |open| open.lists.with_list(number, work))
    })
}

/// Makes an empty list.
///
/// # Safety
/// `options` is null or has as many bytes as its first field says, a name in it is null-terminated, and a
/// callback in it behaves as the header says while the list exists. `list` is null, or a pointer can be written
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_new(
    session: *mut memfold_session,
    options: *const memfold_slablist_options,
    list: *mut *mut memfold_slablist,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(list) }?;
        let settled = if options.is_null() {
            Settled::default()
        } else {
            // SAFETY: as promised.
            unsafe { read(options, "memfold_slablist_options")?.settle() }?
        };
        let made = list::new(open.lists.session()?, &settled);
        out.set(ptr::without_provenance_mut(open.lists.keep(session.addr(), made)));
        Ok(())
    })
}

/// Frees a list with everything in it.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_free(list: *mut memfold_slablist) -> c_int {
    entry(|| {
        let number = not_null(list)?;
        in_owner(number, |open| {
            let mut list = open.lists.lists.remove(&number).ok_or(Code::NoList)?;
            list.clear()
        })
    })
}

/// A list's name.
///
/// # Safety
/// A pointer can be written to `name`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_name(
    list: *mut memfold_slablist,
    name: *mut *const c_char,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(name) }?;
        out.set(list.name().map_or(c"".as_ptr(), |name| name.as_ptr()));
        Ok(())
    })
}

/// The number of elements.
///
/// # Safety
/// A number can be written to `len`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_len(list: *mut memfold_slablist, len: *mut u64) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(len) }?;
        out.set(list.len());
        Ok(())
    })
}

/// Bytes that a list takes in addition to the heap's.
///
/// # Safety
/// A number can be written to `bytes`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_own_bytes(list: *mut memfold_slablist, bytes: *mut usize) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(bytes) }?;
        out.set(list.own_bytes());
        Ok(())
    })
}

/// Packs all elements as densely as possible.
///
/// # Safety
/// A number can be written to `spared`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_reap(list: *mut memfold_slablist, spared: *mut u64) -> c_int {
    in_list(list, |list| {
        let leaves = list.reap()?;
        // SAFETY: as promised.
        unsafe { say(spared, leaves as u64) };
        Ok(())
    })
}

/// Removes all elements.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_clear(list: *mut memfold_slablist) -> c_int {
    in_list(list, |list| list.clear())
}

/// Checks every invariant of a list.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_check(list: *mut memfold_slablist) -> c_int {
    in_list(list, |list| list.check())
}

/// Compares two lists.
///
/// # Safety
/// A number can be written to `order`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_compare(
    list: *mut memfold_slablist,
    other: *mut memfold_slablist,
    order: *mut c_int,
) -> c_int {
    entry(|| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(order) }?;
        let numbers = [not_null(list)?, not_null(other)?];
        in_owners(numbers, |one, another| {
            let (list, other) = (one.lists.list(numbers[0])?, another.lists.list(numbers[1])?);
            out.set(list.compare(other)? as c_int);
            Ok(())
        })
    })
}
