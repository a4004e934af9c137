//! Pins: blocks that must not leave, because somebody has a pointer into them.
//!
//! Each session has a few slots of its own, so pinning writes to no memory that other threads write to. Who evicts makes the block absent first and
//! looks at all slots then; who pins writes the slot first and looks at the block then. One of them sees the other.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, fence};

use super::segments::Segments;

/// Blocks that one session can pin at a time.
pub const SLOTS: usize = 16;

/// The pins of one session.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Pins {
    blocks: [AtomicU32; SLOTS],
    taken: AtomicBool,
}

impl Pins {
    /// From now on the block does not leave, if it is still there when this returns.
    pub fn set(&self, slot: usize, block: u32) {
        self.blocks[slot].store(block, Relaxed);
        fence(SeqCst);
    }

    /// The slot is free.
    pub fn clear(&self, slot: usize) {
        self.blocks[slot].store(0, Release);
    }

    /// What the slot pins; 0 for nothing.
    pub fn get(&self, slot: usize) -> u32 {
        self.blocks[slot].load(Relaxed)
    }
}

/// The pins of all sessions.
pub struct AllPins {
    sessions: Segments<Pins>,
    /// How many there ever were.
    count: AtomicU32,
    making: Mutex<()>,
}

impl AllPins {
    /// No sessions.
    pub const fn new() -> Self {
        AllPins { sessions: Segments::new(), count: AtomicU32::new(0), making: Mutex::new(()) }
    }

    /// Slots for a new session; `None` if there is no memory.
    pub fn take(&self) -> Option<&Pins> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Relaxed);
        let free =
            (0..count).filter_map(|number| self.sessions.get(number)).find(|pins| !pins.taken.load(Acquire));
        let pins = match free {
            Some(pins) => pins,
            None => {
                let pins = self.sessions.make(count, Pins::default)?;
                self.count.store(count + 1, Release);
                pins
            }
        };
        pins.taken.store(true, Relaxed);
        Some(pins)
    }

    /// The session is over.
    pub fn give(&self, pins: &Pins) {
        (0..SLOTS).for_each(|slot| pins.clear(slot));
        pins.taken.store(false, Release);
    }

    /// Whether a block is pinned that was made absent before.
    pub fn has(&self, block: u32) -> bool {
        let sessions = (0..self.count.load(Acquire)).filter_map(|number| self.sessions.get(number));
        sessions.into_iter().any(|pins| pins.blocks.iter().any(|pinned| pinned.load(Acquire) == block))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.sessions.bytes()
    }
}
