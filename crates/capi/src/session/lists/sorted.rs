//! Sorted lists.

use std::ffi::{c_int, c_void};

use crate::entry::Out;
use crate::error::{Code, Failure};
use crate::session::lists::kind::Kind;
use crate::session::lists::list::AnyList;
use crate::session::lists::slablist::{in_list, memfold_slablist};
use crate::session::lists::{bytes, say};

/// Adds an element.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `added`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_add(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    added: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let is = list.add(unsafe { bytes(element, len) }?)?;
        // SAFETY: as promised.
        unsafe { say(added, c_int::from(is)) };
        Ok(())
    })
}

/// Adds an element and replaces an equal one.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `replaced`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_replace(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    replaced: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let is = list.replace(unsafe { bytes(element, len) }?)?;
        // SAFETY: as promised.
        unsafe { say(replaced, c_int::from(is)) };
        Ok(())
    })
}

/// Removes the last equal element.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `removed`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_remove(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    removed: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let is = list.remove(unsafe { bytes(element, len) }?)?;
        // SAFETY: as promised.
        unsafe { say(removed, c_int::from(is)) };
        Ok(())
    })
}

/// Whether there is an equal element.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `contains`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_contains(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    contains: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let (out, element) = unsafe { (Out::new(contains)?, bytes(element, len)?) };
        out.set(c_int::from(list.contains(element)?));
        Ok(())
    })
}

/// The position of the last equal element.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `position`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_find(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    position: *mut u64,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let (out, element) = unsafe { (Out::new(position)?, bytes(element, len)?) };
        out.set(list.find(element)?);
        Ok(())
    })
}

/// The number of elements less than this one.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `position`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_lower_bound(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    position: *mut u64,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let (out, element) = unsafe { (Out::new(position)?, bytes(element, len)?) };
        out.set(list.bound(element, false)?);
        Ok(())
    })
}

/// The number of elements less than or equal to this one.
///
/// # Safety
/// `len` bytes can be read at `element`, and a number can be written to `position`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_upper_bound(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
    position: *mut u64,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let (out, element) = unsafe { (Out::new(position)?, bytes(element, len)?) };
        out.set(list.bound(element, true)?);
        Ok(())
    })
}

/// An error unless the elements are `uint64_t`.
pub fn numbers(list: &mut dyn AnyList) -> Result<&mut dyn AnyList, Failure> {
    if list.kind() == Kind::U64 {
        return Ok(list);
    }
    Err(Failure::new(Code::Kind, "the list is not one of MEMFOLD_U64"))
}

/// Adds a number.
///
/// # Safety
/// A number can be written to `added`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_add_u64(
    list: *mut memfold_slablist,
    element: u64,
    added: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        let is = numbers(list)?.add(&element.to_ne_bytes())?;
        // SAFETY: as promised.
        unsafe { say(added, c_int::from(is)) };
        Ok(())
    })
}

/// Removes a number.
///
/// # Safety
/// A number can be written to `removed`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_remove_u64(
    list: *mut memfold_slablist,
    element: u64,
    removed: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        let is = numbers(list)?.remove(&element.to_ne_bytes())?;
        // SAFETY: as promised.
        unsafe { say(removed, c_int::from(is)) };
        Ok(())
    })
}

/// Whether the list contains a number.
///
/// # Safety
/// A number can be written to `contains`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_contains_u64(
    list: *mut memfold_slablist,
    element: u64,
    contains: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(contains) }?;
        out.set(c_int::from(numbers(list)?.contains(&element.to_ne_bytes())?));
        Ok(())
    })
}
