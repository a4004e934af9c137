//! Files of raw pages, one after the other.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use memfold_packed::{FRAME_HEAD, HEAD, Packed, packed, skippable};

use super::{Source, core};
use crate::index::{Mapping, Run};
use crate::{Error, PAGE};

/// The files; see the module.
pub struct Files {
    files: Vec<File>,
    mappings: Vec<Mapping>,
}

impl Files {
    /// Opens every file that can be opened, and returns the errors of the others by their index in the list.
    /// Omits an incomplete last page of a file.
    pub fn open(paths: &[impl AsRef<Path>]) -> (Self, Vec<(usize, Error)>) {
        let (mut all, mut failed, mut start) = (Self::none(), Vec::new(), 0);
        for (place, path) in paths.iter().map(AsRef::as_ref).enumerate() {
            match open(path, paths.len() > 1) {
                Ok((file, pages)) => {
                    let runs = vec![Run { address: start, pages }];
                    all.mappings.push(Mapping {
                        name: path.as_os_str().as_encoded_bytes().into(),
                        start,
                        runs,
                    });
                    start += pages * PAGE as u64;
                    all.files.push(file);
                }
                Err(error) => failed.push((place, error)),
            }
        }
        (all, failed)
    }

    /// A source without files.
    pub fn none() -> Self {
        Files { files: Vec::new(), mappings: Vec::new() }
    }
}

/// A file and its number of pages.
fn open(path: &Path, has_others: bool) -> Result<(File, u64), Error> {
    let fail = Error::file(path);
    // Reading a pipe would block.
    let meta = std::fs::metadata(path).map_err(&fail)?;
    if !meta.is_file() && !meta.file_type().is_block_device() {
        let what = if meta.is_dir() { "a directory" } else { "not a file that can be read twice" };
        let error = std::io::Error::other(format!("it is {what}; give files of pages, or a core"));
        return Err(fail(error));
    }
    if has_others && core::is_core(path)? {
        let alone = "is a core, which can only be analysed by itself: give no other file with it";
        return Err(Error::Core(path.to_owned(), alone.into()));
    }
    let mut file = File::open(path).map_err(&fail)?;
    refuse_compressed(path, &file)?;
    let len = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(&fail)?;
    match len / PAGE as u64 {
        0 => Err(Error::NoPages(path.to_owned())),
        pages => Ok((file, pages)),
    }
}

/// Refuses a compressed file: its bytes are not pages, and measuring them is pointless.
fn refuse_compressed(path: &Path, file: &File) -> Result<(), Error> {
    let (mut head, mut at) = ([0; HEAD], 0_u64);
    loop {
        let len = file.read_at(&mut head, at).map_err(Error::file(path))?;
        let head = &head[..len];
        if let Some(Packed { by, with }) = packed(head) {
            let what = format!("is compressed by {by}: decompress it first, as with '{with} FILE > core'");
            return Err(Error::Core(path.to_owned(), what));
        }
        // The compressed data may follow skippable frames.
        match skippable(head) {
            Some(len) => at += FRAME_HEAD as u64 + len,
            None => return Ok(()),
        }
    }
}

impl Source for Files {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let at = self.mappings.partition_point(|mapping| mapping.start <= address) - 1;
        let offset = address - self.mappings[at].start;
        // A file that has become shorter yields fewer bytes.
        self.files[at].read_at(into, offset).unwrap_or(0)
    }
}
