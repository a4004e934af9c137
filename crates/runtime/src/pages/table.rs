//! The page table of the runtime: the state of each page that was evicted.
//!
//! ```text
//! directory: 8192 x -> region (16 GiB): 8192 x -> Block (2 MiB): 512 entries
//!
//! entry   0                      the page is resident, or was never touched
//!         bit 62 | slot          on standby, at the same offset in that slot
//!         bit 61                 compressed: a page of zeros, nothing stored
//!         bit 61 | SpillLocation spilled: at this place of this batch (see `spill/`)
//!         Ref (60 bits)          compressed: in the store
//!         bit 63 | Ref           the same, and a thread reads it: it must not move
//! ```
//!
//! Blocks are never unmapped, so a stale pointer to one is harmless. `entry.rs` describes how entries change.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::kernel::addresses::{BLOCK, END, PAGES, index_in_block};
use crate::memory::arena::Arena;
use crate::pages::clean::Clean;
pub use crate::pages::entry::{Entry, State};
use crate::pages::marks::Marks;

const FAN: usize = 8192;
/// A block that is always in use is evicted once in 2^`HOTTEST` rounds.
const HOTTEST: u32 = 5;
const _: () = assert!(END == FAN * FAN * BLOCK);

/// The entries of 2 MiB of addresses.
#[repr(C, align(64))]
pub struct Block {
    /// One entry for each page.
    pub entries: [Entry; PAGES],
    /// Number of entries that are not empty; a hint, exact under the order lock.
    pub evicted: AtomicU32,
    /// Pages compressed by the fast codec since the dense tier has last looked; a hint.
    pub fast: AtomicU32,
    /// How many times in a row most of its pages were touched while on standby.
    pub heat: AtomicU32,
    /// Number of the hand's rounds for which it is skipped.
    pub rest: AtomicU32,
    /// Pages that did not compress when last tried: see `incompressible.rs`.
    pub marks: Marks,
    /// Pages that this process has compressed since it last forked, or was forked.
    own: Own,
    /// See `clean`; null until it is needed.
    clean: AtomicPtr<Clean>,
    /// Some of it was unmapped since it was last registered: a mapping there now may be new. A hint.
    pub stale: AtomicBool,
    /// Its former base address, once it is condemned.
    pub base: AtomicUsize,
    /// The next block in the list of free or condemned blocks.
    pub next: AtomicPtr<Block>,
}

/// A bit for each page whose blob no other process shares.
#[repr(C)]
struct Own {
    /// The number of forks for which the bits are valid; otherwise they are void.
    forks: AtomicU32,
    bits: [AtomicU64; PAGES / 64],
}

#[repr(C)]
struct Region {
    blocks: [AtomicPtr<Block>; FAN],
}

/// See the module.
pub struct Table {
    regions: [AtomicPtr<Region>; FAN],
}

impl Block {
    /// Whether it is skipped this time.
    pub fn rests(&self) -> bool {
        self.rest.fetch_update(Relaxed, Relaxed, |rounds| rounds.checked_sub(1)).is_ok()
    }

    /// The blobs kept for its clean pages.
    pub fn clean(&self) -> Option<&'static Clean> {
        // SAFETY: made zeroed from the arena, and never unmapped.
        unsafe { self.clean.load(Acquire).as_ref() }
    }

    /// The same, made if needed; `None` if there is no memory. Only under the order lock.
    pub fn make_clean(&self, arena: &Arena) -> Option<&'static Clean> {
        if self.clean().is_none() {
            // SAFETY: all zeros mean that there are no blobs.
            let made = unsafe { arena.make_for_pages::<Clean>() }?;
            self.clean.store(made as *const Clean as *mut Clean, Release);
        }
        self.clean()
    }

    /// Records that this process has compressed the page. `forks` counts how many times it has forked or been
    /// forked.
    pub fn set_own(&self, index: usize, forks: u32) {
        if self.own.forks.swap(forks, Relaxed) != forks {
            self.own.bits.iter().for_each(|word| word.store(0, Relaxed));
        }
        self.own.bits[index / 64].fetch_or(1 << (index % 64), Relaxed);
    }

    /// Whether the blob of a page was made before the last fork, so that another process shares it.
    pub fn is_inherited(&self, index: usize, forks: u32) -> bool {
        forks != 0
            && (self.own.forks.load(Relaxed) != forks
                || self.own.bits[index / 64].load(Relaxed) >> (index % 64) & 1 == 0)
    }

    /// Learns from the block's time on standby.
    pub fn judge(&self, taken: u32, rescued: u32) {
        let heat = if rescued * 2 > taken { (self.heat.load(Relaxed) + 1).min(HOTTEST) } else { 0 };
        self.heat.store(heat, Relaxed);
        self.rest.store(if heat == 0 { 0 } else { 1 << heat }, Relaxed);
    }
}

impl Table {
    /// An empty table.
    pub const fn new() -> Self {
        Table { regions: [const { AtomicPtr::new(core::ptr::null_mut()) }; FAN] }
    }

