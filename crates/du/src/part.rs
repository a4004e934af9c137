//! Some entries of a directory as bytes: the contents of a node of the heap, and of memfold's own files.
//!
//! ```text
//!   | count, 1 | extended, 1 | bytes of others, LEB | kinds | lengths | same | shared | sizes | blocks | others | names |
//!
//!     kinds     a byte an entry: kind (3 bits), how blocks are given (2 bits), whether it has other names, is on another file system than the directory, and is a link that was followed (1 bit each)
//!     lengths   a byte an entry: bytes of its size, and of its blocks (4 bits each)
//!     same      a byte an entry, if some have extended information: has it, and which of it is the last one's
//!     shared    a byte an entry: how much of the name is that of the name before
//!     sizes     each in as few bytes as it needs, little-endian
//!     blocks    where they are neither none nor what the size asks for: how far they are from that, zigzag
//!     others    a directory's number, a failure's number, inode, count of names and file system, time, mode, user, group: LEB128, most of them as the
//!               distance from the last one
//!     names     the rest of each name, and a zero
//! ```
//!
//! Similar bytes are adjacent, so that they compress well; with names in order, a million files take 13.5 bytes
//! each (docs/du.md). The bytes may come from anybody's file: a part that does not have this form is an error,
//! and never causes more than that.

use crate::entry::{BLOCK, Entry, Extended, Kind, Link, Target};

/// The most entries of a part.
pub const MOST: usize = 64;
/// The most bytes of a name, on any file system.
pub const LONGEST_NAME: usize = 32 << 10;
/// Files usually take whole pages.
const PAGE: u64 = 4096;

/// The bytes are not a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

const HAS_LINK: u8 = 1 << 5;
const HAS_DEVICE: u8 = 1 << 6;
const FOLLOWED: u8 = 1 << 7;
/// How blocks are encoded.
const AS_SIZE: u8 = 0;
const NONE: u8 = 1;
const OTHER: u8 = 2;

/// The bits of `same`.
const EXTENDED: u8 = 1;
const SAME_MODE: u8 = 2;
const SAME_USER: u8 = 4;
const SAME_GROUP: u8 = 8;

/// The values of the last entry, to which the next one's are relative.
#[derive(Default)]
struct Last {
    directory: u32,
    inode: u64,
    extended: Extended,
}

/// Blocks of a file of whole pages.
fn of_size(size: u64) -> u64 {
    size.div_ceil(PAGE).wrapping_mul(PAGE / BLOCK)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends the difference of a value from the last one.
fn put_step(to: &mut Vec<u8>, value: u64, last: u64) {
    put_number(to, zigzag(value.wrapping_sub(last) as i64));
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
            put_number(&mut self.others, number);
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
            put_number(&mut self.others, link.names.into());
            self.last.inode = link.inode;
        }
        if let Some(device) = device {
            put_number(&mut self.others, device.into());
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
                put_number(&mut self.others, value);
            }
        }
        self.same.push(same);
    }

    /// Appends the part to `to`.
    pub fn end(&self, to: &mut Vec<u8>) {
        to.push(self.count() as u8);
        to.push(self.has_extended.into());
        put_number(to, self.others.len() as u64);
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

/// Bytes that are read from their beginning on.
#[derive(Clone, Copy)]
pub struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of so many bytes, eight at most.
    fn number(&mut self, len: usize) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.get_mut(..len).ok_or(Malformed)?.copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number in LEB128.
    pub fn leb(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn step(&mut self, last: u64) -> Result<u64, Malformed> {
        Ok(last.wrapping_add(unzigzag(self.leb()?) as u64))
    }
}

/// Appends a number as [`Bytes::leb`] reads it.
pub fn put_leb(to: &mut Vec<u8>, value: u64) {
    put_number(to, value);
}

/// The entries of a part, one after the other.
pub struct Reader<'b> {
    at: usize,
    kinds: &'b [u8],
    lengths: &'b [u8],
    same: &'b [u8],
    shared: &'b [u8],
    sizes: Bytes<'b>,
    blocks: Bytes<'b>,
    others: Bytes<'b>,
    names: Bytes<'b>,
    name: Vec<u8>,
    last: Last,
}

