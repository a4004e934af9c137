//! Lists whose order the program sets.

use std::ffi::{c_int, c_void};

use crate::session::lists::bytes;
use crate::session::lists::slablist::{in_list, memfold_slablist};

/// Inserts an element before the one at a position, or at the end.
///
/// # Safety
/// `len` bytes can be read at `element`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_insert_at(
    list: *mut memfold_slablist,
    position: u64,
    element: *const c_void,
    len: usize,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        list.insert_at(position, unsafe { bytes(element, len) }?)
    })
}

/// Replaces the element at a position.
///
/// # Safety
/// `len` bytes can be read at `element`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_set_at(
    list: *mut memfold_slablist,
    position: u64,
    element: *const c_void,
    len: usize,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        list.set_at(position, unsafe { bytes(element, len) }?)
    })
}

/// Appends an element.
///
/// # Safety
/// `len` bytes can be read at `element`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_push(
    list: *mut memfold_slablist,
    element: *const c_void,
    len: usize,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        list.push(unsafe { bytes(element, len) }?)
    })
}

/// Sorts the elements.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_sort(list: *mut memfold_slablist) -> c_int {
    in_list(list, |list| list.sort())
}

/// Reverses the order of the elements.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_reverse(list: *mut memfold_slablist) -> c_int {
    in_list(list, |list| list.reverse())
}
