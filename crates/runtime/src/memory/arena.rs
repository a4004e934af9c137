//! The arena: the runtime's own memory. Address space is reserved in pieces, a small one at first, handed out
//! from the front and never freed. Only touched pages cost memory; users discard contents with `madvise`. But
//! where the program's address space is limited, reserved address space counts (see `limits.rs`). So the
//! large pieces wait until paging begins, and when such a limit is set, the part not yet handed out is
//! unmapped.
//!
//! All of the runtime's memory lies here, so comparing a mapping with a few ranges shows whether it is the
//! runtime's own.
//!
//! **Two lanes.** A thread of the program that holds the lock of a lane may fault on its stack, which may
//! have been evicted an instant before. A handler serves the fault under the order lock, and reads the store.
//! So the page table and the store, which grow while those locks are held, take memory from a lane of their
//! own (`reserve_for_pages`), from which no thread of the program takes anything while pages are evicted.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::rlimit;
use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE, advice, prot};
use crate::memory::lock::Lock;
use crate::memory::patience::Patience;

/// Maximum number of reserved pieces.
const PIECES: usize = 64;
/// Size of the first piece, and of those reserved when paging begins; less where address space is limited.
const FIRST_PIECE: usize = 8 << 20;
const LARGE_PIECE: usize = 64 << 30;
/// See [`Arena::wait_while_growing`].
const GROWING_NS: u64 = 100_000_000;
/// Number of looks without a sleep between them, and the sleep, in ns.
const QUICK_LOOKS: usize = 50;
const PAUSE_NS: u64 = 50_000;
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
    /// Pieces of the list that are in use.
    pieces: AtomicUsize,
    /// Number of pieces that are being mapped and are not in the list yet.
    growing: AtomicU32,
    /// Number of bytes that were made usable.
    made_usable: AtomicUsize,
    /// Memory for everything else.
    common: Lock<State>,
    /// Memory for the page table, the journal and the store.
    pages: Lock<State>,
}

struct State {
    /// Number of pieces that this lane got, and the last of them.
    pieces: usize,
    last: usize,
    next: usize,
    /// Memory above this may not be touched yet: a program that locks all of its memory would make all of it
    /// resident.
    usable: usize,
    end: usize,
}

impl State {
    const fn new() -> Self {
        State { pieces: 0, last: 0, next: 0, usable: 0, end: 0 }
    }
}

impl Arena {
    /// Nothing reserved yet.
    pub const fn new() -> Self {
        Arena {
            starts: [const { AtomicUsize::new(0) }; PIECES],
            ends: [const { AtomicUsize::new(0) }; PIECES],
            pieces: AtomicUsize::new(0),
            growing: AtomicU32::new(0),
            made_usable: AtomicUsize::new(0),
            common: Lock::new(State::new()),
            pages: Lock::new(State::new()),
        }
    }

    /// Reserves zeroed memory; `align` is a power of two.
    pub fn reserve(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        sys::touch_stack();
        self.reserve_from(&mut self.common.lock(), bytes, align)
    }

    /// The same for the page table, the journal and the store: it waits for no thread of the program.
    pub fn reserve_for_pages(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        self.reserve_from(&mut self.pages.lock(), bytes, align)
    }