impl<'b> Reader<'b> {
    /// Begins with the first entry.
    pub fn new(bytes: &'b [u8]) -> Result<Self, Malformed> {
        Self::with(bytes, Vec::new())
    }

    /// The same, with `name` as the buffer for names.
    pub fn with(bytes: &'b [u8], mut name: Vec<u8>) -> Result<Self, Malformed> {
        name.clear();
        let mut all = Bytes(bytes);
        let count = usize::from(all.byte()?);
        if count > MOST {
            return Err(Malformed);
        }
        let extended = all.byte()?;
        let others = all.leb()?;
        let kinds = all.take(count)?;
        let lengths = all.take(count)?;
        let same = all.take(if extended == 0 { 0 } else { count })?;
        let shared = all.take(count)?;
        let (mut sizes, mut blocks) = (0, 0);
        for len in lengths {
            sizes += usize::from(len & 15);
            blocks += usize::from(len >> 4);
        }
        let (sizes, blocks) = (Bytes(all.take(sizes)?), Bytes(all.take(blocks)?));
        let others = Bytes(all.take(usize::try_from(others).map_err(|_| Malformed)?)?);
        Ok(Reader {
            at: 0,
            kinds,
            lengths,
            same,
            shared,
            sizes,
            blocks,
            others,
            names: all,
            name,
            last: Last::default(),
        })
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the buffer for names, to be reused.
    pub fn into_name(self) -> Vec<u8> {
        self.name
    }

    /// The next entry.
    pub fn read(&mut self) -> Result<Option<Entry<'_>>, Malformed> {
        let Some(kind) = self.kinds.get(self.at) else { return Ok(None) };
        let (code, given, has_link) = (kind & 7, kind >> 3 & 3, kind & HAS_LINK != 0);
        let (has_device, is_followed) = (kind & HAS_DEVICE != 0, kind & FOLLOWED != 0);
        let kind = match code {
            0 => Kind::File,
            1 => {
                let number = i64::from(self.last.directory).wrapping_add(unzigzag(self.others.leb()?));
                self.last.directory = u32::try_from(number).map_err(|_| Malformed)?;
                Kind::Directory(self.last.directory)
            }
            2 => Kind::Other,
            3 => Kind::Excluded,
            4 => Kind::OtherFileSystem,
            5 => Kind::KernelFileSystem,
            6 => Kind::Failed(u16::try_from(self.others.leb()?).map_err(|_| Malformed)?),
            _ => Kind::Gone,
        };
        let lengths = self.lengths[self.at];
        let size = self.sizes.number((lengths & 15).into())?;
        let distance = self.blocks.number((lengths >> 4).into())?;
        let blocks = match given {
            AS_SIZE => of_size(size),
            NONE => 0,
            OTHER => of_size(size).wrapping_add(unzigzag(distance) as u64),
            _ => return Err(Malformed),
        };
        let small = |others: &mut Bytes<'_>| u32::try_from(others.leb()?).map_err(|_| Malformed);
        let file = match has_link {
            false => None,
            true => {
                self.last.inode = self.others.step(self.last.inode)?;
                Some((self.last.inode, small(&mut self.others)?))
            }
        };
        let device = has_device.then(|| small(&mut self.others)).transpose()?;
        let link = file.map(|(inode, names)| Link { inode, device, names });
        let followed = is_followed.then_some(Target { device });
        let extended = self.extended()?;
        self.next_name()?;
        self.at += 1;
        Ok(Some(Entry { name: &self.name, kind, size, blocks, link, followed, extended }))
    }

