//! Builds a tree from entries that arrive one by one, each directory with everything below it, as in exported
//! files.
//!
//! The innermost incomplete directories are in plain memory. The others **sleep**: a node of the heap holds
//! the state of each, so that a tree may have any depth.
//!
//! ```text
//!   asleep: handle ──> | number, LEB | row | runs, LEB | for each: parts, LEB | part, 8 | .. |
//! ```

use memfold::heap::{Handle, Heap, Session};
use zerocopy::{FromBytes, IntoBytes};

use super::{Batch, Directory, Listing, Name, OwnEntry, Row, Tree};
use crate::Error;
use crate::entry::{Entry, Kind, Link};
use crate::part::{Bytes, put_leb};
use crate::source::ROOT;

/// The most plain memory for the entries of all incomplete directories.
const MOST_BYTES: usize = 2 << 20;

/// The number of directories in plain memory: when there are twice as many, the outer half goes to sleep.
const AWAKE: usize = 128;
/// How many names of linked files go to the tree at a time.
const LINKS: usize = 1024;
/// How many subdirectories of a directory get their slots at a time, in the order of their rows.
const SLOTS: usize = 1 << 15;

/// An incomplete directory.
struct Level {
    number: u32,
    row: Row,
    listing: Listing,
}

impl Level {
    fn sleep(mut self, nodes: &mut Session<'_>) -> Result<Handle, Error> {
        let runs = self.listing.sleep(nodes)?;
        let mut bytes = Vec::new();
        put_leb(&mut bytes, self.number.into());
        bytes.extend_from_slice(self.row.as_bytes());
        put_leb(&mut bytes, runs.len() as u64);
        for parts in &runs {
            put_leb(&mut bytes, parts.len() as u64);
            parts.iter().for_each(|part| bytes.extend_from_slice(&part.to_bits().to_ne_bytes()));
        }
        Ok(nodes.put_bytes(&bytes)?)
    }

    fn wake(node: Handle, nodes: &mut Session<'_>) -> Result<Self, Error> {
        let bytes = nodes.read(node)?;
        nodes.free(node)?;
        let mut bytes = Bytes(&bytes);
        let number = u32::try_from(bytes.leb()?).map_err(|_| Error::Damaged)?;
        let row = Row::read_from_bytes(bytes.take(size_of::<Row>())?).map_err(|_| Error::Damaged)?;
        let mut runs = Vec::new();
        for _ in 0..bytes.leb()? {
            let mut parts = Vec::new();
            for _ in 0..bytes.leb()? {
                let part = u64::read_from_bytes(bytes.take(8)?).map_err(|_| Error::Damaged)?;
                parts.push(Handle::from_bits(part).ok_or(Error::Damaged)?);
            }
            runs.push(parts);
        }
        Ok(Level { number, row, listing: Listing::wake(runs) })
    }
}

fn set_slots(tree: &mut Tree<'_>, slots: &mut Vec<(u32, u32)>) -> Result<(), Error> {
    slots.sort_unstable();
    slots.drain(..).try_for_each(|(number, slot)| tree.set_slot(number, slot))
}

/// Takes entries in this order: a directory, its contents in any order, its end.
pub struct Builder<'s> {
    tree: Tree<'s>,
    nodes: Session<'s>,
    /// The outer directories.
    asleep: Vec<Handle>,
    /// The inner ones.
    levels: Vec<Level>,
    /// A listing to reuse.
    spare: Listing,
    next: u32,
    /// Bytes of plain memory that entries take.
    bytes: usize,
}

impl<'s> Builder<'s> {
    /// Begins with the root, whose name is its path.
    pub fn new(heap: &'s Heap, session: &'s Session<'_>, root: OwnEntry, row: Row) -> Result<Self, Error> {
        let mut tree = Tree::new(heap, session, root)?;
        tree.put(&Batch { directories: vec![Directory { row, ..Directory::default() }], links: Vec::new() })?;
        let root = Level { number: ROOT, row, listing: Listing::default() };
        Ok(Builder {
            tree,
            nodes: heap.session()?,
            asleep: Vec::new(),
            levels: vec![root],
            spare: Listing::default(),
            next: 1,
            bytes: 0,
        })
    }

