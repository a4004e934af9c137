//! Completes the sums of directories: from their own entries to everything below.

use super::{Row, Tree};
use crate::Error;
use crate::source::Source;

impl Row {
    /// Counts a subdirectory, whose own sums are complete.
    fn count_below(&mut self, below: &Row) {
        self.set_sum(self.sum().plus(below.sum()));
        self.set_shared(self.shared().plus(below.shared()));
        self.items += below.items;
        self.modified = self.modified.max(below.modified);
        self.failures = self.failures.saturating_add(below.failures_in_all());
    }
}

impl Tree<'_> {
    /// To be called after everything was added: completes the sums of directories, which so far contain only
    /// their own entries, from the last row to the first. Each directory counts each file once.
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

    /// Counts a directory in its parent.
    pub(super) fn count_below(&mut self, above: u32, number: u32) -> Result<(), Error> {
        let row = self.row(number)?;
        let mut sums = self.row(above)?;
        sums.count_below(&row);
        self.set_row(above, &sums)
    }
}
