//! Compressed pages: the store, its memory, and its readers.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

use memfold::store::{Memory, Tiered};

use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE, advice};
use crate::memory::arena::Arena;
use crate::process::threads::WORKERS;

/// The store, once it exists.
pub struct Stored {
    store: AtomicPtr<Tiered<StoreMemory>>,
    /// A counter for each reader of the store: odd while it reads.
    reading: [AtomicU32; WORKERS],
    /// Whether the store gets no more memory. `told_full` says whether this was reported.
    pub full: AtomicBool,
    /// See `full`.
    pub told_full: AtomicBool,
}

impl Stored {
    /// The state at the start of a process.
    pub const fn new() -> Self {
        Stored {
            store: AtomicPtr::new(core::ptr::null_mut()),
            reading: [const { AtomicU32::new(0) }; WORKERS],
            full: AtomicBool::new(false),
            told_full: AtomicBool::new(false),
        }
    }

    /// The store. Call it only after [`Stored::set_store`].
    pub fn store(&self) -> &'static Tiered<StoreMemory> {
        // SAFETY: set once before the first eviction, and never freed.
        unsafe { &*self.store.load(Relaxed) }
    }

    /// Whether there is a store.
    pub fn has_store(&self) -> bool {
        !self.store.load(Relaxed).is_null()
    }

    /// Sets the store.
    pub fn set_store(&self, store: &'static Tiered<StoreMemory>) {
        self.store.store(store as *const _ as *mut _, Release);
    }

    /// Announces that worker `number` begins or stops reading blobs that it has pinned.
    pub fn set_reading(&self, number: usize, reading: bool) {
        let now = self.reading[number].fetch_add(1, SeqCst);
        debug_assert_eq!(now.is_multiple_of(2), reading);
    }

    /// Waits until every reader that is reading now has finished: afterwards no reader uses a blob whose
    /// entry was emptied before the call.
    pub fn settle_readers(&self) {
        for reader in &self.reading {
            let seen = reader.load(SeqCst);
            let mut spins = 0u32;
            while seen % 2 == 1 && reader.load(SeqCst) == seen {
                spins += 1;
                if spins.is_multiple_of(64) { sched::yield_now() } else { core::hint::spin_loop() }
            }
        }
    }

    /// Forgets the parent's readers in a forked child.
    pub fn forget_readers(&self) {
        for reader in &self.reading {
            reader.store(0, SeqCst);
        }
    }
}

/// Memory for the store, out of the arena.
pub struct StoreMemory(pub &'static Arena);

// SAFETY: ranges handed out are fresh, exclusive and stay mapped; released
// pages read as zeros afterwards.
unsafe impl Memory for StoreMemory {
    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        NonNull::new(self.0.reserve_for_pages(bytes, PAGE)?)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: populating our own memory loses nothing.
        unsafe { sys::madvise(start.as_ptr() as usize, bytes, advice::POPULATE_WRITE) }.is_ok()
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the store guarantees that the contents are no longer needed.
        let _ = unsafe { sys::madvise(start.as_ptr() as usize, bytes, advice::DONTNEED) };
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller upholds the contract. The addresses are not used again.
        unsafe { self.release(start, bytes) };
    }

    fn wait(&self, word: &AtomicU32, value: u32) {
        let _ = sys::futex_wait(word, value, Some(1_000_000), false);
    }

    fn wake(&self, word: &AtomicU32) {
        sys::futex_wake(word, 1, false);
    }
}
