//! Reads a tree from an export.

use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold::heap::{Heap, Session};

use super::fields::{Excluded, Fields};
use super::lex::Lexer;
use super::{ReadError, Wrong};
use crate::Error;
use crate::entry::{BLOCK, Kind};
use crate::scan::Progress;
use crate::source::{MOST_DEVICES, ROOT};
use crate::tree::{Builder, OwnEntry, Tree, flags};

/// How many entries are read between two readings of the clock.
const CLOCK: u64 = 1024;
/// The interval at which the caller may show progress.
const TICK: Duration = Duration::from_millis(100);

/// Options for reading an export.
#[derive(Debug, Clone)]
pub struct Import {
    /// Keeps times, owners and permissions, if the export has them.
    pub extended: bool,
}

impl Default for Import {
    fn default() -> Self {
        Import { extended: true }
    }
}

/// File systems, in the order in which they occurred.
#[derive(Default)]
struct Devices {
    all: Vec<u64>,
    known: HashMap<u64, u32>,
}

impl Devices {
    fn number(&mut self, device: u64, lexer: &Lexer<'_>) -> Result<u32, ReadError> {
        if let Some(number) = self.known.get(&device) {
            return Ok(*number);
        }
        if self.all.len() == MOST_DEVICES {
            return lexer.wrong(Wrong::Devices);
        }
        let number = self.all.len() as u32;
        self.all.push(device);
        self.known.insert(device, number);
        Ok(number)
    }
}

struct Reader<'a, 's, 'r> {
    lexer: Lexer<'r>,
    fields: Fields,
    builder: Builder<'s>,
    devices: Devices,
    options: &'a Import,
    /// The space of everything read so far, in blocks.
    blocks: u64,
    items: u64,
    failures: u64,
}

impl<'s> Reader<'_, 's, '_> {
    /// Reads some more entries or ends of directories; returns whether there are more.
    fn some(&mut self) -> Result<bool, ReadError> {
        for _ in 0..CLOCK {
            if self.lexer.take(b']')? {
                if self.builder.end()? {
                    return Ok(false);
                }
                continue;
            }
            self.lexer.need(b',', "a comma or the end of the directory")?;
            match (self.lexer.take(b'[')?, self.lexer.next()?) {
                (is_directory, Some(b'{')) => self.entry(is_directory)?,
                // Unknown; skipped, as in ncdu.
                (true, _) => self.lexer.skip_list()?,
                (false, _) => self.lexer.skip()?,
            }
        }
        Ok(true)
    }

    fn entry(&mut self, is_directory: bool) -> Result<(), ReadError> {
        let Reader { lexer, fields, builder, .. } = self;
        fields.read(lexer)?;
        fields.check_name(lexer)?;
        self.blocks = self.blocks.saturating_add(fields.said.disk / BLOCK);
        self.items += 1;
        let above = builder.device();
        let device = self.devices.all.get(above as usize).copied().unwrap_or(0);
        // A directory on another file system has no contents. If the export contains some, they override the
        // mark.
        let is_left_out = fields.said.excluded == Some(Excluded::OtherFileSystem);
        let counts = is_directory || fields.said.inode.is_some();
        let other = fields.said.device.filter(|own| counts && *own != device);
        let other = other.map(|own| self.devices.number(own, lexer)).transpose()?;
        if is_directory && !(is_left_out && lexer.take(b']')?) {
            let row = fields.said.row(other.unwrap_or(above));
            self.failures += u64::from(row.flags & flags::FAILED != 0);
            let entry = fields.entry(Kind::Directory(0), None, self.options.extended);
            return Ok(builder.begin(&entry, row)?);
        }
        let kind = fields.said.kind();
        self.failures += u64::from(matches!(kind, Kind::Failed(_)));
        Ok(builder.add(&fields.entry(kind, other, self.options.extended))?)
    }

    /// Skips whatever follows the root in its list; after the list the export must end.
    fn finish(mut self) -> Result<Tree<'s>, ReadError> {
        while !self.lexer.take(b']')? {
            self.lexer.need(b',', "the end of the export, ],")?;
            self.lexer.skip()?;
        }
        match self.lexer.next()? {
            None => Ok(self.builder.finish(self.devices.all)?),
            Some(_) => self.lexer.wrong(Wrong::Trailing),
        }
    }
}

/// Reads an export of ncdu 1.9 or later, which may be compressed by zstd. It is read to its end as a stream, so
/// it may be a pipe. `tick` is called several times a second while data arrive; if it returns false, reading
/// ends.
pub fn read<'s>(
    from: impl Read,
    options: &Import,
    heap: &'s Heap,
    session: &'s Session<'_>,
    progress: &Progress,
    mut tick: impl FnMut(&Progress) -> bool,
) -> Result<Tree<'s>, ReadError> {
    let mut lexer = Lexer::new(from)?;
    begin(&mut lexer)?;
    let mut fields = Fields::default();
    lexer.need(b'[', "the root's directory, as [{\"name\":..},..],")?;
    fields.read(&mut lexer)?;
    fields.check_path(&lexer)?;
    let mut devices = Devices::default();
    let device = fields.said.device.unwrap_or(0);
    let row = fields.said.row(devices.number(device, &lexer)?);
    let root = OwnEntry::from(fields.entry(Kind::Directory(ROOT), None, options.extended));
    let builder = Builder::new(heap, session, root, row)?;
    let mut reader = Reader { lexer, fields, builder, devices, options, blocks: 0, items: 0, failures: 0 };
    let mut last = Instant::now();
    loop {
        let (items, blocks, failures) = (reader.items, reader.blocks, reader.failures);
        let is_more = reader.some()?;
        progress.items.fetch_add(reader.items - items, Relaxed);
        progress.blocks.fetch_add(reader.blocks - blocks, Relaxed);
        progress.failures.fetch_add(reader.failures - failures, Relaxed);
        if !is_more {
            return reader.finish();
        }
        if last.elapsed() >= TICK {
            last = Instant::now();
            if !tick(progress) {
                return Err(Error::Stopped.into());
            }
        }
    }
}

/// Reads what precedes the root: versions and the writer's name.
fn begin(lexer: &mut Lexer<'_>) -> Result<(), ReadError> {
    lexer.need(b'[', "[ as the first byte")?;
    let major = lexer.number("version")?;
    if major != 1 {
        return lexer.wrong(Wrong::Version(major));
    }
    lexer.need(b',', "a comma")?;
    // Additions to the format are ignored.
    lexer.number("version")?;
    lexer.need(b',', "a comma")?;
    // An object about the writer, which is not used; ncdu 1 accepts any value.
    lexer.skip()?;
    lexer.need(b',', "a comma")
}
