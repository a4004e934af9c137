//! Reads a directory again.
//!
//! The new contents, including the directory itself, get numbers above all others, and nothing refers to them
//! until they are complete. If reading is stopped or fails, they are removed, and the tree is unchanged.
//! Otherwise the old entries and their sums are removed, and the new ones replace them. Rows are added
//! without linked files, which are counted at the end, together with their names elsewhere.

use std::collections::HashMap;

use rustix::io::Errno;

use super::below::{Below, Step};
use super::{Batch, Directory, Name, Number, OwnEntry, Row, Tree, flags};
use crate::Error;
use crate::entry::{Kind, Sum};
use crate::part::{MOST, Reader};
use crate::source::{ROOT, Source};

/// Bytes that must be free when the new contents replace the old ones.
const ROOM: usize = 256 << 10;

/// The future contents of a directory. After everything was [added](Self::put) and [summed up](Self::sum_up),
/// [`finish`](Self::finish) installs it; otherwise [`abandon`](Self::abandon) removes it.
pub struct Refresh<'t, 's> {
    tree: &'t mut Tree<'s>,
    directory: u32,
    /// The directory's temporary number. Numbers from this one on are new.
    first: u32,
    /// The sums of linked files in directories whose rows have not arrived yet.
    linked: HashMap<u32, Sum>,
}

impl<'s> Tree<'s> {
    /// Starts reading a directory again.
    pub fn refresh(&mut self, directory: u32) -> Refresh<'_, 's> {
        let first = self.numbers;
        Refresh { tree: self, directory, first, linked: HashMap::new() }
    }

    /// Empties a directory: the tree then records it as one that cannot be read, with this error number of the
    /// system.
    pub fn lose(&mut self, directory: u32, error: u16) -> Result<(), Error> {
        self.empty(directory)?;
        let device = self.row(directory)?.device;
        self.set_row(directory, &Row { device, error, flags: flags::FAILED, ..Row::default() })?;
        if directory == ROOT {
            return Ok(());
        }
        self.put_on(self.above(directory)?, &Row { failures: 1, ..Row::default() })
    }
}

impl Refresh<'_, '_> {
    /// The number under which the directory is read; those of its subdirectories are larger.
    pub fn first(&self) -> u32 {
        self.first
    }

    fn is_new(&self, name: &Name) -> bool {
        name.directory >= self.first || name.directory == self.directory
    }

    /// Adds a batch.
    pub fn put(&mut self, batch: Batch) -> Result<(), Error> {
        for name in &batch.links {
            let linked = self.linked.entry(name.directory).or_default();
            *linked = linked.plus(Sum { size: name.size, blocks: name.blocks });
        }
        let mut directories = batch.directories;
        for directory in &mut directories {
            let linked = self.linked.remove(&directory.number).unwrap_or_default();
            directory.row.set_sum(directory.row.sum().minus(linked));
        }
        self.tree.put(&Batch { directories, links: Vec::new() })?;
        for name in &batch.links {
            self.tree.links.insert(name)?;
        }
        Ok(())
    }

    /// Frees a batch that was not added.
    pub fn discard(&mut self, batch: &Batch) -> Result<(), Error> {
        self.tree.discard(&batch.directories)
    }

    /// To be called after everything was added: computes the sums, except those of linked files.
    pub fn sum_up(&mut self) -> Result<(), Error> {
        self.tree.put_groups()?;
        for number in (self.first + 1..self.tree.numbers).rev() {
            let above = self.tree.above(number)?;
            if above >= number || above < self.first {
                return Err(Error::Damaged);
            }
            self.tree.count_below(above, number)?;
        }
        self.see_to_room()
    }

    /// Makes sure, before anything is removed, that there is room for the coming changes: sums and lists may
    /// compress worse than before. To check, it allocates random bytes, which do not compress at all.
    fn see_to_room(&mut self) -> Result<(), Error> {
        let (mut nodes, mut state, mut result) = (Vec::new(), 1_u64, Ok(()));
        let mut bytes = [0; ROOM / 32];
        while nodes.len() < 32 && result.is_ok() {
            for word in bytes.as_chunks_mut::<8>().0 {
                // xorshift64*
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                *word = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_ne_bytes();
            }
            result = self.tree.nodes.put_bytes(&bytes).map(|node| nodes.push(node)).map_err(Error::from);
        }
        for node in nodes {
            let freed = self.tree.nodes.free(node);
            result = result.and(freed.map_err(Error::from));
        }
        result
    }

    /// Installs the new contents. `own` is the directory's current own entry; the rows' device numbers are
    /// indices into `devices`. More is removed than changed, so there should be room; if there is none, the
    /// tree records the directory as one that cannot be read.
    pub fn finish(mut self, own: OwnEntry, devices: Vec<u64>) -> Result<(), Error> {
        self.tree.set_devices(devices);
        let result = self.replace(own);
        if result.is_err() {
            let directory = self.directory;
            self.tree.lose(directory, Errno::NOMEM.raw_os_error() as u16)?;
        }
        result
    }

