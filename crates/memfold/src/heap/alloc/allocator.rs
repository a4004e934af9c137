//! From which blocks a session allocates.
//!
//! A session holds one block of nodes of different sizes, a few more in which it placed nodes near others,
//! and a block for each of a few sizes that are requested in succession. While there are many sessions and
//! few blocks, it holds fewer or none: for each node it takes a block with room and gives it back
//! ([`Core::may_hold`]).

use std::sync::atomic::Ordering::*;
use std::vec::Vec;

use crate::heap::alloc::current::Current;
use crate::heap::block::handle::Handle;
use crate::heap::core::{Core, Shape};
use crate::heap::error::Error;
use crate::heap::residency::frames::Frame;
use crate::heap::sync::fences::Fences;
use crate::heap::sync::participants::Participant;

/// After this many nodes of one size, mostly in succession, further nodes of that size get blocks of their
/// own.
const SAME_SIZE: u32 = 32;
/// Sizes for which a session keeps a block at hand.
const KINDS: usize = 8;
/// Blocks of nodes of different sizes that a session keeps at hand.
const MIXED: usize = 5;

/// A session's place in its heap.
#[derive(Clone, Copy)]
pub struct Access<'h> {
    pub core: &'h Core,
    pub participant: &'h Participant,
    /// The number of the participant.
    pub me: u16,
    pub fences: Fences,
}

/// See the module.
pub struct Allocator<'h> {
    access: Access<'h>,
    /// The first is the one from which nodes are allocated by default.
    mixed: Vec<Current<'h>>,
    /// The last is the most recently used one.
    equal: Vec<Current<'h>>,
    /// A size, and how much more often it was requested than others.
    lately: (usize, u32),
    longest: usize,
}

impl<'h> Allocator<'h> {
    /// An allocator without blocks.
    pub fn new(access: Access<'h>) -> Self {
        // Longer nodes are allocated elsewhere; in the debugging twin all are.
        let longest = if access.core.plain().is_some() { 0 } else { access.core.shape.longest() };
        Allocator { access, mixed: Vec::new(), equal: Vec::new(), lately: (0, 0), longest }
    }

    /// Whether a node of `len` bytes shares a block with others.
    #[inline(always)]
    pub fn does(&self, len: usize) -> bool {
        len.wrapping_sub(1) < self.longest
    }

    /// Allocates a node of `len` bytes that shares a block with others.
    #[inline(always)]
    pub fn alloc(&mut self, len: usize) -> Result<Handle, Error> {
        let (size, count) = self.lately;
        if size == len && count >= SAME_SIZE {
            if let Some(current) = self.equal.last_mut()
                && current.len() == Some(len)
                && let Some(handle) = self.access.alloc_in(current, len)
            {
                return Ok(handle);
            }
            match self.alloc_equal(len) {
                Ok(Some(handle)) => return Ok(handle),
                // It gets no block now. Another one may have room.
                Ok(None) | Err(Error::Limit | Error::OutOfMemory) => self.lately = (len, 0),
                Err(error) => return Err(error),
            }
        } else {
            self.lately = match count {
                _ if size == len => (size, count + 1),
                0 => (len, 1),
                count => (size, count - 1),
            };
        }
        if let Some(current) = self.mixed.first_mut()
            && let Some(handle) = self.access.alloc_in(current, len)
        {
            return Ok(handle);
        }
        self.alloc_mixed(len)
    }

    #[cold]
    fn alloc_mixed(&mut self, len: usize) -> Result<Handle, Error> {
        let Access { core, me, .. } = self.access;
        // A session that holds no block, as one of many may, uses those that others made for this size.
        let others_have = self.mixed.is_empty() && self.lately.0 == len && core.has_equal_room(len);
        if (len == core.longest_alone() || others_have)
            && let Some(handle) = self.alloc_equal(len)?
        {
            return Ok(handle);
        }
        if let Some(current) = self.mixed.first_mut() {
            if let Some(handle) = self.access.alloc_hard(current, len)? {
                return Ok(handle);
            }
            let full = self.mixed.remove(0);
            full.has_no_room_for(len);
            core.disown(me, &full);
        }
        // The lengths of free extents are estimates, so a block may lack the room after all.
        for _ in 0..2 {
            let Some(number) = core.find_free_space(0, len) else { break };
            let Some(current) = core.adopt(me, number, 0) else { continue };
            if let Some((current, handle)) = self.try_adopted(current, len)? {
                self.set_main(current);
                return Ok(handle);
            }
        }
        let current = core.new_block(me, 0)?;
        let (current, handle) = self.try_adopted(current, len)?.ok_or(Error::Size(len))?;
        self.set_main(current);
        Ok(handle)
    }

