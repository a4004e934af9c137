//! Directories down to a level, all in one order regardless of their place in the tree: for printed lists.
//!
//! ```text
//!   what is sorted by, 128 bits, as in a view | the path | 0 | number, 32
//! ```
//!
//! In a path, a slash sorts before all other bytes, so that a directory is followed by its subdirectories.

use memfold::collections::SlabList;
use memfold::heap::Session;

use super::natural::put_key;
use super::sorter::{Sorter, Texts};
use super::{Column, Sort};
use crate::Error;
use crate::source::{ROOT, Source};
use crate::tree::below::{Below, Step};

/// The most bytes of a path that are compared.
const COUNTED: usize = 8 << 10;
/// Stands for a slash.
const SLASH: u8 = 1;

/// The list; see the module.
pub struct Ranked<'s> {
    list: SlabList<'s, [u8]>,
    is_turned: bool,
}

impl<'s> Ranked<'s> {
    /// Collects all directories down to `depth` levels below the root, including the root.
    pub fn new(session: &'s Session<'_>, source: &dyn Source, depth: u32, sort: Sort) -> Result<Self, Error> {
        let mut sorter = Sorter::<Texts>::new(session);
        let mut way = Below::new(ROOT).down_to(depth);
        while let Some(step) = way.step(source)? {
            let Step::Into(number) = step else { continue };
            let own = source.own_entry(number)?;
            let rank = sort.rank(&own.entry(), Some(&source.row(number)?));
            let mut path = source.path(number)?;
            path.truncate(COUNTED);
            path.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = SLASH);
            sorter.batch.push(|to| {
                rank.iter().for_each(|value| to.extend_from_slice(&value.to_be_bytes()));
                if sort.natural {
                    put_key(to, &path)
                } else {
                    to.extend_from_slice(&path)
                }
                to.push(0);
                to.extend_from_slice(&number.to_be_bytes());
            });
            sorter.added()?;
        }
        let is_turned = sort.column == Column::Name && sort.descending;
        Ok(Ranked { list: sorter.finish()?, is_turned })
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = Result<u32, Error>> {
        let mut rest = self.list.iter();
        std::iter::from_fn(move || if self.is_turned { rest.next_back() } else { rest.next() }).map(|key| {
            let key = key?;
            Ok(u32::from_be_bytes(*key.last_chunk().ok_or(Error::Damaged)?))
        })
    }
}
