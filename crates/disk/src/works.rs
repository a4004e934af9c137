//! Memory to compress and decompress in: as much of it as there are CPUs, made at once and handed from thread to thread.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex};

use memfold::store::{Memory, OwnedWorkspace, Tiered};

use crate::leaf::{Layout, PAGE};
use crate::locked;

/// What one thread works in.
pub struct Work {
    pub space: OwnedWorkspace,
    /// A page, and room for the compressed forms of a block and of its pages.
    pub page: Box<[u8; PAGE]>,
    pub payload: Box<[u8]>,
}

impl Work {
    /// `None` if there is no memory.
    pub fn new<M: Memory>(store: &Tiered<M>, layout: Layout) -> Option<Self> {
        Some(Work {
            space: OwnedWorkspace::new(store, layout.bytes())?,
            page: Box::new([0; PAGE]),
            payload: vec![0; 2 * layout.bytes()].into_boxed_slice(),
        })
    }

    /// Bytes that one takes.
    pub fn bytes<M: Memory>(store: &Tiered<M>, layout: Layout) -> usize {
        store.workspace_bytes(layout.bytes()) + PAGE + 2 * layout.bytes()
    }
}

/// See the module.
pub struct Works {
    free: Mutex<Vec<Work>>,
    returned: Condvar,
}

impl Works {
    pub fn new(works: Vec<Work>) -> Self {
        Works { free: Mutex::new(works), returned: Condvar::new() }
    }

    /// Waits until there is one. Nobody who waits has a lock, nor does who has one wait for another.
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

/// One of them, until this is dropped.
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
