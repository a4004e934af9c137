//! The arena: the runtime's own memory. Address space is reserved in pieces, a small one at first, handed out
//! from the front and never freed. Only touched pages cost memory; users discard contents with `madvise`. But
//! where the program's address space is limited, reserved address space counts (see `limits.rs`). So the
//! large pieces wait until paging begins, and when such a limit is set, the part not yet handed out is
//! unmapped.
//!
//! All of the runtime's memory lies here, so comparing a mapping with a few ranges shows whether it is the
//! runtime's own.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::rlimit;
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE, advice, prot};
use crate::memory::lock::Lock;

/// Maximum number of reserved pieces.
const PIECES: usize = 64;
/// Size of the first piece, and of those reserved when paging begins; less where address space is limited.
const FIRST_PIECE: usize = 8 << 20;
const LARGE_PIECE: usize = 64 << 30;
/// See [`Arena::wait_while_growing`].
const GROWING_NS: u64 = 20_000_000;
/// A piece takes this fraction of limited address space.
const LIMITED: usize = 32;
/// Memory is made usable in steps of this size.
const STEP: usize = 1 << 20;
const SMALLEST_PIECE: usize = 4 << 20;

/// How many bytes may be reserved ahead where the program's memory is limited.
fn spare_of(limit: usize) -> usize {
    (limit / LIMITED).max(SMALLEST_PIECE)
}

/// The arena; see the module.
pub struct Arena {
    starts: [AtomicUsize; PIECES],
    ends: [AtomicUsize; PIECES],
    /// Odd while a piece is mapped that is not in the list yet.
    growing: AtomicU32,
    state: Lock<State>,
}

struct State {
    pieces: usize,
    next: usize,
    /// Memory above this may not be touched yet: a program that locks all of its memory would make all of it
    /// resident.
    usable: usize,
    end: usize,
    /// Number of bytes that were made usable, in all pieces.
    made_usable: usize,
}

impl Arena {
    /// Nothing reserved yet.
    pub const fn new() -> Self {
        Arena {
            starts: [const { AtomicUsize::new(0) }; PIECES],
            ends: [const { AtomicUsize::new(0) }; PIECES],
            growing: AtomicU32::new(0),
            state: Lock::new(State { pieces: 0, next: 0, usable: 0, end: 0, made_usable: 0 }),
        }
    }

