//! A table of fixed size for values that a process makes once, finds again, and keeps for ever.
//!
//! No thread waits for another here, so a thread that stops halfway, or does not survive a fork, blocks no
//! other. Two threads that make the same value at the same moment may get two places.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

/// At most `N` values.
pub(crate) struct Interned<T, const N: usize> {
    slots: [Slot<T>; N],
}

/// A place for one value.
struct Slot<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
const READY: u8 = 2;

// SAFETY: only the thread that took the slot writes the value, and others read it only after that thread has
// made it ready.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T, const N: usize> Interned<T, N> {
    pub(crate) const fn new() -> Self {
        const { assert!(!core::mem::needs_drop::<T>(), "nothing is ever dropped") };
        Interned { slots: [const { Slot::new() }; N] }
    }

    /// The first value that satisfies `is`.
    pub(crate) fn find(&self, is: impl Fn(&T) -> bool) -> Option<&T> {
        self.slots.iter().filter_map(Slot::get).find(|value| is(value))
    }

    /// Makes a value in a free place; `None` if there is none, or if `make` makes nothing.
    pub(crate) fn put(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        self.slots.iter().find(|slot| slot.take())?.fill(make)
    }
}

impl<T> Slot<T> {
    const fn new() -> Self {
        Slot { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: ready, so written, and never written again.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Takes the slot; false if it is not free.
    fn take(&self) -> bool {
        self.state.compare_exchange(EMPTY, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Fills the slot, which this thread has taken, or frees it again.
    fn fill(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        let Some(value) = make() else {
            self.state.store(EMPTY, Ordering::Release);
            return None;
        };
        // SAFETY: the slot was empty and belongs to this thread alone until it is made ready.
        unsafe { (*self.value.get()).write(value) };
        self.state.store(READY, Ordering::Release);
        self.get()
    }
}
