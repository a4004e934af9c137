//! The fields of one entry in an export: `{"name":..,"asize":..}`.

use super::lex::Lexer;
use super::{LONGEST_PATH, ReadError, Wrong};
use crate::entry::{BLOCK, Entry, Extended, Kind, Link, MOST_BLOCKS, MOST_BYTES};
use crate::part::LONGEST_NAME;
use crate::tree::{Row, flags};

/// The longest known key, and the longest reason for an exclusion.
const WORD: usize = 16;

/// Why an entry was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excluded {
    Pattern,
    OtherFileSystem,
    Kernel,
}

/// The fields of an entry, except its name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Said {
    pub size: u64,
    /// Bytes.
    pub disk: u64,
    pub device: Option<u64>,
    pub inode: Option<u64>,
    is_linked: bool,
    names: u32,
    is_other: bool,
    failed: bool,
    error: u16,
    is_loop: bool,
    pub excluded: Option<Excluded>,
    extended: Option<Extended>,
}

/// The last entry's fields, whose memory is reused for the next one.
#[derive(Default)]
pub struct Fields {
    pub name: Vec<u8>,
    pub said: Said,
    word: Vec<u8>,
}

/// A number that fits the type.
fn fitting<T: TryFrom<u64>>(lexer: &mut Lexer<'_>, key: &'static str) -> Result<T, ReadError> {
    let number = lexer.number(key)?;
    T::try_from(number).or_else(|_| lexer.wrong(Wrong::Number(key)))
}

/// A size that a file can have.
fn size(lexer: &mut Lexer<'_>, key: &'static str) -> Result<u64, ReadError> {
    let size = lexer.number(key)?;
    if size <= MOST_BYTES { Ok(size) } else { lexer.wrong(Wrong::Number(key)) }
}

/// The id of an owner. ncdu 1 writes ids from 2^31 on as negative numbers.
fn id(lexer: &mut Lexer<'_>, key: &'static str) -> Result<u32, ReadError> {
    let number = lexer.number(key)?;
    let negative = i32::try_from(number as i64).ok().filter(|number| *number < 0);
    negative
        .map(|number| number as u32)
        .or(u32::try_from(number).ok())
        .map_or_else(|| lexer.wrong(Wrong::Number(key)), Ok)
}

impl Fields {
    /// Reads the fields, from the opening brace to the closing one.
    #[inline]
    pub fn read(&mut self, lexer: &mut Lexer<'_>) -> Result<(), ReadError> {
        self.name.clear();
        self.read_all(lexer).map_err(|error| error.of(&self.name))
    }

    #[inline]
    fn read_all(&mut self, lexer: &mut Lexer<'_>) -> Result<(), ReadError> {
        lexer.need(b'{', "an entry, as {\"name\":..},")?;
        self.said = Said::default();
        let mut has_name = false;
        let mut is_first = true;
        while !lexer.take(b'}')? {
            if !is_first {
                lexer.need(b',', "a comma or the end of the entry")?;
            }
            is_first = false;
            self.word.clear();
            let is_short = lexer.string(&mut self.word, WORD)?;
            lexer.need(b':', "a colon")?;
            let (said, lexer) = (&mut self.said, &mut *lexer);
            match &self.word[..] {
                _ if !is_short => lexer.skip()?,
                b"name" => {
                    has_name = true;
                    // If a field occurs several times, the last one counts, as for all fields.
                    self.name.clear();
                    if !lexer.string(&mut self.name, LONGEST_PATH)? {
                        return lexer.wrong(Wrong::Name(self.name.clone(), "it is too long"));
                    }
                    // A name cannot contain a zero byte; ncdu ends the name there.
                    let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
                    self.name.truncate(len);
                }
                b"asize" => said.size = size(lexer, "asize")?,
                b"dsize" => said.disk = size(lexer, "dsize")?,
                b"dev" => said.device = Some(lexer.number("dev")?),
                b"ino" => said.inode = Some(lexer.number("ino")?),
                b"hlnkc" => said.is_linked = lexer.boolean()?,
                b"nlink" => said.names = fitting(lexer, "nlink")?,
                b"notreg" => said.is_other = lexer.boolean()?,
                b"read_error" => said.failed = lexer.boolean()?,
                b"errno" => said.error = fitting(lexer, "errno")?,
                b"loop" => said.is_loop = lexer.boolean()?,
                b"uid" | b"memfold_uid" => said.extended().user = id(lexer, "uid")?,
                b"gid" | b"memfold_gid" => said.extended().group = id(lexer, "gid")?,
                b"mode" => said.extended().mode = fitting(lexer, "mode")?,
                b"mtime" => said.extended().modified = lexer.time("mtime")?,
                b"excluded" => {
                    self.word.clear();
                    lexer.string(&mut self.word, WORD)?;
                    said.excluded = Some(match &self.word[..] {
                        b"otherfs" | b"othfs" => Excluded::OtherFileSystem,
                        b"kernfs" => Excluded::Kernel,
                        // "pattern", and "frmlnk" on macOS; any unknown value also means that the entry was
                        // left out.
                        _ => Excluded::Pattern,
                    });
                }
                _ => lexer.skip()?,
            }
        }
        if has_name { Ok(()) } else { lexer.wrong(Wrong::NoName) }
    }

