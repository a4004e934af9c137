//! Finds where the file systems on a device are mounted.
//!
//! ```text
//!   the device's file ──> loop devices with that backing file ──> their partitions, and what holds them (dm, md) ──> mounts, swap
//! ```
//!
//! All this comes from `/sys` and `/proc`. No mounted file system is accessed, because its server may have
//! ended. `/sys` and `/proc` do not tell which socket a block device of the kernel's NBD client is connected
//! to.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use memfold_proc::mounts::{self, Mount};

/// How swap is shown, as in lsblk(8).
pub const SWAP: &str = "[SWAP]";

/// The current mounts of this machine.
#[derive(Debug, Default)]
pub struct MountPoints {
    mounts: Vec<Mount>,
    swaps: Vec<PathBuf>,
    loops: Vec<(PathBuf, String)>,
}

impl MountPoints {
    /// Reads the current mounts.
    pub fn look() -> Self {
        let names = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        let loops = names.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let mut path = fs::read(entry.path().join("loop/backing_file")).ok()?;
            path.pop_if(|last| *last == b'\n');
            Some((PathBuf::from(std::ffi::OsString::from_vec(path)), name))
        });
        MountPoints { mounts: mounts::all(), swaps: mounts::swaps(), loops: loops.collect() }
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
                // Btrfs has its own device numbers, so compare the source, too.
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

/// The number of a block device, as in `mountinfo`. An unreadable number is empty and matches no mount.
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
