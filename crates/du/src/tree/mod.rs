//! A tree of directories in a compressed heap.
//!
//! ```text
//!   rows     one for each directory, by its number: parent and slot there, contents, sums of all below it
//!   parts    nodes with up to 64 entries of a directory each, which `contents` leads to (listing.rs, part/)
//!   links    a sorted list: each name of a file that has several, by the file's number
//! ```
//!
//! A directory's number is larger than its parent's, so sums are computed from the last row to the first. Row
//! 0 is the root, whose own entry is kept beside the rows.
//!
//! Each directory, and the total, counts **hard links** once: a row's sums contain each file once, however many
//! of its names are below. Of these, a file is **shared** if some of its names are elsewhere, otherwise it
//! belongs to the directory alone (links.rs).

pub mod below;
mod build;
mod links;
pub mod listing;
mod refresh;
mod remove;
pub mod row;
mod runs;
mod sums;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use memfold::collections::table::{Column, Columns, Row as Number};
use memfold::collections::{SlabList, Table};
use memfold::heap::{Heap, Plain, Session};

use crate::Error;
pub use crate::entry::OwnEntry;
use crate::source::Source;
pub use build::Builder;
pub use listing::{Contents, Listing};
pub use refresh::Refresh;
pub use row::{Name, Row, flags};
use runs::Runs;

/// A directory, and its position.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directory {
    /// Its number.
    pub number: u32,
    /// Its parent's number; the root is its own parent.
    pub above: u32,
    /// Its slot in the parent.
    pub slot: u32,
    /// What is known about it.
    pub row: Row,
}

/// The result of reading some directories.
#[derive(Debug, Default)]
pub struct Batch {
    /// Directories with the sums of their own entries.
    pub directories: Vec<Directory>,
    /// Names of files that have others.
    pub links: Vec<Name>,
}

/// Adjacent rows, in plain memory until all of them have arrived. Rows arrive in the order in which
/// directories are completed.
struct Group {
    directories: Box<[Directory; GROUP]>,
    there: u64,
}

/// Rows of a group: one bit each.
const GROUP: usize = 64;
/// The most groups that wait: usually one per level of the tree.
const WAITING: usize = 32;

/// A tree: see the module.
pub struct Tree<'s> {
    heap: &'s Heap,
    /// For the parts.
    nodes: Session<'s>,
    rows: Table<'s>,
    row: Column<Row>,
    /// The parents' numbers, in a separate column, so that walking up touches nothing else.
    above: Column<u32>,
    /// The slots in the parents.
    slot: Column<u32>,
    /// Incomplete groups, by the number of their first rows.
    waiting: BTreeMap<u32, Group>,
    links: SlabList<'s, Name>,
    /// Links that are not in `links` yet.
    new_links: Runs<'s>,
    /// Numbers of file systems.
    devices: Vec<u64>,
    root: OwnEntry,
    /// The root's device and inode when it was read, if this program read it.
    origin: Option<(u64, u64)>,
    /// Whether links may have been followed.
    follows_links: bool,
    /// Names in directories from this number on belong to a refresh, and are not counted yet.
    uncounted: u32,
    /// The number of directory numbers in use or freed.
    numbers: u32,
}

impl<'s> Tree<'s> {
    /// A tree that contains only its root, whose name is its path. `session` must belong to the heap.
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

    /// The heap that contains it.
    pub fn heap(&self) -> &'s Heap {
        self.heap
    }

    /// The root's device and inode, if this program read it.
    pub(crate) fn origin(&self) -> Option<(u64, u64)> {
        self.origin
    }

    /// Sets the root's device and inode.
    pub(crate) fn set_origin(&mut self, origin: (u64, u64)) {
        self.origin = Some(origin);
    }

    /// Notes that links were followed: a file may have names in the tree that are not its own.
    pub(crate) fn set_follows_links(&mut self) {
        self.follows_links = true;
    }

    /// Sets the file systems that the rows' device numbers refer to.
    pub fn set_devices(&mut self, devices: Vec<u64>) {
        self.devices = devices;
    }

    /// Adds a batch. [`sum_up`](Self::sum_up) must follow after the last one. If this fails, all directories
    /// of the batch are either waiting or have rows.
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
            // The first groups wait for the directories that are completed last.
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

    /// Frees unreferenced nodes: the entries of directories that were not added.
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

    /// Sets the slot in the parent of a directory that was added.
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

    /// The first name in the list that is not less than this one.
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
