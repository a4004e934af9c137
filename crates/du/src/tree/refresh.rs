//! A directory that is read again.
//!
//! Its old entries go, and sums with them. New ones come with numbers above all others, so that new names of linked files are known by their directories; rows are put in without linked files, since
//! these count with their names elsewhere, when all are there.

use std::collections::HashMap;

use super::below::{Below, Step};
use super::{Batch, Name, OwnEntry, Row, Tree, flags};
use crate::Error;
use crate::entry::{Kind, Sum};
use crate::part::{MOST, Reader};
use crate::source::{ROOT, Source};

/// What is put into a directory that was emptied. Either [`finish`](Self::finish) or [`abandon`](Self::abandon) ends it.
pub struct Refresh<'t, 's> {
    tree: &'t mut Tree<'s>,
    directory: u32,
    /// Directories from this one on are new.
    first: u32,
    /// What linked files come to in directories whose rows have not come yet.
    linked: HashMap<u32, Sum>,
}

impl<'s> Tree<'s> {
    /// Empties a directory, to be read again.
    pub fn refresh(&mut self, directory: u32) -> Result<Refresh<'_, 's>, Error> {
        self.empty(directory)?;
        let first = self.numbers;
        Ok(Refresh { tree: self, directory, first, linked: HashMap::new() })
    }
}

impl Refresh<'_, '_> {
    /// Numbers of new directories begin here.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Which file systems directories are on, by the numbers in their rows.
    pub fn set_devices(&mut self, devices: Vec<u64>) {
        self.tree.set_devices(devices);
    }

    fn is_new(&self, name: &Name) -> bool {
        name.directory >= self.first || name.directory == self.directory
    }

    /// Puts in what was read.
    pub fn put(&mut self, batch: Batch) -> Result<(), Error> {
        for name in &batch.links {
            let linked = self.linked.entry(name.directory).or_default();
            *linked = linked.plus(Sum { size: name.size, blocks: name.blocks });
            self.tree.links.insert(name)?;
        }
        let mut directories = batch.directories;
        for directory in &mut directories {
            let linked = self.linked.remove(&directory.number).unwrap_or_default();
            directory.row.set_sum(directory.row.sum().minus(linked));
        }
        self.tree.put(&Batch { directories, links: Vec::new() })
    }

    /// When all is there: makes the sums. `own` is what the directory's own entry is now.
    pub fn finish(mut self, own: OwnEntry) -> Result<(), Error> {
        let (tree, directory) = (&mut *self.tree, self.directory);
        tree.put_groups()?;
        for number in (self.first..tree.numbers).rev() {
            let above = tree.above(number)?;
            if above >= number || (above < self.first && above != directory) {
                return Err(Error::Damaged);
            }
            tree.count_below(above, number)?;
        }
        if directory == ROOT {
            tree.root = OwnEntry { name: std::mem::take(&mut tree.root.name), ..own };
        } else {
            let row = tree.row(directory)?;
            let (above, slot) = (tree.above(directory)?, tree.slot(directory)?);
            let old = tree.own_entry(directory)?;
            let kind = Kind::Directory(directory);
            let own = OwnEntry { name: old.name.clone(), kind, link: None, ..own };
            tree.set_entry(above, slot, &own.entry())?;
            let sum = row.sum().plus(own.entry().sum()).minus(old.entry().sum());
            let modified = row.modified.max(own.extended.map_or(0, |extended| extended.modified));
            let mut on = Row { failures: row.failures_in_all(), modified, ..row };
            on.set_sum(sum);
            tree.put_on(above, &on)?;
        }
        self.count_links()
    }

    /// Counts linked files with all their names, old ones and new ones.
    fn count_links(&mut self) -> Result<(), Error> {
        let mut way = Below::new(self.directory);
        while let Some(step) = way.step(self.tree)? {
            let Step::Into(number) = step else { continue };
            let row = self.tree.row(number)?;
            let mut bytes = Vec::new();
            for part in 0..row.contents().parts() {
                self.tree.part(row.contents(), part, &mut bytes)?;
                let mut entries = Reader::new(&bytes)?;
                let mut slot = (part * MOST) as u32;
                while let Some(entry) = entries.read()? {
                    if let Some(link) = entry.link {
                        let device = link.device.unwrap_or(row.device);
                        let at =
                            Name { inode: link.inode, device, directory: number, slot, ..Name::default() };
                        self.count_file(&at)?;
                    }
                    slot += 1;
                }
            }
        }
        Ok(())
    }

    /// Counts a file anew, when the first of its new names is met.
    fn count_file(&mut self, at: &Name) -> Result<(), Error> {
        // Not all names are looked at for each of them: new ones are in the directory itself, or behind all that were there.
        let mut first = None;
        for (directory, end) in [(self.directory, self.directory), (self.first, u32::MAX)] {
            let from = Name { directory, slot: 0, ..*at };
            let next = self.tree.name_from(from)?;
            first = first.or(next.filter(|next| next.is_of(at) && next.directory <= end));
        }
        let Some(first) = first.filter(|first| first.is(at)) else { return Ok(()) };
        let names = self.tree.names(at.inode, at.device)?;
        let old: Vec<Name> = names.iter().filter(|name| !self.is_new(name)).copied().collect();
        self.tree.change_names(&old, &names, names.clone(), first.names)
    }

    /// Ends it without what came: the directory stands in the tree as one that can't be read, by this error number of the system's.
    pub fn abandon(self, error: u16) -> Result<(), Error> {
        let Refresh { tree, directory, first, .. } = self;
        tree.put_groups()?;
        let mut next = 0;
        while next < tree.links.len() {
            let piece: Vec<Name> = tree.links.slice(next..next + 1024).collect::<Result<_, _>>()?;
            next += piece.len() as u64;
            for name in piece.iter().filter(|name| name.directory >= first || name.directory == directory) {
                tree.links.remove(name)?;
                next -= 1;
            }
        }
        for number in (first..tree.numbers).chain([directory]) {
            let row = tree.row(number)?;
            row.contents().free(&mut tree.nodes)?;
            tree.set_row(number, &Row { device: row.device, ..Row::default() })?;
        }
        let device = tree.row(directory)?.device;
        tree.set_row(directory, &Row { device, error, flags: flags::FAILED, ..Row::default() })?;
        if directory != ROOT {
            let above = tree.above(directory)?;
            tree.put_on(above, &Row { failures: 1, ..Row::default() })?;
        }
        Ok(())
    }
}
