//! Iterating over rows: the bits of rows in use, and the cells of one column, are copied up to a thousand at
//! a time.

use std::fmt;
use std::marker::PhantomData;
use std::vec::Vec;

use super::cells::read_element;
use super::{Cells, Column, Row, Table};
use crate::collections::content::Content;
use crate::heap::{Error, Handle, Session};

/// The most rows that are copied at a time.
const CHUNK: usize = 1024;
/// Bits of a word.
const WORD: usize = 64;

/// The rows in use; the bits of some are copied at a time.
struct InUse<'t> {
    session: &'t Session<'t>,
    used: &'t Cells,
    groups: &'t [u32],
    per_group: u64,
    /// The first row that is copied, and how many are.
    first: u64,
    count: usize,
    /// Their bits, and the remaining bits of one word.
    bits: Vec<u8>,
    word: u64,
    at: usize,
}

impl<'t> InUse<'t> {
    fn new(table: &'t Table<'_>) -> Self {
        InUse {
            session: table.session.borrowed(),
            used: &table.used,
            groups: &table.groups,
            per_group: table.per_group as u64,
            first: 0,
            count: 0,
            bits: Vec::new(),
            word: 0,
            at: 0,
        }
    }

    /// The number of the next row among the copied ones.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            let word = self.bits.get(self.at / 8..)?.first_chunk()?;
            (self.word, self.at) = (u64::from_le_bytes(*word), self.at + WORD);
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.at - WORD + bit)
    }

    /// Copies more rows, at most `most` from the first one on; false if there are none.
    #[cold]
    #[inline(never)]
    fn more(&mut self, most: impl Fn(u64) -> usize) -> Result<bool, Error> {
        self.first += self.count as u64;
        (self.count, self.word, self.at) = (0, 0, 0);
        self.bits.clear();
        loop {
            let group = self.first / self.per_group;
            let Some(used) = self.groups.get(group as usize) else { return Ok(false) };
            let end = (group + 1) * self.per_group;
            let room = self.used.run(self.first).min(most(self.first));
            // Beyond the cells of a short first node, no row is in use.
            if *used == 0 || room == 0 {
                self.first = end;
                continue;
            }
            self.count = room.min((end - self.first) as usize).min(CHUNK);
            self.used.copy(self.session, self.first, self.count, &mut self.bits)?;
            self.bits.resize(self.bits.len().next_multiple_of(8), 0);
            return Ok(true);
        }
    }

    /// Ends the iteration.
    fn end(&mut self) {
        (self.groups, self.count, self.word) = (&[], 0, 0);
        self.bits.clear();
    }
}

/// Rows in use, in order. Rows that can't be read are an error, and end the iteration.
pub struct Rows<'t>(InUse<'t>);

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(number) = self.0.next() {
                return Some(Ok(Row(self.0.first + number as u64)));
            }
            match self.0.more(|_| CHUNK) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.0.end();
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The elements of one column, with their rows, in order. An element that can't be read is an error, and ends
/// the iteration.
pub struct Scan<'t, T: Content + ?Sized> {
    rows: InUse<'t>,
    cells: Result<&'t Cells, Error>,
    /// The cells of the copied rows.
    copy: Vec<u8>,
    element: PhantomData<fn() -> T::Owned>,
}

impl<T: Content + ?Sized> Scan<'_, T> {
    /// Copies the next cells; false if there are none.
    #[cold]
    #[inline(never)]
    fn more(&mut self) -> Result<bool, Error> {
        let cells = self.cells?;
        let more = self.rows.more(|first| cells.run(first))?;
        if more {
            cells.copy(self.rows.session, self.rows.first, self.rows.count, &mut self.copy)?;
        }
        Ok(more)
    }

    /// The element of one of the copied cells.
    #[inline(always)]
    fn read(&self, number: usize) -> Result<T::Owned, Error> {
        if let Some(size) = T::FIXED {
            let at = number * size.max(1);
            let bytes = self.copy.get(at..at + size).ok_or(Error::Damaged)?;
            return T::from_bytes(bytes).ok_or(Error::Damaged);
        }
        let link: Option<&[u8; 8]> = self.copy.as_chunks().0.get(number);
        let link = u64::from_ne_bytes(*link.ok_or(Error::Damaged)?);
        read_element::<T>(self.rows.session, Handle::from_bits(link))
    }
}

impl<T: Content + ?Sized> Iterator for Scan<'_, T> {
    type Item = Result<(Row, T::Owned), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(number) = self.rows.next() {
                let row = Row(self.rows.first + number as u64);
                let element = self.read(number).map(|element| (row, element));
                if element.is_err() {
                    self.rows.end();
                }
                return Some(element);
            }
            match self.more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.rows.end();
                    // A column of other tables gives one error.
                    self.cells = Ok(self.rows.used);
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<'s> Table<'s> {
    /// The rows in use.
    pub fn rows(&self) -> Rows<'_> {
        Rows(InUse::new(self))
    }

    /// The elements of a column in the rows in use. The blocks of other columns are not touched.
    pub fn column<T: Content + ?Sized>(&self, column: Column<T>) -> Scan<'_, T> {
        let cells = self.cells(column);
        Scan { rows: InUse::new(self), cells, copy: Vec::new(), element: PhantomData }
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("first", &self.0.first).finish_non_exhaustive()
    }
}

impl<T: Content + ?Sized> fmt::Debug for Scan<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("first", &self.rows.first).finish_non_exhaustive()
    }
}
