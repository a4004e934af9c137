//! Addresses of the program: pages, the blocks in which they are managed, and where they end.

use crate::kernel::sys::PAGE;

/// Bytes of a block.
pub const BLOCK: usize = 2 << 20;
/// Pages of a block.
pub const PAGES: usize = BLOCK / PAGE;
/// The first address that no program has: the page table reaches up to here.
pub const END: usize = 1 << 47;

/// Maximum number of pages restored by one fault.
pub const RUN: usize = 32;

/// Number of the page at `address`: its owner in the store.
pub fn page_number(address: usize) -> u64 {
    (address / PAGE) as u64
}

/// Index of a page in its block.
pub fn index_in_block(address: usize) -> usize {
    address / PAGE % PAGES
}
