//! Finds where the file systems on a device are mounted.
//!
//! ```text
//!   the device's file ──> loop devices with that backing file ──> their partitions, and what holds them (dm, md) ──> mounts, swap
//! ```
//!
//! All this is read from `/sys` and `/proc`. No mounted file system is accessed, because nobody may be serving
//! it. `/sys` and `/proc` do not tell which socket a block device of the kernel's NBD client is connected to.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How swap is shown, as in lsblk(8).
pub const SWAP: &str = "[SWAP]";

/// The current mounts of this machine.
#[derive(Debug, Default)]
pub struct MountPoints {
    mounts: Vec<Mount>,
    swaps: Vec<PathBuf>,
    loops: Vec<(PathBuf, String)>,
}

/// A line of `mountinfo`.
#[derive(Debug, PartialEq)]
pub struct Mount {
    /// `MAJOR:MINOR`
    pub device: Vec<u8>,
    pub place: Vec<u8>,
    /// Type of the file system
    pub kind: Vec<u8>,
    pub source: Vec<u8>,
}

impl MountPoints {
    /// Reads them.
    pub fn look() -> Self {
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let swaps = fs::read("/proc/swaps").unwrap_or_default();
        let names = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        let loops = names.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let mut path = fs::read(entry.path().join("loop/backing_file")).ok()?;
            path.pop_if(|last| *last == b'\n');
            Some((PathBuf::from(std::ffi::OsString::from_vec(path)), name))
        });
        MountPoints {
            mounts: mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect(),
            swaps: swaps.split(|byte| *byte == b'\n').skip(1).filter_map(swap).collect(),
            loops: loops.collect(),
        }
    }

    /// The mount points of a file, in the order in which they were mounted.
    pub fn of(&self, file: &Path) -> Vec<Vec<u8>> {
        let mut devices = Vec::new();
        for (_, name) in self.loops.iter().filter(|(backing, _)| backing == file) {
            add_with_users(&mut devices, name.clone());
        }
        let known: Vec<_> = devices.iter().map(|name| (number(name), paths(name))).collect();
        let is_on = |mount: &&Mount| {
            known.iter().any(|(number, paths)| {
                // Btrfs uses device numbers of its own.
                mount.device == *number
                    || paths.iter().any(|path| path.as_os_str().as_bytes() == mount.source)
            })
        };
        let mut places: Vec<_> = self.mounts.iter().filter(is_on).map(|mount| mount.place.clone()).collect();
        if self.swaps.iter().any(|swap| known.iter().any(|(_, paths)| paths.contains(swap))) {
            places.push(SWAP.into());
        }
        places.dedup();
        places
    }
}

/// Adds a block device, its partitions and the devices that are built on them.
fn add_with_users(devices: &mut Vec<String>, name: String) {
    if devices.contains(&name) {
        return;
    }
    let directory = Path::new("/sys/class/block").join(&name);
    let names = |below: &Path| {
        let entries = fs::read_dir(below).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let is_part = |part: &String| directory.join(part).join("partition").exists();
    devices.push(name);
    let users = names(&directory.join("holders"));
    for user in names(&directory).into_iter().filter(is_part).chain(users) {
        add_with_users(devices, user);
    }
}

/// The number of a block device, as in `mountinfo`. No mount has an empty one.
fn number(name: &str) -> Vec<u8> {
    let mut number = fs::read(Path::new("/sys/class/block").join(name).join("dev")).unwrap_or_default();
    number.pop_if(|last| *last == b'\n');
    number
}

/// The paths of a block device in `/dev`.
fn paths(name: &str) -> Vec<PathBuf> {
    let mapped = fs::read_to_string(Path::new("/sys/class/block").join(name).join("dm/name")).ok();
    let mapped = mapped.map(|name| Path::new("/dev/mapper").join(name.trim_end()));
    [Path::new("/dev").join(name)].into_iter().chain(mapped).collect()
}

impl Mount {
    /// "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [FIELD...] - TYPE SOURCE OPTIONS"
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let (device, place) = (words.nth(2)?.to_vec(), unescaped(words.nth(1)?));
        let mut words = words.skip_while(|word| *word != b"-").skip(1);
        Some(Mount { device, place, kind: unescaped(words.next()?), source: unescaped(words.next()?) })
    }
}

/// A line of `/proc/swaps` begins with the path.
fn swap(line: &[u8]) -> Option<PathBuf> {
    let path = line.split(|byte| byte.is_ascii_whitespace()).next().filter(|path| !path.is_empty())?;
    Some(Path::new(OsStr::from_bytes(&unescaped(path))).to_owned())
}

/// Decodes a word in which the kernel has written blanks, newlines and backslashes as `\040` and the like.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|it| matches!(it, b'0'..=b'7')));
        let byte = digits.map(|digits| digits.iter().fold(0_u8, |byte, digit| (byte << 3) | (digit - b'0')));
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line =
            b"36 35 7:0 / /mnt/a\\040b\xff rw,noatime shared:1 master:2 - ext4 /dev/loop0 rw,errors=continue";
        let wanted = Mount {
            device: b"7:0".into(),
            place: b"/mnt/a b\xff".into(),
            kind: b"ext4".into(),
            source: b"/dev/loop0".into(),
        };
        assert_eq!(Mount::parse(line), Some(wanted));
        let mount = Mount::parse;
        assert_eq!(mount(b"22 28 0:20 / /proc rw - proc proc rw").map(|it| it.source), Some(b"proc".into()));
        assert_eq!((mount(b""), mount(b"36 35 7:0 / /mnt")), (None, None));
        assert_eq!(
            swap(b"/dev/loop1                              partition\t65532\t0\t-2"),
            Some("/dev/loop1".into())
        );
        assert_eq!(swap(b""), None);
        assert_eq!(unescaped(b"\\134\\0\\08x\\1"), b"\\\\0\\08x\\1");
    }
}
