//! The runtime's own memory: address space that is reserved in large pieces,
//! handed out from the front and never given back. Only pages that are
//! touched cost memory; users throw contents away with `madvise`.
//!
//! All of the runtime's memory lies here, so that one look at a few ranges
//! tells whether a mapping is the runtime's own.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::lock::Lock;
use crate::sys::{self, PAGE, advice, prot};

/// Pieces that can be reserved at most.
const PIECES: usize = 64;
/// Address space asked for at once, unless it is limited.
const PIECE_BYTES: usize = 64 << 30;
/// Of limited address space a piece takes this part.
const LIMITED: usize = 32;
/// Memory is made usable in steps of this size.
const STEP: usize = 1 << 20;
const SMALLEST_PIECE: usize = 4 << 20;

/// See the module.
pub struct Arena {
    starts: [AtomicUsize; PIECES],
    ends: [AtomicUsize; PIECES],
    state: Lock<State>,
}

struct State {
    pieces: usize,
    next: usize,
    /// What lies above may not be touched yet: a program that locks all of its
    /// memory would make all of it resident.
    usable: usize,
    end: usize,
}

impl Arena {
    /// Nothing reserved yet.
    pub const fn new() -> Self {
        Arena {
            starts: [const { AtomicUsize::new(0) }; PIECES],
            ends: [const { AtomicUsize::new(0) }; PIECES],
            state: Lock::new(State { pieces: 0, next: 0, usable: 0, end: 0 }),
        }
    }

    /// Reserves zeroed memory; `align` is a power of two.
    pub fn reserve(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        let align = align.max(16);
        let mut state = self.state.lock();
        let mut start = state.next.next_multiple_of(align);
        if state.end == 0 || start.checked_add(bytes)? > state.end {
            self.grow(&mut state, bytes + align)?;
            start = state.next.next_multiple_of(align);
        }
        let end = start + bytes;
        if end > state.usable {
            let usable = end.next_multiple_of(STEP).min(state.end);
            let (from, more) = (state.usable, usable - state.usable);
            // SAFETY: memory of our own that nobody uses yet.
            unsafe { sys::mprotect(from, more, prot::READ | prot::WRITE) }.ok()?;
            state.usable = usable;
        }
        state.next = end;
        Some(start as *mut u8)
    }

    /// Reserves a zeroed `T`, alive for ever.
    ///
    /// # Safety
    /// All-zero bytes must be a valid `T`.
    pub unsafe fn make<T>(&self) -> Option<&'static T> {
        let place = self.reserve(size_of::<T>(), align_of::<T>())?;
        // SAFETY: fresh zeroed memory of the right size and alignment, never reused.
        Some(unsafe { &*(place as *const T) })
    }

    fn grow(&self, state: &mut State, at_least: usize) -> Option<()> {
        if state.pieces == PIECES {
            return None;
        }
        let piece =
            sys::address_space_limit().map_or(PIECE_BYTES, |limit| (limit / LIMITED).min(PIECE_BYTES));
        let mut want = piece.max(SMALLEST_PIECE).next_multiple_of(PAGE).max(at_least.next_multiple_of(PAGE));
        let start = loop {
            match sys::map_anonymous(want, prot::NONE) {
                Ok(start) => break start as usize,
                Err(_) if want / 4 >= at_least.max(SMALLEST_PIECE) => want /= 4,
                Err(_) => return None,
            }
        };
        // SAFETY: advice about fresh memory of our own that loses nothing. Huge
        // pages would make untouched memory cost something.
        unsafe {
            let _ = sys::madvise(start, want, advice::NOHUGEPAGE);
            let _ = sys::madvise(start, want, advice::DONTDUMP);
        }
        self.ends[state.pieces].store(start + want, Relaxed);
        self.starts[state.pieces].store(start, Release);
        state.pieces += 1;
        (state.next, state.usable, state.end) = (start, start, start + want);
        Some(())
    }

    /// Whether any byte of the range is the runtime's own.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        (0..PIECES).any(|i| {
            let from = self.starts[i].load(Acquire);
            from != 0 && start < self.ends[i].load(Relaxed) && from < end
        })
    }

    /// Keeps everybody out until [`Arena::let_go`].
    pub fn hold(&self) {
        core::mem::forget(self.state.lock());
    }

    /// Lets others in again.
    ///
    /// # Safety
    /// After [`Arena::hold`] by the same thread.
    pub unsafe fn let_go(&self) {
        // SAFETY: passed on to the caller.
        unsafe { self.state.release_forgotten() };
    }

    /// Makes the lock free in a forked child.
    ///
    /// # Safety
    /// No thread may have been inside [`Arena::reserve`] at the fork.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: passed on to the caller.
        unsafe { self.state.reset_in_child() };
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}
