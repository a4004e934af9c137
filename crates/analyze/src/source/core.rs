//! ELF cores: the memory of a process as the kernel or a debugger wrote it when the process ended.
//!
//! ```text
//!  ELF header | program headers | notes (NT_FILE: which addresses are of files) | segment | segment ...
//! ```
//!
//! Read-only mappings of files are omitted: their contents can be read from the files. A core whose segments
//! extend beyond the end of the file was truncated (by `ulimit -c` or a full disk), and is refused.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::elf::{ET_CORE, FileHeader32, FileHeader64, NT_FILE, PF_W, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};

use super::Source;
use crate::index::{Mapping, Run};
use crate::{Error, PAGE};

/// An open core.
pub struct Core {
    file: File,
    mappings: Vec<Mapping>,
    /// For each mapping, its offset in the file.
    offsets: Vec<u64>,
}

/// Whether a file begins like a core.
pub fn is_core(path: &Path) -> Result<bool, Error> {
    let mut head = [0; 18];
    // A pipe can be read only once, and is not a core.
    if !std::fs::metadata(path).map_err(Error::file(path))?.is_file() {
        return Ok(false);
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let kind = if head[5] == 2 {
        u16::from_be_bytes([head[16], head[17]])
    } else {
        u16::from_le_bytes([head[16], head[17]])
    };
    match read {
        Ok(()) => Ok(head.starts_with(b"\x7fELF") && kind == ET_CORE),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Error::File(path.to_owned(), error)),
    }
}

/// A segment of memory.
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    writable: bool,
}

impl Core {
    /// Reads the headers.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::file(path))?;
        let len = file.metadata().map_err(Error::file(path))?.len();
        let cache = ReadCache::new(&file);
        let broken = |what: &dyn std::fmt::Display| {
            Error::Core(path.to_owned(), format!("is not a readable core: {what}"))
        };
        let mut class = [0; 5];
        file.read_exact_at(&mut class, 0).map_err(Error::file(path))?;
        let (segments, names) = match class[4] {
            1 => read::<FileHeader32<Endianness>, _>(&cache),
            _ => read::<FileHeader64<Endianness>, _>(&cache),
        }
        .map_err(|error| broken(&error))?;
        let end =
            segments.iter().map(|segment| segment.offset.saturating_add(segment.bytes)).max().unwrap_or(0);
        if end > len {
            return Err(Error::Core(
                path.to_owned(),
                format!(
                    "was cut off: its memory goes to byte {end}, and the file ends at {len}. Allow cores of any size (ulimit -c unlimited), and make sure that the disk has room"
                ),
            ));
        }
        let (mut mappings, mut offsets) = (Vec::new(), Vec::new());
        for segment in segments {
            let pages = segment.bytes / PAGE as u64;
            let name = names.get(&segment.address);
            if pages == 0 || (name.is_some() && !segment.writable) {
                continue;
            }
            let runs = vec![Run { address: segment.address, pages }];
            let name = name.cloned().unwrap_or_else(|| "[anonymous]".into());
            mappings.push((Mapping { name, start: segment.address, runs }, segment.offset));
        }
        mappings.sort_by_key(|(mapping, _)| mapping.start);
        let mappings = mappings.into_iter().map(|(mapping, offset)| {
            offsets.push(offset);
            mapping
        });
        let mappings: Vec<Mapping> = mappings.collect();
        if mappings.is_empty() {
            return Err(Error::Core(
                path.to_owned(),
                "has no private memory in it: /proc/PID/coredump_filter says what a core contains, and bit 0 must be set".into(),
            ));
        }
        drop(cache);
        Ok(Core { file, mappings, offsets })
    }
}

type Headers = (Vec<Segment>, HashMap<u64, Vec<u8>>);

fn read<'data, H, R>(data: R) -> object::Result<Headers>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let (mut segments, mut names) = (Vec::new(), HashMap::new());
    for program in header.program_headers(endian, data)? {
        if program.p_type(endian) == PT_LOAD {
            let (offset, bytes) = program.file_range(endian);
            let writable = program.p_flags(endian) & PF_W != 0;
            segments.push(Segment { address: program.p_vaddr(endian).into(), offset, bytes, writable });
        }
        // Names are optional: notes that cannot be read are ignored.
        if let Ok(Some(mut notes)) = program.notes(endian, data) {
            while let Ok(Some(note)) = notes.next() {
                if note.n_type(endian) == NT_FILE {
                    file_names(note.desc(), header.is_class_64(), endian == Endianness::Big, &mut names);
                }
            }
        }
    }
    Ok((segments, names))
}

/// Collects the names of files by address. The note contains the count, a unit, the start, end and offset of
/// each mapping, and then the names.
fn file_names(note: &[u8], wide: bool, big: bool, names: &mut HashMap<u64, Vec<u8>>) {
    let size = if wide { 8 } else { 4 };
    let word = |at: usize| -> Option<u64> {
        let bytes = note.get(at * size..(at + 1) * size)?;
        let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) })
    };
    let count = word(0).unwrap_or(0).min(note.len() as u64) as usize;
    let Some(texts) = note.get((2 + 3 * count) * size..) else { return };
    for (at, text) in texts.split(|byte| *byte == 0).take(count).enumerate() {
        if let Some(start) = word(2 + 3 * at) {
            names.insert(start, text.to_owned());
        }
    }
}

impl Source for Core {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let Some(at) = self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)
        else {
            return 0;
        };
        let offset = self.offsets[at] + (address - self.mappings[at].start);
        self.file.read_at(into, offset).unwrap_or(0)
    }
}
