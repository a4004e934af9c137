//! The records of directories, and of names of files that have several.

use memfold::heap::Handle;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::listing::Contents;
use crate::entry::{Entry, Kind, Sum};

/// Why a directory was not read, or not completely.
pub mod flags {
    /// It could not be read, or not completely; [`Row::error`](super::Row::error) says why.
    pub const FAILED: u16 = 1;
    /// The kernel generates its contents, and it was not read.
    pub const KERNEL: u16 = 2;
    /// It is tagged as a cache, and was not read.
    pub const CACHE: u16 = 4;
    /// It is its own ancestor, and was not read again.
    pub const LOOP: u16 = 8;
}

/// What is known about a directory besides its entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    pub(super) node: u64,
    /// Total length of everything below, in bytes.
    pub size: u64,
    /// Total space of everything below, in units of 512 bytes.
    pub blocks: u64,
    /// Number of names below.
    pub items: u64,
    /// The part of `size` that has names elsewhere.
    pub shared_size: u64,
    /// The part of `blocks` that has names elsewhere.
    pub shared_blocks: u64,
    /// The latest change of anything below, if extended information was requested.
    pub modified: i64,
    /// The time up to which all changes of its regular files are certain to have been seen, in nanoseconds
    /// since 1970. memfold's own files do not contain it: nothing is deleted through them.
    pub(crate) seen_until: i64,
    pub(super) slots: u32,
    /// The index of its device in the tree's list.
    pub device: u32,
    /// Failures below.
    pub failures: u32,
    /// The system's error number, if it could not be read.
    pub error: u16,
    /// See [`flags`].
    pub flags: u16,
}

impl Row {
    /// Where its entries are.
    pub fn contents(&self) -> Contents {
        Contents { slots: self.slots, node: Handle::from_bits(self.node) }
    }

    /// Its node as a number; 0 if none.
    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    /// Sets the node and the number of slots.
    pub(crate) fn set_node(&mut self, node: u64, slots: u32) {
        (self.node, self.slots) = (node, slots);
    }

    /// Sets where its entries are.
    pub fn set_contents(&mut self, contents: Contents) {
        self.slots = contents.slots;
        self.node = contents.node.map_or(0, Handle::to_bits);
    }

    /// The sum of everything below.
    pub fn sum(&self) -> Sum {
        Sum { size: self.size, blocks: self.blocks }
    }

    pub(super) fn set_sum(&mut self, sum: Sum) {
        (self.size, self.blocks) = (sum.size, sum.blocks);
    }

    /// The part of it that has names elsewhere.
    pub fn shared(&self) -> Sum {
        Sum { size: self.shared_size, blocks: self.shared_blocks }
    }

    pub(super) fn set_shared(&mut self, sum: Sum) {
        (self.shared_size, self.shared_blocks) = (sum.size, sum.blocks);
    }

    /// Counts an entry in its own directory: the entry itself, without anything below it.
    pub fn count(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            Kind::Gone => return,
            Kind::Failed(_) => self.failures = self.failures.saturating_add(1),
            _ => (),
        }
        self.items += 1;
        self.set_sum(self.sum().plus(entry.sum()));
        if let Some(extended) = entry.extended {
            self.modified = self.modified.max(extended.modified);
        }
    }

    pub(super) fn failures_in_all(&self) -> u32 {
        self.failures.saturating_add((self.flags & flags::FAILED != 0).into())
    }
}

/// A name of a file that has several. Names are in the order of their files.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Name {
    /// The file's number in its file system,
    pub inode: u64,
    /// and which of the tree's file systems that is.
    pub device: u32,
    /// The directory.
    pub directory: u32,
    /// The slot in it.
    pub slot: u32,
    /// The number of the file's names.
    pub names: u32,
    /// The file's length in bytes,
    pub size: u64,
    /// and its space in units of 512 bytes.
    pub blocks: u64,
}

impl Name {
    /// Whether both are names of the same file.
    pub(super) fn is_of(&self, other: &Name) -> bool {
        (self.inode, self.device) == (other.inode, other.device)
    }

    /// Whether both are the same name, regardless of the file's data.
    pub(super) fn is(&self, other: &Name) -> bool {
        self.is_of(other) && (self.directory, self.slot) == (other.directory, other.slot)
    }
}
