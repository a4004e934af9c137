//! A thread's part: its sessions, and the blocks that it used last.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use memfold::heap::{Error, Handle, Pin, Session};

use crate::bound::{Bound, Seat};

/// What a thread may have just now.
#[derive(Clone, Copy)]
pub struct Quota {
    /// Blocks that it keeps.
    pub blocks: usize,
    /// How long it waits for a frame when pins seem to hold all of them.
    pub patience: Duration,
}

/// Turns of waiting before a thread sleeps between them.
const TURNS: u32 = 100;
/// For so long.
const SLEEP: Duration = Duration::from_micros(100);

/// See the module. One thread uses it at a time, mostly its own; another one to take pins off.
pub struct Member {
    /// The last one first. They go before the session that they borrow.
    pinned: Vec<Pinned>,
    pinning: Bound,
    /// For everything else.
    bound: Bound,
}

struct Pinned {
    block: u32,
    /// Held, not used. Of the node that was asked for last; it keeps the whole block.
    _pin: Pin<'static>,
}

// SAFETY: a pin is a part of its session, and both go together; what they refer to in the heap is atomic.
unsafe impl Send for Member {}

/// The block that a node is in.
///
/// The heap pins blocks, but has no name for them. This knows how handles are made (`memfold::heap::Handle`); a test compares it with what a session can
/// pin. Were it wrong, pointers would live shorter than they should, but never shorter than compll says.
fn block_of(handle: Handle) -> u32 {
    (handle.to_bits() >> 16) as u32
}

impl Member {
    pub fn new(seat: &Arc<Seat>) -> Result<Self, Error> {
        Ok(Member { pinned: Vec::new(), pinning: Bound::new(seat)?, bound: Bound::new(seat)? })
    }

    /// Takes pins off until `most` are left.
    pub fn trim(&mut self, most: usize) {
        self.pinned.truncate(most);
    }

    pub fn alloc(&mut self, size: usize, quota: Quota) -> Result<Handle, Error> {
        patiently(quota, || self.bound.alloc(|session| session.alloc(size)))
    }

    pub fn free(&mut self, handle: Handle, quota: Quota) -> Result<(), Error> {
        patiently(quota, || self.bound.session().free(handle))
    }

    /// Where the node is. Its block stays as long as it is among those that were used last.
    pub fn pointer(&mut self, handle: Handle, to_write: bool, quota: Quota) -> Result<*mut u8, Error> {
        let block = block_of(handle);
        let known = self.pinned.iter().position(|pinned| pinned.block == block);
        // One less while another comes: there must be a frame for it.
        self.trim(if known.is_some() { quota.blocks } else { quota.blocks - 1 });
        // SAFETY: pins are kept in `pinned`, which goes before `pinning`; nothing else is done with that.
        let session: &'static Session<'static> = unsafe { self.pinning.session_static() };
        let mut pin = patiently(quota, || session.pin(handle))?;
        let bytes = if to_write { pin.as_mut_ptr()? } else { pin.as_ptr().cast_mut() };
        self.pinned.insert(0, Pinned { block, _pin: pin });
        // The new one holds the block by now.
        if let Some(at) = self.pinned.iter().skip(1).position(|pinned| pinned.block == block) {
            self.pinned.remove(at + 1);
        }
        Ok(bytes)
    }
}

/// Tries again for a while when all frames seem to be pinned: mostly another thread is about to put one back.
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
