//! What is known about one name in a directory.

use std::fmt;

/// Bytes of a block, the system's unit for the space that files take.
pub const BLOCK: u64 = 512;
/// The largest length that a file can have. Larger sums are clamped to it, as in ncdu.
pub const MOST_BYTES: u64 = i64::MAX as u64;
/// The same in blocks.
pub const MOST_BLOCKS: u64 = MOST_BYTES / BLOCK;

/// What a name stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    #[default]
    File,
    /// A directory whose contents are known: its number.
    Directory(u32),
    /// Neither: a symbolic link, a device, a socket, a pipe.
    Other,
    /// Left out because a pattern says so.
    Excluded,
    /// A directory that was not entered because another file system is mounted there,
    OtherFileSystem,
    /// or because the kernel generates its contents.
    KernelFileSystem,
    /// Only the system's error number is known, or 0.
    Failed(u16),
    /// It no longer exists. Other entries of its directory keep their slots.
    Gone,
}

impl Kind {
    /// Whether its contents are known.
    pub fn is_directory(self) -> bool {
        matches!(self, Kind::Directory(_))
    }
}

/// One of several names of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The file's number in its file system.
    pub inode: u64,
    /// The file system among the tree's, if it is not the directory's: single files can be mounted, and an
    /// overlay has layers on several devices.
    pub device: Option<u32>,
    /// The file's number of names, including names outside of the tree. It may be less than the number in the
    /// tree, since names come and go during a scan.
    pub names: u32,
}

/// The target of a symbolic link that was followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// Its file system among the tree's, if it is not the directory's.
    pub device: Option<u32>,
}

/// Additional information, for `-e`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extended {
    /// The time of its last change, in seconds since 1970.
    pub modified: i64,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Its type and permissions, as in `st_mode`.
    pub mode: u16,
}

/// A name in a directory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry<'n> {
    /// Any bytes but 0 and '/'.
    pub name: &'n [u8],
    /// What it is.
    pub kind: Kind,
    /// Its length in bytes.
    pub size: u64,
    /// The space that it takes, in units of [`BLOCK`]; for a directory, without its contents.
    pub blocks: u64,
    /// Set if the file has other names.
    pub link: Option<Link>,
    /// Set if it is a symbolic link and everything else here describes its target.
    pub followed: Option<Target>,
    /// Set if it was requested.
    pub extended: Option<Extended>,
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(self.name);
        f.debug_struct("Entry")
            .field("name", &name)
            .field("kind", &self.kind)
            .field("size", &self.size)
            .field("blocks", &self.blocks)
            .field("link", &self.link)
            .field("followed", &self.followed)
            .field("extended", &self.extended)
            .finish()
    }
}

/// The sum of a directory's contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes.
    pub size: u64,
    /// Units of [`BLOCK`].
    pub blocks: u64,
}

/// Adds two numbers, which may be negative until all of their parts have been added. A sum that has reached
/// the maximum stays there, since it is unknown by how much the true sum exceeds it.
fn added(a: u64, b: u64, most: u64) -> u64 {
    match a >= most && a <= MOST_BYTES || b >= most && b <= MOST_BYTES {
        true => most,
        false => (a as i64).saturating_add(b as i64).min(most as i64) as u64,
    }
}

fn negative(a: u64) -> u64 {
    (a as i64).saturating_neg() as u64
}

impl Sum {
    /// The sum of both, up to the maximum. A negative difference may be added before the parts that make the
    /// sum positive.
    pub fn plus(self, other: Sum) -> Sum {
        Sum {
            size: added(self.size, other.size, MOST_BYTES),
            blocks: added(self.blocks, other.blocks, MOST_BLOCKS),
        }
    }

    /// The difference.
    pub fn minus(self, other: Sum) -> Sum {
        self.plus(Sum { size: negative(other.size), blocks: negative(other.blocks) })
    }

    /// Bytes of space taken.
    pub fn disk_bytes(self) -> u64 {
        self.blocks.saturating_mul(BLOCK)
    }
}

impl Entry<'_> {
    /// Its own sizes.
    pub fn sum(&self) -> Sum {
        Sum { size: self.size.min(MOST_BYTES), blocks: self.blocks.min(MOST_BLOCKS) }
    }
}

/// An entry that is kept outside of the heap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnEntry {
    /// Its name; for the root, its path.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Set if the file has other names.
    pub link: Option<Link>,
    /// Set if it is a symbolic link that was followed.
    pub followed: Option<Target>,
    /// Set if it was requested.
    pub extended: Option<Extended>,
}

impl OwnEntry {
    /// The entry.
    pub fn entry(&self) -> Entry<'_> {
        let OwnEntry { ref name, kind, size, blocks, link, followed, extended } = *self;
        Entry { name, kind, size, blocks, link, followed, extended }
    }
}

impl From<Entry<'_>> for OwnEntry {
    fn from(entry: Entry<'_>) -> Self {
        let Entry { name, kind, size, blocks, link, followed, extended } = entry;
        OwnEntry { name: name.to_vec(), kind, size, blocks, link, followed, extended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_end_at_the_most_and_stay_there() {
        let of = |size, blocks| Sum { size, blocks };
        assert_eq!(of(3, 1).plus(of(4, 2)), of(7, 3));
        // An intermediate sum may be negative.
        assert_eq!(of(3, 1).minus(of(10, 5)).plus(of(20, 9)), of(13, 5));
        let most = of(MOST_BYTES, MOST_BLOCKS);
        assert_eq!(of(MOST_BYTES - 1, MOST_BLOCKS - 1).plus(of(1, 1)), most);
        for more in [of(1, 1), most, of(u64::MAX, u64::MAX)] {
            assert_eq!((most.plus(more), more.plus(most), most.minus(more)), (most, most, most), "{more:?}");
        }
        assert_eq!(of(MOST_BYTES - 5, 0).plus(of(6, 0)).minus(of(7, 0)), of(MOST_BYTES, 0));
        let entry = Entry { size: u64::MAX, blocks: u64::MAX, ..Entry::default() };
        assert_eq!(entry.sum(), most);
        assert!(most.disk_bytes() <= MOST_BYTES);
    }
}
