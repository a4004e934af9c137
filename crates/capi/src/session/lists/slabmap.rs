//! The functions of maps.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::entry::{Out, callback, entry};
use crate::error::{Code, Failure};
use crate::heap::options::read;
use crate::session::lists::map::{self, AnyMap};
use crate::session::lists::options::{Settled, memfold_slabmap_options};
use crate::session::lists::{Room, bytes, memfold_visit_entry, say};
use crate::session::{in_owner, in_session, memfold_session};

/// C's view of a map: a number, see the parent module.
#[repr(C)]
pub struct memfold_slabmap {
    _nothing: [u8; 0],
}

/// The number of a map, unless it is null.
fn not_null(map: *mut memfold_slabmap) -> Result<usize, Failure> {
    if map.is_null() { Err(Code::Null.into()) } else { Ok(map.addr()) }
}

/// Uses a map of this thread.
fn in_map(map: *mut memfold_slabmap, work: impl FnOnce(&mut dyn AnyMap) -> Result<(), Failure>) -> c_int {
    entry(|| {
        let number = not_null(map)?;
        in_owner(number, |open| open.lists.with_map(number, work))
    })
}

/// Makes an empty map.
///
/// # Safety
/// `options` is null or has as many bytes as its first field says, and a callback in it behaves as the header
/// says while the map exists. `map` is null, or a pointer can be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_new(
    session: *mut memfold_session,
    options: *const memfold_slabmap_options,
    map: *mut *mut memfold_slabmap,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(map) }?;
        let settled = if options.is_null() {
            Settled::default()
        } else {
            // SAFETY: as promised.
            unsafe { read(options, "memfold_slabmap_options")?.settle() }?
        };
        let made = map::new(open.lists.session()?, &settled);
        out.set(ptr::without_provenance_mut(open.lists.keep_map(session.addr(), made)));
        Ok(())
    })
}

/// Frees a map with everything in it.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slabmap_free(map: *mut memfold_slabmap) -> c_int {
    entry(|| {
        let number = not_null(map)?;
        in_owner(number, |open| {
            let mut map = open.lists.maps.remove(&number).ok_or(Code::NoList)?;
            map.clear()
        })
    })
}

/// Sets the value of a key.
///
/// # Safety
/// `key_len` bytes can be read at `key` and `value_len` at `value`, and a number can be written to
/// `replaced`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_put(
    map: *mut memfold_slabmap,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    replaced: *mut c_int,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let (key, value) = unsafe { (bytes(key, key_len)?, bytes(value, value_len)?) };
        let is = map.put(key, value)?;
        // SAFETY: as promised.
        unsafe { say(replaced, c_int::from(is)) };
        Ok(())
    })
}

/// Copies the value of a key.
///
/// # Safety
/// `key_len` bytes can be read at `key`, `room` bytes can be written to `to`, and a number to `len`, unless
/// they are null, and nobody else accesses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_get(
    map: *mut memfold_slabmap,
    key: *const c_void,
    key_len: usize,
    to: *mut c_void,
    room: usize,
    len: *mut usize,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let (key, mut room) = unsafe { (bytes(key, key_len)?, Room::new(to, room, len)?) };
        map.get(key, &mut room)
    })
}

/// Whether a key has a value.
///
/// # Safety
/// `key_len` bytes can be read at `key`, and a number can be written to `contains`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_contains(
    map: *mut memfold_slabmap,
    key: *const c_void,
    key_len: usize,
    contains: *mut c_int,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let (out, key) = unsafe { (Out::new(contains)?, bytes(key, key_len)?) };
        out.set(c_int::from(map.contains(key)?));
        Ok(())
    })
}

/// Removes a key and its value.
///
/// # Safety
/// `key_len` bytes can be read at `key`, and a number can be written to `removed`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_remove(
    map: *mut memfold_slabmap,
    key: *const c_void,
    key_len: usize,
    removed: *mut c_int,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let is = map.remove(unsafe { bytes(key, key_len) }?)?;
        // SAFETY: as promised.
        unsafe { say(removed, c_int::from(is)) };
        Ok(())
    })
}

/// The number of keys.
///
/// # Safety
/// A number can be written to `len`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_len(map: *mut memfold_slabmap, len: *mut u64) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(len) }?;
        out.set(map.len());
        Ok(())
    })
}

