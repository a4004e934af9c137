//! Tables: rows whose elements are stored by column, so that reading one column faults in no other.
//!
//! ```
//! use memfold::collections::table::Columns;
//! use memfold::collections::Table;
//! use memfold::heap::{Heap, Options};
//!
//! let mut columns = Columns::new();
//! let size = columns.add::<u64>();
//! let name = columns.add::<str>();
//! let heap = Heap::new(Options::new())?;
//! let session = heap.session()?;
//! let mut table = Table::new(&session, &columns);
//! let row = table.add_row()?;
//! table.set(row, size, &100)?;
//! table.set(row, name, "README")?;
//! assert_eq!(table.get(row, name)?.as_deref(), Some("README"));
//! let total = table.column(size).try_fold(0, |sum, cell| cell.map(|(_, size)| sum + size))?;
//! assert_eq!(total, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!             group 0          group 1          group 2                 of as many rows as fill a node in the
//!   used    | bit, bit, ..   | bit, bit, ..   | bit, bit, ..  | ..  one node      widest column: a whole block
//!   size    | 8, 8, ..       |                  one node for each group
//!                            | 8, 8, ..       |
//!                                             | 8, 8, ..      |
//!   kind    | 1, 1, ..       | 1, 1, ..       | 1, 1, ..      | ..  one node for eight groups
//!   name    | handle, ..     | ..  ───> "README"              elements of any length are nodes of their own
//! ```
//!
//! A **row** keeps its number while it is in use; afterwards another row may get the number. The first node
//! of a column is short at first and doubles, so a small table takes little memory.
//!
//! Invariants:
//! - Cells of rows that are not in use are zero: they compress, and a new row has zeros and empty elements.
//! - Exactly one cell refers to an element of any length; an empty one has no node, and its cell is zero.
//! - An operation that fails has changed nothing, unless it says otherwise. If some cells were changed,
//!   others could not be, and the first ones could not be changed back, the table is **broken**: everything
//!   that changes rows is [`Error::Damaged`] from then on.

mod cells;
mod check;
mod rows;
mod scan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::vec::Vec;

use cells::{Cells, Width};
pub use scan::{Rows, Scan};

use super::content::Content;
use crate::heap::{Error, Handle, Session};

/// The most rows of a group: what is copied at a time stays small.
const MOST_ROWS: usize = 1 << 16;
/// The number of rows of a group is a multiple of this: their bits fill bytes.
const BYTE: usize = 8;

/// The name of a row, while it is in use. Afterwards it may name another row, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row(pub u64);

/// The name of a column of elements of one type. It is valid for all tables made from the columns to which it
/// was added; for others it is [`Error::Stale`].
pub struct Column<T: ?Sized> {
    number: u32,
    of: u32,
    element: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Column<T> {}

impl<T: ?Sized> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The columns of a table.
#[derive(Debug)]
pub struct Columns {
    /// Bytes of elements; `None` for those of any length.
    sizes: Vec<Option<usize>>,
    /// Tells these columns from all others.
    id: u32,
}

impl Default for Columns {
    fn default() -> Self {
        Columns::new()
    }
}

impl Columns {
    /// No columns yet.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Columns { sizes: Vec::new(), id: NEXT.fetch_add(1, Relaxed) }
    }

    /// Adds a column: of plain values, of `str`, or of `[u8]`. Tables that were made before don't have it.
    pub fn add<T: Content + ?Sized>(&mut self) -> Column<T> {
        self.sizes.push(T::FIXED);
        Column { number: self.sizes.len() as u32 - 1, of: self.id, element: PhantomData }
    }
}

/// A table: see the module.
pub struct Table<'s> {
    session: &'s Session<'s>,
    /// The `id` of its columns.
    id: u32,
    columns: Vec<Cells>,
    /// Which rows are in use: a bit each.
    used: Cells,
    /// Rows of a group.
    per_group: usize,
    /// How many rows of each group are in use.
    groups: Vec<u32>,
    /// No row before this one is free.
    first_free: u64,
    len: u64,
    broken: bool,
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns.len();
        f.debug_struct("Table").field("columns", &columns).field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'s> Table<'s> {
    /// An empty table.
    pub fn new(session: &'s Session<'_>, columns: &Columns) -> Self {
        let session = session.borrowed();
        let widths = columns.sizes.iter().map(|size| match size {
            Some(size) => Width::Bytes((*size).max(1)),
            None => Width::Reference,
        });
        let widths: Vec<Width> = widths.collect();
        let longest = session.longest();
        let widest = widths.iter().map(|width| width.bytes(1)).max().unwrap_or(1);
        let fits = (longest / widest).clamp(BYTE, MOST_ROWS);
        let per_group = fits / BYTE * BYTE;
        let cells = |width| Cells::new(width, per_group, longest);
        Table {
            session,
            id: columns.id,
            columns: widths.into_iter().map(cells).collect(),
            used: cells(Width::Bit),
            per_group,
            groups: Vec::new(),
            first_free: 0,
            len: 0,
            broken: false,
        }
    }

    /// How many rows are in use.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows of a group.
    pub fn rows_per_group(&self) -> usize {
        self.per_group
    }

    /// Bytes of plain memory that the table takes in addition to the heap's.
    pub fn own_bytes(&self) -> usize {
        let cells = self.columns.iter().chain([&self.used]).map(Cells::own_bytes).sum::<usize>();
        cells + self.columns.capacity() * size_of::<Cells>() + self.groups.capacity() * size_of::<u32>()
    }

    fn cells<T: ?Sized>(&self, column: Column<T>) -> Result<&Cells, Error> {
        self.columns.get(column.number as usize).filter(|_| column.of == self.id).ok_or(Error::Stale)
    }

    /// Whether a row is in use.
    pub fn contains(&self, row: Row) -> Result<bool, Error> {
        if row.0 >= (self.groups.len() * self.per_group) as u64 {
            return Ok(false);
        }
        self.used.get_bit(self.session, row.0)
    }

    /// An element; `None` if the row is not in use.
    pub fn get<T: Content + ?Sized>(&self, row: Row, column: Column<T>) -> Result<Option<T::Owned>, Error> {
        let cells = self.cells(column)?;
        if !self.contains(row)? {
            return Ok(None);
        }
        let (node, at) = cells.place(row.0)?;
        if let Some(size) = T::FIXED {
            return self.session.view(node, |view| T::read(view, at, size))?.ok_or(Error::Damaged).map(Some);
        }
        let link = self.session.get_at(node, at)?;
        cells::read_element::<T>(self.session, Handle::from_bits(link)).map(Some)
    }

    /// Sets an element of a row; false if the row is not in use.
    pub fn set<T: Content + ?Sized>(
        &mut self,
        row: Row,
        column: Column<T>,
        element: &T,
    ) -> Result<bool, Error> {
        let cells = self.cells(column)?;
        if !self.contains(row)? {
            return Ok(false);
        }
        let (node, at) = cells.place(row.0)?;
        if T::FIXED.is_some() {
            cells::write(self.session, node, at, element.bytes())?;
        } else {
            self.set_by_reference(node, at, element.bytes())?;
        }
        Ok(true)
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // A node that can't be freed is damaged: the heap has reported that to the reader.
        let _ = self.clear();
    }
}
