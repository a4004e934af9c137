//! A thread's member: its sessions, and the blocks that it used last.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use memfold::heap::{Error, Handle, Pin, Session};

use crate::bound::{Bound, Seat};

/// The most blocks that a thread keeps.
pub const MOST: usize = 8;

/// The current share of a thread.
#[derive(Clone, Copy)]
pub struct Quota {
    /// Blocks that it keeps.
    pub blocks: usize,
    /// How long it waits for a frame when pins seem to hold all of them.
    pub patience: Duration,
}

/// How often to retry before sleeping between attempts.
const TURNS: u32 = 100;
/// The length of that sleep.
const SLEEP: Duration = Duration::from_micros(100);

/// The member; see the module. One thread uses it at a time: usually its own, or another one to remove pins.
pub struct Member {
    /// They are dropped before the session that they borrow.
    pinned: Vec<Pinned>,
    /// How often a pointer was requested.
    now: u64,
    pinning: Bound,
    /// For everything else.
    bound: Bound,
}

/// A block that stays in place, with the node in it that was requested last.
struct Pinned {
    block: u32,
    /// When the block was last used.
    last: u64,
    node: Handle,
    bytes: *mut u8,
    /// The pin is for writing, so the block counts as changed.
    to_write: bool,
    /// Never read: it holds the block in place.
    _pin: Pin<'static>,
}

// SAFETY: a pin is a part of its session, and both move together; what they refer to in the heap is atomic.
// This type does not follow the pointers: it only returns them.
unsafe impl Send for Member {}

/// The block that a node is in.
///
/// The heap pins blocks, but has no name for them. This function knows how handles are made
/// (`memfold::heap::Handle`); a test compares it with what a session can pin. If it were wrong, pointers
/// would become invalid too early, but never before the time that compll promises.
fn block_of(handle: Handle) -> u32 {
    (handle.to_bits() >> 16) as u32
}

impl Member {
    pub fn new(seat: &Arc<Seat>) -> Result<Self, Error> {
        let (pinning, bound) = (Bound::new(seat)?, Bound::new(seat)?);
        Ok(Member { pinned: Vec::with_capacity(MOST), now: 0, pinning, bound })
    }

    /// Removes pins until `most` are left: those that were used last.
    pub fn trim(&mut self, most: usize) {
        while self.pinned.len() > most {
            let oldest = (0..self.pinned.len()).min_by_key(|&at| self.pinned[at].last);
            oldest.map(|at| self.pinned.swap_remove(at));
        }
    }

    pub fn alloc(&mut self, size: usize, quota: Quota) -> Result<Handle, Error> {
        patiently(quota, || self.bound.alloc(|session| session.alloc(size)))
    }

    pub fn free(&mut self, handle: Handle, quota: Quota) -> Result<(), Error> {
        patiently(quota, || self.bound.session().free(handle))
    }

    /// The address of a node. Its block stays in place while it is among those that were used last.
    pub fn pointer(&mut self, node: Handle, to_write: bool, quota: Quota) -> Result<*mut u8, Error> {
        let block = block_of(node);
        self.now += 1;
        let now = self.now;
        let known = self.pinned.iter_mut().find(|pinned| pinned.block == block);
        if let Some(known) = known {
            known.last = now;
            // The same node again: it is where it was, unless it was freed.
            if known.node == node && (known.to_write || !to_write) {
                let bytes = known.bytes;
                self.bound.session().size(node)?;
                return Ok(bytes);
            }
        } else {
            // The block may need a frame.
            self.trim(quota.blocks - 1);
        }
        // SAFETY: pins are kept in `pinned`, which is dropped before `pinning`; nothing else uses that.
        let session: &'static Session<'static> = unsafe { self.pinning.session_static() };
        let mut pin = patiently(quota, || session.pin(node))?;
        let bytes = if to_write { pin.as_mut_ptr()? } else { pin.as_ptr().cast_mut() };
        let new = Pinned { block, last: now, node, bytes, to_write, _pin: pin };
        match self.pinned.iter_mut().find(|pinned| pinned.block == block) {
            // The new pin holds the block already, so the old one can go.
            Some(known) => *known = Pinned { to_write: to_write || known.to_write, ..new },
            None => self.pinned.push(new),
        }
        Ok(bytes)
    }
}

/// Retries for a while when all frames seem to be pinned: usually another thread is about to release one.
fn patiently<R>(quota: Quota, mut call: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
    let (mut since, mut turn) = (None, 0);
    loop {
        match call() {
            Err(Error::Pinned) if since.get_or_insert_with(Instant::now).elapsed() < quota.patience => {
                turn += 1;
                if turn < TURNS { thread::yield_now() } else { thread::sleep(SLEEP) }
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use memfold::heap::{Heap, Limit, Options};

    use super::*;

    #[test]
    fn blocks_are_what_a_session_pins() {
        for block_size in [1 << 10, 16 << 10, 64 << 10] {
            let options = Options::new().block_size(block_size).limit(Limit::Blocks(64)).codec("lz4");
            let heap = Heap::new(options).unwrap();
            let session = heap.session().unwrap();
            let mut blocks: BTreeMap<u32, Vec<Handle>> = BTreeMap::new();
            for i in 0..200 {
                let node = session.alloc(block_size / 8 - i % 3 * 8 - 8).unwrap();
                blocks.entry(block_of(node)).or_default().push(node);
            }
            assert!((20..=40).contains(&blocks.len()), "{} blocks", blocks.len());
            // A session can pin 16 blocks, and any number of nodes in each.
            let pinned: Vec<&Handle> = blocks.values().take(16).flatten().collect();
            let pins: Vec<Pin<'_>> = pinned.iter().map(|node| session.pin(**node).unwrap()).collect();
            assert!(pins.len() > 60);
            for node in blocks.values().skip(16).flatten() {
                assert_eq!(session.pin(*node).err(), Some(Error::Pinned));
            }
        }
    }
}
