//! Cuts a file into blocks and selects those that codecs are measured on.
//!
//! ```text
//!  file:   | 0 0 0 | A | 7 7 7 | B | A | C | rest |
//!            zero         same        copy  shorter block
//!  blocks:           A           B   A   C   rest      go to the codecs
//! ```
//!
//! Same-filled blocks never reach a codec, so they are counted separately. Blocks of zeros and copies of
//! earlier blocks are omitted altogether if the user asks for that.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use memfold::size::Human;
use memfold_codec::same_filled;
use memfold_escape::shown;
use memfold_proc::memory;

use super::plan::Plan;
use crate::output::failure::Failure;

/// A file in memory, and its blocks by number.
#[derive(Debug)]
pub struct Corpus {
    bytes: Vec<u8>,
    block: usize,
    /// The blocks for the codecs.
    worth: Vec<usize>,
    /// The counts.
    pub counts: Counts,
}

/// Counts of a file's blocks. `blocks` is the sum of `same_filled` and the blocks for the codecs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All blocks except omitted ones.
    pub blocks: usize,
    /// Blocks of one repeated word.
    pub same_filled: usize,
    /// Copies of an earlier block, except same-filled ones, whether omitted or not.
    pub duplicates: usize,
    /// Omitted blocks.
    pub dropped: usize,
}

impl Corpus {
    /// Reads a file and examines its blocks.
    pub fn read(path: &Path, plan: &Plan) -> Result<Self, Failure> {
        let bytes = read_at_most(path, room())?;
        long_enough(path, bytes.len() as u64, plan.block)?;
        Ok(Self::new(bytes, plan))
    }

    fn new(bytes: Vec<u8>, plan: &Plan) -> Self {
        let mut counts = Counts::default();
        let mut worth = Vec::new();
        let mut seen = HashSet::new();
        for (number, block) in bytes.chunks(plan.block).enumerate() {
            let word = same_filled(block);
            let copy = word.is_none() && !seen.insert(block);
            counts.duplicates += usize::from(copy);
            if plan.drop_zero && word == Some(0) || plan.drop_duplicates && copy {
                counts.dropped += 1;
                continue;
            }
            counts.blocks += 1;
            match word {
                Some(_) => counts.same_filled += 1,
                None => worth.push(number),
            }
        }
        Self { block: plan.block, worth, counts, bytes }
    }

    /// The blocks that codecs get.
    pub fn blocks(&self) -> Vec<&[u8]> {
        let block = |number: &usize| {
            let start = number * self.block;
            &self.bytes[start..self.bytes.len().min(start + self.block)]
        };
        self.worth.iter().map(block).collect()
    }
}

/// Refuses a file that cannot be measured, before the first file is measured. Only reading a pipe shows
/// whether it is empty.
pub fn check(path: &Path, block: usize) -> Result<(), Failure> {
    let file = match std::fs::metadata(path) {
        // Opening a pipe would take data from its other readers.
        Ok(meta) if meta.file_type().is_fifo() => return Ok(()),
        _ => File::open(path).map_err(|e| cannot_read(path, &e))?,
    };
    let meta = file.metadata().map_err(|e| cannot_read(path, &e))?;
    let name = memfold_escape::path(path);
    if meta.is_dir() {
        return Err(Failure::new(format!(
            "'{name}' is a directory; give the files in it, for example {}",
            memfold_escape::path(path.join("*"))
        )));
    }
    if !meta.is_file() {
        return Err(Failure::new(format!(
            "'{name}' is neither a file nor a pipe and may have no end; take a piece of it, for example head -c 4M {name} > piece"
        )));
    }
    // Files of /proc report a length of zero.
    if meta.len() > 0 || !path.starts_with("/proc") {
        long_enough(path, meta.len(), block)?;
    }
    if meta.len() > room() {
        return Err(Failure::new(format!(
            "'{name}' has {}, and files are read as a whole: that is more than half of this machine's memory; take a piece of it, \
             for example head -c 1G {name} > piece",
            Human(meta.len())
        )));
    }
    Ok(())
}

/// The largest file that fits into memory together with its compressed forms, in bytes.
fn room() -> u64 {
    memory::usable().map_or(u64::MAX, |bytes| bytes / 2)
}

