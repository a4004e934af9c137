//! Reads a tree in a file.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::space::{Reader, check};
use super::write::is_known;
use super::{
    BadFile, CODEC, END, HEADER, INDEX, LEB, LONGEST_HEAD, LONGEST_PART, NAME, ROW, TRAILER, VERSION, name,
    row,
};
use crate::Error;
use crate::entry::{Entry, Kind};
use crate::part::{self, Bytes};
use crate::source::{ROOT, Source};
use crate::tree::{Contents, Name, OwnEntry, Row};

/// A tree in a file: see the module.
pub struct File {
    space: Reader,
    rows: (u64, u32),
    names: (u64, u64),
    root: OwnEntry,
    devices: Vec<u64>,
}

/// Checks an index piece by piece before memory is allocated for all of it, since a sparse file may claim any
/// length.
fn check_index(file: &fs::File, at: u64, len: u64) -> Result<(), BadFile> {
    const PIECE: usize = 4096 * INDEX;
    let (mut piece, mut done) = (vec![0; PIECE.min(len as usize)], 0);
    while done < len {
        let bytes = &mut piece[..PIECE.min((len - done) as usize)];
        file.read_exact_at(bytes, at + done)?;
        // No block is empty.
        if bytes.as_chunks::<INDEX>().0.iter().any(|entry| entry[..4] == [0; 4]) {
            return Err(BadFile::Damaged("its index"));
        }
        done += bytes.len() as u64;
    }
    Ok(())
}

impl File {
    /// Opens a file. Only its beginning and its end are read.
    pub fn open(path: &Path) -> Result<Self, BadFile> {
        Self::of(fs::File::open(path)?)
    }

    /// The same for an open file.
    pub fn of(file: fs::File) -> Result<Self, BadFile> {
        let damaged = BadFile::Damaged;
        let len = file.metadata()?.len();
        let mut header = [0; HEADER];
        if len < HEADER as u64 || file.read_exact_at(&mut header, 0).is_err() || !super::is_ours(&header) {
            return Err(BadFile::NotOurs);
        }
        let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if version != VERSION {
            return Err(BadFile::Version(version));
        }
        let mut trailer = [0; TRAILER];
        let end = len.checked_sub((HEADER + TRAILER) as u64).ok_or(damaged("it is cut off"))?;
        let end = end + HEADER as u64;
        file.read_exact_at(&mut trailer, end)?;
        let long = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().unwrap_or_default());
        if trailer[80..] != END || check(&trailer[..72]) != long(72) {
            return Err(damaged("its trailer is not that of such a file"));
        }
        let (space, rows, count, names, name_count, head) =
            (long(0), long(8), long(16), long(24), long(32), long(40));
        let codec = trailer[48..48 + CODEC].split(|byte| *byte == 0).next().unwrap_or_default();
        let codec = String::from_utf8_lossy(codec).into_owned();
        let codec = match memfold_codec::codec(&codec) {
            Ok(found) if is_known(&codec) => found,
            _ => return Err(BadFile::Codec(codec)),
        };
        let blocks = space.div_ceil(super::BLOCK as u64);
        let index_len = blocks.checked_mul(INDEX as u64).filter(|len| *len <= end - HEADER as u64);
        let index_len = index_len.ok_or(damaged("its index is too long"))?;
        check_index(&file, end - index_len, index_len)?;
        let mut index = vec![0; index_len as usize];
        file.read_exact_at(&mut index, end - index_len)?;
        if check(&index) != long(64) {
            return Err(damaged("its index"));
        }
        let space = Reader::new(file, codec, space, &index, HEADER as u64, end - index_len)?;
        let fits = |at: u64, count: u64, each: usize| {
            count
                .checked_mul(each as u64)
                .and_then(|len| len.checked_add(at))
                .is_some_and(|end| end <= space.len())
        };
        let count = u32::try_from(count).ok().filter(|count| *count > 0 && fits(rows, (*count).into(), ROW));
        let count = count.ok_or(damaged("its rows"))?;
        if !fits(names, name_count, NAME) {
            return Err(damaged("its names"));
        }
        let head_len = space.len().checked_sub(head).filter(|len| *len <= LONGEST_HEAD);
        let mut bytes = vec![0; head_len.ok_or(damaged("its head"))? as usize];
        space.read(head, &mut bytes)?;
        let (root, devices) = read_head(&bytes).map_err(|_| damaged("its head"))?;
        Ok(File { space, rows: (rows, count), names: (names, name_count), root, devices })
    }

    fn row_and_place(&self, number: u32) -> Result<(Row, u32, u32), Error> {
        let (rows, count) = self.rows;
        if number >= count {
            return Err(Error::BadFile);
        }
        let mut bytes = [0; ROW];
        self.space.read(rows + u64::from(number) * ROW as u64, &mut bytes)?;
        let (row, above, slot) = row(&bytes);
        // Walking up must lead to the root.
        if number == ROOT || above < number { Ok((row, above, slot)) } else { Err(Error::BadFile) }
    }

    fn name(&self, number: u64) -> Result<Name, Error> {
        let mut bytes = [0; NAME];
        self.space.read(self.names.0 + number * NAME as u64, &mut bytes)?;
        Ok(name(&bytes))
    }
}

