//! Zero-initialised data that is neither evicted nor served: the runtime's own, which the handlers themselves
//! need, and that of the C library and the loader, which a forked child uses before faults can be served
//! there.
//!
//! ```text
//!   library.so │ code │ data │ zeros ─── │ hole │ another library
//!                            └ from here on no file is mapped: memory of the program that is
//!                              mapped next to it would merge with it
//! ```
//!
//! To prevent this, the ranges are marked with an advice that has no other effect on them. If a mapping was
//! merged with one of them all the same, all of it is left alone.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::kernel::sys::{self, PAGE, advice};

const RANGES: usize = 6;

/// See the module.
pub struct Statics {
    starts: [AtomicUsize; RANGES],
    ends: [AtomicUsize; RANGES],
}

/// The argument of `dl_iterate_phdr`'s callback, up to the last member used here.
#[repr(C)]
struct Object {
    base: usize,
    name: *const c_char,
    headers: *const Header,
    count: u16,
}

/// A program header of ELF.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

const LOAD: u32 = 1;

/// The callback's data.
struct Wanted<'a> {
    statics: &'a Statics,
    /// Addresses in the objects whose data are wanted.
    addresses: &'a [usize],
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        visit: extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

impl Statics {
    /// No ranges.
    pub const fn new() -> Self {
        Statics {
            starts: [const { AtomicUsize::new(0) }; RANGES],
            ends: [const { AtomicUsize::new(0) }; RANGES],
        }
    }

    /// Finds the zero-initialised data of the objects that contain these addresses; once, before anything is
    /// evicted.
    pub fn find(&self, addresses: &[usize]) {
        let mut wanted = Wanted { statics: self, addresses };
        // SAFETY: the callback gets the type it expects, and only during this call.
        unsafe { dl_iterate_phdr(note, (&raw mut wanted).cast()) };
    }

    fn add(&self, start: usize, end: usize) {
        if let Some(free) = self.ends.iter().position(|end| end.load(Relaxed) == 0) {
            self.starts[free].store(start, Relaxed);
            self.ends[free].store(end, Release);
        }
        // SAFETY: this affects only the size of pages, and the range is too small for huge pages.
        let _ = unsafe { sys::madvise(start, end - start, advice::NOHUGEPAGE) };
    }

    /// Whether a range overlaps one of them.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        let ends = self.ends.iter().map(|end| end.load(Acquire));
        ends.zip(&self.starts).any(|(own_end, own)| start < own_end && own.load(Relaxed) < end)
    }
}

impl Default for Statics {
    fn default() -> Self {
        Self::new()
    }
}

extern "C" fn note(object: *const Object, _bytes: usize, wanted: *mut c_void) -> c_int {
    // SAFETY: the loader's and `find`'s arguments.
    let (object, wanted) = unsafe { (&*object, &*wanted.cast::<Wanted<'_>>()) };
    if object.headers.is_null() {
        return 0;
    }
    // SAFETY: the object has this many headers.
    let headers = unsafe { core::slice::from_raw_parts(object.headers, usize::from(object.count)) };
    let loaded = headers.iter().filter(|header| header.kind == LOAD).map(|header| {
        let start = object.base.wrapping_add(header.address as usize);
        (start, start + header.file_bytes as usize, start + header.memory_bytes as usize)
    });
    let holds = |address: &usize| loaded.clone().any(|(start, _, end)| (start..end).contains(address));
    if wanted.addresses.iter().any(holds) {
        for (_, file_end, end) in loaded {
            let (start, end) = (file_end.next_multiple_of(PAGE), end.next_multiple_of(PAGE));
            if start < end {
                wanted.statics.add(start, end);
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zeros_of_this_program_and_of_the_c_library_are_found() {
        static ZEROS: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];
        let statics = Statics::new();
        let own = (&raw const ZEROS) as usize;
        assert!(!statics.overlaps(0, usize::MAX));
        statics.find(&[own, dl_iterate_phdr as *const () as usize]);
        assert!(statics.overlaps(own + 2 * PAGE, own + 3 * PAGE));
        let local = 0;
        let stack = (&raw const local) as usize;
        assert!(!statics.overlaps(stack, stack + 4));
        assert!(statics.ends.iter().filter(|end| end.load(Relaxed) != 0).count() >= 2);
    }
}
