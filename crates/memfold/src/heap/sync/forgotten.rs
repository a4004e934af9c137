//! Sessions and guards that were forgotten (`mem::forget`), not dropped.
//!
//! The participant, the pins and the blocks of a forgotten session stay taken, and so do the nodes of
//! forgotten guards. A caller with exclusive access to the heap knows that no session and no guard lives,
//! since all of them borrow the heap. So everything still taken is released. The memory of the session itself
//! is lost.

use std::sync::atomic::Ordering::Relaxed;

use crate::heap::block::table::Residency;
use crate::heap::core::Core;
use crate::heap::sync::locked;

impl Core {
    /// Releases everything that forgotten sessions and guards hold. The caller has the heap exclusively,
    /// without a session.
    pub fn end_forgotten(&self) {
        self.participants.give_all();
        (0..self.frames.count()).filter_map(|frame| self.frames.get(frame)).for_each(|frame| frame.let_go());
        locked(&self.large).all().for_each(|large| large.let_go());
        let end = locked(&self.rooms).numbers().0;
        for number in 1..end {
            let Some(block) = self.blocks.get(number) else { continue };
            let lock = block.lock();
            if block.state().residency() == Residency::Vacant || block.allocator.load(Relaxed) == 0 {
                continue;
            }
            self.set_allocator(block, 0);
            if block.live.load(Relaxed) > 0 {
                self.list_by_free_space(number, block);
            } else {
                self.vacate(0, number, block, lock);
            }
        }
    }
}