    /// Allocates a node that is alone in its block, as long as such a node can be; `None` if there are no
    /// more kinds of blocks.
    pub fn alloc_alone(&mut self, len: usize) -> Result<Option<Handle>, Error> {
        self.alloc_equal(len)
    }

    fn set_main(&mut self, current: Current<'h>) {
        if !self.may_hold_more() {
            return self.access.core.pass_on(self.access.me, &current);
        }
        self.mixed.insert(0, current);
        self.leave_oldest();
    }

    /// Whether the session may hold the block that it has just allocated from. It gives up others for it that
    /// it used less recently.
    fn may_hold_more(&mut self) -> bool {
        let Access { core, me, .. } = self.access;
        while !core.may_hold(me) {
            let equal = if self.equal.is_empty() { None } else { Some(self.equal.remove(0)) };
            let Some(other) = self.mixed.pop().or(equal) else { return false };
            core.disown(me, &other);
        }
        true
    }

    fn leave_oldest(&mut self) {
        if self.mixed.len() > MIXED
            && let Some(oldest) = self.mixed.pop()
        {
            self.access.core.disown(self.access.me, &oldest);
        }
    }

    /// Allocates a node in a block for this size; `None` if the size gets no blocks.
    #[cold]
    fn alloc_equal(&mut self, len: usize) -> Result<Option<Handle>, Error> {
        let Access { core, me, .. } = self.access;
        if let Some(at) = self.equal.iter().position(|current| current.len() == Some(len)) {
            let mut current = self.equal.remove(at);
            match self.access.alloc_hard(&mut current, len) {
                Ok(None) => core.disown(me, &current),
                other => {
                    self.equal.push(current);
                    return other;
                }
            }
        }
        let Some(kind) = core.kind_for(len) else { return Ok(None) };
        let left = core.find_free_space(kind, len).and_then(|number| core.adopt(me, number, kind));
        let mut made = match left {
            Some(current) => self.try_adopted(current, len)?,
            None => None,
        };
        if made.is_none() {
            made = self.try_adopted(core.new_block(me, kind)?, len)?;
        }
        let Some((current, node)) = made else { return Ok(None) };
        if !self.may_hold_more() {
            core.pass_on(me, &current);
            return Ok(Some(node));
        }
        if self.equal.len() == KINDS {
            let oldest = self.equal.remove(0);
            core.disown(me, &oldest);
        }
        self.equal.push(current);
        Ok(Some(node))
    }

    /// Allocates a node in a block that the session has just adopted; disowns the block if that fails.
    fn try_adopted(
        &mut self,
        mut current: Current<'h>,
        len: usize,
    ) -> Result<Option<(Current<'h>, Handle)>, Error> {
        match self.access.alloc_hard(&mut current, len) {
            Ok(Some(node)) => Ok(Some((current, node))),
            other => {
                current.has_no_room_for(len);
                self.access.core.disown(self.access.me, &current);
                other.map(|_| None)
            }
        }
    }

