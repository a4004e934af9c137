//! What a thread does with a heap.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::vec::Vec;

use super::Heap;
use super::alloc::Tried;
use super::core::{Core, Spot, Way};
use super::error::Error;
use super::frames::Frame;
use super::handle::Handle;
use super::pins::{Pins, SLOTS};

/// Of so many nodes one after the other, or nearly, that have one size, the rest get blocks of their own.
const SAME_SIZE: u32 = 32;
/// Blocks that a session finds at once.
const WAYS: usize = 256;
/// Sizes for which a session has a block at hand.
const KINDS: usize = 8;

/// Access to a heap for one thread at a time. Threads have one each.
///
/// Reading copies: what a session reads is its own, whole and of one moment, whatever other threads do. Writing goes to the
/// node in place, through a guard that keeps all others from the node.
pub struct Session<'h> {
    core: &'h Core,
    /// Block and incarnation to allocate from.
    mixed: Cell<Option<(u32, u8)>>,
    equal: RefCell<Vec<Own>>,
    /// A size, and how often more it was asked for than others.
    lately: Cell<(usize, u32)>,
    /// The block that was used last.
    last: Cell<u32>,
    /// How the blocks that were read lately were found.
    ways: [Cell<Way<'h>>; WAYS],
    pins: &'h Pins,
    /// Guards of each pin.
    guards: [Cell<u32>; SLOTS],
    /// A session is one thread's.
    _one: PhantomData<Cell<()>>,
}

