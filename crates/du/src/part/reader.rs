//! Reads parts.

use super::bytes::{Bytes, unzigzag};
use super::{
    AS_SIZE, EXTENDED, FOLLOWED, HAS_DEVICE, HAS_LINK, LONGEST_NAME, Last, MOST, Malformed, NONE, OTHER,
    SAME_GROUP, SAME_MODE, SAME_USER, of_size,
};
use crate::entry::{Entry, Extended, Kind, Link, Target};

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
    /// A reader that begins with the first entry.
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
