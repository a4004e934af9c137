//! The descriptions of all classes. A description is made when its class is first needed, never moves, and is
//! kept until the store is dropped.
//!
//! ```text
//!   table     | chunk | chunk | chunk | ...      a page each; reserved, and committed when needed
//!   chunk     | class | class | ... 8            classes STRIDE apart: while there are few blobs, only
//!                                                those are in use, so they share pages
//! ```

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::{Class, size};
use crate::store::lock::Lock;
use crate::store::memory::Memory;

/// Classes whose descriptions share one page.
const CLASSES_PER_CHUNK: usize = 8;
const CHUNKS: usize = size::CLASSES / CLASSES_PER_CHUNK;
const _: () = assert!(size_of::<Class>() * CLASSES_PER_CHUNK <= 4096);
/// While there are few blobs, the classes in use are this far apart; their descriptions lie side by side.
const STRIDE: usize = size::MOST_GRAIN;
const ROWS: usize = size::CLASSES / STRIDE;
const _: () = assert!(ROWS * STRIDE == size::CLASSES && ROWS.is_multiple_of(CLASSES_PER_CHUNK));

/// The chunk that describes a class, and the place in it.
pub(in crate::store) fn place_of(number: usize) -> (usize, usize) {
    let place = number % STRIDE * ROWS + number / STRIDE;
    (place / CLASSES_PER_CHUNK, place % CLASSES_PER_CHUNK)
}

/// The class that is described there.
fn described_at(chunk: usize, place: usize) -> usize {
    let place = chunk * CLASSES_PER_CHUNK + place;
    place % ROWS * STRIDE + place / ROWS
}

/// The table of one store. All calls are given that store's memory.
pub(in crate::store) struct Classes {
    /// Held while a chunk of descriptions is created.
    growing: Lock,
    /// Address space for all descriptions, and which chunks exist.
    table: AtomicPtr<u8>,
    chunks: [AtomicPtr<Class>; CHUNKS],
}

impl Classes {
    pub(in crate::store) const fn new() -> Self {
        Classes {
            growing: Lock::new(),
            table: AtomicPtr::new(ptr::null_mut()),
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
        }
    }

    /// The class with that number, if it has a description.
    #[inline]
    pub(in crate::store) fn get(&self, number: usize) -> Option<&Class> {
        // A damaged reference may name a class that does not exist.
        if number >= size::CLASSES {
            return None;
        }
        let (chunk, place) = place_of(number);
        let chunk = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: a chunk, once created, holds its descriptions until the store is dropped.
        NonNull::new(chunk).map(|chunk| unsafe { chunk.add(place).as_ref() })
    }

    /// The class with that number; `None` if there is no memory to describe it.
    pub(in crate::store) fn make(&self, number: usize, memory: &impl Memory) -> Option<&Class> {
        match self.get(number) {
            Some(class) => Some(class),
            None => self.make_chunk(place_of(number).0, memory).and_then(|()| self.get(number)),
        }
    }

    #[cold]
    fn make_chunk(&self, chunk: usize, memory: &impl Memory) -> Option<()> {
        self.growing.acquire(memory);
        let made = self.make_chunk_locked(chunk, memory);
        self.growing.release(memory);
        made
    }

    fn make_chunk_locked(&self, chunk: usize, memory: &impl Memory) -> Option<()> {
        if !self.chunks[chunk].load(Ordering::Relaxed).is_null() {
            return Some(());
        }
        let page = memory.page_size();
        let mut table = self.table.load(Ordering::Relaxed);
        if table.is_null() {
            table = memory.reserve(page * CHUNKS)?.as_ptr();
            self.table.store(table, Ordering::Relaxed);
        }
        // SAFETY: the chunk's page lies within the table and is not yet committed; once it is, it is zeroed
        // and belongs to this thread.
        unsafe {
            let at = NonNull::new_unchecked(table.add(page * chunk));
            if !memory.commit(at, page) {
                return None;
            }
            for i in 0..CLASSES_PER_CHUNK {
                Class::init(at.cast::<Class>().add(i), described_at(chunk, i));
            }
            self.chunks[chunk].store(at.cast().as_ptr(), Ordering::Release);
        }
        Some(())
    }

    /// Every class that has a description, with its number.
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (usize, &Class)> {
        self.iter_from(0)
    }

    /// The same, beginning with class `begin`.
    pub(in crate::store) fn iter_from(&self, begin: usize) -> impl Iterator<Item = (usize, &Class)> {
        let numbers = (begin..size::CLASSES).chain(0..begin);
        numbers.filter_map(|number| Some((number, self.get(number)?)))
    }

    /// Returns the memory of all classes and of their descriptions.
    ///
    /// # Safety
    ///
    /// Nobody else uses the store any more.
    pub(in crate::store) unsafe fn unreserve(&mut self, memory: &impl Memory) {
        for (_, class) in self.iter() {
            // SAFETY: as promised.
            unsafe { class.unreserve(memory) };
        }
        if let Some(table) = NonNull::new(*self.table.get_mut()) {
            // SAFETY: as above; the classes are not used after this.
            unsafe { memory.unreserve(table, memory.page_size() * CHUNKS) };
        }
    }
}
