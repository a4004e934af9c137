//! The heap's own thread: it evicts ahead of need and loads ahead of use.
//!
//! A thread that needs a frame has to evict and compress a block, unless this thread has already done so: it
//! keeps a few frames free. When a block is faulted in, this thread may also fault in the blocks that are
//! likely to be next: its neighbours, or those that the requested node links to. This thread claims blocks as
//! sessions do: it takes no block that is pinned or being written.

use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::vec::Vec;

use crate::heap::block::handle::Handle;
use crate::heap::block::table::Residency;
use crate::heap::core::Core;
use crate::heap::options::Ahead;
use crate::heap::residency::headroom;
use crate::heap::sync::locked;

/// How many frames should be free: one in this many of those allowed, and no more than this.
const RESERVE: u32 = 8;
const MOST_RESERVE: u32 = 4;
/// The most nodes that wait to be looked at. Further ones are dropped: loading for them would come too late.
const MOST_WAITING: usize = 64;

/// The thread; it ends when this is dropped.
pub struct Background {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
    /// The process that started it; a forked child has no such thread.
    process: u32,
}

impl Background {
    /// Starts the thread; an error if the system refuses one.
    pub fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let shared = Arc::clone(core);
        let thread =
            thread::Builder::new().name("memfold-heap".into()).spawn(move || shared.work_in_background())?;
        Ok(Background { core: Arc::clone(core), thread: Some(thread), process: std::process::id() })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.thread.take());
            return;
        }
        locked(&self.core.board.work).stop = true;
        self.core.board.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // An error only says that the thread has panicked.
            let _ = thread.join();
        }
    }
}

impl Core {
    /// Reports that an access to a node faulted its block in.
    pub fn tell_fault(&self, handle: Handle) {
        if self.options.ahead != Ahead::Off {
            let mut work = locked(&self.board.work);
            if work.faults.len() < MOST_WAITING {
                work.faults.push_back(handle);
                self.board.wake.notify_one();
            }
        }
    }

    /// Reports that a free frame was taken, and how many are left.
    pub fn tell_taken(&self, left: usize, allowed: u32) {
        if self.options.background && left < reserve(allowed) {
            locked(&self.board.work).make_room = true;
            self.board.wake.notify_one();
        }
    }

    fn work_in_background(&self) {
        loop {
            let (fault, make_room) = {
                let mut work = locked(&self.board.work);
                while work.faults.is_empty() && !work.make_room && !work.stop {
                    if !self.options.background || !self.limit().follows_free() {
                        work = self.board.wake.wait(work).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    }
                    let waited = self.board.wake.wait_timeout(work, headroom::BACKGROUND);
                    let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    work = back;
                    if timeout.timed_out() {
                        break;
                    }
                }
                if work.stop {
                    return;
                }
                (work.faults.pop_front(), std::mem::take(&mut work.make_room))
            };
            let _working = locked(&self.board.working);
            self.give_back();
            if make_room {
                self.make_room();
            }
            if let Some(handle) = fault {
                self.load_ahead(handle);
            }
        }
    }

    /// If memory has become short, gives back what the heap has beyond its limit, even when no thread asks
    /// for a frame.
    fn give_back(&self) {
        if self.limit().follows_free() {
            self.follow_free();
            let kept = self.frames_retained(self.frames_allowed());
            drop(self.shrink(0, locked(&self.pool), kept));
        }
    }

    /// Evicts until enough frames are free.
    fn make_room(&self) {
        let allowed = self.frames_allowed();
        loop {
            let pool = locked(&self.pool);
            let enough = pool.made < allowed || pool.free.len() >= reserve(allowed);
            // The rest is left to the thread that needs a frame.
            if enough || !self.evict_to_free(pool) {
                return;
            }
        }
    }

    /// Faults in the blocks that are likely to be used after this node's.
    fn load_ahead(&self, handle: Handle) {
        let numbers: Vec<u32> = match &self.options.ahead {
            Ahead::Off => Vec::new(),
            Ahead::Neighbours(count) => {
                (1..=*count).filter_map(|next| handle.block().checked_add(next)).collect()
            }
            Ahead::Links(offsets) => {
                offsets.iter().filter_map(|&offset| self.link(handle, offset)).map(Handle::block).collect()
            }
        };
        // Blocks loaded ahead must not evict the blocks that are used together with them.
        let most = (self.frames_allowed() / 4) as usize;
        for number in numbers.into_iter().take(most) {
            let Some(block) = self.blocks.get(number) else { continue };
            let Some(_lock) = block.try_lock() else { continue };
            if block.state().residency() == Residency::Absent && self.resident(0, number, block).is_ok() {
                self.counts.ahead.fetch_add(1, Relaxed);
            }
        }
    }

    /// The handle stored in a node, if the node is resident and the bytes look like a handle.
    fn link(&self, handle: Handle, offset: u32) -> Option<Handle> {
        let block = self.blocks.get(handle.block())?;
        let state = block.state();
        let (Residency::Resident(_), stripe_place) = (state.residency(), handle.place()) else { return None };
        let translation =
            self.translation_of(0, handle).ok().filter(|translation| translation.leads_to(handle))?;
        let stripe = translation.frame.stripe(stripe_place);
        let sequence = stripe.sequence()?;
        let mut bits = [0; 8];
        let copied = crate::heap::access::bytes::Bytes::in_frame(translation.find(handle)?)
            .copy_to(offset as usize, &mut bits);
        let good = stripe.is_still(sequence) && translation.is_good();
        Handle::from_bits(u64::from_ne_bytes(bits)).filter(|_| copied && good)
    }
}

fn reserve(allowed: u32) -> usize {
    (allowed / RESERVE).min(MOST_RESERVE) as usize
}