    /// How many directories are incomplete.
    pub fn depth(&self) -> usize {
        self.asleep.len() + self.levels.len()
    }

    /// The device of the innermost incomplete directory, for its entries.
    pub fn device(&self) -> u32 {
        self.levels.last().map_or(0, |level| level.row.device)
    }

    /// Adds an entry to the innermost incomplete directory. A directory is added by [`begin`](Self::begin).
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let Some(level) = self.levels.last_mut() else { return Err(Error::Damaged) };
        let before = level.listing.own_bytes();
        level.listing.add(entry, &mut self.nodes)?;
        self.bytes = (self.bytes + level.listing.own_bytes()).saturating_sub(before);
        if self.bytes > MOST_BYTES { self.spill() } else { Ok(()) }
    }

    /// Adds a directory to the innermost incomplete one; the entries that follow are in it. Of its row, only
    /// the device and the failures are used.
    pub fn begin(&mut self, entry: &Entry<'_>, row: Row) -> Result<(), Error> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or(Error::TooMany)?;
        self.add(&Entry { kind: Kind::Directory(number), ..*entry })?;
        let listing = std::mem::take(&mut self.spare);
        self.levels.push(Level { number, row, listing });
        if self.levels.len() < 2 * AWAKE {
            return Ok(());
        }
        for level in self.levels.drain(..AWAKE) {
            self.bytes = self.bytes.saturating_sub(level.listing.own_bytes());
            self.asleep.push(level.sleep(&mut self.nodes)?);
        }
        Ok(())
    }

    /// Ends the innermost directory; returns whether it was the root.
    pub fn end(&mut self) -> Result<bool, Error> {
        let Some(Level { number, mut row, mut listing }) = self.levels.pop() else {
            return Err(Error::Damaged);
        };
        self.bytes = self.bytes.saturating_sub(listing.own_bytes());
        let (mut batch, mut slots) = (Batch::default(), Vec::new());
        let tree = &mut self.tree;
        let contents = listing.finish(&mut self.nodes, &mut |slot, entry: &mut Entry<'_>| {
            row.count(entry);
            if let Kind::Directory(number) = entry.kind {
                slots.push((number, slot));
                if slots.len() == SLOTS {
                    set_slots(tree, &mut slots)?;
                }
            }
            if let Some(Link { inode, device, names }) = entry.link {
                let Entry { size, blocks, .. } = *entry;
                let device = device.unwrap_or(row.device);
                batch.links.push(Name { inode, device, directory: number, slot, names, size, blocks });
                if batch.links.len() == LINKS {
                    tree.put(&batch)?;
                    batch.links.clear();
                }
            }
            Ok(())
        })?;
        set_slots(tree, &mut slots)?;
        row.set_contents(contents);
        self.spare = listing;
        if self.levels.is_empty()
            && let Some(node) = self.asleep.pop()
        {
            self.levels.push(Level::wake(node, &mut self.nodes)?);
        }
        let above = self.levels.last().map_or(ROOT, |level| level.number);
        batch.directories.push(Directory { number, above, slot: 0, row });
        self.tree.put(&batch)?;
        Ok(self.levels.is_empty())
    }

    /// Returns the tree after the end of the root. The rows' device numbers are indices into `devices`.
    pub fn finish(mut self, devices: Vec<u64>) -> Result<Tree<'s>, Error> {
        if !self.levels.is_empty() {
            return Err(Error::Damaged);
        }
        self.tree.set_devices(devices);
        self.tree.sum_up()?;
        Ok(self.tree)
    }

    /// Moves entries to the heap, from the directory that has the most.
    fn spill(&mut self) -> Result<(), Error> {
        let Some(level) = self.levels.iter_mut().max_by_key(|level| level.listing.own_bytes()) else {
            return Ok(());
        };
        let before = level.listing.own_bytes();
        level.listing.spill(&mut self.nodes)?;
        self.bytes = (self.bytes + level.listing.own_bytes()).saturating_sub(before);
        Ok(())
    }
}
