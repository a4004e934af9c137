//! Translation: from a handle to an address, in a block that the session used before.
//!
//! A translation holds the knowledge about a block from one tenancy of its frame (`residency/frames`). It is
//! valid while the tenancy is the same, which is checked after everything else. So reading a node takes a few
//! comparisons and writes nothing. One comparison checks the handle's block, incarnation, place and check at
//! once. The positions of nodes come from the block's own bytes, which a C program may have overwritten: a
//! position outside the block is refused.
//!
//! ```text
//!   frame   | live bits, or nothing | node | node | ..           its marks lie elsewhere: starts, checks
//!                                   ^ nodes: a node lies at nodes + place * stride
//! ```

mod free;
mod make;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::*};

pub use self::free::Freed;
use crate::heap::access::bytes::NodeBytes;
use crate::heap::block::handle::Handle;
use crate::heap::block::layout::mixed::{self, HEADER};
use crate::heap::block::table::Block;
use crate::heap::core::Core;
use crate::heap::residency::frames::Frame;

/// The session may change the block without its lock, and the store has no valid copy of it: both hold for
/// the rest of the tenancy.
const OWN: u64 = 1 << 56;
/// Nodes have headers that hold their lengths.
const HEADERS: u64 = 2 << 56;
/// Headers may begin at odd addresses.
const ODD: u64 = 4 << 56;
/// Nodes lie at multiples of eight bytes.
const WORDS: u64 = 8 << 56;
/// Nodes lie at multiples of eight bytes and have one size, which is a small number of words.
const SHORT: u64 = 16 << 56;
/// The most bytes of a short node.
const SHORT_BYTES: usize = 64;
/// Bytes from one place to the next, 24 bits from here on.
const STRIDE_AT: u32 = 32;

/// The bits of a handle's place.
const PLACE: u64 = (1 << Handle::BLOCK_AT) - 1;
/// The bits of a handle without its check.
const UNCHECKED: u64 = u64::MAX >> 8;

/// See the module. Two cache lines, of which reading needs only the first.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub struct Translation<'c> {
    /// As `last`, if all checks are 0 and nodes lie at multiples of eight bytes; otherwise 0.
    simple: u64,
    pub frame: &'c Frame,
    /// A bit for each place.
    starts: NonNull<AtomicU64>,
    /// Place 0.
    nodes: NonNull<u8>,
    /// Flags │ bytes from one place to the next │ bytes of each node, if all have one size, otherwise of all
    /// places. They share one word, since the number of loads limits how many reads of nodes can wait for
    /// memory at once.
    shape: u64,
    tenancy: u64,
    /// The bits of the handle of the block's last place, with check 0. The initial value matches no handle.
    last: u64,
    pub block: &'c Block,

    /// A byte for each place, if there are any.
    checks: Option<NonNull<AtomicU8>>,
    /// When the block is worth listing anew, by its room. If nodes have headers: each time that another
    /// 2^`part` bytes have been freed; otherwise when a node is freed while this many are live.
    part: u32,
}

const _: () = assert!(
    size_of::<Translation<'static>>() == 128 && std::mem::offset_of!(Translation<'static>, checks) == 64
);

// SAFETY: pointers into a frame, which lives as long as the heap and is read by atomic operations, whichever
// thread does it; the session that a translation belongs to is used by one thread at a time.
unsafe impl Send for Translation<'_> {}

impl<'c> Translation<'c> {
    /// A translation of no block.
    pub fn none(core: &'c Core) -> Self {
        let (frame, block) = core.nowhere();
        Translation {
            simple: 0,
            frame,
            starts: NonNull::dangling(),
            nodes: NonNull::dangling(),
            shape: 0,
            tenancy: 0,
            last: u64::MAX,
            block,
            checks: None,
            part: 0,
        }
    }

    /// Whether this translates the handle's block.
    #[inline(always)]
    pub fn leads_to(&self, handle: Handle) -> bool {
        (handle.to_bits() & UNCHECKED) >> Handle::BLOCK_AT == self.last >> Handle::BLOCK_AT
    }

    /// Whether this translates the handle's block, a node can be at its place, and its check is that of the
    /// place.
    #[inline(always)]
    pub fn names_place(&self, handle: Handle) -> bool {
        self.names_simply(handle) || {
            cold();
            self.names_place_hard(handle)
        }
    }

    #[inline(always)]
    fn names_simply(&self, handle: Handle) -> bool {
        is_below(handle.to_bits(), self.simple)
    }

    #[inline(always)]
    fn names_place_hard(&self, handle: Handle) -> bool {
        self.reaches(handle) && self.check(handle.place()) == handle.check()
    }

    /// Whether this translates the handle's block, and the block has the handle's place.
    #[inline(always)]
    fn reaches(&self, handle: Handle) -> bool {
        is_below(handle.to_bits() & UNCHECKED, self.last)
    }