fn read_head(bytes: &[u8]) -> Result<(OwnEntry, Vec<u64>), Error> {
    let mut bytes = Bytes(bytes);
    let field = |bytes: &mut Bytes<'_>| -> Result<Vec<u8>, Error> {
        let len = usize::try_from(bytes.leb()?).map_err(|_| Error::BadFile)?;
        Ok(bytes.take(len)?.to_vec())
    };
    let entry = field(&mut bytes)?;
    let name = field(&mut bytes)?;
    let mut entries = part::Reader::new(&entry)?;
    let root: OwnEntry = entries.read()?.map(|entry: Entry<'_>| entry.into()).ok_or(Error::BadFile)?;
    let count = bytes.leb()?;
    let mut devices = Vec::new();
    for _ in 0..count {
        devices.push(bytes.leb()?);
    }
    Ok((OwnEntry { name, kind: Kind::Directory(ROOT), link: None, ..root }, devices))
}

impl Source for File {
    fn root(&self) -> &OwnEntry {
        &self.root
    }

    fn numbers(&self) -> u32 {
        self.rows.1
    }

    fn devices(&self) -> &[u64] {
        &self.devices
    }

    fn row(&self, number: u32) -> Result<Row, Error> {
        self.row_and_place(number).map(|(row, ..)| row)
    }

    fn above(&self, number: u32) -> Result<u32, Error> {
        if number == ROOT { Ok(ROOT) } else { self.row_and_place(number).map(|(_, above, _)| above) }
    }

    fn slot(&self, number: u32) -> Result<u32, Error> {
        self.row_and_place(number).map(|(.., slot)| slot)
    }

    fn is_at(&self, directory: u32, above: u32, slot: u32) -> Result<bool, Error> {
        self.row_and_place(directory).map(|(_, its_above, its_slot)| (its_above, its_slot) == (above, slot))
    }

    fn part(&self, contents: Contents, number: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        let node = contents.node.filter(|_| number < contents.parts()).ok_or(Error::BadFile)?;
        let mut address = node.to_bits() - 1;
        if contents.parts() > 1 {
            let mut bytes = [0; 8];
            let at = address.checked_add(number as u64 * 8).ok_or(Error::BadFile)?;
            self.space.read(at, &mut bytes)?;
            address = u64::from_le_bytes(bytes);
        }
        let there = self.space.len().checked_sub(address).ok_or(Error::BadFile)?;
        let mut length = vec![0; there.min(LEB as u64) as usize];
        self.space.read(address, &mut length)?;
        let mut rest = Bytes(&length);
        let len = rest.leb().ok().filter(|len| *len <= LONGEST_PART.min(there)).ok_or(Error::BadFile)?;
        let at = address + (length.len() - rest.0.len()) as u64;
        to.clear();
        to.resize(len as usize, 0);
        self.space.read(at, to)
    }

    fn names(&self, inode: u64, device: u32) -> Result<Vec<Name>, Error> {
        let (mut from, mut to) = (0, self.names.1);
        while from < to {
            let middle = from + (to - from) / 2;
            let name = self.name(middle)?;
            if (name.inode, name.device) < (inode, device) { from = middle + 1 } else { to = middle }
        }
        let mut names = Vec::new();
        for number in from..self.names.1 {
            let name = self.name(number)?;
            if (name.inode, name.device) != (inode, device) {
                break;
            }
            names.push(name);
        }
        Ok(names)
    }

    fn each_name(&self, look: &mut dyn FnMut(&Name) -> Result<(), Error>) -> Result<(), Error> {
        (0..self.names.1).try_for_each(|number| look(&self.name(number)?))
    }
}