    fn extended(&mut self) -> Result<Option<Extended>, Malformed> {
        let same = self.same.get(self.at).copied().unwrap_or(0);
        if same & EXTENDED == 0 {
            return Ok(None);
        }
        let now = &mut self.last.extended;
        now.modified = self.others.step(now.modified as u64)? as i64;
        if same & SAME_MODE == 0 {
            now.mode = u16::try_from(self.others.leb()?).map_err(|_| Malformed)?;
        }
        if same & SAME_USER == 0 {
            now.user = u32::try_from(self.others.leb()?).map_err(|_| Malformed)?;
        }
        if same & SAME_GROUP == 0 {
            now.group = u32::try_from(self.others.leb()?).map_err(|_| Malformed)?;
        }
        Ok(Some(*now))
    }

    fn next_name(&mut self) -> Result<(), Malformed> {
        let shared = usize::from(self.shared[self.at]);
        if shared > self.name.len() {
            return Err(Malformed);
        }
        let len = self.names.0.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let rest = self.names.take(len + 1)?;
        self.name.truncate(shared);
        self.name.extend_from_slice(&rest[..len]);
        if self.name.len() > LONGEST_NAME { Err(Malformed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry<'static>> {
        let extended = Extended { modified: 1_700_000_000, user: 1000, group: 100, mode: 0o100_644 };
        let file = Entry { name: b"", kind: Kind::File, ..Entry::default() };
        let link = Link { inode: u64::MAX, device: None, names: 2 };
        vec![
            Entry { name: b"a", size: 1, blocks: 8, ..file },
            Entry {
                name: b"ab",
                kind: Kind::Directory(u32::MAX),
                size: 4096,
                blocks: 8,
                extended: Some(extended),
                ..file
            },
            Entry { name: b"ab\xff\n", kind: Kind::Directory(0), size: 4096, blocks: 9, ..file },
            Entry {
                name: b"abc",
                kind: Kind::Other,
                extended: Some(Extended { modified: i64::MIN, ..extended }),
                ..file
            },
            Entry { name: &[b'b'; 255], size: u64::MAX, blocks: u64::MAX, link: Some(link), ..file },
            Entry {
                name: &[b'b'; 300],
                size: 1 << 40,
                blocks: 0,
                link: Some(Link { inode: 0, device: Some(u32::MAX), names: u32::MAX }),
                ..file
            },
            Entry { name: b"bc", followed: Some(Target { device: None }), ..file },
            Entry { name: b"bd", kind: Kind::Other, followed: Some(Target { device: Some(7) }), ..file },
            Entry {
                name: b"be",
                link: Some(Link { inode: 9, device: Some(3), names: 2 }),
                followed: Some(Target { device: Some(3) }),
                ..file
            },
            Entry { name: b"c", kind: Kind::Failed(13), ..file },
            Entry { name: b"c", kind: Kind::Excluded, ..file },
            Entry { name: b"d", kind: Kind::OtherFileSystem, ..file },
            Entry {
                name: b"e",
                kind: Kind::KernelFileSystem,
                extended: Some(Extended { user: u32::MAX, mode: u16::MAX, ..extended }),
                ..file
            },
            Entry { name: b"", kind: Kind::Gone, ..file },
        ]
    }

    fn bytes(entries: &[Entry<'_>]) -> Vec<u8> {
        let (mut writer, mut bytes) = (Writer::default(), Vec::new());
        writer.begin();
        entries.iter().for_each(|entry| writer.add(entry));
        writer.end(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let entries = entries();
        for count in 0..=entries.len() {
            let bytes = bytes(&entries[..count]);
            let mut reader = Reader::new(&bytes).unwrap();
            assert_eq!(reader.count(), count);
            for entry in &entries[..count] {
                assert_eq!(reader.read().unwrap().as_ref(), Some(entry));
            }
            assert_eq!(reader.read(), Ok(None));
        }
    }

    #[test]
    fn damage_is_an_error_or_other_entries_and_no_more() {
        let bytes = bytes(&entries());
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes)?;
            while reader.read()?.is_some() {}
            Ok::<(), Malformed>(())
        };
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes[..len]), Err(Malformed), "{len} bytes");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = read(&other);
            }
        }
    }
}
