//! A tree of directories in a compressed heap.
//!
//! ```text
//!   rows     one for each directory, by its number: parent and slot there, contents, sums of all below it
//!   parts    nodes with up to 64 entries of a directory each, which `contents` leads to (listing.rs, part.rs)
//!   links    a sorted list: each name of a file that has several, by the file's number
//! ```
//!
//! A directory's number is larger than its parent's: sums are made from the last row to the first. The first one, 0, is the root, whose own entry stands beside the rows.
//!
//! **Hard links** are counted once in each directory, and in all: a row's sums have each file once, however many of its names are below. Of these, the file is **shared** if some of its names are
//! elsewhere, else it is the directory's alone (links.rs).

pub mod below;
mod build;
mod links;
pub mod listing;
mod refresh;
mod remove;
mod runs;
mod sums;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use memfold::collections::table::{Column, Columns, Row as Number};
use memfold::collections::{SlabList, Table};
use memfold::heap::{Handle, Heap, Plain, Session};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Error;
use crate::entry::{Entry, Extended, Kind, Link, Sum, Target};
use crate::source::Source;
pub use build::Builder;
pub use links::Name;
pub use listing::{Contents, Listing};
pub use refresh::Refresh;
use runs::Runs;

/// What could not be read, was left out, or is wrong with a directory.
pub mod flags {
    /// It could not be read, or not all of it; [`Row::error`](super::Row::error) says why.
    pub const FAILED: u16 = 1;
    /// The kernel makes it up, and it was not read.
    pub const KERNEL: u16 = 2;
    /// It says that it is a cache, and was not read.
    pub const CACHE: u16 = 4;
    /// It is above itself, and was not read again.
    pub const LOOP: u16 = 8;
}

/// What is known of a directory, beside its entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    node: u64,
    /// Of all below: bytes.
    pub size: u64,
    /// Of all below: units of 512 bytes.
    pub blocks: u64,
    /// Names below.
    pub items: u64,
    /// That of `size` which has names elsewhere.
    pub shared_size: u64,
    /// That of `blocks` which has names elsewhere.
    pub shared_blocks: u64,
    /// The latest change of all below, if extended information was asked for.
    pub modified: i64,
    /// Up to when regular files in it were changed that are as they were read, in nanoseconds since 1970. Files of ours don't have it: nothing is deleted there.
    pub(crate) seen_until: i64,
    slots: u32,
    /// Which of the tree's devices it is on.
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

    /// The node to which it leads, as a number; 0 if none.
    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    /// The same, put in, with the number of slots.
    pub(crate) fn set_node(&mut self, node: u64, slots: u32) {
        (self.node, self.slots) = (node, slots);
    }

    /// The same, put in.
    pub fn set_contents(&mut self, contents: Contents) {
        self.slots = contents.slots;
        self.node = contents.node.map_or(0, Handle::to_bits);
    }

    /// Of all below.
    pub fn sum(&self) -> Sum {
        Sum { size: self.size, blocks: self.blocks }
    }

    fn set_sum(&mut self, sum: Sum) {
        (self.size, self.blocks) = (sum.size, sum.blocks);
    }

    /// That part of it which has names elsewhere.
    pub fn shared(&self) -> Sum {
        Sum { size: self.shared_size, blocks: self.shared_blocks }
    }

    fn set_shared(&mut self, sum: Sum) {
        (self.shared_size, self.shared_blocks) = (sum.size, sum.blocks);
    }

    /// Counts an entry in its own directory: itself, not what is below it.
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

    fn failures_in_all(&self) -> u32 {
        self.failures.saturating_add((self.flags & flags::FAILED != 0).into())
    }
}

/// An entry that is kept beside the heap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnEntry {
    /// Its name; the root's is its path.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// If the file has other names.
    pub link: Option<Link>,
    /// If it is a symbolic link that was followed.
    pub followed: Option<Target>,
    /// If it was asked for.
    pub extended: Option<Extended>,
}

impl OwnEntry {
    /// The entry.
    pub fn entry(&self) -> Entry<'_> {
        let OwnEntry { ref name, kind, size, blocks, link, followed, extended } = *self;
        Entry { name, kind, size, blocks, link, followed, extended }
    }
}

