//! Where the store's memory comes from, and how its threads wait.
//!
//! The store runs in places where no allocator and no libc may be called, so
//! it asks for address space and pages through [`Memory`]. The life of a
//! page is the one that every system knows in some form:
//!
//! ```text
//!   reserve ──> reserved ── commit ──> resident ── release ──> reserved
//!                  └──────── unreserve (the whole reservation) ──> gone
//! ```
//!
//! The store touches resident pages only, and counts every page between
//! commit and release as resident, whether it has written to it or not.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

/// A source of pages, and of patience.
///
/// # Safety
///
/// What the methods return must be what they promise: the store reads and
/// writes committed pages without asking again, and nobody else may.
pub unsafe trait Memory: Sync {
    /// Bytes of a page: a power of two, at least 4096, at most 65536.
    fn page_size(&self) -> usize {
        4096
    }

    /// Takes `bytes` of address space, aligned to a page, that cost no
    /// memory yet. `bytes` is a multiple of the page size.
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// Makes whole pages of a reservation readable, writable and resident,
    /// ahead of their use, so that no later touch of them needs room. The
    /// first time they are zero, later they may hold anything. False if there
    /// is no room; then nothing has changed that the store could notice.
    ///
    /// # Safety
    ///
    /// The pages are part of one reservation and not committed.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool;

    /// Gives committed pages back to the system; what they held is lost. They
    /// stay readable: somebody with a stale reference may be looking at them,
    /// whatever he finds there.
    ///
    /// # Safety
    ///
    /// The pages are part of one reservation, committed, and nobody uses
    /// what they hold.
    unsafe fn release(&self, start: NonNull<u8>, bytes: usize);

    /// Gives a whole reservation back, committed pages included.
    ///
    /// # Safety
    ///
    /// `start` and `bytes` are those of one `reserve`, and nobody uses the
    /// memory any more.
    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize);

    /// Waits a while, at most until `word` is no longer `value`. May return
    /// at any time; a futex wait is what fits, giving up the CPU will do.
    fn wait(&self, word: &AtomicU32, value: u32) {
        let _ = (word, value);
        core::hint::spin_loop();
    }

    /// Wakes one of those who wait on `word`.
    fn wake(&self, word: &AtomicU32) {
        let _ = word;
    }
}

// SAFETY: every method hands on to the one it stands for.
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
