//! Writes a tree as a file.

use std::io::{self, Write};

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};

use super::space::{Writer, check};
use super::{CODEC, END, HEADER, LONGEST_HEAD, LONGEST_PART, MAGIC, VERSION, name_bytes, row_bytes};
use crate::Error;
use crate::part::{self, put_leb};
use crate::source::Source;

/// Writes a tree with the named codec (such as `zstd:3`). `tick` is called from time to time with the number
/// of directories so far, and returns whether to continue.
pub fn write(
    source: &dyn Source,
    codec: &str,
    to: &mut dyn Write,
    tick: &mut dyn FnMut(u32) -> bool,
) -> Result<(), Error> {
    let unknown =
        || Error::Io(io::Error::new(io::ErrorKind::InvalidInput, format!("no codec is called '{codec}'")));
    let named = memfold_codec::codec(codec).ok().filter(|_| is_known(codec)).ok_or_else(unknown)?;
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    to.write_all(&header)?;

    // The position of each directory's parts: known when they are written, and needed after all are written.
    let heap = Heap::new(Options::new().limit(Limit::Share)).map_err(|_| Error::Damaged)?;
    let session = heap.session()?;
    let mut nodes = SlabList::<u64, _>::ordered(&session);
    let mut space = Writer::new(to, named);
    let mut bytes = Vec::new();
    for number in 0..source.numbers() {
        let contents = source.row(number)?.contents();
        let mut addresses = Vec::new();
        for part in 0..contents.parts() {
            addresses.push(space.address());
            source.part(contents, part, &mut bytes)?;
            if bytes.len() as u64 > LONGEST_PART {
                return Err(Error::TooMany);
            }
            let mut length = Vec::new();
            put_leb(&mut length, bytes.len() as u64);
            space.write(&length)?;
            space.write(&bytes)?;
        }
        let node = match &addresses[..] {
            [] => 0,
            [address] => address + 1,
            _ => space.address() + 1,
        };
        if addresses.len() > 1 {
            addresses.iter().try_for_each(|address| space.write(&address.to_le_bytes()))?;
        }
        nodes.push(&node)?;
        if !tick(number) {
            return Err(Error::Stopped);
        }
    }

    let rows = space.address();
    for (number, node) in (0..source.numbers()).zip(nodes.iter()) {
        let mut row = source.row(number)?;
        row.set_node(node?, row.contents().slots);
        space.write(&row_bytes(&row, source.above(number)?, source.slot(number)?))?;
    }
    let (names, mut count) = (space.address(), 0u64);
    source.each_name(&mut |name| {
        count += 1;
        Ok(space.write(&name_bytes(name))?)
    })?;
    let head = space.address();
    let bytes = head_bytes(source);
    if bytes.len() as u64 > LONGEST_HEAD {
        return Err(Error::TooMany);
    }
    space.write(&bytes)?;
    let len = space.address();
    space.flush()?;

    let index = std::mem::take(&mut space.index);
    to.write_all(&index)?;
    let mut trailer = Vec::new();
    for value in [len, rows, source.numbers().into(), names, count, head] {
        trailer.extend_from_slice(&value.to_le_bytes());
    }
    let mut name = [0; CODEC];
    name[..codec.len()].copy_from_slice(codec.as_bytes());
    trailer.extend_from_slice(&name);
    trailer.extend_from_slice(&check(&index).to_le_bytes());
    let sum = check(&trailer);
    trailer.extend_from_slice(&sum.to_le_bytes());
    trailer.extend_from_slice(&END);
    to.write_all(&trailer)?;
    Ok(to.flush()?)
}

/// Whether files may use a codec: only codecs that decompress fast, so that every file is fast to read.
pub fn is_known(codec: &str) -> bool {
    codec.len() <= CODEC && (codec.starts_with("zstd:") || matches!(codec, "lz4" | "copy"))
}

/// The root's entry and the devices.
fn head_bytes(source: &dyn Source) -> Vec<u8> {
    let mut writer = part::Writer::default();
    let root = source.root();
    writer.begin();
    writer.add(&crate::entry::Entry { name: b"", ..root.entry() });
    let (mut entry, mut head) = (Vec::new(), Vec::new());
    writer.end(&mut entry);
    for bytes in [&entry[..], &root.name] {
        put_leb(&mut head, bytes.len() as u64);
        head.extend_from_slice(bytes);
    }
    put_leb(&mut head, source.devices().len() as u64);
    source.devices().iter().for_each(|device| put_leb(&mut head, *device));
    head
}