/// A block of nodes of one size.
#[derive(Clone, Copy)]
struct Own {
    len: usize,
    kind: u32,
    block: u32,
    incarnation: u8,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<'h> Session<'h> {
    pub(super) fn new(heap: &'h Heap) -> Result<Self, Error> {
        let pins = heap.core().pins.take().ok_or(Error::OutOfMemory)?;
        Ok(Session {
            core: heap.core(),
            mixed: Cell::new(None),
            equal: RefCell::default(),
            lately: Cell::new((0, 0)),
            last: Cell::new(0),
            ways: [const { Cell::new(Way::NONE) }; WAYS],
            pins,
            guards: Default::default(),
            _one: PhantomData,
        })
    }

    fn begin(&self) -> Result<(), Error> {
        if self.core.options.paranoid { self.core.evict_all() } else { Ok(()) }
    }

    #[inline(always)]
    fn look<R>(&self, handle: Handle, read: impl FnMut(&Frame, Spot) -> R) -> Result<R, Error> {
        self.core.read(handle, &self.ways[handle.parts().block as usize % WAYS], read)
    }

    /// Notes a use when it is of another block than the one before.
    #[inline]
    fn touch(&self, handle: Handle, frame: &Frame) {
        let block = handle.parts().block;
        if self.last.replace(block) != block {
            self.core.touch(frame);
        }
    }

    /// Makes a node of `len` bytes, all zero.
    pub fn alloc(&self, len: usize) -> Result<Handle, Error> {
        self.begin()?;
        self.alloc_somewhere(len)
    }

    fn alloc_somewhere(&self, len: usize) -> Result<Handle, Error> {
        if len == 0 || len > self.core.shape.longest() {
            return Err(Error::Size(len));
        }
        let (size, count) = self.lately.get();
        match (size == len, count) {
            (true, count) => self.lately.set((size, (count + 1).min(2 * SAME_SIZE))),
            (false, 0) => self.lately.set((len, 1)),
            (false, count) => self.lately.set((size, count - 1)),
        }
        if size == len
            && count >= SAME_SIZE
            && let Some(handle) = self.alloc_equal(len)?
        {
            return Ok(handle);
        }
        self.alloc_mixed(len)
    }

    fn alloc_mixed(&self, len: usize) -> Result<Handle, Error> {
        if let Some((block, incarnation)) = self.mixed.get() {
            if let Tried::Node(handle) = self.core.alloc_in(block, 0, Some(incarnation), len)? {
                return Ok(handle);
            }
            self.mixed.set(None);
            self.core.disown(block, incarnation)?;
        }
        // What is found may be taken by others meanwhile, and estimates are rough for long nodes.
        for _ in 0..2 {
            let Some(block) = self.core.find_room(len) else { break };
            if !self.core.own(block, 0) {
                continue;
            }
            match self.core.alloc_in(block, 0, None, len)? {
                Tried::Node(handle) => {
                    self.mixed.set(Some((block, handle.parts().incarnation)));
                    return Ok(handle);
                }
                Tried::Full => self.core.disown_any(block)?,
            }
        }
        let block = self.core.new_block(0)?;
        match self.core.alloc_in(block, 0, None, len)? {
            Tried::Node(handle) => {
                self.mixed.set(Some((block, handle.parts().incarnation)));
                Ok(handle)
            }
            Tried::Full => Err(Error::Size(len)),
        }
    }

    fn alloc_equal(&self, len: usize) -> Result<Option<Handle>, Error> {
        let mut owned = self.equal.borrow_mut();
        let known = owned.iter().position(|own| own.len == len);
        if let Some(at) = known {
            let Own { kind, block, incarnation, .. } = owned[at];
            if let Tried::Node(handle) = self.core.alloc_in(block, kind, Some(incarnation), len)? {
                return Ok(Some(handle));
            }
            owned.swap_remove(at);
            self.core.disown(block, incarnation)?;
        }
        let Some(kind) = self.core.equal_kind(len) else { return Ok(None) };
        let block = self.core.new_block(kind)?;
        let Tried::Node(handle) = self.core.alloc_in(block, kind, None, len)? else { return Ok(None) };
        if owned.len() == KINDS {
            let Own { block, incarnation, .. } = owned.remove(0);
            self.core.disown(block, incarnation)?;
        }
        owned.push(Own { len, kind, block, incarnation: handle.parts().incarnation });
        Ok(Some(handle))
    }

    /// Frees a node.
    pub fn free(&self, handle: Handle) -> Result<(), Error> {
        self.begin()?;
        self.core.free(handle)
    }

    /// Bytes of a node.
    pub fn size(&self, handle: Handle) -> Result<usize, Error> {
        self.begin()?;
        self.look(handle, |_, spot| spot.len)
    }

    /// Lets `read` look at the bytes of a node, more than once if others change it meanwhile: what it took last counts.
    #[inline]
    pub(super) fn view(&self, handle: Handle, mut read: impl FnMut(Bytes)) -> Result<(), Error> {
        self.begin()?;
        self.look(handle, |frame, spot| {
            self.touch(handle, frame);
            read(Bytes(spot));
        })
    }

    /// Copies a node to `to`, whose old contents go.
    pub fn read_into(&self, handle: Handle, to: &mut Vec<u8>) -> Result<(), Error> {
        self.view(handle, |bytes| {
            to.clear();
            to.resize(bytes.len(), 0);
            bytes.copy_to(0, to);
        })
    }

    /// A copy of a node.
    pub fn read(&self, handle: Handle) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.read_into(handle, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies the part of a node that begins at `from` to `to`.
    pub fn read_at(&self, handle: Handle, from: usize, to: &mut [u8]) -> Result<(), Error> {
        let (mut node, len) = (0, to.len());
        self.view(handle, |bytes| {
            node = bytes.len();
            bytes.copy_to(from, to);
        })?;
        let fits = from <= node && len <= node - from;
        if fits { Ok(()) } else { Err(Error::Mismatch { node, value: from.saturating_add(len) }) }
    }

    /// Makes a node of `len` bytes, all zero, in the block of `near` if there is room, so that both are resident together.
    pub fn alloc_near(&self, len: usize, near: Handle) -> Result<Handle, Error> {
        let block = near.parts().block;
        // A stale neighbour is an error, whatever lies there now.
        let kind = self.size(near).and_then(|_| self.core.kind_of(block))?;
        if kind == 0
            && (1..=self.core.shape.longest()).contains(&len)
            && let Tried::Node(handle) = self.core.alloc_in(block, 0, Some(near.parts().incarnation), len)?
        {
            return Ok(handle);
        }
        self.alloc(len)
    }

    /// Makes a node longer or shorter. What it holds stays, up to the new size; bytes that it gets are zero. The handle that is given back is
    /// the node's from now on; it is the old one where the node could stay.
    pub fn resize(&mut self, handle: Handle, len: usize) -> Result<Handle, Error> {
        self.begin()?;
        if len == 0 || len > self.core.shape.longest() {
            return Err(Error::Size(len));
        }
        if self.core.resize(handle, len)? {
            return Ok(handle);
        }
        let old = self.read(handle)?;
        let new = self.alloc_near(len, handle)?;
        let moved = self.write(new).map(|mut node| {
            let kept = len.min(old.len());
            node[..kept].copy_from_slice(&old[..kept]);
        });
        match moved.and_then(|()| self.free(handle)) {
            Ok(()) => Ok(new),
            Err(error) => {
                self.free(new)?;
                Err(error)
            }
        }
    }

    /// Keeps a node where it is as long as the guard lives, for pointers into it.
    pub fn pin(&self, handle: Handle) -> Result<Pin<'_>, Error> {
        self.begin()?;
        let parts = handle.parts();
        let pinned = |slot: &usize| self.guards[*slot].get() > 0 && self.pins.get(*slot) == parts.block;
        let slot = (0..SLOTS).find(pinned);
        let slot = match slot.or_else(|| (0..SLOTS).find(|&slot| self.guards[slot].get() == 0)) {
            Some(slot) => slot,
            None => return Err(Error::Pinned),
        };
        if self.guards[slot].get() == 0 {
            self.pins.set(slot, parts.block);
        }
        self.guards[slot].set(self.guards[slot].get() + 1);
        // From here on the guard takes the pin off.
        let guards = &self.guards[slot];
        let (bytes, core, pins) = (NonNull::dangling(), self.core, self.pins);
        let mut pin = Pin { slot, bytes, len: 0, handle, core, pins, guards };
        let spot = self.look(handle, |frame, spot| {
            self.touch(handle, frame);
            spot
        })?;
        pin.bytes = spot.image.place(spot.at, spot.len)?;
        pin.len = spot.len;
        Ok(pin)
    }

    /// A node to be written, which nobody else reads or writes as long as the guard lives.
    pub fn write(&mut self, handle: Handle) -> Result<NodeMut<'_>, Error> {
        self.begin()?;
        let (frame, spot) = self.core.hold(handle)?;
        self.touch(handle, frame);
        let bytes = spot.image.place(spot.at, spot.len);
        let Ok(bytes) = bytes else {
            frame.release(handle.parts().place);
            return Err(Error::Damaged);
        };
        Ok(NodeMut { frame, place: handle.parts().place, bytes, len: spot.len, session: PhantomData })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.core.pins.give(self.pins);
        // What can't be listed is found again when one of its nodes is freed.
        if let Some((block, incarnation)) = self.mixed.get() {
            let _ = self.core.disown(block, incarnation);
        }
        for own in self.equal.get_mut() {
            let _ = self.core.disown(own.block, own.incarnation);
        }
    }
}