    /// Reserves zeroed memory; `align` is a power of two.
    pub fn reserve(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        let align = align.max(16);
        sys::touch_stack();
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
            // SAFETY: memory of our own that is not used yet.
            unsafe { sys::mprotect(from, more, prot::READ | prot::WRITE) }.ok()?;
            state.usable = usable;
            state.made_usable += more;
        }
        state.next = end;
        Some(start as *mut u8)
    }

    /// Reserves a zeroed `T` that is never freed.
    ///
    /// # Safety
    /// All-zero bytes must be a valid `T`.
    pub unsafe fn make<T>(&self) -> Option<&'static T> {
        let place = self.reserve(size_of::<T>(), align_of::<T>())?;
        // SAFETY: fresh zeroed memory of the right size and alignment, never reused.
        Some(unsafe { &*(place as *const T) })
    }

    /// Called before anything is evicted: reserves all that will be needed, unless the program's memory is
    /// limited. From then on, mappings that are listed as the program's hardly ever turn out to be the
    /// runtime's.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        if state.pieces < 2 {
            let _ = self.grow(&mut state, STEP);
        }
    }

    /// Waits until no piece is being mapped that [`Arena::overlaps`] does not know yet. The wait is bounded:
    /// the thread that maps one may be a thread of the program that waits for a page.
    pub fn wait_while_growing(&self) {
        let begin = sys::now_ns();
        while self.growing.load(SeqCst) % 2 == 1 && sys::now_ns() - begin < GROWING_NS {
            sched::yield_now();
        }
    }

    /// Calls `visit` with the parts of a range that are the runtime's own.
    pub fn for_each_part_in(&self, start: usize, end: usize, mut visit: impl FnMut(usize, usize)) {
        for i in 0..PIECES {
            let from = self.starts[i].load(SeqCst).max(start);
            let to = self.ends[i].load(Relaxed).min(end);
            if self.starts[i].load(Relaxed) != 0 && from < to {
                visit(from, to);
            }
        }
    }

    fn grow(&self, state: &mut State, at_least: usize) -> Option<()> {
        if state.pieces == PIECES {
            return None;
        }
        let usual = if state.pieces == 0 { FIRST_PIECE } else { LARGE_PIECE };
        let piece = rlimit::memory().map_or(usual, |limit| usual.min(spare_of(limit)));
        let mut want = piece.next_multiple_of(PAGE).max(at_least.next_multiple_of(PAGE));
        self.growing.fetch_add(1, SeqCst);
        let start = loop {
            match sys::map_anonymous(want, prot::NONE) {
                Ok(start) => break Some(start as usize),
                Err(_) if want / 4 >= at_least.max(SMALLEST_PIECE) => want /= 4,
                Err(_) => break None,
            }
        };
        if let Some(start) = start {
            self.ends[state.pieces].store(start + want, Relaxed);
            self.starts[state.pieces].store(start, SeqCst);
        }
        self.growing.fetch_add(1, SeqCst);
        let start = start?;
        // SAFETY: advice about fresh memory of our own; it loses no data. Huge pages would make untouched
        // memory cost something.
        unsafe {
            let _ = sys::madvise(start, want, advice::NOHUGEPAGE);
            let _ = sys::madvise(start, want, advice::DONTDUMP);
        }
        state.pieces += 1;
        (state.next, state.usable, state.end) = (start, start, start + want);
        Some(())
    }

    /// Called when the program's memory is limited to `limit`: unmaps the end of the last piece, which was
    /// not handed out yet. Some of it stays, for requests that must not fail later.
    pub fn shrink(&self, limit: usize) {
        sys::touch_stack();
        let mut state = self.state.lock();
        let keep = state.next.saturating_add(spare_of(limit)).next_multiple_of(PAGE).max(state.usable);
        if state.pieces > 0 && keep < state.end {
            // SAFETY: memory of our own that is not used yet, and never will be: the piece now ends before
            // it.
            if unsafe { sys::munmap(keep, state.end - keep) }.is_ok() {
                self.ends[state.pieces - 1].store(keep, Relaxed);
                state.end = keep;
            }
        }
    }

    /// Number of bytes that were made usable so far.
    pub fn bytes_made_usable(&self) -> usize {
        self.state.lock().made_usable
    }

    /// Whether any byte of the range is the runtime's own.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        (0..PIECES).any(|i| {
            let from = self.starts[i].load(Acquire);
            from != 0 && start < self.ends[i].load(Relaxed) && from < end
        })
    }

    /// Locks the arena until [`Arena::let_go`].
    pub fn hold(&self) {
        core::mem::forget(self.state.lock());
    }

    /// Unlocks the arena.
    ///
    /// # Safety
    /// The same thread must have called [`Arena::hold`].
    pub unsafe fn let_go(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.state.release_forgotten() };
    }

    /// Releases the lock in a forked child.
    ///
    /// # Safety
    /// No thread may have been inside [`Arena::reserve`] at the fork.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe { self.state.reset_in_child() };
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_addresses_are_given_back() {
        let arena = Arena::new();
        let first = arena.reserve(3 * STEP, PAGE).unwrap();
        let end = first as usize + FIRST_PIECE;
        assert!(arena.overlaps(end - PAGE, end));
        arena.shrink(LIMITED * SMALLEST_PIECE);
        let keep = first as usize + 3 * STEP + SMALLEST_PIECE;
        assert!(!arena.overlaps(keep, end) && arena.overlaps(keep - PAGE, keep));
        // The rest is used up first; then another piece is reserved.
        let second = arena.reserve(SMALLEST_PIECE, PAGE).unwrap();
        let third = arena.reserve(PAGE, PAGE).unwrap();
        assert_eq!(second as usize, keep - SMALLEST_PIECE);
        assert!(!(first as usize..keep).contains(&(third as usize)));
        assert_eq!(arena.bytes_made_usable(), 3 * STEP + SMALLEST_PIECE + STEP);
        for place in [first, second, third] {
            // SAFETY: reserved above, and used by no one else.
            unsafe {
                assert_eq!(place.read(), 0);
                place.write(1);
            }
        }
    }
}