    fn replace(&mut self, own: OwnEntry) -> Result<(), Error> {
        let (tree, directory) = (&mut *self.tree, self.directory);
        tree.uncounted = self.first;
        let emptied = tree.empty(directory);
        tree.uncounted = u32::MAX;
        emptied?;
        let row = tree.row(self.first)?;
        tree.set_row(directory, &row)?;
        tree.set_row(self.first, &Row::default())?;
        if directory == ROOT {
            tree.root = OwnEntry { name: std::mem::take(&mut tree.root.name), ..own };
        } else {
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
        self.adopt(&row)?;
        self.count_links()
    }

    /// Gives the directory's final number to its subdirectories and to its names of linked files.
    fn adopt(&mut self, row: &Row) -> Result<(), Error> {
        let Refresh { tree, directory, first, .. } = self;
        let mut bytes = Vec::new();
        for part in 0..row.contents().parts() {
            tree.part(row.contents(), part, &mut bytes)?;
            let mut entries = Reader::new(&bytes)?;
            let mut slot = (part * MOST) as u32;
            while let Some(entry) = entries.read()? {
                if let Kind::Directory(number) = entry.kind {
                    tree.rows.set(Number(number.into()), tree.above, directory)?;
                }
                if let Some(link) = entry.link {
                    let (inode, device) = (link.inode, link.device.unwrap_or(row.device));
                    let at = Name { inode, device, directory: *first, slot, ..Name::default() };
                    if let Some(name) = tree.name_from(at)?.filter(|name| name.is(&at)) {
                        tree.links.remove(&name)?;
                        tree.links.insert(&Name { directory: *directory, ..name })?;
                    }
                }
                slot += 1;
            }
        }
        Ok(())
    }

    /// Counts linked files with all their names, old and new.
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

    /// Recounts a file at the first of its new names.
    fn count_file(&mut self, at: &Name) -> Result<(), Error> {
        // Not all names need to be searched for each new one: new names are in the directory itself, or after
        // all old names.
        let mut first = None;
        for (directory, end) in [(self.directory, self.directory), (self.first, u32::MAX)] {
            let from = Name { directory, slot: 0, ..*at };
            let next = self.tree.name_from(from)?;
            first = first.or(next.filter(|next| next.is_of(at) && next.directory <= end));
        }
        let Some(first) = first.filter(|first| first.is(at)) else { return Ok(()) };
        let names = self.tree.names(at.inode, at.device)?;
        let old: Vec<Name> = names.iter().filter(|name| !self.is_new(name)).copied().collect();
        // The file may have changed since its other names were read, but must count with one size everywhere.
        let Name { size, blocks, .. } = first;
        let new = names.iter().map(|name| Name { size, blocks, ..*name }).collect();
        self.tree.change_names(&old, &names, new, first.names)?;
        for name in old.iter().filter(|name| (name.size, name.blocks) != (size, blocks)) {
            let entry = self.tree.entry(self.tree.row(name.directory)?.contents(), name.slot)?;
            let entry = OwnEntry { size, blocks, ..entry };
            self.tree.set_entry(name.directory, name.slot, &entry.entry())?;
        }
        Ok(())
    }

    /// Ends the refresh without installing anything. If something cannot be freed, everything else is freed
    /// and an error is returned.
    pub fn abandon(self) -> Result<(), Error> {
        let Refresh { tree, first, .. } = self;
        let mut result = Ok(());
        for group in std::mem::take(&mut tree.waiting).into_values() {
            let is_there = |(at, _): &(usize, &Directory)| group.there >> at & 1 == 1;
            let there: Vec<Directory> = group
                .directories
                .iter()
                .enumerate()
                .filter(is_there)
                .map(|(_, directory)| *directory)
                .collect();
            result = result.and(tree.discard(&there));
        }
        for number in (first..tree.numbers).rev() {
            let freed = tree.row(number).and_then(|row| row.contents().free(&mut tree.nodes));
            result = result.and(freed);
        }
        result = result.and(tree.forget_new_names(first));
        // The next directories get these numbers and rows.
        while tree.numbers > first && tree.rows.remove_row(Number((tree.numbers - 1).into()))? {
            tree.numbers -= 1;
        }
        result
    }
}

impl Tree<'_> {
    fn forget_new_names(&mut self, first: u32) -> Result<(), Error> {
        let mut next = 0;
        while next < self.links.len() {
            let piece: Vec<Name> = self.links.slice(next..next + 1024).collect::<Result<_, _>>()?;
            next += piece.len() as u64;
            for name in piece.iter().filter(|name| name.directory >= first) {
                self.links.remove(name)?;
                next -= 1;
            }
        }
        Ok(())
    }
}
