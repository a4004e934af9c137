//! Writes an export of a tree.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use super::WriteError;
use super::put::{number, put};
use crate::Error;
use crate::entry::{Entry, Kind};
use crate::part::{MOST, Reader};
use crate::source::{ROOT, Source};
use crate::tree::{Contents, OwnEntry, Row};

/// Bytes that are written at once.
const BUFFER: usize = 64 << 10;
/// How many directories on the current path keep their entries in memory. The entries of directories above
/// them are read again, so that depth takes no memory.
const AT_HAND: usize = 32;
/// The interval at which the caller may show progress.
const TICK: Duration = Duration::from_millis(100);

/// Options for writing an export.
#[derive(Debug, Clone)]
pub struct Export {
    /// When the tree was scanned, in seconds since 1970. Readers show it or ignore it.
    pub timestamp: u64,
    /// Writes times, owners and permissions, if the tree has them.
    pub extended: bool,
}

/// A directory that is being written.
struct Level {
    number: u32,
    device: u64,
    contents: Contents,
    /// The next part.
    part: usize,
    /// Directories of the parts before it and their slots, the next one last.
    waiting: Vec<(u32, u32, OwnEntry)>,
}

struct Writer<'a, W> {
    source: &'a dyn Source,
    to: W,
    options: &'a Export,
    /// Output that is not written yet.
    out: Vec<u8>,
    levels: VecDeque<Level>,
    /// Buffers for a part and a name.
    bytes: Vec<u8>,
    name: Vec<u8>,
    items: u64,
}

/// Writes an export. `tick` is called several times a second with the number of entries written; if it returns
/// false, writing ends.
pub fn write(
    source: &dyn Source,
    to: impl Write,
    options: &Export,
    mut tick: impl FnMut(u64) -> bool,
) -> Result<(), WriteError> {
    let mut writer = Writer {
        source,
        to,
        options,
        out: Vec::with_capacity(BUFFER * 2),
        levels: VecDeque::new(),
        bytes: Vec::new(),
        name: Vec::new(),
        items: 0,
    };
    let version = env!("CARGO_PKG_VERSION");
    write!(writer.out, r#"[1,2,{{"progname":"memfold","progver":"{version}","timestamp":"#)?;
    number(&mut writer.out, options.timestamp);
    writer.out.extend_from_slice(b"},\n");
    let row = source.row(ROOT)?;
    writer.begin(ROOT, &source.root().entry(), &row, None)?;
    let mut last = Instant::now();
    while writer.step()? {
        if writer.out.len() >= BUFFER {
            writer.flush()?;
            if last.elapsed() >= TICK {
                last = Instant::now();
                if !tick(writer.items) {
                    return Err(Error::Stopped.into());
                }
            }
        }
    }
    writer.out.extend_from_slice(b"]\n");
    writer.flush()?;
    Ok(writer.to.flush()?)
}

/// The same, compressed by zstd at a level from 1, which is fast, to 22.
pub fn write_zstd(
    source: &dyn Source,
    to: impl Write,
    level: i32,
    options: &Export,
    tick: impl FnMut(u64) -> bool,
) -> Result<(), WriteError> {
    if !(1..=22).contains(&level) {
        let error = format!("the level of compression is {level}: give one from 1 to 22");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, error).into());
    }
    let mut compressor = zstd::Encoder::new(to, level)?;
    // The checksum detects damage.
    compressor.include_checksum(true)?;
    write(source, &mut compressor, options, tick)?;
    Ok(compressor.finish()?.flush()?)
}

impl<W: Write> Writer<'_, W> {
    fn flush(&mut self) -> Result<(), WriteError> {
        self.to.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn device(&self, row: &Row) -> u64 {
        self.source.devices().get(row.device as usize).copied().unwrap_or(0)
    }

    /// Begins a directory with its own entry. `above` is its parent's file system.
    fn begin(
        &mut self,
        number: u32,
        entry: &Entry<'_>,
        row: &Row,
        above: Option<u64>,
    ) -> Result<(), WriteError> {
        let device = self.device(row);
        self.out.push(b'[');
        self.items += 1;
        let own = Some(device).filter(|device| above.unwrap_or(0) != *device);
        put(&mut self.out, entry, own, Some(row), self.options.extended);
        if self.levels.len() == AT_HAND {
            self.levels.pop_front();
        }
        self.levels.push_back(Level {
            number,
            device,
            contents: row.contents(),
            part: 0,
            waiting: Vec::new(),
        });
        Ok(())
    }

    /// Writes the beginning or end of one more directory, or a part's entries; returns whether there is more.
    fn step(&mut self) -> Result<bool, WriteError> {
        let Some(level) = self.levels.back_mut() else { return Ok(false) };
        if let Some((child, slot, entry)) = level.waiting.pop() {
            if child <= level.number || !self.source.is_at(child, level.number, slot)? {
                return Err(Error::Damaged.into());
            }
            let device = level.device;
            self.out.extend_from_slice(b",\n");
            let row = self.source.row(child)?;
            self.begin(child, &entry.entry(), &row, Some(device))?;
            return Ok(true);
        }
        if level.part < level.contents.parts() {
            self.part(None)?;
            return Ok(true);
        }
        self.out.push(b']');
        let number = level.number;
        self.levels.pop_back();
        if number == ROOT {
            return Ok(false);
        }
        if self.levels.is_empty() {
            self.resume(self.source.above(number)?, self.source.slot(number)?)?;
        }
        Ok(true)
    }

    /// Returns to a directory whose entries are not in memory, after the subdirectory in a slot.
    fn resume(&mut self, number: u32, slot: u32) -> Result<(), WriteError> {
        let row = self.source.row(number)?;
        let (device, contents) = (self.device(&row), row.contents());
        let part = slot as usize / MOST;
        self.levels.push_back(Level { number, device, contents, part, waiting: Vec::new() });
        self.part(Some(slot))
    }

    /// Handles the next part: writes what is not a directory, and queues directories. If the part was already
    /// written up to the directory in a slot, the directories after it are queued.
    fn part(&mut self, written: Option<u32>) -> Result<(), WriteError> {
        let Writer { source, options, out, levels, bytes, name, items, .. } = self;
        let Some(level) = levels.back_mut() else { return Ok(()) };
        let devices = source.devices();
        source.part(level.contents, level.part, bytes)?;
        let mut entries = Reader::with(bytes, std::mem::take(name)).map_err(Error::from)?;
        let mut slot = (level.part * MOST) as u32;
        while let Some(entry) = entries.read().map_err(Error::from)? {
            match entry.kind {
                Kind::Directory(number) if written.is_none_or(|written| written < slot) => {
                    level.waiting.push((number, slot, entry.into()));
                }
                Kind::Directory(_) | Kind::Gone => (),
                _ if written.is_some() => (),
                // It is a directory about which nothing else is known.
                Kind::OtherFileSystem if entry.followed.is_none() => {
                    out.extend_from_slice(b",\n[");
                    put(out, &entry, None, None, options.extended);
                    out.push(b']');
                    *items += 1;
                }
                _ => {
                    let device = entry.link.and_then(|link| link.device);
                    let device = device.or(entry.followed.and_then(|target| target.device));
                    let device = device.and_then(|device| devices.get(device as usize).copied());
                    out.extend_from_slice(b",\n");
                    put(out, &entry, device, None, options.extended);
                    *items += 1;
                }
            }
            slot += 1;
        }
        *name = entries.into_name();
        level.waiting.reverse();
        level.part += 1;
        Ok(())
    }
}
