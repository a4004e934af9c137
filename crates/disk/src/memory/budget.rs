//! Memory within a limit: everything that the device uses is allocated here and counted.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use memfold::SystemMemory;
use memfold::store::Memory;

use crate::locked;

thread_local! {
    /// This thread makes room and may use the reserve.
    static MAKES_ROOM: Cell<bool> = const { Cell::new(false) };
}

/// The system's memory, up to a limit.
///
/// A part of the limit, the **reserve**, is kept for the thread that makes room: making a block denser needs
/// room for its new form while the old one still exists. (In CRAMES, section 5, a device and a program
/// deadlock without such a reserve.)
pub struct Budget {
    system: SystemMemory,
    limit: AtomicU64,
    used: AtomicU64,
    most: AtomicU64,
    ballast: Mutex<Ballast>,
}

/// Memory that is allocated only to be given up when the system has none left.
#[derive(Default)]
struct Ballast {
    pieces: Vec<NonNull<u8>>,
    wanted: usize,
}

// SAFETY: nothing reads or writes the memory.
unsafe impl Send for Ballast {}

/// Bytes per piece of ballast.
const PIECE: usize = 1 << 20;

/// The reserve is this fraction of the limit,
const RESERVE: u64 = 64;
/// but at least this much.
const LEAST_RESERVE: u64 = 512 << 10;

impl Budget {
    /// A budget of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Budget {
            system: SystemMemory::new(),
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            most: AtomicU64::new(0),
            ballast: Mutex::default(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The peak of the bytes in use.
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// The bytes that a thread that does not make room may use.
    pub fn open(&self) -> u64 {
        let limit = self.limit();
        limit - (limit / RESERVE).max(LEAST_RESERVE).min(limit / 4)
    }

    /// Whether half of the reserve is left. The other half is for memory that making room itself needs.
    pub fn has_reserve(&self) -> bool {
        self.used() <= self.open() + (self.limit() - self.open()) / 2
    }

    /// Allocates this much ballast, which counts towards the limit; false if that fails.
    pub fn load(&self, bytes: u64) -> bool {
        let mut ballast = locked(&self.ballast);
        ballast.wanted = (bytes as usize).div_ceil(PIECE);
        // Giving up a piece must not need memory.
        let wanted = ballast.wanted;
        ballast.pieces.reserve(wanted);
        drop(ballast);
        self.reload()
    }

    /// Reallocates the ballast that was given up; false if the system does not have enough. For callers that can
    /// wait.
    pub fn reload(&self) -> bool {
        loop {
            {
                let ballast = locked(&self.ballast);
                if ballast.pieces.len() >= ballast.wanted {
                    return true;
                }
            }
            let Some(piece) = self.system.reserve(PIECE) else { return false };
            // SAFETY: just reserved, and nothing else uses it.
            if !unsafe { self.commit_counted(piece, PIECE) } {
                // SAFETY: as above.
                unsafe { self.system.unreserve(piece, PIECE) };
                return false;
            }
            locked(&self.ballast).pieces.push(piece);
        }
    }

    /// Gives up a piece; false if none is left.
    fn drop_piece(&self) -> bool {
        let piece = locked(&self.ballast).pieces.pop();
        if let Some(piece) = piece {
            // SAFETY: reserved with this length, and nothing else uses it.
            unsafe { self.system.unreserve(piece, PIECE) };
            self.give(PIECE as u64);
        }
        piece.is_some()
    }

    /// # Safety
    /// As for [`Memory::commit`].
    unsafe fn commit_counted(&self, start: NonNull<u8>, bytes: usize) -> bool {
        if !self.take(bytes as u64) {
            return false;
        }
        // SAFETY: as the caller guarantees.
        let committed = unsafe { self.system.commit(start, bytes) };
        if !committed {
            self.give(bytes as u64);
        }
        committed
    }

    /// Counts memory that comes from elsewhere; false if that exceeds the limit.
    pub fn take(&self, bytes: u64) -> bool {
        let most = if MAKES_ROOM.get() { self.limit() } else { self.open() };
        let taken = self
            .used
            .fetch_update(Relaxed, Relaxed, |used| used.checked_add(bytes).filter(|&used| used <= most));
        if let Ok(before) = taken {
            self.most.fetch_max(before + bytes, Relaxed);
        }
        taken.is_ok()
    }

    /// Counts memory that exists in any case.
    pub fn force(&self, bytes: u64) {
        let before = self.used.fetch_add(bytes, Relaxed);
        self.most.fetch_max(before + bytes, Relaxed);
    }

    /// Subtracts memory that was released.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Runs `f`, which makes room and may use the reserve.
    pub fn making_room<R>(f: impl FnOnce() -> R) -> R {
        let before = MAKES_ROOM.replace(true);
        let result = f();
        MAKES_ROOM.set(before);
        result
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        while self.drop_piece() {}
    }
}

// SAFETY: all memory is the system's; refused memory was not touched.
unsafe impl Memory for Budget {
    fn page_size(&self) -> usize {
        self.system.page_size()
    }

    fn reserve(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.system.reserve(bytes)
    }

    // SAFETY: the caller guarantees what `Memory` says; so for the functions below.
    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        loop {
            // SAFETY: as the caller guarantees.
            if unsafe { self.commit_counted(start, bytes) } {
                return true;
            }
            // If the limit allows it but the system has no memory left, ballast is given up.
            if self.used() + bytes as u64 > self.open() || !self.drop_piece() {
                return false;
            }
        }
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller guarantees.
        unsafe { self.system.release(start, bytes) };
        self.give(bytes as u64);
    }

    unsafe fn unreserve(&self, start: NonNull<u8>, bytes: usize) {
        // The count is not updated: memory is unreserved only when the whole budget ends.
        // SAFETY: as the caller guarantees.
        unsafe { self.system.unreserve(start, bytes) };
    }

    fn wait(&self, word: &AtomicU32, value: u32) {
        self.system.wait(word, value);
    }

    fn wake(&self, word: &AtomicU32) {
        self.system.wake(word);
    }
}