    /// Whether the translation is still valid. Loads before this call are not moved after it.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        self.frame.is_tenancy(self.tenancy)
    }

    /// The tenancy of the frame in which the translation is valid.
    #[inline(always)]
    pub fn tenancy(&self) -> u64 {
        self.tenancy
    }

    /// Whether the session may change the block without its lock while it is busy, and need not invalidate a
    /// copy.
    #[inline(always)]
    pub fn is_own(&self) -> bool {
        self.shape & OWN != 0
    }

    /// Whether all nodes of the block have one size.
    #[inline(always)]
    fn is_equal(&self) -> bool {
        self.shape & HEADERS == 0
    }

    /// Bytes of each node, if all have one size, otherwise of all places.
    #[inline(always)]
    fn len(&self) -> usize {
        self.shape as u32 as usize
    }

    /// Bytes from one place to the next.
    #[inline(always)]
    fn stride(&self) -> usize {
        (self.shape >> STRIDE_AT & 0xff_ffff) as usize
    }

    /// Bytes from place 0 to another.
    #[inline(always)]
    fn offset(&self, place: u16) -> usize {
        usize::from(place) * self.stride()
    }

    /// The memory `offset` bytes after place 0.
    #[inline(always)]
    fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: every caller stays within the block: places are those that handles reach.
        unsafe { self.nodes.add(offset) }
    }

    /// The word with the bit that says whether a node starts at a place, and the bit.
    #[inline(always)]
    fn start(&self, place: u16) -> (&'c AtomicU64, u64) {
        // SAFETY: there is a bit for each place that a handle reaches.
        (unsafe { self.starts.add(usize::from(place) / 64).as_ref() }, 1 << (place % 64))
    }

    /// Whether a node starts at a place. Its check is not read before.
    #[inline(always)]
    fn starts_at(&self, place: u16) -> bool {
        let (word, bit) = self.start(place);
        word.load(Acquire) & bit != 0
    }

    /// The check of a place.
    #[inline(always)]
    fn check(&self, place: u16) -> u8 {
        // SAFETY: there is a byte for each place that a handle reaches.
        self.checks.map_or(0, |checks| unsafe { checks.add(place.into()).as_ref() }.load(Relaxed))
    }

    /// As `find`, for a node whose stripe is not held; also returns the stripe's sequence. The translation
    /// names the place.
    #[inline(always)]
    pub fn find_free(&self, handle: Handle) -> Option<(NodeBytes, u32)> {
        let sequence = self.frame.stripe(handle.place()).sequence()?;
        Some((self.find_named(handle)?, sequence))
    }

    /// A header that may begin at an odd address.
    #[cold]
    fn odd_header(&self, at: usize) -> u16 {
        // SAFETY: both within the block.
        let byte = |i: usize| unsafe { self.at(at + i).cast::<AtomicU8>().as_ref() }.load(Relaxed);
        u16::from_le_bytes([byte(0), byte(1)])
    }

    /// The live node of a handle in the translated block, if there seems to be one: the result holds only if
    /// the translation is valid afterwards and the node's stripe was free.
    #[inline(always)]
    pub fn find(&self, handle: Handle) -> Option<NodeBytes> {
        self.find_if(handle, true)
    }

    /// As `find`, if nodes lie at multiples of eight bytes.
    #[inline(always)]
    pub fn find_words(&self, handle: Handle) -> Option<NodeBytes> {
        self.find_if(handle, self.shape & WORDS != 0)
    }

    /// As `find`; handles that are not simple find nothing unless `any`. Another session may be making a node
    /// at the handle's place: it sets the check and then the bit (`Current::alloc`), so here the bit is read
    /// first. The other way round, a stale handle could match the old check and find the new node.
    #[inline(always)]
    fn find_if(&self, handle: Handle, any: bool) -> Option<NodeBytes> {
        let is_simple = self.names_simply(handle);
        if !is_simple {
            cold();
            if !any || !self.reaches(handle) {
                return None;
            }
        }
        let found = self.find_named(handle)?;
        (is_simple || self.check(handle.place()) == handle.check()).then_some(found)
    }

    /// As `find`, for a handle whose place the translation names.
    #[inline(always)]
    fn find_named(&self, handle: Handle) -> Option<NodeBytes> {
        if !self.starts_at(handle.place()) {
            return None;
        }
        let at = self.offset(handle.place());
        if self.is_equal() { Some(self.equal_node(at)) } else { self.mixed_node(at) }
    }

    /// The node `at` bytes after place 0, if all nodes have one size.
    #[inline(always)]
    fn equal_node(&self, at: usize) -> NodeBytes {
        NodeBytes { bytes: self.at(at), len: self.len() }
    }

    /// The same if nodes have headers; `None` if this one's header is not that of a node within the block.
    #[inline(always)]
    fn mixed_node(&self, at: usize) -> Option<NodeBytes> {
        if at < HEADER {
            return None;
        }
        let header = if self.shape & ODD == 0 {
            // SAFETY: within the block, at an even address since nodes lie at even ones.
            unsafe { self.at(at - HEADER).cast::<AtomicU16>().as_ref() }.load(Relaxed).to_le()
        } else {
            self.odd_header(at - HEADER)
        };
        let len = mixed::node_len(header)?;
        (at + len <= self.len()).then(|| NodeBytes { bytes: self.at(at), len })
    }

    /// Whether a node seems to start at the handle's place, with the handle's check; in the order of
    /// `find_if`.
    pub fn places_have(&self, handle: Handle) -> bool {
        self.reaches(handle) && self.starts_at(handle.place()) && self.check(handle.place()) == handle.check()
    }
}

/// Whether `bits` are those of a place of the same block as `last`, at or before it.
#[inline(always)]
fn is_below(bits: u64, last: u64) -> bool {
    // If any bit above the place differs, the difference is greater than the last place.
    last.wrapping_sub(bits) <= last & PLACE
}

/// Marks its caller's path as unlikely.
#[cold]
fn cold() {}
