//! Removes entries from a tree whose sums are complete.
//!
//! A file with several names counts in each directory that has one of them below. So when some of its names
//! are removed, the file is first subtracted from all sums, and then counted again with its remaining names.
//! Entries that are not linked are subtracted from the sums above.

use std::collections::HashMap;

use super::below::{Below, Step};
use super::{Name, Row, Tree};
use crate::Error;
use crate::entry::{Entry, Kind, Link, Sum};
use crate::part::{MOST, Reader, Writer};
use crate::source::{ROOT, Source};

impl Tree<'_> {
    /// Removes an entry with everything below it. Its slot stays, empty.
    pub fn remove(&mut self, directory: u32, slot: u32) -> Result<(), Error> {
        let contents = self.row(directory)?.contents();
        let entry = self.entry(contents, slot)?;
        if entry.kind == Kind::Gone {
            return Ok(());
        }
        let mut off = Row::default();
        if let Kind::Directory(number) = entry.kind {
            self.empty(number)?;
            self.set_row(number, &Row::default())?;
        }
        off.count(&entry.entry());
        if let Some(Link { inode, device, .. }) = entry.link {
            let device = device.unwrap_or(self.row(directory)?.device);
            self.forget(inode, device, |_, name| Ok((name.directory, name.slot) == (directory, slot)))?;
            off.set_sum(off.sum().minus(entry.entry().sum()));
        }
        let nothing = Entry { kind: Kind::Gone, ..Entry::default() };
        self.set_entry(directory, slot, &nothing)?;
        self.take_off(directory, &off)
    }

    /// Removes the contents of a directory; the directory itself stays.
    pub(super) fn empty(&mut self, directory: u32) -> Result<(), Error> {
        if !self.links.is_empty() {
            self.forget_below(directory)?;
        }
        let row = self.row(directory)?;
        let mut way = Below::new(directory);
        while let Some(step) = way.step(self)? {
            if let Step::OutOf(number) = step {
                self.row(number)?.contents().free(&mut self.nodes)?;
                self.set_row(number, &Row::default())?;
            }
        }
        let Row { device, .. } = row;
        self.set_row(directory, &Row { device, ..Row::default() })?;
        if directory == ROOT {
            return Ok(());
        }
        let off = Row { failures: row.failures_in_all(), ..row };
        self.take_off(self.above(directory)?, &off)
    }

    /// Replaces the entry in a slot.
    pub(super) fn set_entry(&mut self, directory: u32, slot: u32, entry: &Entry<'_>) -> Result<(), Error> {
        let mut row = self.row(directory)?;
        let mut contents = row.contents();
        let (part, at) = (slot as usize / MOST, slot as usize % MOST);
        let old = contents.part(&self.nodes, part)?;
        let bytes = self.nodes.read(old)?;
        let (mut entries, mut writer, mut new) = (Reader::new(&bytes)?, Writer::default(), Vec::new());
        writer.begin();
        while let Some(other) = entries.read()? {
            let is_it = writer.count() == at;
            writer.add(if is_it { entry } else { &other });
        }
        writer.end(&mut new);
        let new = self.nodes.put_bytes(&new)?;
        let set = match contents.node {
            Some(node) if contents.parts() > 1 => {
                self.nodes.set_at(node, part * 8, &new.to_bits()).map_err(Error::from)
            }
            _ => {
                contents.node = Some(new);
                row.set_contents(contents);
                self.set_row(directory, &row)
            }
        };
        self.nodes.free(if set.is_ok() { old } else { new })?;
        set
    }

    /// Subtracts sums from a directory and all its ancestors.
    fn take_off(&mut self, directory: u32, off: &Row) -> Result<(), Error> {
        self.each_above(directory, |tree, number| {
            let mut row = tree.row(number)?;
            row.set_sum(row.sum().minus(off.sum()));
            row.items = row.items.saturating_sub(off.items);
            row.failures = row.failures.saturating_sub(off.failures);
            tree.set_row(number, &row)?;
            if off.modified != 0 && row.modified == off.modified {
                tree.find_modified(number)
            } else {
                Ok(())
            }
        })
    }

    /// Adds sums to a directory and all its ancestors.
    pub(super) fn put_on(&mut self, directory: u32, on: &Row) -> Result<(), Error> {
        self.each_above(directory, |tree, number| {
            let mut row = tree.row(number)?;
            row.set_sum(row.sum().plus(on.sum()));
            row.items = row.items.saturating_add(on.items);
            row.failures = row.failures.saturating_add(on.failures);
            row.modified = row.modified.max(on.modified);
            tree.set_row(number, &row)
        })
    }

    /// Applies a change to a directory, and then to each ancestor.
    fn each_above(
        &mut self,
        mut directory: u32,
        mut each: impl FnMut(&mut Self, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            each(self, directory)?;
            if directory == ROOT {
                return Ok(());
            }
            directory = self.above(directory)?;
        }
    }

    /// Finds the latest change in a directory, whose subdirectories have up-to-date values.
    fn find_modified(&mut self, directory: u32) -> Result<(), Error> {
        let mut row = self.row(directory)?;
        let mut modified = 0;
        self.each(row.contents(), &mut |_, entry| {
            if let Some(extended) = entry.extended {
                modified = modified.max(extended.modified);
            }
            if let Kind::Directory(number) = entry.kind {
                modified = modified.max(self.row(number)?.modified);
            }
            Ok(())
        })?;
        row.modified = modified;
        self.set_row(directory, &row)
    }

    /// Removes all names of linked files below a directory; afterwards its sums contain no linked file.
    fn forget_below(&mut self, directory: u32) -> Result<(), Error> {
        let mut way = Below::new(directory);
        while let Some(step) = way.step(self)? {
            let Step::Into(number) = step else { continue };
            let row = self.row(number)?;
            for part in 0..row.contents().parts() {
                let mut linked = Vec::new();
                let (mut bytes, mut slot) = (Vec::new(), (part * MOST) as u32);
                self.part(row.contents(), part, &mut bytes)?;
                let mut entries = Reader::new(&bytes)?;
                while let Some(entry) = entries.read()? {
                    linked
                        .extend(entry.link.map(|link| (link.inode, link.device.unwrap_or(row.device), slot)));
                    slot += 1;
                }
                for (inode, device, slot) in linked {
                    // The names of a file are removed together, so it is recounted once.
                    let name = Name { inode, device, directory: number, slot, ..Name::default() };
                    let is_there = self.name_from(name)?.is_some_and(|there| there.is(&name));
                    if is_there {
                        self.forget(inode, device, |tree, name| tree.is_below(name.directory, directory))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a directory is equal to or below another one.
    fn is_below(&self, mut directory: u32, other: u32) -> Result<bool, Error> {
        while directory > other {
            directory = self.above(directory)?;
        }
        Ok(directory == other)
    }

    /// Removes names of a file, and decreases its number of names accordingly.
    fn forget(
        &mut self,
        inode: u64,
        device: u32,
        is_gone: impl Fn(&Self, &Name) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut names = self.names(inode, device)?;
        names.retain(|name| name.directory < self.uncounted);
        let mut gone = Vec::new();
        for name in &names {
            gone.push(is_gone(self, name)?);
        }
        let mut count = 0;
        for (name, _) in names.iter().zip(&gone).filter(|(_, gone)| **gone) {
            count += u32::from(!self.is_followed(name)?);
        }
        let left = names.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(name, _)| *name).collect();
        let number = names.first().map_or(0, |first| first.names.saturating_sub(count));
        self.change_names(&names, &names, left, number)
    }

    /// Whether a name is that of a followed link to the file, not one of the file's own.
    fn is_followed(&self, name: &Name) -> Result<bool, Error> {
        if !self.follows_links {
            return Ok(false);
        }
        Ok(self.entry(self.row(name.directory)?.contents(), name.slot)?.followed.is_some())
    }

    /// Recounts a file that was `counted` with other names, and replaces its listed names. It has `number`
    /// names in total.
    pub(super) fn change_names(
        &mut self,
        counted: &[Name],
        listed: &[Name],
        mut names: Vec<Name>,
        number: u32,
    ) -> Result<(), Error> {
        self.count_file_again(counted, false)?;
        for name in listed {
            self.links.remove(name)?;
        }
        for name in &mut names {
            name.names = number;
            self.links.insert(name)?;
        }
        self.count_file_again(&names, true)
    }

    /// Adds a file to all sums, or subtracts it.
    fn count_file_again(&mut self, names: &[Name], add: bool) -> Result<(), Error> {
        let Some(first) = names.first() else { return Ok(()) };
        let file = Sum { size: first.size, blocks: first.blocks };
        let mut below = HashMap::<u32, u32>::new();
        for name in names {
            let mut at = name.directory;
            loop {
                *below.entry(at).or_default() += 1;
                if at == ROOT {
                    break;
                }
                at = self.above(at)?;
            }
        }
        let change = |sum: Sum| if add { sum.plus(file) } else { sum.minus(file) };
        for (directory, count) in below {
            let mut row = self.row(directory)?;
            row.set_sum(change(row.sum()));
            if count < first.names {
                row.set_shared(change(row.shared()));
            }
            self.set_row(directory, &row)?;
        }
        Ok(())
    }
}
