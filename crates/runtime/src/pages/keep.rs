//! Addresses that are never evicted: control blocks and thread-local storage of threads, and robust mutexes that
//! ended threads have held (see `preload/ending.rs`). (Ranges that the
//! program has locked are in `interpose/mappings/ranges.rs`.)
//!
//! The kernel writes to a control block when its thread ends, and a fault cannot be served then. The control
//! block of a thread that has ended is kept, too: the C library keeps its stack for the next thread, in a
//! list that runs through the control blocks, and walks that list in a forked child before any handler
//! exists. Pages that were evicted before their range was kept are restored before a fork.
//!
//! ```text
//!   buckets: by block ──> piece ──> piece ──> ...        a range has a piece in each of its blocks
//!   pieces:  | 512 from the start | chunk of 4096 | chunk of 4096 | ...
//! ```
//!
//! Ranges are never removed: a program with a million threads alive at the same time has a million pieces,
//! and each lookup visits those of one bucket.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::addresses::BLOCK;
use crate::kernel::sys::{self};
use crate::memory::arena::Arena;

/// Number of pieces that need no memory of the arena.
const FIRST: usize = 512;
const CHUNK: usize = 4096;
const CHUNKS: usize = 512;
const BUCKETS: usize = 1024;

/// The part of a range that lies in one block.
#[repr(C)]
struct Piece {
    start: AtomicUsize,
    end: AtomicUsize,
    /// The thread pointer of the range, odd if it belongs to no thread; 0 for all but one of its pieces.
    thread: AtomicUsize,
    /// The next piece of the bucket: its number plus 1; 0 if there is none.
    next: AtomicU32,
    /// The piece is complete.
    ready: AtomicBool,
}

impl Piece {
    const fn new() -> Self {
        Piece {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            thread: AtomicUsize::new(0),
            next: AtomicU32::new(0),
            ready: AtomicBool::new(false),
        }
    }
}

#[repr(C)]
struct Chunk([Piece; CHUNK]);

/// See the module.
pub struct KeepOut {
    first: [Piece; FIRST],
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    /// The last piece of each bucket: its number plus 1.
    buckets: [AtomicU32; BUCKETS],
    count: AtomicUsize,
    threads: AtomicUsize,
    /// There was no room for another piece: nothing may be evicted any more.
    overflow: AtomicBool,
}

fn bucket_of(address: usize) -> usize {
    // Stacks lie side by side, so adjacent blocks are in different buckets.
    address / BLOCK % BUCKETS
}

impl KeepOut {
    /// No ranges.
    pub const fn new() -> Self {
        KeepOut {
            first: [const { Piece::new() }; FIRST],
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS],
            buckets: [const { AtomicU32::new(0) }; BUCKETS],
            count: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            overflow: AtomicBool::new(false),
        }
    }

    /// Adds the range of a thread, permanently. The first time that a range cannot be recorded, this returns
    /// `false`: from then on no page may be evicted.
    pub fn add(&self, arena: &Arena, start: usize, end: usize, thread: usize) -> bool {
        let (start, end) = (start & !(sys::PAGE - 1), end.next_multiple_of(sys::PAGE));
        if self.knows(start, end, thread) {
            return true;
        }
        let mut recorded = true;
        self.threads.fetch_add(1, AcqRel);
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let (from, to) = (start.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let thread = if (from..to).contains(&thread) { thread } else { 0 };
            if self.add_piece(arena, from, to, thread).is_none() && !self.overflow.swap(true, AcqRel) {
                recorded = false;
            }
        }
        recorded
    }

    /// Adds a range that belongs to no thread, permanently. Returns as [`add`](Self::add).
    pub fn add_pages(&self, arena: &Arena, start: usize, end: usize) -> bool {
        // An odd number stands for a thread that is none: thread pointers are even.
        self.add(arena, start, end, start | 1)
    }

    fn add_piece(&self, arena: &Arena, start: usize, end: usize, thread: usize) -> Option<()> {
        let number = self.count.load(Acquire);
        if number >= FIRST + CHUNKS * CHUNK {
            return None;
        }
        let number = self.count.fetch_add(1, AcqRel);
        let piece = self.piece(number).or_else(|| {
            // A signal handler that starts a thread takes the same lock, so signals are blocked meanwhile.
            let mask = sys::block_signals();
            // SAFETY: a chunk of numbers is all zeros.
            let made = unsafe { arena.make::<Chunk>() };
            sys::restore_signals(mask);
            let place = self.chunks.get((number - FIRST) / CHUNK)?;
            let made = made? as *const Chunk as *mut Chunk;
            // If another thread was faster, its chunk is used, and this one wastes some address space.
            let _ = place.compare_exchange(core::ptr::null_mut(), made, AcqRel, Acquire);
            self.piece(number)
        })?;
        piece.start.store(start, Relaxed);
        piece.end.store(end, Relaxed);
        piece.thread.store(thread, Relaxed);
        piece.ready.store(true, Release);
        let bucket = &self.buckets[bucket_of(start)];
        let _ = bucket.fetch_update(AcqRel, Acquire, |last| {
            piece.next.store(last, Relaxed);
            Some(number as u32 + 1)
        });
        Some(())
    }

    fn piece(&self, number: usize) -> Option<&Piece> {
        if let Some(piece) = self.first.get(number) {
            return Some(piece);
        }
        let chunk = self.chunks.get((number - FIRST) / CHUNK)?.load(Acquire);
        // SAFETY: chunks are made zeroed from the arena and never unmapped.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk.0[(number - FIRST) % CHUNK])
    }

    /// The pieces in a block, and some pieces of other blocks.
    fn near(&self, address: usize) -> impl Iterator<Item = &Piece> {
        let mut next = self.buckets[bucket_of(address)].load(Acquire);
        core::iter::from_fn(move || {
            let piece = self.piece((next as usize).checked_sub(1)?)?;
            next = piece.next.load(Relaxed);
            Some(piece)
        })
    }

    fn knows(&self, start: usize, end: usize, thread: usize) -> bool {
        // A range was added completely if the piece with its thread pointer has the expected bounds.
        let block = thread / BLOCK * BLOCK;
        let (from, to) = (start.max(block), end.min(block + BLOCK));
        self.near(thread).any(|piece| {
            piece.thread.load(Relaxed) == thread
                && piece.start.load(Relaxed) == from
                && piece.end.load(Relaxed) == to
        })
    }

    /// Whether a thread with this pointer was ever known.
    pub fn knows_thread(&self, thread: usize) -> bool {
        self.near(thread).any(|piece| piece.thread.load(Relaxed) == thread)
    }

    fn all(&self) -> impl Iterator<Item = &Piece> {
        let pieces = (0..self.count.load(Acquire)).map_while(|number| self.piece(number));
        pieces.filter(|piece| piece.ready.load(Acquire))
    }

    /// Calls `visit` with every kept range, or with its parts.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        self.all().for_each(|piece| visit(piece.start.load(Relaxed), piece.end.load(Relaxed)));
    }

    /// Calls `visit` with the thread pointer of every thread that was ever known.
    pub fn for_each_thread(&self, mut visit: impl FnMut(usize)) {
        let is_thread = |thread: &usize| *thread != 0 && thread.is_multiple_of(2);
        self.all().map(|piece| piece.thread.load(Relaxed)).filter(is_thread).for_each(&mut visit);
    }

    /// Number of threads that were ever known.
    pub fn count(&self) -> usize {
        self.threads.load(Acquire)
    }

    /// The first kept range that begins before `end` and ends after `start`. For a range in several blocks,
    /// it is the part in one block.
    pub fn first_in(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        if self.overflow.load(Relaxed) {
            return Some((start, end));
        }
        (start / BLOCK..end.div_ceil(BLOCK)).find_map(|block| {
            let ranges =
                self.near(block * BLOCK).map(|piece| (piece.start.load(Relaxed), piece.end.load(Relaxed)));
            ranges.filter(|(from, to)| *from < end && start < *to && from / BLOCK == block).min()
        })
    }
}

