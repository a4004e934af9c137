//! Heaps in files, and the 64 bits by which a program finds its data after loading one.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memfold::heap::{Heap, LoadError, Options, SaveError};

use crate::entry::{Out, entry};
use crate::error::{Code, Failure};
use crate::heap::options::{memfold_options, read};
use crate::heap::{add, find, memfold_heap};

impl From<SaveError> for Failure {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Heap(error) => error.into(),
            SaveError::Lost(lost) => Failure::new(Code::Lost, lost.to_string()),
            SaveError::Part(_) => Failure::new(Code::Damaged, error.to_string()),
            error => Failure::new(Code::File, error.to_string()),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Heap(error) => error.into(),
            LoadError::Options(error) => error.into(),
            error => Failure::new(Code::File, error.to_string()),
        }
    }
}

/// # Safety
/// `path` is null, or a null-terminated text that nobody changes.
unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    if path.is_null() {
        return Err(Code::Null.into());
    }
    // SAFETY: as promised.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Saves a heap without sessions to a file.
///
/// # Safety
/// `file` is null or null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_heap_save(heap: *mut memfold_heap, file: *const c_char) -> c_int {
    entry(|| {
        let shared = find(heap)?;
        // SAFETY: as promised.
        let file = unsafe { path(file) }?;
        shared.guarded(|| Ok(shared.alone()?.save(file)?))
    })
}

/// Frees those nodes of a heap without sessions that the tier has lost.
///
/// # Safety
/// `nodes` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_heap_free_lost(heap: *mut memfold_heap, nodes: *mut u64) -> c_int {
    entry(|| {
        let shared = find(heap)?;
        let lost = shared.guarded(|| Ok(shared.alone()?.free_lost()?))?;
        if !nodes.is_null() {
            // SAFETY: as promised.
            unsafe { Out::new(nodes) }?.set(lost.nodes());
        }
        Ok(())
    })
}

/// Makes a heap from a file.
///
/// # Safety
/// As for `memfold_heap_new`; `file` is null or null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_heap_load(
    file: *const c_char,
    options: *const memfold_options,
    heap: *mut *mut memfold_heap,
) -> c_int {
    entry(|| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(heap) }?;
        // SAFETY: as promised.
        let file = unsafe { path(file) }?;
        let (options, callbacks) = if options.is_null() {
            (Options::new(), None)
        } else {
            // SAFETY: as promised.
            unsafe { read(options, "memfold_options")?.settle() }?
        };
        out.set(add(Heap::load(file, options)?, callbacks));
        Ok(())
    })
}

/// 64 bits for the program's own use, which are saved with the heap.
///
/// # Safety
/// `root` is null, or a number can be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_heap_root(heap: *mut memfold_heap, root: *mut u64) -> c_int {
    entry(|| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(root) }?;
        let shared = find(heap)?;
        out.set(shared.guarded(|| Ok(shared.read().root()))?);
        Ok(())
    })
}

/// See `memfold_heap_root`.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_heap_set_root(heap: *mut memfold_heap, root: u64) -> c_int {
    entry(|| {
        let shared = find(heap)?;
        shared.guarded(|| {
            shared.read().set_root(root);
            Ok(())
        })
    })
}
