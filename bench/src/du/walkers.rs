//! Measures the cost of reading a tree without keeping it: names and sizes of all files, with one thread.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use ignore::WalkBuilder;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};

use crate::process::cpu;

/// The number of entries, and their total bytes.
type Found = (u64, u64);

/// Reads relative to open directories, as crates/du/src/scan/directory.rs does.
fn own(path: &Path) -> Result<Found, String> {
    fn below(
        above: BorrowedFd<'_>,
        name: &CStr,
        buffer: &mut Vec<Vec<MaybeUninit<u8>>>,
        found: &mut Found,
    ) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(above, name, flags, Mode::empty())?;
        let mut mine = buffer.pop().unwrap_or_else(|| vec![MaybeUninit::uninit(); 32 << 10]);
        let mut entries = RawDir::new(directory.as_fd(), &mut mine);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let data = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            *found = (found.0 + 1, found.1 + data.st_size as u64);
            if FileType::from_raw_mode(data.st_mode) == FileType::Directory {
                below(directory.as_fd(), name, buffer, found)?;
            }
        }
        buffer.push(mine);
        Ok(())
    }
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let mut found = (0, 0);
    below(CWD, &path, &mut Vec::new(), &mut found).map_err(|error| error.to_string())?;
    Ok(found)
}

fn add(found: &mut Found, data: std::fs::Metadata) {
    *found = (found.0 + 1, found.1 + data.len());
}

fn walkdir(path: &Path) -> Result<Found, String> {
    let mut found = (0, 0);
    for entry in walkdir::WalkDir::new(path).min_depth(1) {
        add(&mut found, entry.and_then(|entry| entry.metadata()).map_err(|error| error.to_string())?);
    }
    Ok(found)
}

fn ignore(path: &Path) -> Result<Found, String> {
    let mut found = (0, 0);
    for entry in WalkBuilder::new(path).standard_filters(false).build() {
        let entry = entry.map_err(|error| error.to_string())?;
        if entry.depth() > 0 {
            add(&mut found, entry.metadata().map_err(|error| error.to_string())?);
        }
    }
    Ok(found)
}

fn jwalk(path: &Path) -> Result<Found, String> {
    let mut found = (0, 0);
    let walk =
        jwalk::WalkDir::new(path).skip_hidden(false).min_depth(1).parallelism(jwalk::Parallelism::Serial);
    for entry in walk {
        add(&mut found, entry.and_then(|entry| entry.metadata()).map_err(|error| error.to_string())?);
    }
    Ok(found)
}

/// Runs each walker in turn, and prints medians.
pub fn run(path: &Path, repeats: usize) -> Result<(), String> {
    type Walk = fn(&Path) -> Result<Found, String>;
    let walks: [(&str, Walk); 4] =
        [("open directories (rustix)", own), ("walkdir", walkdir), ("ignore", ignore), ("jwalk", jwalk)];
    let mut times = [const { Vec::new() }; 4];
    let mut first = None;
    for _ in 0..repeats.max(1) {
        for ((name, walk), times) in walks.iter().zip(&mut times) {
            let before = cpu();
            let found = walk(path)?;
            times.push(cpu() - before);
            if *first.get_or_insert(found) != found {
                return Err(format!("{name} found something else: {found:?}, not {first:?}"));
            }
        }
    }
    println!("{} entries; CPU s, median, least, most", first.unwrap_or_default().0);
    for ((name, _), times) in walks.iter().zip(&mut times) {
        times.sort_unstable_by(f64::total_cmp);
        println!(
            "{name:<28} {:>6.2} {:>6.2} {:>6.2}",
            times[times.len() / 2],
            times[0],
            times[times.len() - 1]
        );
    }
    Ok(())
}