/// The bytes of a node that others may be writing to.
#[derive(Clone, Copy)]
pub(super) struct Bytes(Spot);

impl Bytes {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len
    }

    /// Copies those from `from` on, if there are as many.
    #[inline]
    pub fn copy_to(self, from: usize, to: &mut [u8]) {
        let Spot { at, len, .. } = self.0;
        if from <= len && to.len() <= len - from {
            copy_out(Spot { at: at + from, len: to.len(), ..self.0 }, to);
        }
    }
}

/// Copies a node that others may be writing to: then what is copied is of no use, but it is something.
#[inline]
fn copy_out(spot: Spot, to: &mut [u8]) {
    debug_assert_eq!(spot.len, to.len());
    let Ok(from) = spot.image.place(spot.at, to.len()) else { return };
    let from = from.as_ptr();
    // The most frequent one.
    if let (Ok(to), true) = (<&mut [u8; 8]>::try_from(&mut *to), from.addr().is_multiple_of(8)) {
        // SAFETY: as below.
        *to = unsafe { (*from.cast::<AtomicU64>()).load(Relaxed) }.to_ne_bytes();
        return;
    }
    // SAFETY: of all reads: within the image, words where eight divides the address; everything that may be written at the same time is
    // read by atomic operations.
    let byte = |i: usize| unsafe { (*from.add(i).cast::<AtomicU8>()).load(Relaxed) };
    let head = from.align_offset(8).min(to.len());
    for (i, to) in to[..head].iter_mut().enumerate() {
        *to = byte(i);
    }
    let (words, tail) = to[head..].as_chunks_mut::<8>();
    for (i, to) in words.iter_mut().enumerate() {
        // SAFETY: as above.
        *to = unsafe { (*from.add(head + 8 * i).cast::<AtomicU64>()).load(Relaxed) }.to_ne_bytes();
    }
    let done = head + 8 * words.len();
    for (i, to) in tail.iter_mut().enumerate() {
        *to = byte(done + i);
    }
}

/// A node that stays where it is.
///
/// Pointers to it are good as long as this lives. It is no lock: other threads may write to the node or free it.
pub struct Pin<'s> {
    slot: usize,
    bytes: NonNull<u8>,
    len: usize,
    handle: Handle,
    core: &'s Core,
    pins: &'s Pins,
    guards: &'s Cell<u32>,
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("handle", &self.handle).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Pin<'_> {
    /// The node's first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// The same, to write: the node counts as changed from now on.
    pub fn as_mut_ptr(&mut self) -> Result<*mut u8, Error> {
        let block = self.handle.parts().block;
        let (_, _, frame) = self.core.frame_of(block)?;
        self.core.changed(block, frame);
        Ok(self.bytes.as_ptr())
    }

    /// Bytes of the node.
    #[expect(clippy::len_without_is_empty, reason = "no node is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The node.
    ///
    /// # Safety
    /// Nobody writes to the node, resizes or frees it as long as the bytes are used.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the node's bytes; the block can't leave, and the caller promises the rest.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.guards.set(self.guards.get() - 1);
        if self.guards.get() == 0 {
            self.pins.clear(self.slot);
        }
    }
}

/// A node that is being written.
#[derive(Debug)]
pub struct NodeMut<'s> {
    frame: &'s Frame,
    place: u16,
    bytes: NonNull<u8>,
    len: usize,
    session: PhantomData<&'s mut [u8]>,
}

impl Deref for NodeMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the node's bytes, which are this guard's alone while it holds the stripe; the block can't leave.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for NodeMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; readers who look nevertheless throw away what they see.
        unsafe { slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for NodeMut<'_> {
    fn drop(&mut self) {
        self.frame.release(self.place);
    }
}
