//! A tree out of what comes entry by entry, each directory with all below it, as files do that were exported.

use memfold::heap::{Heap, Session};

use super::{Batch, Directory, Listing, Name, OwnEntry, Row, Tree};
use crate::Error;
use crate::entry::{Entry, Kind, Link};
use crate::source::ROOT;

/// Bytes of plain memory that entries of all directories may take which are not at their ends.
const MOST_BYTES: usize = 2 << 20;

/// A directory that is not at its end.
struct Level {
    number: u32,
    row: Row,
    listing: Listing,
}

/// Takes entries in the order: a directory, what is in it in any order, its end.
pub struct Builder<'s> {
    tree: Tree<'s>,
    levels: Vec<Level>,
    /// Not in use.
    spare: Listing,
    next: u32,
    /// Of plain memory that entries take.
    bytes: usize,
    /// The name before, where a directory's are looked at in their order.
    last: Vec<u8>,
}

impl<'s> Builder<'s> {
    /// Begins with the root, whose name is its path.
    pub fn new(heap: &'s Heap, session: &'s Session<'_>, root: OwnEntry, row: Row) -> Result<Self, Error> {
        let mut tree = Tree::new(heap, session, root)?;
        tree.put(&Batch { directories: vec![Directory { row, ..Directory::default() }], links: Vec::new() })?;
        let root = Level { number: ROOT, row, listing: Listing::default() };
        Ok(Builder {
            tree,
            levels: vec![root],
            spare: Listing::default(),
            next: 1,
            bytes: 0,
            last: Vec::new(),
        })
    }

    /// How many directories are not at their ends.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The innermost directory that is not at its end: its device, for what is in it.
    pub fn device(&self) -> u32 {
        self.levels.last().map_or(0, |level| level.row.device)
    }

    /// Something in the innermost directory that is not at its end. A directory comes by [`begin`](Self::begin).
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let Some(level) = self.levels.last_mut() else { return Err(Error::Damaged) };
        let before = level.listing.own_bytes();
        level.listing.add(entry, &mut self.tree.nodes)?;
        self.bytes = (self.bytes + level.listing.own_bytes()).saturating_sub(before);
        if self.bytes > MOST_BYTES { self.spill() } else { Ok(()) }
    }

    /// A directory there, in which those are that come next. Of its row, its device and what could not be read of it count.
    pub fn begin(&mut self, entry: &Entry<'_>, row: Row) -> Result<(), Error> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or(Error::TooMany)?;
        self.add(&Entry { kind: Kind::Directory(number), ..*entry })?;
        let listing = std::mem::take(&mut self.spare);
        self.levels.push(Level { number, row, listing });
        Ok(())
    }

    /// The end of the innermost directory; whether it was the root's.
    pub fn end(&mut self) -> Result<bool, Error> {
        let Some(Level { number, mut row, mut listing }) = self.levels.pop() else {
            return Err(Error::Damaged);
        };
        self.bytes = self.bytes.saturating_sub(listing.own_bytes());
        let (mut slots, mut links) = (Vec::new(), Vec::new());
        let nodes = &mut self.tree.nodes;
        let last = &mut self.last;
        let contents = listing.finish(nodes, &mut |slot, entry: &mut Entry<'_>| {
            if slot > 0 && *last == entry.name {
                return Err(Error::Twice(last.clone()));
            }
            last.clear();
            last.extend_from_slice(entry.name);
            row.count(entry);
            if let Kind::Directory(number) = entry.kind {
                slots.push((number, slot));
            }
            if let Some(Link { inode, names }) = entry.link {
                let Entry { size, blocks, .. } = *entry;
                links.push(Name { inode, device: row.device, directory: number, slot, names, size, blocks });
            }
            Ok(())
        })?;
        row.set_contents(contents);
        self.spare = listing;
        let above = self.levels.last().map_or(ROOT, |level| level.number);
        let directory = Directory { number, above, slot: 0, row };
        self.tree.put(&Batch { directories: vec![directory], links })?;
        slots.into_iter().try_for_each(|(number, slot)| self.tree.set_slot(number, slot))?;
        Ok(self.levels.is_empty())
    }

    /// The tree, when the root is at its end. Devices are those of the rows' numbers.
    pub fn finish(mut self, devices: Vec<u64>) -> Result<Tree<'s>, Error> {
        if !self.levels.is_empty() {
            return Err(Error::Damaged);
        }
        self.tree.set_devices(devices);
        self.tree.sum_up()?;
        Ok(self.tree)
    }

    /// Lets entries go to the heap, of the directory that has most of them.
    fn spill(&mut self) -> Result<(), Error> {
        let Some(level) = self.levels.iter_mut().max_by_key(|level| level.listing.own_bytes()) else {
            return Ok(());
        };
        let before = level.listing.own_bytes();
        level.listing.spill(&mut self.tree.nodes)?;
        self.bytes = (self.bytes + level.listing.own_bytes()).saturating_sub(before);
        Ok(())
    }
}
