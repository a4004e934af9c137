//! The functions for nodes.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use memfold::heap::{Error, Handle};

use crate::entry::{Out, length};
use crate::error::{Code, Failure, outside};
use crate::session::{in_session, memfold_session};

/// As in `memfold.h`.
pub type memfold_handle = u64;

/// The buffer for a node on its way to C is kept for the next one, unless it exceeds this.
const KEPT: usize = 64 << 10;

/// The handle, unless it is 0.
pub fn handle(node: memfold_handle) -> Result<Handle, Failure> {
    Handle::from_bits(node).ok_or_else(|| Code::Stale.into())
}

/// Memory of C to write to.
///
/// # Safety
/// `to` is null, or `len` bytes may be written there, and nobody else accesses them at the same time.
pub unsafe fn memory<'a>(to: *mut c_void, len: usize) -> Result<&'a mut [u8], Failure> {
    let len = length(len)?;
    match (to.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Code::Null.into()),
        // SAFETY: as promised.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(to.cast(), len) }),
    }
}

/// Allocates a node of `size` bytes, all zero.
///
/// # Safety
/// A handle can be written to `node`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_alloc(
    session: *mut memfold_session,
    size: usize,
    node: *mut memfold_handle,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(node) }?;
        out.set(open.bound.alloc(|session| session.alloc(size))?.to_bits());
        Ok(())
    })
}

/// The same in the block of another node, if there is room.
///
/// # Safety
/// A handle can be written to `node`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_alloc_near(
    session: *mut memfold_session,
    size: usize,
    near_to: memfold_handle,
    node: *mut memfold_handle,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let (out, near) = (unsafe { Out::new(node) }?, handle(near_to)?);
        // If that node's block is damaged, so that it cannot be read, no other node should go there.
        open.bound.session().size(near)?;
        out.set(open.bound.alloc(|session| session.alloc_near(size, near))?.to_bits());
        Ok(())
    })
}

/// Frees a node.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_free(session: *mut memfold_session, node: memfold_handle) -> c_int {
    in_session(session, |open| {
        open.pins.has_not(node)?;
        Ok(open.bound.session().free(handle(node)?)?)
    })
}

/// Makes a node longer or shorter.
///
/// # Safety
/// At `node` is a handle that can be written, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_resize(
    session: *mut memfold_session,
    node: *mut memfold_handle,
    size: usize,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(node) }?;
        // SAFETY: it is not null, and as promised.
        let old = unsafe { node.read_unaligned() };
        open.pins.has_not(old)?;
        out.set(open.bound.session_mut().resize(handle(old)?, size)?.to_bits());
        Ok(())
    })
}

/// The size of a node.
///
/// # Safety
/// A number can be written to `size`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_size(
    session: *mut memfold_session,
    node: memfold_handle,
    size: *mut usize,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(size) }?;
        out.set(open.bound.session().size(handle(node)?)?);
        Ok(())
    })
}

/// Copies a node.
///
/// # Safety
/// `room` bytes can be written to `to`, and a number to `size`, unless they are null, and nobody else
/// accesses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_read(
    session: *mut memfold_session,
    node: memfold_handle,
    to: *mut c_void,
    room: usize,
    size: *mut usize,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let (to, node) = (unsafe { memory(to, room) }?, handle(node)?);
        // The heap can copy a node of unknown size only to a buffer of its own, not to memory that may be too
        // small.
        let copy = &mut open.copy;
        copy.clear();
        // A lack of memory is an error here; the heap would abort.
        let size_now = open.bound.session().size(node)?;
        copy.try_reserve(size_now).map_err(|_| Code::NoMemory)?;
        open.bound.session().read_into(node, copy)?;
        let len = copy.len();
        let enough = to.get_mut(..len).map(|to| to.copy_from_slice(copy));
        if copy.capacity() > KEPT {
            *copy = Vec::new();
        }
        // SAFETY: as promised.
        if let Ok(size) = unsafe { Out::new(size) } {
            size.set(len);
        }
        let text = || format!("the node has {len} bytes, and the buffer only {room}");
        enough.ok_or_else(|| Failure::new(Code::Range, text()))
    })
}

/// Copies a part of a node.
///
/// # Safety
/// `len` bytes can be written to `to`, unless it is null, and nobody else accesses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_read_at(
    session: *mut memfold_session,
    node: memfold_handle,
    from: usize,
    to: *mut c_void,
    len: usize,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let to = unsafe { memory(to, len) }?;
        let len = to.len();
        open.bound.session().read_at(handle(node)?, from, to).map_err(|error| match error {
            Error::Mismatch { node, .. } => outside(node, from, len),
            other => other.into(),
        })
    })
}

/// Copies bytes to a part of a node.
///
/// # Safety
/// `len` bytes can be read at `from`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_write_at(
    session: *mut memfold_session,
    node: memfold_handle,
    to: usize,
    from: *const c_void,
    len: usize,
) -> c_int {
    in_session(session, |open| {
        let len = length(len)?;
        if from.is_null() && len > 0 {
            return Err(Code::Null.into());
        }
        let mut bytes = open.bound.session_mut().write(handle(node)?)?;
        let size = bytes.len();
        let place = bytes.get_mut(to..).filter(|rest| len <= rest.len());
        let place = place.ok_or_else(|| outside(size, to, len))?;
        if len > 0 {
            // SAFETY: `len` bytes on both sides, as promised and as checked. They may overlap: C may have got
            // them from a pin.
            unsafe { ptr::copy(from.cast::<u8>(), place.as_mut_ptr(), len) };
        }
        Ok(())
    })
}