impl From<Entry<'_>> for OwnEntry {
    fn from(entry: Entry<'_>) -> Self {
        let Entry { name, kind, size, blocks, link, followed, extended } = entry;
        OwnEntry { name: name.to_vec(), kind, size, blocks, link, followed, extended }
    }
}

/// A directory, and where it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directory {
    /// Its number.
    pub number: u32,
    /// The number of the directory above it; the root is above itself.
    pub above: u32,
    /// Which entry of that one it is.
    pub slot: u32,
    /// What is known of it.
    pub row: Row,
}

/// What was read of directories.
#[derive(Debug, Default)]
pub struct Batch {
    /// With what their own entries come to.
    pub directories: Vec<Directory>,
    /// Names of files that have others.
    pub links: Vec<Name>,
}

/// Rows that follow each other, in plain memory, until all of them are there: they come in the order in which directories are done.
struct Group {
    directories: Box<[Directory; GROUP]>,
    there: u64,
}

/// Rows of a group: a bit each.
const GROUP: usize = 64;
/// Groups that wait at most: mostly one waits for each level of the tree.
const WAITING: usize = 32;

/// A tree: see the module.
pub struct Tree<'s> {
    heap: &'s Heap,
    /// For parts.
    nodes: Session<'s>,
    rows: Table<'s>,
    row: Column<Row>,
    /// The number of the directory above: who goes up brings nothing else.
    above: Column<u32>,
    /// Which entry of that one it is.
    slot: Column<u32>,
    /// By the number of their first rows.
    waiting: BTreeMap<u32, Group>,
    links: SlabList<'s, Name>,
    /// Those that are not there yet.
    new_links: Runs<'s>,
    /// Numbers of file systems.
    devices: Vec<u64>,
    root: OwnEntry,
    /// Which directory the root was when it was read: its device and inode, if it was read here.
    origin: Option<(u64, u64)>,
    /// Links may have been followed.
    follows_links: bool,
    /// Names in directories from this one on are those of a refresh, and not counted yet.
    uncounted: u32,
    /// Numbers that were given out, or are free again.
    numbers: u32,
}

impl<'s> Tree<'s> {
    /// A tree without anything but its root, whose name is its path. `session` is one of the heap's.
    pub fn new(heap: &'s Heap, session: &'s Session<'_>, root: OwnEntry) -> Result<Self, Error> {
        let mut columns = Columns::new();
        let (row, above, slot) = (columns.add(), columns.add(), columns.add());
        let rows = Table::new(session, &columns);
        let links = SlabList::new(session);
        Ok(Tree {
            heap,
            nodes: heap.session()?,
            rows,
            row,
            above,
            slot,
            waiting: BTreeMap::new(),
            links,
            new_links: Runs::new(session),
            devices: Vec::new(),
            root,
            origin: None,
            follows_links: false,
            uncounted: u32::MAX,
            numbers: 0,
        })
    }