    /// Checks that a directory of the tree can have an entry of this name. Exports by other programs may have
    /// slashes in names, or a name twice, like the keys of object stores; such names are only displayed.
    pub fn check_name(&self, lexer: &Lexer<'_>) -> Result<(), ReadError> {
        let why = match &self.name[..] {
            b"" => "it is empty",
            name if name.len() > LONGEST_NAME => "it has more than 32,768 bytes",
            _ => return Ok(()),
        };
        lexer.wrong(Wrong::Name(self.name.clone(), why))
    }

    /// Checks that it can be the root's path.
    pub fn check_path(&self, lexer: &Lexer<'_>) -> Result<(), ReadError> {
        let why = match &self.name[..] {
            b"" => "it is empty",
            _ => return Ok(()),
        };
        lexer.wrong(Wrong::Name(self.name.clone(), why))
    }

    /// The entry; `device` is its file system, if different from the directory's.
    pub fn entry(&self, kind: Kind, device: Option<u32>, is_extended: bool) -> Entry<'_> {
        let said = &self.said;
        let link = match (kind, said.inode) {
            (Kind::File | Kind::Other, Some(inode)) if said.is_linked || said.names > 1 => {
                Some(Link { inode, device, names: said.names })
            }
            _ => None,
        };
        Entry {
            name: &self.name,
            kind,
            size: said.size,
            blocks: said.disk.div_ceil(BLOCK).min(MOST_BLOCKS),
            link,
            // Nothing is deleted through an imported tree, so a followed link can be a file like any other.
            followed: None,
            extended: said.extended.filter(|_| is_extended),
        }
    }
}

impl Said {
    #[inline]
    fn extended(&mut self) -> &mut Extended {
        self.extended.get_or_insert_default()
    }

    /// The kind of entry, if it is not a directory.
    pub fn kind(&self) -> Kind {
        match self.excluded {
            Some(Excluded::Pattern) => Kind::Excluded,
            Some(Excluded::OtherFileSystem) => Kind::OtherFileSystem,
            Some(Excluded::Kernel) => Kind::KernelFileSystem,
            None if self.failed => Kind::Failed(self.error),
            None if self.is_other => Kind::Other,
            None => Kind::File,
        }
    }

    /// The row, if it is a directory.
    pub fn row(&self, device: u32) -> Row {
        let mut row = Row::default();
        row.device = device;
        if self.failed {
            row.flags |= flags::FAILED;
            row.error = self.error;
        }
        if self.is_loop {
            row.flags |= flags::LOOP;
        }
        row.flags |= match self.excluded {
            // A directory that matches a pattern is not examined, so an export does not show that it is a
            // directory. This one was examined, so it is tagged as a cache.
            Some(Excluded::Pattern) => flags::CACHE,
            Some(Excluded::Kernel) => flags::KERNEL,
            Some(Excluded::OtherFileSystem) | None => 0,
        };
        row
    }
}