/// Reads a whole file. The length of a pipe is unknown until it has been read, and it may never end.
fn read_at_most(path: &Path, room: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(room.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|e| cannot_read(path, &e))?;
    if bytes.len() as u64 > room {
        return Err(Failure::new(format!(
            "'{}' has more than {}, and files are read as a whole: that is more than half of this machine's memory; take a piece of \
             it, for example by head -c 1G",
            memfold_escape::path(path),
            Human(room)
        )));
    }
    Ok(bytes)
}

fn long_enough(path: &Path, len: u64, block: usize) -> Result<(), Failure> {
    let name = memfold_escape::path(path);
    if len == 0 {
        return Err(Failure::new(format!("the file '{name}' is empty: there is nothing to compress")));
    }
    if len < block as u64 {
        return Err(Failure::new(format!(
            "the file '{name}' has {len} bytes, which is less than one block of {block}; give a larger file or a smaller --block"
        )));
    }
    Ok(())
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "cannot read the file '{}': {error}; give files that exist and that you may read",
        memfold_escape::path(path)
    ))
}

/// Short names for the files: their last components, if these differ.
pub fn short_names(paths: &[PathBuf]) -> Vec<String> {
    let last = |path: &PathBuf| shown(path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes());
    let mut names: Vec<_> = paths.iter().map(last).collect();
    if names.iter().collect::<HashSet<_>>().len() < names.len() {
        names = paths.iter().map(memfold_escape::path).collect();
    }
    names
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;
    use memfold_args::{Cli, Command};

    use super::*;

    /// The plan for these options.
    pub(crate) fn plan(options: &[&str]) -> Plan {
        let words = ["memfold", "bench", "file"].iter().chain(options);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Bench(args) => Plan::new(&args).unwrap(),
            _ => unreachable!(),
        }
    }

    fn made(options: &[&str]) -> (Counts, Vec<u8>) {
        let fill = |byte: u8| vec![byte; 64];
        let own = |byte: u8| (byte..byte + 64).collect::<Vec<u8>>();
        let file =
            [fill(0), own(1), fill(7), own(2), own(1), fill(7), fill(0), own(3), vec![9, 8, 7]].concat();
        let corpus = Corpus::new(file, &plan(&[&["--block=64"], options].concat()));
        (corpus.counts, corpus.blocks().iter().map(|block| block[0]).collect())
    }

    #[test]
    fn blocks_are_sorted_out() {
        let counts = Counts { blocks: 9, same_filled: 4, duplicates: 1, dropped: 0 };
        assert_eq!(made(&[]), (counts, vec![1, 2, 1, 3, 9]));
        let counts = Counts { blocks: 7, same_filled: 2, duplicates: 1, dropped: 2 };
        assert_eq!(made(&["--drop-zero"]), (counts, vec![1, 2, 1, 3, 9]));
        let counts = Counts { blocks: 6, same_filled: 2, duplicates: 1, dropped: 3 };
        assert_eq!(made(&["--drop-zero", "--drop-duplicates"]), (counts, vec![1, 2, 3, 9]));
    }

    #[test]
    fn files_that_cannot_be_read() {
        let here = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = here.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        assert!(check(&file("good", &[1; 100]), 100).is_ok());
        for (path, word) in [
            (file("empty", &[]), "empty"),
            (file("short", &[1; 99]), "99 bytes"),
            (here.path().join("none"), "cannot read"),
            (here.path().into(), "directory"),
            ("/dev/zero".into(), "no end"),
        ] {
            let failure = check(&path, 100).unwrap_err();
            assert!(failure.text.contains(word), "{failure}");
        }
    }

    #[test]
    fn a_file_without_end_is_not_read_for_ever() {
        let failure = read_at_most(Path::new("/dev/zero"), 100_000).unwrap_err();
        assert!(failure.text.contains("more than 97.7 KiB") && failure.text.contains("head -c"), "{failure}");
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("file");
        std::fs::write(&path, [1; 100]).unwrap();
        assert_eq!(read_at_most(&path, 100), Ok(vec![1; 100]));
        assert!(read_at_most(&path, 99).is_err());
    }

    #[test]
    fn names_stay_different() {
        assert_eq!(short_names(&["a/b".into(), "c/d".into()]), ["b", "d"]);
        assert_eq!(short_names(&["a/b".into(), "c/b".into()]), ["a/b", "c/b"]);
        assert_eq!(short_names(&["two\nlines\u{1b}[2J".into()]), ["two\\nlines\\u{1b}[2J"]);
    }
}
