//! Replacing a file atomically.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{format, process};

/// How many names are tried for the new file.
const TRIES: u32 = 1000;

/// How many names this process has used.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Removes the new file unless it was renamed.
struct Temporary<'p>(&'p Path);

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // The file may have been renamed already. Otherwise the caller already gets the error that led here.
        let _ = fs::remove_file(self.0);
    }
}

/// Lets `write` write a new file, which replaces `path` once it is on the disk. If `path` exists and is not a
/// regular file, it is written in place.
pub fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let before = match fs::metadata(path) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    // A symbolic link remains a link.
    let path = if before.is_some() { fs::canonicalize(path)? } else { PathBuf::from(path) };
    if let Some(before) = &before {
        // Without permission to write the file, replacing it is not allowed either.
        let mut there = OpenOptions::new().write(true).open(&path)?;
        if !before.is_file() {
            return write(&mut there);
        }
    }
    let (name, mut file) = make_beside(&path)?;
    let temporary = Temporary(&name);
    if let Some(before) = before {
        // Write permission does not imply ownership, so this may fail.
        let _ = file.set_permissions(before.permissions());
    }
    write(&mut file)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&name, &path)?;
    std::mem::forget(temporary);
    sync_directory(&path)?;
    Ok(())
}

/// Makes a new file in the directory of `path`.
fn make_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut tries = 0..TRIES;
    loop {
        let last = tries.next().is_none();
        let name: OsString = format!(".memfold-{}-{}.tmp", process::id(), NEXT.fetch_add(1, Relaxed)).into();
        let name = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !last => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes sure that the new name is on the disk, where that is possible.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory =
        path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let Some(directory) = directory.filter(|_| cfg!(unix)) else { return Ok(()) };
    // Without read permission the directory can't be opened, and some file systems can't sync one.
    let Ok(directory) = File::open(directory) else { return Ok(()) };
    match directory.sync_all() {
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Err(error)
        }
        _ => Ok(()),
    }
}
