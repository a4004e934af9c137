//! Checks whether the file system still contains what the tree has.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, Statx, StatxFlags, statx};
use rustix::io::Errno;

use crate::entry::{Entry, Kind};
use crate::scan::clock::{self, may_be_as_seen};

/// Whether the entry is still the one that was read, as far as its attributes tell.
pub fn is_same(
    directory: &OwnedFd,
    name: &CStr,
    entry: &Entry<'_>,
    stat: &Statx,
    seen_until: i64,
    deletes: bool,
) -> bool {
    if entry.followed.is_none() {
        return is_as_read(entry, stat, seen_until);
    }
    // The link would be deleted, but the known attributes are those of its target.
    if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Symlink {
        return false;
    }
    match look(directory, name, AtFlags::empty()) {
        Ok(target) => is_as_read(entry, &target, seen_until),
        // The target may just have been deleted.
        Err(_) => deletes,
    }
}

pub fn look(directory: &OwnedFd, name: &CStr, flags: AtFlags) -> Result<Statx, Errno> {
    let flags = flags | AtFlags::STATX_SYNC_AS_STAT | AtFlags::NO_AUTOMOUNT;
    statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

/// A file written since it was read may have the same length, but it has a later time, and a file that had
/// holes takes more space. For links and other non-files, times add no information.
fn is_as_read(entry: &Entry<'_>, stat: &Statx, seen_until: i64) -> bool {
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    let modified = clock::nanoseconds(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into());
    let is_kind = match entry.kind {
        Kind::File => kind == FileType::RegularFile,
        Kind::Other => !matches!(kind, FileType::RegularFile | FileType::Directory),
        _ => false,
    };
    is_kind
        && stat.stx_size == entry.size
        && stat.stx_blocks == entry.blocks
        && (kind != FileType::RegularFile || may_be_as_seen(modified, seen_until))
        && entry.link.is_none_or(|link| stat.stx_ino == link.inode)
        && entry.extended.is_none_or(|extended| {
            stat.stx_mtime.tv_sec == extended.modified
                && FileType::from_raw_mode(extended.mode.into()) == kind
        })
}

/// How many names are in a directory.
pub fn count(directory: &OwnedFd) -> Result<u64, Errno> {
    let (mut buffer, mut count) = (Vec::with_capacity(32 << 10), 0);
    let mut names = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    while let Some(name) = names.next() {
        count += u64::from(!matches!(name?.file_name().to_bytes(), b"." | b".."));
    }
    Ok(count)
}
