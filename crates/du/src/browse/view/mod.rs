//! An opened directory: its entries in display order.
//!
//! Entries stay in the [`Source`]; the view has only their slots, and keeps them in the heap, because there may
//! be millions:
//!
//! ```text
//!   position ──> element of a sorted list ──> slot ──> entry
//!
//!     by numbers     | 0 if before others, 1 bit | what is sorted by, 63 | what is compared next, 64 | slot, 64 |
//!     by names       | the same, 128 bits | the name in natural order | 0 | slot, 32 |
//! ```
//!
//! Lists are made in order ([`sorter`](sorter)). Slots are in the order of the names' bytes. So a list sorted
//! by numbers also has equal entries in the order of their names; a list sorted by names is needed only for
//! natural order. If the largest value comes first, a list contains the complement of the sort key. Only for
//! descending names is the list read backwards, each group separately.

pub(crate) mod item;
mod natural;
pub(crate) mod ranked;
mod sorter;

use std::ops::Bound;

use memfold::collections::SlabList;
use memfold::heap::Session;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Error;
use crate::entry::{Entry, Kind, Sum};
use crate::source::Source;
use crate::tree::{Contents, Row};
use item::{Item, is_hidden, modified, row, sum};
use natural::put_key;
use sorter::{Sorter, Texts, Values};

/// The sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Names.
    Name,
    /// Disk usage.
    DiskUsage,
    /// Apparent size.
    ApparentSize,
    /// Number of names below.
    Items,
    /// The latest time, if it is known.
    Modified,
}

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// The main key. Equal entries are ordered by another size, then by name.
    pub column: Column,
    /// The largest value, or the last name, comes first.
    pub descending: bool,
    /// Directories come before all others.
    pub directories_first: bool,
    /// `a9` comes before `a10`.
    pub natural: bool,
    /// Hidden and excluded entries are shown, too.
    pub hidden: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Sort {
            column: Column::DiskUsage,
            descending: true,
            directories_first: false,
            natural: true,
            hidden: true,
        }
    }
}

/// The first and the second sort key of an entry.
type Rank = [u64; 2];

/// An element of a list by numbers.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
struct Ranked {
    rank: Rank,
    slot: u64,
}

/// Takes an entry's rank, its name and its slot.
type Add<'a> = dyn FnMut(Rank, &[u8], u32) -> Result<(), Error> + 'a;

/// The bit of a rank that is set for entries that are not in the group that comes first.
const BEHIND: u64 = 1 << 63;

enum Order<'s> {
    Numbers(SlabList<'s, Ranked>),
    Names(SlabList<'s, [u8]>),
}

/// The view; see the module.
pub struct View<'s> {
    /// The directory's number.
    pub directory: u32,
    /// How it is sorted.
    pub sort: Sort,
    /// The largest disk usage and the largest apparent size of the shown entries.
    pub most: Sum,
    contents: Contents,
    order: Order<'s>,
    /// Number of entries in the group that comes first.
    first: u64,
}

impl Sort {
    /// The keys that are compared before names. Equal sizes are ordered by the other kind of size, other
    /// equal keys by disk usage, as in ncdu.
    pub(crate) fn rank(&self, entry: &Entry<'_>, row: Option<&Row>) -> Rank {
        let sum = sum(entry, row);
        let values = match self.column {
            Column::Name => [0; 2],
            Column::DiskUsage => [sum.blocks, sum.size],
            Column::ApparentSize => [sum.size, sum.blocks],
            Column::Items => [row.map_or(0, |row| row.items), sum.blocks],
            // Entries without a known time are the oldest.
            Column::Modified => {
                let time =
                    modified(entry, row).map_or(0, |time| (time.saturating_add(1 << 62)).max(0) as u64);
                [time, sum.blocks]
            }
        };
        let is_down = self.descending && self.column != Column::Name;
        let [first, second] = values
            .map(|value| value.min(BEHIND - 1))
            .map(|value| if is_down { BEHIND - 1 - value } else { value });
        let is_behind = self.directories_first && !entry.kind.is_directory();
        [if is_behind { BEHIND | first } else { first }, second]
    }

    fn shows(&self, entry: &Entry<'_>, row: Option<&Row>) -> bool {
        entry.kind != Kind::Gone && (self.hidden || !is_hidden(entry, row))
    }
}

