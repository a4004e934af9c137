//! Operations on nodes, with their probes around them: see `probe/mod.rs`.
//!
//! Making or freeing a node takes a few nanoseconds. So one comparison checks for all probes there, and it
//! comes before anything else. Inspecting a result on its way out would force the compiler to write it to
//! memory and read it again.

use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::core::check::{self, Violation};
use crate::heap::error::Error;
use crate::heap::sync::locked;
use crate::probe;
use crate::probe::{Verdict, test_probe};

impl Session<'_> {
    /// Makes a node of `len` bytes, all zero.
    #[inline]
    pub fn alloc(&self, len: usize) -> Result<Handle, Error> {
        if probe::are_nodes_heard() {
            return self.alloc_told(len);
        }
        self.alloc_node(len)
    }

    #[cold]
    #[inline(never)]
    fn alloc_told(&self, len: usize) -> Result<Handle, Error> {
        self.tell_made(self.alloc_node(len), len)
    }

    /// Makes a node of `len` bytes, all zero, in the block of `near` if there is room, so that both are
    /// resident together.
    pub fn alloc_near(&self, len: usize, near: Handle) -> Result<Handle, Error> {
        self.tell_made(self.alloc_node_near(len, near), len)
    }

    fn tell_made(&self, node: Result<Handle, Error>, len: usize) -> Result<Handle, Error> {
        probe!(heap_alloc, bits(&node), len);
        test_probe!(test_heap_alloc, bits(&node), self.verdict());
        node
    }

    /// Frees a node.
    #[inline]
    pub fn free(&self, handle: Handle) -> Result<(), Error> {
        if probe::are_nodes_heard() {
            return self.free_told(handle);
        }
        self.free_node(handle)
    }

    #[cold]
    #[inline(never)]
    fn free_told(&self, handle: Handle) -> Result<(), Error> {
        let freed = self.free_node(handle);
        probe!(heap_free, handle.to_bits(), if freed.is_ok() { 1 } else { 2 });
        test_probe!(test_heap_free, handle.to_bits(), self.verdict());
        freed
    }

    /// Makes a node longer or shorter. Its content stays, up to the new size; added bytes are zero. From now
    /// on the returned handle names the node; it equals the old one if the node did not move.
    pub fn resize(&mut self, handle: Handle, len: usize) -> Result<Handle, Error> {
        let node = self.resize_node(handle, len);
        probe!(heap_resize, handle.to_bits(), len, bits(&node));
        test_probe!(test_heap_resize, handle.to_bits(), self.verdict());
        node
    }

    /// Checks the whole heap. This is possible only while nobody else can change the heap, and nobody has a
    /// guard of a node in it.
    fn verdict(&self) -> Verdict {
        let core = self.core();
        if self.has_guards() {
            return Verdict::NotLookedAt(c"a guard of this session is alive");
        }
        let Some(_alone) = core.participants.alone() else {
            return Verdict::NotLookedAt(c"there are other sessions");
        };
        let _pause = core.board.pause();
        if (0..core.frames.count()).filter_map(|frame| core.frames.get(frame)).any(|frame| frame.is_held()) {
            return Verdict::NotLookedAt(c"a node is being written");
        }
        // This session may be in the middle of an operation on a long node, which makes and frees parts.
        if locked(&core.large).is_any_locked() {
            return Verdict::NotLookedAt(c"a long node is being changed");
        }
        let blobs = core.store.store().check(|_, _| {});
        let checked = blobs.map_err(Violation::of_store);
        checked.and_then(|()| check::check(core, self.access().me)).into()
    }
}

/// A handle's bits, or 0.
fn bits(node: &Result<Handle, Error>) -> u64 {
    node.as_ref().map_or(0, |handle| handle.to_bits())
}
