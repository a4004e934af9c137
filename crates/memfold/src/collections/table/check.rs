//! The invariants of a table.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::cells::Width;
use super::{Cells, Row, Table};
use crate::heap::{Error, Handle};
use crate::room::push;

impl Table<'_> {
    /// Checks every cell; returns the first contradiction. The check takes eight bytes for each row and each
    /// element of any length; without memory for them it fails.
    pub fn check(&self) -> Result<(), String> {
        if self.broken {
            return Err("an operation broke off, and could not be undone".into());
        }
        let mut rows = Vec::new();
        for row in self.rows() {
            let Row(row) = row.map_err(|error| format!("rows can't be read: {error}"))?;
            push(&mut rows, row).map_err(no_memory)?;
        }
        if rows.len() as u64 != self.len {
            return Err(format!("{} rows, not {}", rows.len(), self.len));
        }
        for (number, used) in self.groups.iter().enumerate() {
            let (from, to) = (number * self.per_group, (number + 1) * self.per_group);
            let count = |end: usize| rows.partition_point(|row| *row < end as u64);
            if count(to) - count(from) != *used as usize {
                return Err(format!("group {number} has other rows than it should"));
            }
        }
        if rows.partition_point(|row| *row < self.first_free) as u64 != self.first_free {
            return Err("there is a free row before the first one".into());
        }
        let mut elements = Vec::new();
        for (number, cells) in self.columns.iter().enumerate() {
            self.check_column(cells, &rows, &mut elements)
                .map_err(|what| format!("column {number}: {what}"))?;
        }
        elements.sort_unstable();
        if elements.windows(2).any(|two| two[0] == two[1]) {
            return Err("one element stands in two cells".into());
        }
        Ok(())
    }

    /// Checks the cells of a column; adds the elements that they refer to to `elements`.
    fn check_column(&self, cells: &Cells, rows: &[u64], elements: &mut Vec<Handle>) -> Result<(), String> {
        let of = |error: Error| format!("{error}");
        let end = (self.groups.len() * self.per_group) as u64;
        let (mut cell, mut row) = (Vec::new(), 0);
        while row < end {
            if cells.run(row) == 0 {
                // The first node is short, or the last one does not exist yet.
                row = (row / self.per_group as u64 + 1) * self.per_group as u64;
                continue;
            }
            let is_used = rows.binary_search(&row).is_ok();
            if cells.place(row).is_err() && !is_used {
                row += 1;
                continue;
            }
            cells.copy(self.session, row, 1, &mut cell).map_err(of)?;
            let is_zero = cell.iter().all(|byte| *byte == 0);
            if !is_used && !is_zero {
                return Err(format!("row {row} is not in use, and not zero"));
            }
            if cells.width == Width::Reference && !is_zero {
                let link = cell.first_chunk().map_or(0, |link| u64::from_ne_bytes(*link));
                let element = Handle::from_bits(link).ok_or("no element")?;
                self.session.size(element).map_err(|error| format!("row {row}: {error}"))?;
                push(elements, element).map_err(no_memory)?;
            }
            row += 1;
        }
        if rows.last().is_some_and(|last| cells.place(*last).is_err()) {
            return Err("there are fewer cells than rows".into());
        }
        Ok(())
    }
}

/// The result of a check that has no memory.
fn no_memory(error: Error) -> String {
    format!("the table can't be looked at: {error}")
}