/// The element of a list by names.
fn put_element(to: &mut Vec<u8>, rank: Rank, name: &[u8], slot: u32) {
    rank.iter().for_each(|value| to.extend_from_slice(&value.to_be_bytes()));
    put_key(to, name);
    to.push(0);
    to.extend_from_slice(&slot.to_be_bytes());
}

impl<'s> View<'s> {
    /// Opens a directory. `session` keeps the list.
    pub fn open(
        session: &'s Session<'_>,
        source: &dyn Source,
        directory: u32,
        sort: Sort,
    ) -> Result<Self, Error> {
        let contents = source.row(directory)?.contents();
        let (mut first, mut most) = (0, Sum::default());
        let mut each = |add: &mut Add<'_>| {
            source.each(contents, &mut |slot, entry| {
                let row = row(source, entry)?;
                if !sort.shows(entry, row.as_ref()) {
                    return Ok(());
                }
                let all = sum(entry, row.as_ref());
                most = Sum { size: most.size.max(all.size), blocks: most.blocks.max(all.blocks) };
                let rank = sort.rank(entry, row.as_ref());
                first += u64::from(rank[0] & BEHIND == 0);
                add(rank, entry.name, slot)
            })
        };
        let order = if sort.natural {
            let mut sorter = Sorter::<Texts>::new(session);
            each(&mut |rank, name, slot| {
                sorter.batch.push(|to| put_element(to, rank, name, slot));
                sorter.added()
            })?;
            Order::Names(sorter.finish()?)
        } else {
            let mut sorter = Sorter::<Values<Ranked>>::new(session);
            each(&mut |rank, _, slot| {
                sorter.batch.push(Ranked { rank, slot: slot.into() });
                sorter.added()
            })?;
            Order::Numbers(sorter.finish()?)
        };
        Ok(View { directory, sort, most, contents, order, first })
    }

    /// How many entries are shown.
    pub fn len(&self) -> u64 {
        match &self.order {
            Order::Numbers(list) => list.len(),
            Order::Names(list) => list.len(),
        }
    }

    /// Whether no entries are shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts a position to the index of an element, and back.
    fn turned(&self, number: u64) -> u64 {
        if self.sort.column != Column::Name || !self.sort.descending {
            number
        } else if number < self.first {
            self.first - 1 - number
        } else {
            self.first + (self.len() - 1 - number)
        }
    }

    /// The slot of the entry at a position.
    pub fn slot(&self, position: u64) -> Result<u32, Error> {
        if position >= self.len() {
            return Err(Error::Damaged);
        }
        let number = self.turned(position);
        let slot = match &self.order {
            Order::Numbers(list) => list.at(number)?.and_then(|spot| u32::try_from(spot.slot).ok()),
            Order::Names(list) => {
                list.at(number)?.and_then(|key| Some(u32::from_be_bytes(*key.last_chunk()?)))
            }
        };
        slot.ok_or(Error::Damaged)
    }

    /// The entry at a position.
    pub fn item(&self, source: &dyn Source, position: u64) -> Result<Item, Error> {
        Item::new(source, source.entry(self.contents, self.slot(position)?)?)
    }

    /// The position of the entry in a slot, if it is shown.
    pub fn position(&self, source: &dyn Source, slot: u32) -> Result<Option<u64>, Error> {
        if slot >= self.contents.slots {
            return Ok(None);
        }
        let item = Item::new(source, source.entry(self.contents, slot)?)?;
        let entry = item.entry.entry();
        let rank = self.sort.rank(&entry, item.row.as_ref());
        let numbers = match &self.order {
            Order::Numbers(list) => {
                let spot = Ranked { rank, slot: slot.into() };
                list.numbers(spot..=spot)?
            }
            Order::Names(list) => {
                let mut key = Vec::new();
                put_element(&mut key, rank, entry.name, slot);
                let only = Bound::Included(&key[..]);
                list.numbers((only, only))?
            }
        };
        Ok((!numbers.is_empty()).then(|| self.turned(numbers.start)))
    }

    /// The position of the entry with a name, if there is one and it is shown. Searches all entries.
    pub fn find(&self, source: &dyn Source, name: &[u8]) -> Result<Option<u64>, Error> {
        let mut found = None;
        source.each(self.contents, &mut |slot, entry| {
            if entry.name == name && entry.kind != Kind::Gone {
                found = Some(slot);
            }
            Ok(())
        })?;
        found.map_or(Ok(None), |slot| self.position(source, slot))
    }
}
