//! Moving blobs: a few at a time, from the top of a class into its lowest
//! holes.
//!
//! The cache lines that a move touches are probably not cached: two headers, the blob, the hole and the
//! owner's slot. So a few moves run together, step by step: prefetch the lines, copy all blobs, write all
//! headers, and only then ask the owners, since each of their compare-exchanges waits until all earlier
//! writes have reached memory. The class's lock is held during all of it. A copy that its owner refuses is
//! dropped, and nothing has changed.

use super::Maintained;
use crate::probe;
use crate::store::blob::{Header, Ref};
use crate::store::class::{GROUP_SLOTS, Locked};
use crate::store::memory::Memory;
use crate::store::{Owners, cache};

/// Moves that run together. With more of them, a thread that waits for the lock would stop spinning and
/// sleep.
const BATCH: usize = 4;
/// Larger blobs are moved one by one.
const ALONE: usize = 4096;

#[derive(Clone, Copy)]
struct Move {
    from: u64,
    to: u64,
    /// The present header, and the future one.
    old: Header,
    new: Header,
    len: usize,
}

struct Batch {
    moves: [Option<Move>; BATCH],
}

impl<M: Memory> Locked<'_, M> {
    /// Moves the last blobs into the holes from `hole` on; the slot below the top is live. False if one of
    /// the blobs has to stay where it is.
    pub(super) fn move_some(
        &mut self,
        class: usize,
        hole: u64,
        owners: &impl Owners,
        done: &mut Maintained,
    ) -> bool {
        let (pairs, planned) = self.plan(hole);
        self.prefetch(&pairs[..planned], owners);
        let batch = self.copy(&pairs[..planned]);
        let mut moves = batch.moves.iter().flatten();
        while let Some(one) = moves.next() {
            let old = Ref::new(class, one.from, one.old.generation);
            let new = Ref::new(class, one.to, one.new.generation);
            if !owners.relocate(one.old.owner, old, new) {
                done.refused += 1;
                for dropped in core::iter::once(one).chain(moves) {
                    // SAFETY: nobody ever had a reference to the copy.
                    unsafe { Header::withdraw(self.class.header(dropped.to)) };
                }
                return false;
            }
            self.settle(one);
            probe!(store_move, one.old.owner, old.to_bits(), new.to_bits(), one.len);
            done.moved += 1;
            done.moved_bytes += one.len as u64;
        }
        batch.moves.iter().flatten().count() == planned
    }

    /// Pairs the last live slots with the holes from `hole` on: slots of the top group with holes of `hole`'s
    /// group.
    fn plan(&self, hole: u64) -> ([(u64, u64); BATCH], usize) {
        let (mut pairs, mut planned) = ([(0, 0); BATCH], 0);
        let (low, high) = (hole / GROUP_SLOTS, (self.top - 1) / GROUP_SLOTS);
        let mut holes = !self.bits(low) & self.used_mask(low);
        let mut blobs = self.bits(high);
        let most = if self.class.slot as usize > ALONE { 1 } else { BATCH };
        while planned < most && holes != 0 && blobs != 0 {
            let from = high * GROUP_SLOTS + 63 - u64::from(blobs.leading_zeros());
            let to = low * GROUP_SLOTS + u64::from(holes.trailing_zeros());
            if to >= from {
                break;
            }
            pairs[planned] = (from, to);
            planned += 1;
            blobs ^= 1 << (from % GROUP_SLOTS);
            holes &= holes - 1;
        }
        (pairs, planned)
    }

    fn prefetch(&self, pairs: &[(u64, u64)], owners: &impl Owners) {
        let (class, bytes) = (self.class, self.class.slot as usize);
        for &(from, to) in pairs {
            cache::will_read(class.header(from));
            cache::will_write(class.header(to));
            cache::will_read_all(class.slot(from), bytes);
            // The lines in between are overwritten as a whole.
            cache::will_write(class.slot(to));
            cache::will_write(class.slot(to).wrapping_add(bytes - 1));
        }
        for &(from, _) in pairs {
            // SAFETY: the header of a slot below the top.
            if let Some(header) = unsafe { Header::read(class.header(from)) } {
                owners.prefetch(header.owner);
            }
        }
    }

    /// Copies the blobs up to the first one that cannot be moved.
    fn copy(&mut self, pairs: &[(u64, u64)]) -> Batch {
        let class = self.class;
        let mut batch = Batch { moves: [None; BATCH] };
        for (&(from, to), one) in pairs.iter().zip(&mut batch.moves) {
            debug_assert!(to < from && self.is_live(from) && !self.is_live(to));
            // SAFETY: the header of a slot below the top. If there is none,
            // its writer is not done yet, or it is damaged.
            let Some(old) = (unsafe { Header::read(class.header(from)) }) else { break };
            let Some(len) = class.payload_len(old) else { break };
            let new = Header { generation: self.next_generation(), ..old };
            // SAFETY: two different slots of this class, which begin and end at multiples of 16 bytes. Nobody
            // uses the hole while the lock is held; the blob is only read, here as by its readers.
            unsafe { cache::copy_nontemporal(class.slot(from), class.slot(to), len.div_ceil(16)) };
            *one = Some(Move { from, to, old, new, len });
        }
        cache::copied();
        for one in batch.moves.iter().flatten() {
            // SAFETY: as above: the hole's header.
            unsafe { one.new.write(class.header(one.to)) };
        }
        batch
    }

    /// Called when the owner has the new reference: makes the old slot a hole, and the hole live.
    fn settle(&mut self, one: &Move) {
        // SAFETY: nobody can have the old reference any more.
        unsafe { Header::withdraw(self.class.header(one.from)) };
        let group = one.to / GROUP_SLOTS;
        let bits = self.bits(group);
        self.set_bits(group, bits | 1 << (one.to % GROUP_SLOTS));
        self.clear(one.from);
        self.lower_top(1);
    }
}
