//! What is known of one name in a directory.

use std::fmt;

/// Bytes of a block, as the system counts what files take.
pub const BLOCK: u64 = 512;

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
    /// Left out since a pattern says so.
    Excluded,
    /// A directory that was not entered: another file system is mounted there,
    OtherFileSystem,
    /// or one that the kernel makes up.
    KernelFileSystem,
    /// Nothing is known but the error number of the system's, or 0.
    Failed(u16),
    /// It is no more. Others of its directory keep their slots.
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
    /// Which of the tree's file systems that is, if it is not the directory's: single files can be mounted, and layers of an overlay are of several.
    pub device: Option<u32>,
    /// How many names it has, those too that are not in the tree. Fewer than there are in the tree is possible: names come and go.
    pub names: u32,
}

/// What a symbolic link counts as, where links are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// Which of the tree's file systems it is on, if not the directory's.
    pub device: Option<u32>,
}

/// What is asked for with `-e`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extended {
    /// When it was changed, in seconds since 1970.
    pub modified: i64,
    /// Who owns it.
    pub user: u32,
    /// The group of those who share it.
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
    /// How long it says to be: bytes.
    pub size: u64,
    /// What it takes, in units of [`BLOCK`]. Of a directory: itself, without what is in it.
    pub blocks: u64,
    /// If the file has other names.
    pub link: Option<Link>,
    /// If it is a symbolic link, and all of this is its target's.
    pub followed: Option<Target>,
    /// If it was asked for.
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

/// What a directory's contents come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes.
    pub size: u64,
    /// Units of [`BLOCK`].
    pub blocks: u64,
}

impl Sum {
    /// Both. What is beyond 64 bits is lost: a difference may be added that is less than nothing, before what makes it more.
    pub fn plus(self, other: Sum) -> Sum {
        Sum { size: self.size.wrapping_add(other.size), blocks: self.blocks.wrapping_add(other.blocks) }
    }

    /// What is left without `other`.
    pub fn minus(self, other: Sum) -> Sum {
        Sum { size: self.size.wrapping_sub(other.size), blocks: self.blocks.wrapping_sub(other.blocks) }
    }

    /// Bytes that are taken.
    pub fn disk_bytes(self) -> u64 {
        self.blocks.saturating_mul(BLOCK)
    }
}

impl Entry<'_> {
    /// Its own sizes.
    pub fn sum(&self) -> Sum {
        Sum { size: self.size, blocks: self.blocks }
    }
}
