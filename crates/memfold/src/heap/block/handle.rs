//! The name of a node.
//!
//! ```text
//!   63..56 check │ 55..48 incarnation │ 47..16 block │ 15..0 place
//! ```
//!
//! The **place** is the node's unit in a block of nodes of different sizes, or its number in one of nodes of
//! one size. The **incarnation** tells the block from earlier blocks with the same number. The **check**
//! tells the node from earlier nodes at the same place in this incarnation; it is 0 until a place of the
//! block is reused.

use core::fmt;
use core::num::NonZeroU64;

/// No block has this number or a higher one: those belong to nodes longer than a block, see `large`.
pub const FIRST_LARGE: u32 = 0xffff_0000;

/// The name of a node: it stays valid while the node's block moves, and is never zero.
///
/// Handles can be stored in nodes, as eight bytes: see [`Handle::to_bits`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// The lowest bit of the block's number.
    pub(crate) const BLOCK_AT: u32 = 16;

    pub(crate) fn new(parts: Parts) -> Self {
        debug_assert!(parts.block != 0);
        let bits = u64::from(parts.check) << 56
            | u64::from(parts.incarnation) << 48
            | u64::from(parts.block) << 16
            | u64::from(parts.place);
        Handle(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }

    /// The bits of the handle of a block's place 0, with check 0.
    pub(crate) fn first_bits(block: u32, incarnation: u8) -> u64 {
        u64::from(incarnation) << 48 | u64::from(block) << 16
    }

    #[inline(always)]
    pub(crate) fn block(self) -> u32 {
        (self.0.get() >> 16) as u32
    }

    #[inline(always)]
    pub(crate) fn incarnation(self) -> u8 {
        (self.0.get() >> 48) as u8
    }

    #[inline(always)]
    pub(crate) fn place(self) -> u16 {
        self.0.get() as u16
    }

    #[inline(always)]
    pub(crate) fn check(self) -> u8 {
        (self.0.get() >> 56) as u8
    }

    /// The handle as a number, for places that can store only numbers.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// The handle that a number stands for; `None` for zero. Any other number is a handle, but perhaps not
    /// one that the heap gave out: using such a handle is an error.
    #[inline]
    pub fn from_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Handle)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({}.{}:{}.{})", self.block(), self.incarnation(), self.place(), self.check())
    }
}

/// The fields of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub check: u8,
    pub incarnation: u8,
    pub block: u32,
    pub place: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_returns_its_parts() {
        let parts = Parts { check: 200, incarnation: 3, block: u32::MAX, place: 65_535 };
        let handle = Handle::new(parts);
        let of = (handle.check(), handle.incarnation(), handle.block(), handle.place());
        assert_eq!(of, (200, 3, u32::MAX, 65_535));
        assert_eq!(handle.to_bits() << 8 >> 8, Handle::first_bits(u32::MAX, 3) + 65_535);
        assert_eq!(Handle::from_bits(handle.to_bits()), Some(handle));
        assert_eq!(Handle::from_bits(0), None);
        assert_eq!(std::format!("{handle:?}"), "Handle(4294967295.3:65535.200)");
    }
}
