//! Access to lists by position.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::entry::{Out, callback, entry};
use crate::error::{Code, Failure};
use crate::session::in_owner;
use crate::session::lists::slablist::{in_list, memfold_slablist, not_null};
use crate::session::lists::sorted::numbers;
use crate::session::lists::{Room, memfold_visit, say};

/// Copies the element at a position.
///
/// # Safety
/// `room` bytes can be written to `to`, and a number to `len`, unless they are null, and nobody else accesses
/// them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_get(
    list: *mut memfold_slablist,
    position: u64,
    to: *mut c_void,
    room: usize,
    len: *mut usize,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        list.get(position, &mut unsafe { Room::new(to, room, len) }?)
    })
}

/// The number at a position.
///
/// # Safety
/// A number can be written to `element`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_get_u64(
    list: *mut memfold_slablist,
    position: u64,
    element: *mut u64,
) -> c_int {
    in_list(list, |list| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(element) }?;
        let mut bytes = [0; 8];
        numbers(list)?.get(position, &mut Room { to: &mut bytes, len: ptr::null_mut() })?;
        out.set(u64::from_ne_bytes(bytes));
        Ok(())
    })
}

/// Removes the element at a position.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slablist_remove_at(list: *mut memfold_slablist, position: u64) -> c_int {
    in_list(list, |list| list.remove_at(position))
}

/// Removes the elements in a range of positions.
///
/// # Safety
/// A number can be written to `removed`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_remove_range(
    list: *mut memfold_slablist,
    from: u64,
    to: u64,
    removed: *mut u64,
) -> c_int {
    in_list(list, |list| {
        let count = list.remove_range(from, to)?;
        // SAFETY: as promised.
        unsafe { say(removed, count) };
        Ok(())
    })
}

/// Moves the elements in a range of positions to a new list.
///
/// # Safety
/// A pointer can be written to `extracted`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_extract(
    list: *mut memfold_slablist,
    from: u64,
    to: u64,
    extracted: *mut *mut memfold_slablist,
) -> c_int {
    entry(|| {
        // SAFETY: as promised.
        let (out, number) = (unsafe { Out::new(extracted) }?, not_null(list)?);
        in_owner(number, |open| {
            let mut made = None;
            open.lists.with_list(number, |list| {
                made = Some(list.extract(from, to)?);
                Ok(())
            })?;
            let made = made.ok_or(Code::Bug)?;
            out.set(ptr::without_provenance_mut(open.lists.keep(number, made)));
            Ok(())
        })
    })
}

/// Calls C's callback for each element, from the first to the last or from the last to the first.
///
/// # Safety
/// The callback reads no further than it is told, and a number can be written to `said`, unless it is null.
unsafe fn fold(
    list: *mut memfold_slablist,
    range: (u64, u64),
    backwards: bool,
    (visit, context): (memfold_visit, *mut c_void),
    said: *mut c_int,
) -> c_int {
    in_list(list, |list| {
        let visit = visit.ok_or(Code::Null)?;
        // SAFETY: as promised; the element is as long as is said.
        let mut visit =
            |element: &[u8]| callback(|| unsafe { visit(context, element.as_ptr().cast(), element.len()) });
        let last: Result<c_int, Failure> = list.fold(range.0, range.1, backwards, &mut visit);
        // SAFETY: as promised.
        unsafe { say(said, last?) };
        Ok(())
    })
}

/// Calls `visit` for the elements in a range of positions, from the first to the last.
///
/// # Safety
/// The callback does as the header says, and a number can be written to `said`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_foldl(
    list: *mut memfold_slablist,
    from: u64,
    to: u64,
    visit: memfold_visit,
    context: *mut c_void,
    said: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    unsafe { fold(list, (from, to), false, (visit, context), said) }
}

/// The same from the last to the first.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slablist_foldr(
    list: *mut memfold_slablist,
    from: u64,
    to: u64,
    visit: memfold_visit,
    context: *mut c_void,
    said: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    unsafe { fold(list, (from, to), true, (visit, context), said) }
}
