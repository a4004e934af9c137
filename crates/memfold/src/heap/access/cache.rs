//! The ways that a session has found: those to the blocks that it used lately.
//!
//! A table by number of block, in which one way takes the place of another. It is made when the first way is put
//! in, so a session that does nothing takes little memory, and grows with the frames that there are: who goes to
//! and fro between more blocks than it has places would find each way again and again.

use std::boxed::Box;
use std::cell::{Cell, UnsafeCell};
use std::vec::Vec;

use crate::heap::access::translation::Translation;
use crate::heap::block::handle::Handle;
use crate::heap::core::Core;

/// Places at first, and at most.
const FIRST: usize = 256;
const MOST: usize = 1 << 20;
/// How many ways are put in before it is asked whether the table is too small.
const OFTEN: u32 = 1024;
/// The table may grow to this part of the memory of frames.
const PART: u64 = 128;

/// See the module. Used by one thread at a time.
pub struct TranslationCache<'c> {
    table: UnsafeCell<Box<[Translation<'c>]>>,
    /// Where a way begins in the table, in bytes, has these bits.
    mask: Cell<usize>,
    put: Cell<u32>,
}

/// Bits of a handle below those that tell where its way begins.
const SHIFT: u32 = Handle::BLOCK_AT - size_of::<Translation<'static>>().ilog2();

impl<'c> TranslationCache<'c> {
    /// None.
    pub fn new(core: &'c Core) -> Self {
        TranslationCache {
            table: UnsafeCell::new([Translation::none(core)].into()),
            mask: Cell::new(0),
            put: Cell::new(0),
        }
    }

    /// The way that may lead to the handle's block.
    ///
    /// # Safety
    /// It is used no more when the next one is put in.
    #[inline(always)]
    pub unsafe fn get(&self, handle: Handle) -> &Translation<'c> {
        let at = (handle.to_bits() >> SHIFT) as usize & self.mask.get();
        // SAFETY: the mask's bits are those of a place within the table, and the caller keeps to the rest.
        unsafe { &*(*self.table.get()).as_ptr().byte_add(at) }
    }

    /// Puts a way in, in the place of the handle's block, to which it leads.
    ///
    /// # Safety
    /// No way is in use.
    pub unsafe fn put(&self, core: &'c Core, handle: Handle, translation: Translation<'c>) {
        self.put.set(self.put.get().wrapping_add(1));
        // SAFETY: nothing of the table is borrowed, says the caller; a session is used by one thread.
        let table = unsafe { &mut *self.table.get() };
        if table.len() < FIRST {
            self.lengthen(core, table, FIRST);
        } else if self.put.get().is_multiple_of(OFTEN) {
            self.grow(core, table);
        }
        let place = handle.block() as usize & (table.len() - 1);
        table[place] = translation;
    }

    /// Twice as many places, if there are more frames than places; those of the old ways stay empty.
    #[cold]
    fn grow(&self, core: &'c Core, table: &mut Box<[Translation<'c>]>) {
        let len = 2 * table.len();
        let frames = core.frames.count();
        let bytes = (len * size_of::<Translation<'c>>()) as u64;
        if len > MOST
            || (frames as usize) < len / 2
            || bytes > u64::from(frames) * core.frames.stride() as u64 / PART
        {
            return;
        }
        self.lengthen(core, table, len);
    }

    /// So many places, if there is memory for them.
    #[cold]
    fn lengthen(&self, core: &'c Core, table: &mut Box<[Translation<'c>]>, len: usize) {
        let mut larger = Vec::new();
        if larger.try_reserve_exact(len).is_ok() {
            larger.resize(len, Translation::none(core));
            *table = larger.into_boxed_slice();
            self.mask.set((len - 1) * size_of::<Translation<'c>>());
        }
    }
}
