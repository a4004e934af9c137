//! A session's translation cache: translations of the blocks that it used lately.
//!
//! A direct-mapped table by block number. It is made when the first translation is put in, and is small at first,
//! so sessions that do little take little memory. It grows with the number of frames: with too few places, a
//! session that moves between many blocks would make each translation again and again.

use std::boxed::Box;
use std::cell::{Cell, UnsafeCell};
use std::vec::Vec;

use crate::heap::access::translation::Translation;
use crate::heap::block::handle::Handle;
use crate::heap::core::Core;

/// The number of places at first, of a session that has put in [`EACH`] times as many, and the most.
const FIRST: usize = 4;
const USUAL: usize = 256;
const MOST: usize = 1 << 20;
const EACH: usize = 8;
/// How many translations are put in between two checks whether the table is too small.
const OFTEN: u32 = 1024;
/// The table may grow to this part of the memory of frames.
const PART: u64 = 128;

/// See the module. Used by one thread at a time.
pub struct TranslationCache<'c> {
    table: UnsafeCell<Box<[Translation<'c>]>>,
    /// The bits of a translation's byte offset in the table.
    mask: Cell<usize>,
    put: Cell<u32>,
}

/// How far to shift a handle to get its translation's byte offset.
const SHIFT: u32 = Handle::BLOCK_AT - size_of::<Translation<'static>>().ilog2();

impl<'c> TranslationCache<'c> {
    /// An empty cache.
    pub fn new(core: &'c Core) -> Self {
        TranslationCache {
            table: UnsafeCell::new([Translation::none(core)].into()),
            mask: Cell::new(0),
            put: Cell::new(0),
        }
    }

    /// The translation that may be that of the handle's block.
    ///
    /// # Safety
    /// The reference is not used after the next `put`.
    #[inline(always)]
    pub unsafe fn get(&self, handle: Handle) -> &Translation<'c> {
        let at = (handle.to_bits() >> SHIFT) as usize & self.mask.get();
        // SAFETY: the mask keeps the offset within the table, and the caller guarantees the rest.
        unsafe { &*(*self.table.get()).as_ptr().byte_add(at) }
    }

    /// Puts a translation of the handle's block in the block's place.
    ///
    /// # Safety
    /// No reference to a translation is in use.
    pub unsafe fn put(&self, core: &'c Core, handle: Handle, translation: Translation<'c>) {
        self.put.set(self.put.get().wrapping_add(1));
        // SAFETY: the caller guarantees that nothing of the table is borrowed; a session is used by one
        // thread.
        let table = unsafe { &mut *self.table.get() };
        if table.len() < USUAL {
            if table.len() < FIRST {
                self.lengthen(core, table, FIRST);
            } else if self.put.get() as usize >= EACH * table.len() {
                self.lengthen(core, table, USUAL);
            }
        } else if self.put.get().is_multiple_of(OFTEN) {
            self.grow(core, table);
        }
        let place = handle.block() as usize & (table.len() - 1);
        table[place] = translation;
    }

    /// Doubles the places if there are more frames than places. All places are empty afterwards.
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

    /// Replaces the table by an empty one with this many places, if there is memory for it.
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
