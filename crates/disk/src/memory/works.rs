//! Working memory for compression and decompression: one [`Work`] per CPU, allocated in advance and lent to
//! threads.

use std::ops::{Deref, DerefMut, Range};
use std::sync::{Condvar, Mutex};

use memfold::SystemMemory;
use memfold::store::{Memory, OwnedWorkspace, Tiered};
use memfold_spill::Spilled;

use crate::index::leaf::{Layout, PAGE};
use crate::locked;

/// What zstd uses to decompress, plus a margin.
const DECODE: usize = 192 << 10;

/// The working memory of one thread.
pub struct Work {
    pub space: OwnedWorkspace,
    /// A page, and room for the compressed forms of a block and of its pages.
    pub page: Box<[u8; PAGE]>,
    pub payload: Box<[u8]>,
    /// If there is a backing device: a buffer for sealed blobs, which are opened in place.
    pub sealed: Box<[u8]>,
}

impl Work {
    /// `None` if there is no memory.
    pub fn new<M: Memory>(store: &Tiered<M>, layout: Layout, backed: bool) -> Option<Self> {
        Some(Work {
            space: OwnedWorkspace::new(store, layout.bytes())?,
            page: Box::new([0; PAGE]),
            payload: vec![0; 2 * layout.bytes()].into_boxed_slice(),
            sealed: vec![0; Self::sealed_bytes(layout, backed)].into_boxed_slice(),
        })
    }

    /// The bytes that a `Work` takes at least. For decompression, codecs request what the worst pipeline
    /// needs, but use less.
    pub fn least_bytes<M: Memory>(store: &Tiered<M>, layout: Layout, backed: bool) -> usize {
        let decode = store.decode_scratch(layout.bytes());
        let space = store.workspace_bytes(layout.bytes()) - decode + decode.min(DECODE);
        space + PAGE + 2 * layout.bytes() + Self::sealed_bytes(layout, backed)
    }

    fn sealed_bytes(layout: Layout, backed: bool) -> usize {
        if backed { layout.bytes() + Spilled::OVERHEAD } else { 0 }
    }

    /// Allocates all memory that the codecs in use may need.
    pub fn fill_in(&mut self) {
        // Writing the buffers allocates their pages.
        self.payload.fill(1);
        self.sealed.fill(1);
        self.page.fill(1);
        SystemMemory::new().fill_in(self.space.memory());
    }

    /// Releases the memory that compression has touched.
    pub fn rest<M: Memory>(&mut self, store: &Tiered<M>, layout: Layout) {
        self.space.renew(store, layout.bytes());
    }

    /// The areas of its memory, and the bytes of the rest.
    fn memory(&self) -> Memories {
        Memories { space: self.space.memory(), rest: PAGE + self.payload.len() + self.sealed.len() }
    }
}

/// The memory of a [`Work`].
#[derive(Clone)]
struct Memories {
    space: Range<usize>,
    rest: usize,
}

/// The pool; see the module.
pub struct Works {
    memories: Vec<Memories>,
    free: Mutex<Vec<Work>>,
    returned: Condvar,
}

impl Works {
    /// A pool of `works`; `making` belongs to the thread that makes room and is counted with them.
    pub fn new(works: Vec<Work>, making: &Work) -> Self {
        let memories = works.iter().chain([making]).map(Work::memory).collect();
        Works { memories, free: Mutex::new(works), returned: Condvar::new() }
    }

    /// The number of works for threads that read and write.
    pub fn count(&self) -> usize {
        self.memories.len() - 1
    }

    /// The bytes that all of them have in memory.
    pub fn bytes(&self) -> u64 {
        let bytes = |it: &Memories| SystemMemory::new().resident_bytes(it.space.clone()) + it.rest;
        self.memories.iter().map(|it| bytes(it) as u64).sum()
    }

    /// Releases the memory that compression has touched in works that are not currently in use.
    pub fn rest<M: Memory>(&self, store: &Tiered<M>, layout: Layout) {
        locked(&self.free).iter_mut().for_each(|work| work.rest(store, layout));
    }

    /// Takes a work, waiting until one is free. A waiting thread holds no lock, and a thread that has a work
    /// does not wait for another.
    pub fn take(&self) -> Lent<'_> {
        let mut free = locked(&self.free);
        loop {
            if let Some(work) = free.pop() {
                return Lent { works: self, work: Some(work) };
            }
            free = self.returned.wait(free).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// A work that is lent until this is dropped.
pub struct Lent<'w> {
    works: &'w Works,
    work: Option<Work>,
}

impl Deref for Lent<'_> {
    type Target = Work;

    fn deref(&self) -> &Work {
        self.work.as_ref().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Work {
        self.work.as_mut().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            locked(&self.works.free).push(work);
            self.works.returned.notify_one();
        }
    }
}
