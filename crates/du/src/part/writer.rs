//! Makes parts.

use super::bytes::{put_leb, zigzag};
use super::{
    AS_SIZE, EXTENDED, FOLLOWED, HAS_DEVICE, HAS_LINK, Last, MOST, NONE, OTHER, SAME_GROUP, SAME_MODE,
    SAME_USER, of_size,
};
use crate::entry::{Entry, Extended, Kind};

/// Appends the difference of a value from the last one.
fn put_step(to: &mut Vec<u8>, value: u64, last: u64) {
    put_leb(to, zigzag(value.wrapping_sub(last) as i64));
}

fn len_of(value: u64) -> usize {
    8 - value.leading_zeros() as usize / 8
}

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take(u8::MAX.into()).take_while(|(a, b)| a == b).count()
}

/// Makes parts; reuses its memory from one to the next.
#[derive(Default)]
pub struct Writer {
    kinds: Vec<u8>,
    lengths: Vec<u8>,
    same: Vec<u8>,
    shared: Vec<u8>,
    sizes: Vec<u8>,
    blocks: Vec<u8>,
    others: Vec<u8>,
    names: Vec<u8>,
    name: Vec<u8>,
    last: Last,
    has_extended: bool,
}

impl Writer {
    /// Begins a part.
    pub fn begin(&mut self) {
        for column in [
            &mut self.kinds,
            &mut self.lengths,
            &mut self.same,
            &mut self.shared,
            &mut self.sizes,
            &mut self.blocks,
            &mut self.others,
            &mut self.names,
            &mut self.name,
        ] {
            column.clear();
        }
        self.last = Last::default();
        self.has_extended = false;
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }

    /// Whether no more entries fit.
    pub fn is_full(&self) -> bool {
        self.count() == MOST
    }

    /// Adds an entry at the end.
    pub fn add(&mut self, entry: &Entry<'_>) {
        debug_assert!(!self.is_full() && !entry.name.contains(&0));
        let (code, number) = match entry.kind {
            Kind::File => (0, None),
            Kind::Directory(number) => (1, Some(zigzag(i64::from(number) - i64::from(self.last.directory)))),
            Kind::Other => (2, None),
            Kind::Excluded => (3, None),
            Kind::OtherFileSystem => (4, None),
            Kind::KernelFileSystem => (5, None),
            Kind::Failed(error) => (6, Some(error.into())),
            Kind::Gone => (7, None),
        };
        if let Kind::Directory(number) = entry.kind {
            self.last.directory = number;
        }
        if let Some(number) = number {
            put_leb(&mut self.others, number);
        }
        let expected = of_size(entry.size);
        let (given, distance) = match entry.blocks {
            blocks if blocks == expected => (AS_SIZE, 0),
            0 => (NONE, 0),
            blocks => (OTHER, zigzag(blocks.wrapping_sub(expected) as i64)),
        };
        let device = match (entry.link, entry.followed) {
            (Some(link), _) => link.device,
            (None, followed) => followed.and_then(|target| target.device),
        };
        let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        self.kinds.push(
            code | given << 3
                | bit(HAS_LINK, entry.link.is_some())
                | bit(HAS_DEVICE, device.is_some())
                | bit(FOLLOWED, entry.followed.is_some()),
        );
        let (size_len, blocks_len) = (len_of(entry.size), len_of(distance));
        self.lengths.push((size_len | blocks_len << 4) as u8);
        self.sizes.extend_from_slice(&entry.size.to_le_bytes()[..size_len]);
        self.blocks.extend_from_slice(&distance.to_le_bytes()[..blocks_len]);
        if let Some(link) = entry.link {
            put_step(&mut self.others, link.inode, self.last.inode);
            put_leb(&mut self.others, link.names.into());
            self.last.inode = link.inode;
        }
        if let Some(device) = device {
            put_leb(&mut self.others, device.into());
        }
        self.add_extended(entry.extended);
        let shared = shared(&self.name, entry.name);
        self.shared.push(shared as u8);
        self.names.extend_from_slice(&entry.name[shared..]);
        self.names.push(0);
        self.name.truncate(shared);
        self.name.extend_from_slice(&entry.name[shared..]);
    }

    fn add_extended(&mut self, extended: Option<Extended>) {
        let Some(now) = extended else {
            self.same.push(0);
            return;
        };
        self.has_extended = true;
        let last = std::mem::replace(&mut self.last.extended, now);
        put_step(&mut self.others, now.modified as u64, last.modified as u64);
        let mut same = EXTENDED;
        let fields = [
            (SAME_MODE, u64::from(now.mode), u64::from(last.mode)),
            (SAME_USER, now.user.into(), last.user.into()),
            (SAME_GROUP, now.group.into(), last.group.into()),
        ];
        for (bit, value, last) in fields {
            if value == last {
                same |= bit;
            } else {
                put_leb(&mut self.others, value);
            }
        }
        self.same.push(same);
    }

    /// Appends the part to `to`.
    pub fn end(&self, to: &mut Vec<u8>) {
        to.push(self.count() as u8);
        to.push(self.has_extended.into());
        put_leb(to, self.others.len() as u64);
        let same = if self.has_extended { &self.same[..] } else { &[] };
        for column in [
            &self.kinds[..],
            &self.lengths,
            same,
            &self.shared,
            &self.sizes,
            &self.blocks,
            &self.others,
            &self.names,
        ] {
            to.extend_from_slice(column);
        }
    }
}
