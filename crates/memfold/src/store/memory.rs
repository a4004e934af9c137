//! Where the store's memory comes from, and how its threads wait.
//!
//! The store runs in places where no allocator and no libc may be called, so it asks for address space and
//! pages through [`Memory`]. A page has the states that every system knows in some form:
//!
//! ```text
//!   reserve ──> reserved ── commit ──> resident ── release ──> reserved
//!                  └──────── unreserve (the whole reservation) ──> gone
//! ```
//!
//! The store touches only resident pages, and counts every page between commit and release as resident,
//! whether or not it has written to it.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

/// A source of pages, and of ways to wait.
///
/// # Safety
///
/// The methods must do what their documentation says: the store reads and writes committed pages without
/// further checks, and nobody else may access them.
pub unsafe trait Memory: Sync {
    /// Bytes of a page: a power of two, at least 4096, at most 65536.
    fn page_size(&self) -> usize {
        4096
    }

    /// Reserves `bytes` of address space, aligned to a page, which take no memory yet. `bytes` is a multiple
    /// of the page size.
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// Makes whole pages of a reservation readable, writable and resident, ahead of their use, so that no
    /// later touch of them needs memory. They are zero the first time; later they may hold anything. False if
    /// there is no memory; nothing that the store could notice has changed then.
    ///
    /// # Safety
    ///
    /// The pages are part of one reservation and not committed.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool;

    /// Returns committed pages to the system; their content is lost. They stay readable, with any content: a
    /// thread with a stale reference may be reading them.
    ///
    /// # Safety
    ///
    /// The pages are part of one reservation, committed, and nobody uses their content.
    unsafe fn release(&self, start: NonNull<u8>, bytes: usize);

    /// Returns a whole reservation, including committed pages.
    ///
    /// # Safety
    ///
    /// `start` and `bytes` are those of one `reserve`, and nobody uses the
    /// memory any more.
    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize);

    /// Waits a while, at most until `word` is no longer `value`. May return at any time. A futex wait is
    /// best; yielding the CPU suffices.
    fn wait(&self, word: &AtomicU32, value: u32) {
        let _ = (word, value);
        core::hint::spin_loop();
    }

    /// Wakes one of the threads that wait on `word`.
    fn wake(&self, word: &AtomicU32) {
        let _ = word;
    }
}

// SAFETY: every method forwards to the one of the same name.
unsafe impl<M: Memory> Memory for &M {
    fn page_size(&self) -> usize {
        (**self).page_size()
    }

    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        (**self).reserve(bytes)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller keeps the same contract.
        unsafe { (**self).commit(start, bytes) }
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { (**self).release(start, bytes) }
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { (**self).unreserve(start, bytes) }
    }

    fn wait(&self, word: &AtomicU32, value: u32) {
        (**self).wait(word, value);
    }

    fn wake(&self, word: &AtomicU32) {
        (**self).wake(word);
    }
}
