//! Cursors: places in a list that stay at their element while others come and go.

use std::ffi::{c_int, c_void};

use crate::entry::Out;
use crate::session::lists::Room;
use crate::session::lists::slablist::{in_list, memfold_slablist};

/// As in `memfold.h`: a number that no other cursor of the process has.
pub type memfold_cursor = u64;

/// Makes a cursor at the element at a position.
///
/// # Safety
/// A number can be written to `cursor`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_cursor_new(
    list: *mut memfold_slablist,
    position: u64,
    cursor: *mut memfold_cursor,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(cursor) }?;
        out.set(list.cursor_new(position)?);
        Ok(())
    })
}

/// Frees a cursor.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_cursor_free(list: *mut memfold_slablist, cursor: memfold_cursor) -> c_int {
    in_list(list, |list| list.cursor_free(cursor))
}

/// Copies the element at a cursor.
///
/// # Safety
/// `room` bytes can be written to `to`, and a number to `len`, unless they are null, and nobody else accesses
/// them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_cursor_get(
    list: *mut memfold_slablist,
    cursor: memfold_cursor,
    to: *mut c_void,
    room: usize,
    len: *mut usize,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let mut room = unsafe { Room::new(to, room, len) }?;
        list.get(list.cursor_position(cursor)?, &mut room)
    })
}

/// The position of the element at a cursor.
///
/// # Safety
/// A number can be written to `position`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_cursor_position(
    list: *mut memfold_slablist,
    cursor: memfold_cursor,
    position: *mut u64,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(position) }?;
        out.set(list.cursor_position(cursor)?);
        Ok(())
    })
}

/// Moves a cursor to the next element.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_cursor_next(list: *mut memfold_slablist, cursor: memfold_cursor) -> c_int {
    in_list(list, |list| list.cursor_move(cursor, false))
}

/// Moves a cursor to the previous element.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_cursor_previous(
    list: *mut memfold_slablist,
    cursor: memfold_cursor,
) -> c_int {
    in_list(list, |list| list.cursor_move(cursor, true))
}