    fn reserve_from(&self, state: &mut State, bytes: usize, align: usize) -> Option<*mut u8> {
        let align = align.max(16);
        let mut start = state.next.next_multiple_of(align);
        if state.end == 0 || start.checked_add(bytes)? > state.end {
            let usual = if state.pieces == 0 { FIRST_PIECE } else { LARGE_PIECE };
            self.grow(state, usual, bytes + align)?;
            start = state.next.next_multiple_of(align);
        }
        let end = start + bytes;
        if end > state.usable {
            let usable = end.next_multiple_of(STEP).min(state.end);
            let (from, more) = (state.usable, usable - state.usable);
            // SAFETY: memory of our own that is not used yet.
            unsafe { sys::mprotect(from, more, prot::READ | prot::WRITE) }.ok()?;
            state.usable = usable;
            self.made_usable.fetch_add(more, Relaxed);
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

    /// As `make`, for the page table.
    ///
    /// # Safety
    /// As `make`.
    pub unsafe fn make_for_pages<T>(&self) -> Option<&'static T> {
        let place = self.reserve_for_pages(size_of::<T>(), align_of::<T>())?;
        // SAFETY: as in `make`.
        Some(unsafe { &*(place as *const T) })
    }

    /// Called before anything is evicted: reserves all that will be needed, unless the program's memory is
    /// limited. From then on, mappings that are listed as the program's hardly ever turn out to be the
    /// runtime's.
    pub fn settle(&self) {
        for (lane, least) in [(&self.common, 2), (&self.pages, 1)] {
            let mut state = lane.lock();
            if state.pieces < least {
                let _ = self.grow(&mut state, LARGE_PIECE, STEP);
            }
        }
    }

    /// Waits until no piece is being mapped that [`Arena::overlaps`] does not know yet. The wait is bounded:
    /// the thread that maps one may be a thread of the program that waits for a page, and the caller may hold
    /// the order lock, without which no page is brought back.
    pub fn wait_while_growing(&self) {
        if self.growing.load(SeqCst) == 0 {
            return;
        }
        let mut patience = Patience::new(GROWING_NS);
        let mut looks = 0;
        while self.growing.load(SeqCst) != 0 && !patience.is_over() {
            looks += 1;
            if looks < QUICK_LOOKS { sched::yield_now() } else { sched::sleep(PAUSE_NS) }
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

    fn grow(&self, state: &mut State, usual: usize, at_least: usize) -> Option<()> {
        let number =
            self.pieces.fetch_update(Relaxed, Relaxed, |count| (count < PIECES).then_some(count + 1)).ok()?;
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
            self.ends[number].store(start + want, Relaxed);
            self.starts[number].store(start, SeqCst);
        }
        self.growing.fetch_sub(1, SeqCst);
        let Some(start) = start else {
            // Its place in the list is of use to others, unless the other lane took the next one meanwhile.
            let _ = self.pieces.compare_exchange(number + 1, number, Relaxed, Relaxed);
            return None;
        };
        // SAFETY: advice about fresh memory of our own; it loses no data. Huge pages would make untouched
        // memory cost something.
        unsafe {
            let _ = sys::madvise(start, want, advice::NOHUGEPAGE);
            let _ = sys::madvise(start, want, advice::DONTDUMP);
        }
        (state.pieces, state.last) = (state.pieces + 1, number);
        (state.next, state.usable, state.end) = (start, start, start + want);
        Some(())
    }

    /// Called by the keeper when the program's memory is limited to `limit`: unmaps the ends of the last
    /// pieces, which were not handed out yet. Some of each stays, for requests that must not fail later.
    pub fn shrink(&self, limit: usize) {
        sys::touch_stack();
        self.shrink_lane(&mut self.common.lock(), limit);
        self.shrink_lane(&mut self.pages.lock(), limit);
    }

    fn shrink_lane(&self, state: &mut State, limit: usize) {
        let keep = state.next.saturating_add(spare_of(limit)).next_multiple_of(PAGE).max(state.usable);
        if state.pieces > 0 && keep < state.end {
            // SAFETY: memory of our own that is not used yet, and never will be: the piece now ends before
            // it.
            if unsafe { sys::munmap(keep, state.end - keep) }.is_ok() {
                self.ends[state.last].store(keep, Relaxed);
                state.end = keep;
            }
        }
    }

    /// Number of bytes that were made usable so far.
    pub fn bytes_made_usable(&self) -> usize {
        self.made_usable.load(Relaxed)
    }

    /// Whether any byte of the range is the runtime's own.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        (0..PIECES).any(|i| {
            let from = self.starts[i].load(Acquire);
            from != 0 && start < self.ends[i].load(Relaxed) && from < end
        })
    }

    /// Locks the arena until [`Arena::let_go`]. Nothing may be evicted meanwhile.
    pub fn hold(&self) {
        core::mem::forget(self.common.lock());
        core::mem::forget(self.pages.lock());
    }

    /// Unlocks the arena.
    ///
    /// # Safety
    /// The same thread must have called [`Arena::hold`].
    pub unsafe fn let_go(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            self.pages.release_forgotten();
            self.common.release_forgotten();
        }
    }

    /// Releases the locks in a forked child.
    ///
    /// # Safety
    /// No thread may have been inside [`Arena::reserve`] or [`Arena::reserve_for_pages`] at the fork.
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            self.common.reset_in_child();
            self.pages.reset_in_child();
        }
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
    fn pages_do_not_wait_for_other_memory() {
        let arena = Arena::new();
        arena.settle();
        let held = arena.common.lock();
        let place = arena.reserve_for_pages(PAGE, PAGE).unwrap() as usize;
        drop(held);
        let other = arena.reserve(PAGE, PAGE).unwrap() as usize;
        assert!(arena.overlaps(place, place + PAGE) && arena.overlaps(other, other + PAGE) && place != other);
        let mut parts = 0;
        arena.for_each_part_in(0, usize::MAX, |_, _| parts += 1);
        assert_eq!((parts, arena.bytes_made_usable()), (2, 2 * STEP));
    }

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