/// Copies the key and the value at a position.
///
/// # Safety
/// `key_room` bytes can be written to `key` and `room` to `to`, and numbers to `key_len` and `len`, unless
/// they are null, and nobody else accesses them meanwhile. No two of them are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_at(
    map: *mut memfold_slabmap,
    position: u64,
    key: *mut c_void,
    key_room: usize,
    key_len: *mut usize,
    to: *mut c_void,
    room: usize,
    len: *mut usize,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let (mut key, mut value) = unsafe { (Room::new(key, key_room, key_len)?, Room::new(to, room, len)?) };
        map.at(position, &mut key, &mut value)
    })
}

/// The number of keys less than this one.
///
/// # Safety
/// `key_len` bytes can be read at `key`, and a number can be written to `position`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_lower_bound(
    map: *mut memfold_slabmap,
    key: *const c_void,
    key_len: usize,
    position: *mut u64,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let (out, key) = unsafe { (Out::new(position)?, bytes(key, key_len)?) };
        out.set(map.bound(key, false)?);
        Ok(())
    })
}

/// The number of keys less than or equal to this one.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_upper_bound(
    map: *mut memfold_slabmap,
    key: *const c_void,
    key_len: usize,
    position: *mut u64,
) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let (out, key) = unsafe { (Out::new(position)?, bytes(key, key_len)?) };
        out.set(map.bound(key, true)?);
        Ok(())
    })
}

/// Removes the keys in a range of positions.
///
/// # Safety
/// A number can be written to `removed`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_remove_range(
    map: *mut memfold_slabmap,
    from: u64,
    to: u64,
    removed: *mut u64,
) -> c_int {
    in_map(map, |map| {
        let count = map.remove_range(from, to)?;
        // SAFETY: as promised.
        unsafe { say(removed, count) };
        Ok(())
    })
}

/// Calls C's callback for each key and its value, from the first to the last or from the last to the first.
///
/// # Safety
/// The callback reads no further than it is told, and a number can be written to `said`, unless it is null.
unsafe fn fold(
    map: *mut memfold_slabmap,
    range: (u64, u64),
    backwards: bool,
    (visit, context): (memfold_visit_entry, *mut c_void),
    said: *mut c_int,
) -> c_int {
    in_map(map, |map| {
        let visit = visit.ok_or(Code::Null)?;
        let mut visit = |key: &[u8], value: &[u8]| {
            let (from, to) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: as promised; both are as long as is said.
            callback(|| unsafe { visit(context, from, key.len(), to, value.len()) })
        };
        let last = map.fold(range.0, range.1, backwards, &mut visit)?;
        // SAFETY: as promised.
        unsafe { say(said, last) };
        Ok(())
    })
}

/// Calls `visit` for the keys in a range of positions and their values, from the first to the last.
///
/// # Safety
/// The callback does as the header says, and a number can be written to `said`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_foldl(
    map: *mut memfold_slabmap,
    from: u64,
    to: u64,
    visit: memfold_visit_entry,
    context: *mut c_void,
    said: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    unsafe { fold(map, (from, to), false, (visit, context), said) }
}

/// The same from the last to the first.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_foldr(
    map: *mut memfold_slabmap,
    from: u64,
    to: u64,
    visit: memfold_visit_entry,
    context: *mut c_void,
    said: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    unsafe { fold(map, (from, to), true, (visit, context), said) }
}

/// Bytes that a map takes in addition to the heap's.
///
/// # Safety
/// A number can be written to `bytes`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_own_bytes(map: *mut memfold_slabmap, bytes: *mut usize) -> c_int {
    in_map(map, |map| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(bytes) }?;
        out.set(map.own_bytes());
        Ok(())
    })
}

/// Packs all entries as densely as possible.
///
/// # Safety
/// A number can be written to `spared`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_slabmap_reap(map: *mut memfold_slabmap, spared: *mut u64) -> c_int {
    in_map(map, |map| {
        let leaves = map.reap()?;
        // SAFETY: as promised.
        unsafe { say(spared, leaves as u64) };
        Ok(())
    })
}

/// Removes all keys.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slabmap_clear(map: *mut memfold_slabmap) -> c_int {
    in_map(map, |map| map.clear())
}

/// Checks every invariant of a map.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_slabmap_check(map: *mut memfold_slabmap) -> c_int {
    in_map(map, |map| map.check())
}