    /// The heap in which it is.
    pub fn heap(&self) -> &'s Heap {
        self.heap
    }

    /// Which directory the root is: its device and inode, if it was read here.
    pub(crate) fn origin(&self) -> Option<(u64, u64)> {
        self.origin
    }

    /// The same, put in.
    pub(crate) fn set_origin(&mut self, origin: (u64, u64)) {
        self.origin = Some(origin);
    }

    /// Says that links were followed: a file may have names in the tree that are none of its own.
    pub(crate) fn set_follows_links(&mut self) {
        self.follows_links = true;
    }

    /// Which file systems directories are on, by the numbers in their rows.
    pub fn set_devices(&mut self, devices: Vec<u64>) {
        self.devices = devices;
    }

    /// Puts in what was read. [`sum_up`](Self::sum_up) comes when all is. If it fails, all directories are among those that wait, or have rows.
    pub fn put(&mut self, batch: &Batch) -> Result<(), Error> {
        let mut full = Vec::new();
        for directory in &batch.directories {
            let at = directory.number % GROUP as u32;
            let first = directory.number - at;
            let group = self
                .waiting
                .entry(first)
                .or_insert_with(|| Group { directories: Box::new([Directory::default(); GROUP]), there: 0 });
            group.directories[at as usize] = *directory;
            group.there |= 1 << at;
            if group.there == u64::MAX {
                full.push(first);
            }
        }
        full.into_iter().try_for_each(|first| self.put_group(first))?;
        while self.waiting.len() > WAITING {
            // The first ones wait for those that are done last.
            let middle = self.waiting.keys().nth(WAITING / 2).copied();
            middle.map_or(Ok(()), |first| self.put_group(first))?;
        }
        self.new_links.add(&batch.links)
    }

    fn put_group(&mut self, first: u32) -> Result<(), Error> {
        let Some(mut group) = self.waiting.remove(&first) else { return Ok(()) };
        while group.there != 0 {
            let at = group.there.trailing_zeros();
            if let Err(error) = self.put_directory(&group.directories[at as usize]) {
                self.waiting.insert(first, group);
                return Err(error);
            }
            group.there &= group.there - 1;
        }
        Ok(())
    }

    /// Frees what leads nowhere any more: entries of directories that are not put in.
    pub(crate) fn discard(&mut self, directories: &[Directory]) -> Result<(), Error> {
        let nodes = &mut self.nodes;
        let free = |result: Result<(), Error>, directory: &Directory| {
            let freed = directory.row.contents().free(nodes);
            result.and(freed)
        };
        directories.iter().fold(Ok(()), free)
    }

    fn put_directory(&mut self, directory: &Directory) -> Result<(), Error> {
        let Directory { number, above, slot, row } = directory;
        while self.numbers <= *number {
            self.rows.add_row()?;
            self.numbers += 1;
        }
        let at = Number((*number).into());
        self.rows.set(at, self.above, above)?;
        self.rows.set(at, self.slot, slot)?;
        self.set_row(*number, row)
    }

    /// Says which entry of the one above a directory is that was put in.
    fn set_slot(&mut self, number: u32, slot: u32) -> Result<(), Error> {
        let at = number % GROUP as u32;
        if let Some(group) = self.waiting.get_mut(&(number - at))
            && group.there >> at & 1 == 1
        {
            group.directories[at as usize].slot = slot;
            return Ok(());
        }
        match self.rows.set(Number(number.into()), self.slot, &slot)? {
            true => Ok(()),
            false => Err(Error::Damaged),
        }
    }

    fn put_groups(&mut self) -> Result<(), Error> {
        while let Some(first) = self.waiting.keys().next().copied() {
            self.put_group(first)?;
        }
        Ok(())
    }

    /// The first name in the list that is not before this one.
    fn name_from(&self, name: Name) -> Result<Option<Name>, Error> {
        Ok(self.links.range(name..)?.next().transpose()?)
    }

    fn cell<T: Plain + Copy>(&self, number: u32, column: Column<T>) -> Result<T, Error> {
        self.rows.get(Number(number.into()), column)?.ok_or(Error::Damaged)
    }

    fn set_row(&mut self, number: u32, row: &Row) -> Result<(), Error> {
        match self.rows.set(Number(number.into()), self.row, row)? {
            true => Ok(()),
            false => Err(Error::Damaged),
        }
    }
}

impl Source for Tree<'_> {
    fn root(&self) -> &OwnEntry {
        &self.root
    }

    fn numbers(&self) -> u32 {
        self.numbers
    }

    fn devices(&self) -> &[u64] {
        &self.devices
    }

    fn row(&self, number: u32) -> Result<Row, Error> {
        self.cell(number, self.row)
    }

    fn above(&self, number: u32) -> Result<u32, Error> {
        self.cell(number, self.above)
    }

    fn slot(&self, number: u32) -> Result<u32, Error> {
        self.cell(number, self.slot)
    }

    fn part(&self, contents: Contents, number: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        Ok(self.nodes.read_into(contents.part(&self.nodes, number)?, to)?)
    }

    fn names(&self, inode: u64, device: u32) -> Result<Vec<Name>, Error> {
        let first = Name { inode, device, ..Name::default() };
        let behind = Name { device: device.wrapping_add(1), ..first };
        let names =
            if device == u32::MAX { self.links.range(first..) } else { self.links.range(first..behind) };
        Ok(names?.collect::<Result<_, _>>()?)
    }

    fn each_name(&self, look: &mut dyn FnMut(&Name) -> Result<(), Error>) -> Result<(), Error> {
        self.links.iter().try_for_each(|name| look(&name?))
    }
}
