//! VirtualAlloc, DiscardVirtualMemory and VirtualFree.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU32;

use super::{SystemMemory, touch};
use crate::store::Memory;

const MEM_COMMIT: u32 = 0x1000;
const MEM_RESERVE: u32 = 0x2000;
const MEM_RELEASE: u32 = 0x8000;
const PAGE_READWRITE: u32 = 4;

// SAFETY: these are the signatures of the Windows headers.
#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualAlloc(address: *mut c_void, size: usize, kind: u32, protect: u32) -> *mut c_void;
    fn DiscardVirtualMemory(address: *mut c_void, size: usize) -> u32;
    fn VirtualFree(address: *mut c_void, size: usize, kind: u32) -> i32;
}

pub fn fill_in(_: core::ops::Range<usize>) {}

pub fn resident_bytes(_: core::ops::Range<usize>) -> Option<usize> {
    None
}

// SAFETY: the calls do what the trait requires: fresh pages are zeroed, and discarded ones stay committed.
unsafe impl Memory for SystemMemory {
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: only reserves fresh address space.
        NonNull::new(unsafe { VirtualAlloc(ptr::null_mut(), bytes, MEM_RESERVE, PAGE_READWRITE) }.cast())
    }

    // SAFETY: the caller guarantees what `Memory` says; so for the functions below.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: pages of a reservation of our own.
        let done = unsafe { VirtualAlloc(start.as_ptr().cast(), bytes, MEM_COMMIT, PAGE_READWRITE) };
        if done.is_null() {
            return false;
        }
        // SAFETY: committed just now.
        unsafe { touch(start, bytes, self.page_size()) };
        true
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        // Discarded, not decommitted, because the pages must stay readable.
        // SAFETY: our own pages; nobody needs their content.
        unsafe { DiscardVirtualMemory(start.as_ptr().cast(), bytes) };
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        let _ = bytes;
        // SAFETY: a reservation of our own that is not used any more.
        unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
    }

    fn wait(&self, word: &AtomicU32, value: u32) {
        let _ = (word, value);
        std::thread::yield_now();
    }
}
