//! The first operation: reads a directory tree into nodes.
//!
//! As in ncdu, the names of a directory are read first. Then each one is examined (`lstat`), made into a node
//! and put at the front of its parent's list, and the sizes and counts of all ancestors are updated
//! immediately. ncdu changes its working directory as it goes; here, directories are opened and examined by
//! descriptor.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::dir::Dir as OpenDir;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use zerocopy::IntoBytes;

use super::{DIR, Dir, Link, Nodes, PREV, SUB, add_to_parents, flags, links};

const S_BLKSIZE: i64 = 512;

/// How the disk usage of a file is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// From the blocks that the file system reports.
    Blocks,
    /// From its size, rounded up to blocks of 4 KiB: for trees made of files without data.
    Size,
}

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub root: Link,
    /// The root's size and apparent size, without what is below it.
    pub own: [i64; 2],
    /// The directory with the most names, and their number.
    pub largest: (Link, usize),
    /// Number of entries that could not be examined, or opened.
    pub errors: u64,
}

struct Scan<'n, N> {
    nodes: &'n mut N,
    usage: Usage,
    root_dev: u64,
    /// The first node of each file with several names, by device and inode.
    linked: HashMap<(u64, u64), Link>,
    found: Found,
    /// The contents of the node that is being made.
    bytes: Vec<u8>,
}

/// Reads the tree at `path` without entering other file systems.
pub fn scan<N: Nodes>(nodes: &mut N, path: &Path, usage: Usage) -> io::Result<Found> {
    let opened = OpenDir::open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let stat = fstat(opened.as_fd())?;
    let found = Found { root: Link::NONE, own: [0; 2], largest: (Link::NONE, 0), errors: 0 };
    let mut scan =
        Scan { nodes, usage, root_dev: stat.st_dev, linked: HashMap::new(), found, bytes: Vec::new() };
    let (opened, names) = read(opened)?;
    let dir = scan.dir(&stat, 0);
    scan.found.own = [dir.size, dir.asize];
    scan.found.root = scan.add(Link::NONE, c"tree", &dir);
    scan.walk(&opened, scan.found.root, &names);
    Ok(scan.found)
}

/// The names in a directory, one after the other, each followed by a zero.
fn read(mut directory: OpenDir) -> io::Result<(OpenDir, Vec<u8>)> {
    let mut names = Vec::with_capacity(512);
    for entry in directory.iter() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.extend_from_slice(entry.file_name().to_bytes_with_nul());
        }
    }
    Ok((directory, names))
}

impl<N: Nodes> Scan<'_, N> {
    /// The fields of a node that are read from the file system.
    fn dir(&self, stat: &FileStat, flags: u16) -> Dir {
        let kind = stat.st_mode & libc::S_IFMT;
        let flags = flags
            | match kind {
                libc::S_IFREG => flags::FILE,
                libc::S_IFDIR => flags::DIR,
                _ => 0,
            }
            | if kind != libc::S_IFDIR && stat.st_nlink > 1 { flags::HLNKC } else { 0 };
        let size = match self.usage {
            Usage::Blocks => stat.st_blocks * S_BLKSIZE,
            Usage::Size => (stat.st_size + 4095) / 4096 * 4096,
        };
        Dir { size, asize: stat.st_size, ino: stat.st_ino, dev: stat.st_dev, flags, ..Dir::default() }
    }

    /// Makes a node and links it in.
    fn add(&mut self, parent: Link, name: &std::ffi::CStr, dir: &Dir) -> Link {
        let next = if parent == Link::NONE { Link::NONE } else { self.nodes.read(parent, SUB) };
        self.bytes.clear();
        self.bytes.extend_from_slice(Dir { parent, next, ..*dir }.as_bytes());
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        let node = self.nodes.make(&self.bytes);
        if next != Link::NONE {
            self.nodes.set(next, PREV, node);
        }
        if parent != Link::NONE {
            self.nodes.set(parent, SUB, node);
        }
        if dir.flags & flags::HLNKC == 0 {
            add_to_parents(self.nodes, parent, dir.size, dir.asize, 1);
        } else {
            add_to_parents(self.nodes, parent, 0, 0, 1);
            if let Some(&known) = self.linked.get(&(dir.dev, dir.ino)) {
                links::join(self.nodes, node, known);
            } else {
                self.linked.insert((dir.dev, dir.ino), node);
            }
            links::count(self.nodes, node, 1);
        }
        if dir.flags & flags::ERR != 0 {
            self.found.errors += 1;
            let mut above = parent;
            while above != Link::NONE {
                above = self.nodes.change(above, DIR, |dir| {
                    dir.flags |= flags::SERR;
                    dir.parent
                });
            }
        }
        node
    }

    fn walk(&mut self, directory: &OpenDir, parent: Link, names: &[u8]) {
        let mut count = 0;
        for name in names.split_inclusive(|&byte| byte == 0) {
            let Ok(name) = std::ffi::CStr::from_bytes_with_nul(name) else { continue };
            count += 1;
            let Ok(stat) = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
                self.add(parent, name, &Dir { flags: flags::ERR, ..Dir::default() });
                continue;
            };
            if stat.st_mode & libc::S_IFMT != libc::S_IFDIR || stat.st_dev != self.root_dev {
                self.add(parent, name, &self.dir(&stat, 0));
                continue;
            }
            let how = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
            let below =
                OpenDir::openat(directory, name, how, Mode::empty()).map_err(io::Error::from).and_then(read);
            match below {
                Ok((below, names)) => {
                    let node = self.add(parent, name, &self.dir(&stat, 0));
                    self.walk(&below, node, &names);
                }
                Err(_) => {
                    self.add(parent, name, &self.dir(&stat, flags::ERR));
                }
            }
        }
        if count > self.found.largest.1 {
            self.found.largest = (parent, count);
        }
    }
}
