//! How much space entries take in compressed blocks, for several layouts: the table in docs/du.md.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use memfold_codec::{Compressed, ScratchBuf};
use memfold_du::entry::{Entry, Kind};
use memfold_du::part::{self, Writer};

struct File {
    name: Vec<u8>,
    size: u64,
    blocks: u64,
    is_directory: bool,
}

/// The layout of entries.
#[derive(Clone, Copy)]
enum Layout {
    /// Entry by entry, each name with its length before it.
    Lengths,
    /// Entry by entry, each name with a zero after it.
    Zeros,
    /// By columns, this many entries at a time. `memfold du` stores its parts in this layout.
    Columns(usize),
}

impl Layout {
    fn put(self, files: &[File], to: &mut Vec<u8>) {
        if let Layout::Columns(most) = self {
            let mut writer = Writer::default();
            for files in files.chunks(most) {
                writer.begin();
                for file in files {
                    let kind = if file.is_directory { Kind::Directory(0) } else { Kind::File };
                    let (name, size, blocks) = (&file.name[..], file.size, file.blocks);
                    writer.add(&Entry { name, kind, size, blocks, ..Entry::default() });
                }
                writer.end(to);
            }
            return;
        }
        for file in files {
            to.push(file.is_directory.into());
            part::put_leb(to, file.size);
            part::put_leb(to, file.blocks);
            if matches!(self, Layout::Lengths) {
                part::put_leb(to, file.name.len() as u64);
            }
            to.extend_from_slice(&file.name);
            if matches!(self, Layout::Zeros) {
                to.push(0);
            }
        }
    }
}

/// Reads all directories, and prints the table.
pub fn run(path: &Path) -> Result<(), String> {
    let mut directories = Vec::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        let mut files = Vec::new();
        for entry in fs::read_dir(&directory).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            let data = entry.metadata().map_err(|error| error.to_string())?;
            if data.is_dir() {
                waiting.push(entry.path());
            }
            let name = entry.file_name().as_bytes().to_vec();
            files.push(File { name, size: data.len(), blocks: data.blocks(), is_directory: data.is_dir() });
        }
        directories.push(files);
    }
    let count: usize = directories.iter().map(Vec::len).sum();
    println!("{count} entries; bytes per entry, in directory order and by name");
    let shapes = [
        ("entry by entry, with lengths of names", Layout::Lengths),
        ("the same, names end with a zero", Layout::Zeros),
        ("by columns, 64 entries", Layout::Columns(64)),
        ("by columns, 255 entries", Layout::Columns(255)),
    ];
    let each = |directories: &[Vec<File>]| -> Result<Vec<f64>, String> {
        let one = |layout| compressed(&written(layout, directories), 64 << 10, "zstd:3");
        shapes.iter().map(|(_, layout)| Ok(one(*layout)? as f64 / count as f64)).collect()
    };
    let unordered = each(&directories)?;
    directories.iter_mut().for_each(|files| files.sort_unstable_by(|a, b| a.name.cmp(&b.name)));
    let ordered = each(&directories)?;
    for (((name, _), unordered), ordered) in shapes.iter().zip(unordered).zip(ordered) {
        println!("{name:<40} {unordered:>6.2} {ordered:>6.2}");
    }
    let bytes = written(Layout::Columns(64), &directories);
    println!("the third layout, by name, with other codecs and block sizes");
    for (block, codec) in [
        (16, "zstd:3"),
        (32, "zstd:3"),
        (128, "zstd:3"),
        (64, "lz4"),
        (64, "zstd:1"),
        (64, "zstd:6"),
        (64, "zstd:12"),
        (64, "zstd:19"),
    ] {
        let size = compressed(&bytes, block << 10, codec)? as f64 / count as f64;
        println!("{:<40} {size:>13.2}", format!("{codec}, blocks of {block} KiB"));
    }
    Ok(())
}

fn written(layout: Layout, directories: &[Vec<File>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    directories.iter().for_each(|files| layout.put(files, &mut bytes));
    bytes
}

fn compressed(bytes: &[u8], block: usize, codec: &str) -> Result<usize, String> {
    let codec = memfold_codec::codec(codec).map_err(|error| error.to_string())?;
    let mut scratch = ScratchBuf::for_codecs([codec], block);
    let mut scratch = scratch.scratch();
    let mut to = vec![0; codec.bound(block)];
    let mut sum = 0;
    for block in bytes.chunks(block) {
        let len = to.len();
        sum += match codec.compress(block, &mut to, len, &mut scratch) {
            Compressed::Fits(size) => size,
            Compressed::Incompressible => block.len(),
        };
    }
    Ok(sum)
}