    /// Allocates a node of `len` bytes in this block, if there is room and no other session allocates from
    /// it.
    pub fn alloc_near(&mut self, len: usize, near: Handle) -> Result<Option<Handle>, Error> {
        let Access { core, me, .. } = self.access;
        if !self.does(len) {
            return Ok(None);
        }
        let number = near.block();
        let known = self.mixed.iter_mut().chain(&mut self.equal).find(|current| current.number == number);
        if let Some(current) = known {
            let fits = current.len().is_none_or(|of_all| of_all == len);
            return if fits { self.access.alloc_hard(current, len) } else { Ok(None) };
        }
        let Some(block) = core.blocks.get(number) else { return Ok(None) };
        let kind = block.kind.load(Relaxed);
        let has_room = match core.shape_of(kind) {
            Some(Shape::Mixed(shape)) => {
                let stride = shape.stride(len) as u32;
                block.longest.load(Relaxed).max(block.pending.load(Relaxed) / 2) >= stride
            }
            Some(Shape::Equal(shape)) => {
                shape.len as usize == len && (block.live.load(Relaxed) as usize) < shape.nodes()
            }
            None => false,
        };
        let adopted = if has_room { core.adopt(me, number, kind) } else { None };
        let Some(mut current) = adopted else { return Ok(None) };
        let node = self.access.alloc_hard(&mut current, len);
        if kind != 0 || !matches!(node, Ok(Some(_))) {
            core.disown(me, &current);
            return node;
        }
        if !self.may_hold_more() {
            core.pass_on(me, &current);
            return node;
        }
        self.mixed.insert(self.mixed.len().min(1), current);
        self.leave_oldest();
        node
    }

    /// Disowns all blocks: the session resized a node in one of them, or ends.
    pub fn disown_all(&mut self) {
        for current in self.mixed.drain(..).chain(self.equal.drain(..)) {
            self.access.core.disown(self.access.me, &current);
        }
    }
}

impl<'h> Access<'h> {
    /// Whether this use of a block is already noted. Always false in a paranoid heap.
    #[inline(always)]
    pub fn is_noted(self, frame: &Frame) -> bool {
        frame.last() == self.core.clock.load(Relaxed)
    }

    /// Notes that a block was used. A paranoid heap evicts whatever it can after each operation.
    pub fn touch(self, frame: &Frame) {
        if self.core.options.paranoid {
            // Blocks that can't be evicted stay.
            let _ = self.core.evict_all(self.me);
        } else {
            frame.touch(self.core.clock.load(Relaxed));
        }
    }

    /// Allocates a node in a block whose free space is known; `None` if it is not known, there is no room, or
    /// the block is damaged.
    #[inline(always)]
    fn alloc_in(self, current: &mut Current<'h>, len: usize) -> Option<Handle> {
        self.participant.enter(self.fences);
        let good = current.is_good() && self.is_noted(current.frame());
        let node = if good { current.alloc(len).ok().flatten() } else { None };
        self.participant.leave();
        node
    }

    /// Allocates a node in a block whose free space may not be known; `None` if there is no room, the session
    /// can't have the block for itself, or the block can't be faulted in now.
    #[cold]
    fn alloc_hard(self, current: &mut Current<'h>, len: usize) -> Result<Option<Handle>, Error> {
        match self.try_hard(current, len) {
            Err(Error::Damaged | Error::Lost) => {
                // A block that can't be restored, or contradicts itself, is not used again.
                current.block.retired.store(true, Relaxed);
                Ok(None)
            }
            // The block may be used again once its tier answers.
            Err(Error::Away) => Ok(None),
            node => node,
        }
    }

    fn try_hard(self, current: &mut Current<'h>, len: usize) -> Result<Option<Handle>, Error> {
        loop {
            if current.block.retired.load(Relaxed) {
                return Ok(None);
            }
            self.participant.enter(self.fences);
            let node = match current.is_good() {
                false => Err(Error::Stale),
                true => match current.alloc(len) {
                    Ok(None) => match current.look_again(self.core) {
                        Ok(true) => current.alloc(len),
                        other => other.map(|_| None),
                    },
                    node => node,
                },
            };
            self.participant.leave();
            let node = match node {
                Err(Error::Stale) => current.alloc_shared(self.core, self.me, len),
                node => node,
            };
            match node {
                Err(Error::Stale) if current.renew(self.core, self.me)? => {}
                Err(Error::Stale) => return Ok(None),
                Ok(Some(handle)) => {
                    self.touch(current.frame());
                    return Ok(Some(handle));
                }
                other => return other,
            }
        }
    }
}
