//! A workspace with memory of its own, for users that may allocate.

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed};
use std::boxed::Box;

use super::memory::Memory;
use super::tiers::{Tiered, Workspace};
use crate::SystemMemory;

/// A [`Workspace`] and its memory.
pub struct OwnedWorkspace {
    space: ManuallyDrop<Workspace<'static>>,
    memory: NonNull<[u8]>,
}

/// `len` zeroed bytes on the heap, none of them touched yet: codecs request memory for their worst case, and
/// mostly touch half of it.
fn zeroes(len: usize) -> Option<NonNull<[u8]>> {
    let layout = Layout::array::<u8>(len).ok()?;
    if len == 0 {
        return Some(NonNull::from(Box::<[u8]>::leak(Box::default())));
    }
    // SAFETY: the size is not 0.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    Some(NonNull::slice_from_raw_parts(memory, len))
}

impl OwnedWorkspace {
    /// For blocks of up to `len` bytes of a store; takes [`Tiered::workspace_bytes`]. `None` if there is no
    /// memory.
    pub fn new<M: Memory>(store: &Tiered<M>, len: usize) -> Option<Self> {
        let mut memory = zeroes(store.workspace_bytes(len))?;
        // SAFETY: leaked, so it lives until it is dropped together with its only user.
        let space = store.workspace(len, unsafe { memory.as_mut() });
        Some(OwnedWorkspace { space: ManuallyDrop::new(space), memory })
    }
}

impl OwnedWorkspace {
    /// Returns the touched pages of its memory to the system, and forgets what codecs had set up there.
    /// `store` and `len` are those that it was made for.
    pub fn renew<M: Memory>(&mut self, store: &Tiered<M>, len: usize) {
        let page = SystemMemory::new().page_size();
        let Range { start, end } = self.memory();
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if first < last {
            // SAFETY: whole pages of our own memory, which the old workspace does not use again; they stay
            // writable.
            unsafe { SystemMemory::new().release(self.memory.cast().add(first - start), last - first) };
        }
        // SAFETY: as when it was made; the old workspace is dropped.
        self.space = ManuallyDrop::new(store.workspace(len, unsafe { self.memory.as_mut() }));
    }

    /// The addresses of its memory, for [`SystemMemory::resident_bytes`]: the memory is sized for the worst
    /// case, and mostly untouched.
    pub fn memory(&self) -> Range<usize> {
        let start = self.memory.as_ptr().cast::<u8>().addr();
        start..start + self.memory.len()
    }
}

// SAFETY: what codecs keep in the memory is bytes and pointers into it; none of it is tied to a thread.
unsafe impl Send for OwnedWorkspace {}

impl Drop for OwnedWorkspace {
    fn drop(&mut self) {
        // SAFETY: dropped once, before its memory is freed; the memory is laid out as that of a boxed slice.
        unsafe {
            ManuallyDrop::drop(&mut self.space);
            drop(Box::from_raw(self.memory.as_ptr()));
        }
    }
}

impl Deref for OwnedWorkspace {
    type Target = Workspace<'static>;

    fn deref(&self) -> &Workspace<'static> {
        &self.space
    }
}

impl DerefMut for OwnedWorkspace {
    fn deref_mut(&mut self) -> &mut Workspace<'static> {
        &mut self.space
    }
}