impl Default for KeepOut {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::sys::PAGE;
    use std::boxed::Box;
    use std::vec::Vec;

    fn keep_out() -> Box<KeepOut> {
        // SAFETY: it consists of numbers, pointers that may be null, and booleans.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn ten_thousand_threads_are_known_and_found() {
        let (arena, kept) = (Arena::new(), keep_out());
        // Stacks of 17 pages, whose control blocks lie at any place in a block; some cross a block boundary.
        let range = |number: usize| {
            let start = BLOCK + number * 17 * PAGE;
            (start, start + 2 * PAGE, start + PAGE + 64)
        };
        for _ in 0..2 {
            for (start, end, thread) in (0..10_000).map(range) {
                assert!(kept.add(&arena, start, end, thread));
            }
            assert_eq!(kept.count(), 10_000);
        }
        for number in 0..10_000 {
            let (start, end, thread) = range(number);
            assert!(kept.knows_thread(thread) && !kept.knows_thread(thread + 8));
            let boundary = end.min((start / BLOCK + 1) * BLOCK);
            assert_eq!(kept.first_in(start + 5, start + 6), Some((start, boundary)));
            assert_eq!(kept.first_in(start - 3 * PAGE, start), None);
            assert_eq!(kept.first_in(start - 3 * PAGE, start + 30 * PAGE), Some((start, boundary)));
            if boundary < end {
                assert_eq!(kept.first_in(boundary, boundary + PAGE), Some((boundary, end)));
            }
        }
        let mut threads = Vec::new();
        kept.for_each_thread(|thread| threads.push(thread));
        threads.sort_unstable();
        assert_eq!(threads, (0..10_000).map(|number| range(number).2).collect::<Vec<_>>());
        let mut bytes = 0;
        kept.for_each(|start, end| bytes += end - start);
        assert_eq!(bytes, 20_000 * PAGE);
    }

    #[test]
    fn threads_that_begin_at_the_same_time_are_all_known() {
        let (arena, kept) = (Arena::new(), keep_out());
        std::thread::scope(|scope| {
            for part in 1..=4 {
                let (arena, kept) = (&arena, &kept);
                scope.spawn(move || {
                    for number in 0..3000 {
                        let start = (part << 40) + number * 16 * PAGE;
                        assert!(kept.add(arena, start, start + PAGE, start + 8));
                    }
                });
            }
        });
        assert_eq!(kept.count(), 12_000);
        for start in (1..=4).flat_map(|part| (0..3000).map(move |number| (part << 40) + number * 16 * PAGE)) {
            assert_eq!(kept.first_in(start, start + PAGE), Some((start, start + PAGE)));
        }
    }
}
