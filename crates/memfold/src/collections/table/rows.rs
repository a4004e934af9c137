//! Adding and removing rows.

use std::vec::Vec;

use super::cells::{self, Width};
use super::{Cells, Row, Table};
use crate::collections::links::bits;
use crate::heap::{Error, Handle};

impl Table<'_> {
    /// Adds a row, the first that is not in use. Its elements are zero or empty.
    pub fn add_row(&mut self) -> Result<Row, Error> {
        self.sound()?;
        let row = self.free_row()?;
        let group = (row / self.per_group as u64) as usize;
        if group == self.groups.len() {
            self.groups.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
        }
        // After an error, cells that were provided stay as unused room.
        self.columns
            .iter_mut()
            .chain([&mut self.used])
            .try_for_each(|cells| cells.provide(self.session, row))?;
        self.used.set_bit(self.session, row, true)?;
        if group == self.groups.len() {
            self.groups.push(0);
        }
        self.groups[group] += 1;
        self.len += 1;
        self.first_free = row + 1;
        Ok(Row(row))
    }

    /// The first free row; it may be the one after all groups.
    fn free_row(&self) -> Result<u64, Error> {
        let per_group = self.per_group as u64;
        let mut row = self.first_free;
        let mut bits = Vec::new();
        while let Some(used) = self.groups.get((row / per_group) as usize) {
            let end = (row / per_group + 1) * per_group;
            if *used as usize == self.per_group {
                row = end;
                continue;
            }
            // The bits of a group are in one node, which may be short; all rows beyond its end are free.
            let first = row / 8 * 8;
            let count = self.used.run(first).min((end - first) as usize);
            if count == 0 {
                return Ok(row);
            }
            // Looks at a few first: a program that adds rows in order finds a free one among them.
            for count in [count.min(64), count] {
                self.used.copy(self.session, first, count, &mut bits)?;
                let is_free = |row: &u64| bits[(row - first) as usize / 8] >> (row % 8) & 1 == 0;
                if let Some(free) = (row..first + count as u64).find(is_free) {
                    return Ok(free);
                }
            }
            row = first + count as u64;
            if row < end {
                return Ok(row);
            }
        }
        Ok(row)
    }

    /// Removes a row; false if it was not in use. Its elements become zero. Those of any length are freed,
    /// now or later.
    pub fn remove_row(&mut self, row: Row) -> Result<bool, Error> {
        self.sound()?;
        if !self.contains(row)? {
            return Ok(false);
        }
        let mut old = Vec::new();
        old.try_reserve_exact(self.columns.len()).map_err(|_| Error::OutOfMemory)?;
        let cleared = self.clear_cells(row, &mut old);
        if let Err(error) = cleared.and_then(|()| self.used.set_bit(self.session, row.0, false)) {
            self.broken |= !self.put_back(row, &mut old);
            return Err(error);
        }
        self.groups[(row.0 / self.per_group as u64) as usize] -= 1;
        self.len -= 1;
        self.first_free = self.first_free.min(row.0);
        let elements = self.columns.iter().zip(&old).filter_map(|(cells, old)| element(cells, old));
        elements.for_each(|node| self.session.discard(node));
        Ok(true)
    }

    /// Zeroes the cells of a row; `old` receives their content.
    fn clear_cells(&self, row: Row, old: &mut Vec<Vec<u8>>) -> Result<(), Error> {
        for cells in &self.columns {
            let (node, at) = cells.place(row.0)?;
            let mut bytes = cells::zeros(cells.width);
            cells::swap(self.session, node, at, &mut bytes)?;
            old.push(bytes);
        }
        Ok(())
    }

    /// Restores cells; returns whether that succeeded for all.
    fn put_back(&self, row: Row, old: &mut [Vec<u8>]) -> bool {
        self.columns.iter().zip(old).all(|(cells, old)| {
            cells.place(row.0).is_ok_and(|(node, at)| cells::swap(self.session, node, at, old).is_ok())
        })
    }

    /// Sets an element of any length by the reference in a cell; one of the same length is written into its
    /// node.
    pub(super) fn set_by_reference(&self, node: Handle, at: usize, bytes: &[u8]) -> Result<(), Error> {
        let old = Handle::from_bits(self.session.get_at(node, at)?);
        if let Some(old) = old
            && self.session.size(old)? == bytes.len()
        {
            return cells::write(self.session, old, 0, bytes);
        }
        let new = cells::make_element(self.session, bytes)?;
        let changed = cells::write(self.session, node, at, &bits(new).to_ne_bytes());
        let gone = if changed.is_ok() { old } else { new };
        gone.into_iter().for_each(|node| self.session.discard(node));
        changed
    }

    /// Removes all rows. There are none afterwards, even after an error. If a node can't be read, the
    /// elements to which only it refers stay in the heap. Nodes that can't be freed just now are freed later.
    pub fn clear(&mut self) -> Result<(), Error> {
        let mut result = if self.broken { Err(Error::Damaged) } else { Ok(()) };
        let mut copy = Vec::new();
        for cells in self.columns.iter().filter(|cells| cells.width == Width::Reference) {
            for node in cells.nodes() {
                match self.session.read_into(*node, &mut copy) {
                    Ok(()) => {
                        let links = copy.as_chunks().0.iter().map(|link| u64::from_ne_bytes(*link));
                        for node in links.filter_map(Handle::from_bits) {
                            result = result.and(self.session.free_or_defer(node));
                        }
                    }
                    Err(error) => result = result.and(Err(error)),
                }
            }
        }
        for cells in self.columns.iter_mut().chain([&mut self.used]) {
            result = cells.free(self.session).and(result);
        }
        self.groups.clear();
        (self.first_free, self.len, self.broken) = (0, 0, false);
        result
    }

    fn sound(&self) -> Result<(), Error> {
        if self.broken { Err(Error::Damaged) } else { Ok(()) }
    }
}

/// The node to which a cell refers.
fn element(cells: &Cells, cell: &[u8]) -> Option<Handle> {
    let link = cell.first_chunk().filter(|_| cells.width == Width::Reference)?;
    Handle::from_bits(u64::from_ne_bytes(*link))
}
