//! What directories come to: from their own entries to all below.

use super::{Row, Tree};
use crate::Error;
use crate::source::Source;

impl Row {
    /// Counts a directory below, whose own sums are whole.
    fn count_below(&mut self, below: &Row) {
        self.set_sum(self.sum().plus(below.sum()));
        self.set_shared(self.shared().plus(below.shared()));
        self.items += below.items;
        self.modified = self.modified.max(below.modified);
        self.failures = self.failures.saturating_add(below.failures_in_all());
    }
}

impl Tree<'_> {
    /// When all was put in: makes the sums of directories, which hold their own entries only, from the last one to the first. Each file counts once in each of them.
    pub fn sum_up(&mut self) -> Result<(), Error> {
        self.put_groups()?;
        self.new_links.finish(&mut self.links)?;
        self.count_links()?;
        for number in (1..self.numbers).rev() {
            let above = self.above(number)?;
            if above >= number {
                return Err(Error::Damaged);
            }
            self.count_below(above, number)?;
        }
        Ok(())
    }

    /// Counts a directory in the one above it.
    pub(super) fn count_below(&mut self, above: u32, number: u32) -> Result<(), Error> {
        let row = self.row(number)?;
        let mut sums = self.row(above)?;
        sums.count_below(&row);
        self.set_row(above, &sums)
    }
}
