//! Counts files with several names: each directory counts a file once, however many of its names are below.
//!
//! First, every name is counted in its own directory. Then, for each name but the first, the file is
//! subtracted again from the nearest ancestor that has another of its names below. The summation propagates
//! this to all directories above:
//!
//! ```text
//!          a        the file is counted at c and at d, and taken off at b: b and a have it once
//!          |
//!          b        all its names are below b: there, and above, it is shared with nobody
//!         / \
//!        c   d
//! ```

use std::collections::HashMap;

use super::{Name, Tree};
use crate::Error;
use crate::entry::Sum;
use crate::source::Source;

/// How many directories are corrected at a time, in the order of their rows.
const AT_ONCE: usize = 2048;

/// The state of counting links.
#[derive(Default)]
struct Count {
    /// The ancestors of one file's names, with their distance above the first name; `None` for ancestors of
    /// other names only.
    above: HashMap<u32, Option<u32>>,
    /// The amounts to add to the directories' sums, and to their shared sums.
    changes: HashMap<u32, (Sum, Sum)>,
}

impl Count {
    fn change(&mut self, directory: u32) -> &mut (Sum, Sum) {
        self.changes.entry(directory).or_default()
    }
}

impl Tree<'_> {
    /// Corrects the sums of directories, in which every name is counted, before they are summed up.
    pub(super) fn count_links(&mut self) -> Result<(), Error> {
        let (mut names, mut count) = (Vec::<Name>::new(), Count::default());
        // The list cannot be iterated while rows change, so it is read piece by piece.
        let mut next = 0;
        while next < self.links.len() {
            let piece: Vec<Name> = self.links.slice(next..next + 1024).collect::<Result<_, _>>()?;
            next += piece.len() as u64;
            for name in piece {
                let file = |name: &Name| (name.inode, name.device);
                if names.first().is_some_and(|first| file(first) != file(&name)) {
                    self.count_file(&names, &mut count)?;
                    names.clear();
                }
                names.push(name);
            }
            if count.changes.len() >= AT_ONCE {
                self.correct(&mut count)?;
            }
        }
        self.count_file(&names, &mut count)?;
        self.correct(&mut count)
    }

    fn count_file(&self, names: &[Name], count: &mut Count) -> Result<(), Error> {
        let Some(first) = names.first() else { return Ok(()) };
        let file = Sum { size: first.size, blocks: first.blocks };
        let share = |count: &mut Count, directory, add: bool| {
            let (_, shared) = count.change(directory);
            *shared = if add { shared.plus(file) } else { shared.minus(file) };
        };
        share(count, first.directory, true);
        count.above.clear();
        if names.len() > 1 {
            let (mut at, mut far) = (first.directory, 0);
            while count.above.insert(at, Some(far)).is_none() {
                (at, far) = (self.above(at)?, far + 1);
            }
            // The root is its own parent, and every path ends there.
            count.above.insert(at, Some(far - 1));
        }
        // The uppermost directory at which paths of names meet, as the distance above the first name.
        let mut top = 0;
        for name in &names[1..] {
            let mut at = name.directory;
            let met = loop {
                match count.above.get(&at) {
                    Some(far) => break *far,
                    None => count.above.insert(at, None),
                };
                at = self.above(at)?;
            };
            top = top.max(met.unwrap_or(0));
            share(count, name.directory, true);
            share(count, at, false);
            let (all, _) = count.change(at);
            *all = all.minus(file);
            // The file may have changed since its first name was read, but must count the same everywhere.
            let (all, _) = count.change(name.directory);
            *all = all.plus(file).minus(Sum { size: name.size, blocks: name.blocks });
        }
        if names.len() as u64 >= u64::from(first.names) {
            let mut at = first.directory;
            for _ in 0..top {
                at = self.above(at)?;
            }
            share(count, at, false);
        }
        Ok(())
    }

    fn correct(&mut self, count: &mut Count) -> Result<(), Error> {
        let mut changes: Vec<_> = count.changes.drain().collect();
        changes.sort_unstable_by_key(|(directory, _)| *directory);
        for (directory, (all, shared)) in changes {
            let mut row = self.row(directory)?;
            row.set_sum(row.sum().plus(all));
            row.set_shared(row.shared().plus(shared));
            self.set_row(directory, &row)?;
        }
        Ok(())
    }
}