    fn cell(&self, address: usize) -> Option<&AtomicPtr<Block>> {
        let block = address / BLOCK;
        let region = self.regions.get(block / FAN)?.load(Acquire);
        // SAFETY: regions are made zeroed from the arena and never unmapped.
        unsafe { region.as_ref() }.map(|region| &region.blocks[block % FAN])
    }

    /// The block that contains `address`, if a page of it was ever evicted.
    pub fn block(&self, address: usize) -> Option<&'static Block> {
        // SAFETY: blocks are made zeroed from the arena and never unmapped.
        self.cell(address).and_then(|cell| unsafe { cell.load(Acquire).as_ref() })
    }

    /// The entry of the page at `address`.
    pub fn entry(&self, address: usize) -> Option<&'static Entry> {
        self.block(address).map(|block| &block.entries[index_in_block(address)])
    }

    /// The block that contains `address`, made if needed. Only under the order lock.
    pub fn make_block(
        &self,
        address: usize,
        arena: &Arena,
        spare: &mut SpareBlocks,
    ) -> Option<&'static Block> {
        if let Some(block) = self.block(address) {
            return Some(block);
        }
        let number = address / BLOCK;
        let slot = self.regions.get(number / FAN)?;
        if slot.load(Acquire).is_null() {
            // SAFETY: all zeros are a region of null pointers.
            let region = unsafe { arena.make_for_pages::<Region>() }?;
            slot.store(region as *const Region as *mut Region, Release);
        }
        let block = spare.take(arena)?;
        self.cell(address)?.store(block as *const Block as *mut Block, Release);
        Some(block)
    }

    /// Takes a block out of the table. Only under the order lock.
    pub fn detach(&self, address: usize) -> Option<&'static Block> {
        let block = self.cell(address)?.swap(core::ptr::null_mut(), AcqRel);
        // SAFETY: as in `block`.
        unsafe { block.as_ref() }
    }

    /// Calls `visit` with the base address of every block in the range.
    pub fn for_each_block(&self, start: usize, end: usize, mut visit: impl FnMut(usize, &'static Block)) {
        let _ = self.visit_blocks(start, end, |base, block| {
            visit(base, block);
            ControlFlow::Continue(())
        });
    }

    /// Like `for_each_block`, until `visit` breaks off. It goes over every place for a block in every region
    /// in use, so it is too slow to call on each fault.
    pub fn visit_blocks(
        &self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(usize, &'static Block) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let last = end.min(END).div_ceil(BLOCK);
        let mut number = start / BLOCK;
        while number < last {
            if self.regions[number / FAN].load(Acquire).is_null() {
                number = (number / FAN + 1) * FAN;
                continue;
            }
            if let Some(block) = self.block(number * BLOCK) {
                visit(number * BLOCK, block)?;
            }
            number += 1;
        }
        ControlFlow::Continue(())
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

/// Blocks that were used and are free again.
pub struct SpareBlocks {
    first: *mut Block,
}

// SAFETY: the list is reached only through the order lock.
unsafe impl Send for SpareBlocks {}

impl SpareBlocks {
    /// An empty list.
    pub const fn new() -> Self {
        SpareBlocks { first: core::ptr::null_mut() }
    }

    fn take(&mut self, arena: &Arena) -> Option<&'static Block> {
        self.pop().or_else(|| {
            // SAFETY: all zeros are a block of empty entries.
            unsafe { arena.make_for_pages::<Block>() }
        })
    }

    /// Adds a block whose entries are still in use.
    pub fn put_full(&mut self, block: &'static Block) {
        block.next.store(self.first, Relaxed);
        self.first = block as *const Block as *mut Block;
    }

    /// Takes one block off the list.
    pub fn pop(&mut self) -> Option<&'static Block> {
        // SAFETY: blocks of the list came from the arena and are never unmapped.
        let block = unsafe { self.first.as_ref() }?;
        self.first = block.next.load(Relaxed);
        Some(block)
    }

    /// Gives back a block whose entries are all empty.
    pub fn put(&mut self, block: &'static Block) {
        block.evicted.store(0, Relaxed);
        block.fast.store(0, Relaxed);
        block.heat.store(0, Relaxed);
        block.rest.store(0, Relaxed);
        block.stale.store(false, Relaxed);
        debug_assert!(!block.marks.any());
        block.next.store(self.first, Relaxed);
        self.first = block as *const Block as *mut Block;
    }
}

impl Default for SpareBlocks {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_use_are_left_alone_longer_and_longer() {
        let arena = Arena::new();
        let mut spare = SpareBlocks::new();
        let block = spare.take(&arena).unwrap();
        let rounds =
            |block: &Block| core::iter::repeat_with(|| block.rests()).take_while(|rests| *rests).count();
        assert_eq!(rounds(block), 0);
        let waits = [0; 7].map(|_| {
            block.judge(100, 51);
            rounds(block)
        });
        assert_eq!(waits, [2, 4, 8, 16, 32, 32, 32]);
        block.judge(100, 50);
        assert_eq!(rounds(block), 0);
        block.judge(10, 9);
        assert_eq!(rounds(block), 2);
    }
}
