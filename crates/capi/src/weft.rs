//! The codec for pages of heaps, alone: what `include/memfold_weft.h` declares.

use std::ffi::{c_int, c_void};
use std::slice;

use memfold_codec::weft_path;
use memfold_weft::{Effort, MOST_BYTES, Scratch, bound};

use crate::entry::{Out, entry};
use crate::error::{Code, Failure};

#[unsafe(no_mangle)]
pub extern "C" fn memfold_weft_bound(len: usize) -> usize {
    if len > MOST_BYTES { 0 } else { bound(len) }
}

#[unsafe(no_mangle)]
pub extern "C" fn memfold_weft_scratch_size() -> usize {
    size_of::<Scratch>()
}

/// # Safety
/// The header says what the pointers are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_weft_compress(
    unit: *const c_void,
    len: usize,
    to: *mut c_void,
    room: usize,
    effort: c_int,
    scratch: *mut c_void,
    stored: *mut usize,
) -> c_int {
    entry(|| {
        // SAFETY: the caller upholds the contract.
        let (stored, scratch) = unsafe { (Out::new(stored)?, scratch_at(scratch)?) };
        let effort = match effort {
            1..=4 => Effort::ALL[effort as usize - 1],
            _ => return Err(Failure::new(Code::Option, format!("an effort is from 1 to 4, not {effort}"))),
        };
        // More room than any form takes is of no use, and may be more than there is memory.
        let room = room.min(bound(MOST_BYTES));
        // SAFETY: as above.
        let (unit, to) = unsafe { (bytes(unit, unit_length(len)?)?, bytes_mut(to, room)?) };
        let form = memfold_weft::compress(weft_path(), unit, to, effort, scratch);
        stored.set(form.ok_or_else(|| {
            Failure::new(Code::Range, format!("the compressed form does not fit into {room} bytes"))
        })?);
        Ok(())
    })
}

/// # Safety
/// The header says what the pointers are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_weft_decompress(
    from: *const c_void,
    from_len: usize,
    unit: *mut c_void,
    len: usize,
    scratch: *mut c_void,
) -> c_int {
    entry(|| {
        let (from_len, len) = (crate::entry::length(from_len)?, unit_length(len)?);
        // SAFETY: the caller upholds the contract.
        let (from, unit, scratch) =
            unsafe { (bytes(from, from_len)?, bytes_mut(unit, len)?, scratch_at(scratch)?) };
        memfold_weft::decompress(weft_path(), from, unit, scratch)
            .map_err(|malformed| Failure::new(Code::Damaged, malformed.to_string()))
    })
}

fn unit_length(len: usize) -> Result<usize, Failure> {
    if len <= MOST_BYTES {
        Ok(len)
    } else {
        Err(Failure::new(Code::Size, format!("a unit has at most {MOST_BYTES} bytes, not {len}")))
    }
}

/// # Safety
/// It is null, or `memfold_weft_scratch_size` bytes can be read and written there for as long.
unsafe fn scratch_at<'s>(place: *mut c_void) -> Result<&'s mut Scratch, Failure> {
    // SAFETY: the caller upholds the contract.
    let memory = unsafe { bytes_mut(place, size_of::<Scratch>())? };
    Scratch::within(memory)
        .ok_or_else(|| Failure::new(Code::Option, "the working memory is not aligned to 64 bytes"))
}

/// # Safety
/// It is null, or so many bytes can be read there for as long.
unsafe fn bytes<'s>(place: *const c_void, len: usize) -> Result<&'s [u8], Failure> {
    match len {
        0 => Ok(&[]),
        _ if place.is_null() => Err(Code::Null.into()),
        // SAFETY: the caller upholds the contract.
        _ => Ok(unsafe { slice::from_raw_parts(place.cast(), len) }),
    }
}

/// # Safety
/// It is null, or so many bytes can be read and written there for as long.
unsafe fn bytes_mut<'s>(place: *mut c_void, len: usize) -> Result<&'s mut [u8], Failure> {
    match len {
        0 => Ok(&mut []),
        _ if place.is_null() => Err(Code::Null.into()),
        // SAFETY: the caller upholds the contract.
        _ => Ok(unsafe { slice::from_raw_parts_mut(place.cast(), len) }),
    }
}
