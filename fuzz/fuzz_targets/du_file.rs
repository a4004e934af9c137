//! Files that are not trees, or malicious ones. A file that can be opened is read in every way: its contents
//! may be wrong, but nothing else may go wrong.
//!
//! ```text
//! | which, 1 byte | how, 1 byte | the rest
//!
//!   which    0, 1    a file of ours, its contents changed at places of two bytes, or its trailer's numbers;
//!                    with right checksums
//!            2       the rest is six numbers of two bytes for the trailer, and the contents of the file;
//!                    with right checksums
//!            3       a file of ours, changed at places of two bytes
//!            4       the rest is the file
//!   how      codec, and which of our files
//! ```
#![no_main]

#[path = "heap/input.rs"]
mod input;

use std::fs::File as SystemFile;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::sync::OnceLock;

use input::Input;
use libfuzzer_sys::fuzz_target;
use memfold::heap::{Heap, Limit, Options, Session};
use memfold_codec::{Compressed, ScratchBuf};
use memfold_du::Error;
use memfold_du::browse::{Sort, View};
use memfold_du::file::{File, write};
use memfold_du::json::{self, Export, Import};
use memfold_du::scan::Progress;
use memfold_du::source::Source;
use memfold_du::tree::below::{Below, Step};
use memfold_du::tree::{Contents, Name, OwnEntry, Row};
use twox_hash::XxHash3_64;

const HEADER: usize = 16;
const BLOCK: usize = 64 << 10;
const TRAILER: usize = 88;
const CODECS: [&str; 3] = ["copy", "lz4", "zstd:1"];

/// What a file holds, and the numbers of its trailer: length, rows at, rows, names at, names, head at.
#[derive(Clone)]
struct Made {
    space: Vec<u8>,
    numbers: [u64; 6],
}

/// Everything that an export can contain.
const SMALL: &str = r#"[1,2,{},[{"name":"/all","asize":4096,"dsize":8192,"dev":7,"uid":1,"gid":2,"mode":16877,"mtime":3},
{"name":"a file","asize":1,"dsize":512},{"name":"error 5","read_error":true,"errno":5},{"name":"kernel","excluded":"kernfs"},
{"name":"link","asize":10,"dsize":512,"ino":9,"hlnkc":true,"nlink":3},{"name":"no file","notreg":true,"mtime":9},
[{"name":"other","excluded":"otherfs"}],[{"name":"cache","asize":1,"excluded":"pattern"}],[{"name":"closed","read_error":true,"errno":13}],
[{"name":"loop","dev":8,"loop":true}],
[{"name":"sub"},{"name":"link too","asize":10,"dsize":512,"ino":9,"hlnkc":true,"nlink":3},[{"name":"below"},{"name":"x","asize":70000,"dsize":71680}]]]]"#;

/// An export of more than a block, with directories of several parts.
fn large() -> String {
    let mut text = String::from("[1,2,{},[{\"name\":\"/large\"}");
    for directory in 0..2 {
        text += &format!(",[{{\"name\":\"{directory}\"}}");
        for file in 0..70 {
            text +=
                &format!(",{{\"name\":\"{file}{}\",\"asize\":{}}}", "n".repeat(file % 7 * 180), file * 997);
        }
        text += "]";
    }
    text + "]]"
}

fn heap() -> Heap {
    Heap::new(Options::new().block_size(4 << 10).limit(Limit::Bytes(2 << 20))).expect("the options are right")
}

fn ours(export: &str, codec: &str) -> Vec<u8> {
    let heap = heap();
    let session = heap.session().unwrap();
    let tree =
        json::read(export.as_bytes(), &Import::default(), &heap, &session, &Progress::default(), |_| true);
    let mut bytes = Vec::new();
    write(&tree.unwrap(), codec, &mut bytes, &mut |_| true).unwrap();
    bytes
}

/// Takes an uncompressed file apart.
fn made(file: &[u8]) -> Made {
    let (file, trailer) = file.split_at(file.len() - TRAILER);
    let mut numbers = trailer.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let numbers = [(); 6].map(|()| numbers.next().unwrap());
    Made { space: file[HEADER..HEADER + numbers[0] as usize].to_vec(), numbers }
}

/// A file with these contents and right checksums.
fn file(made: &Made, codec: &str) -> Vec<u8> {
    let mut bytes = Vec::from(*b"MEMFOLDU\x01\0\0\0\0\0\0\0");
    let compressor = memfold_codec::codec(codec).unwrap();
    let mut scratch = ScratchBuf::with_size(compressor.compress_scratch_up_to(BLOCK));
    let mut index = Vec::new();
    for block in made.space.chunks(BLOCK) {
        let mut to = vec![0; compressor.bound(BLOCK)];
        let stored = match compressor.compress(block, &mut to, block.len() - 1, &mut scratch.scratch()) {
            Compressed::Fits(len) => &to[..len],
            Compressed::Incompressible => block,
        };
        bytes.extend_from_slice(stored);
        index.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        index.extend_from_slice(&XxHash3_64::oneshot(block).to_le_bytes());
    }
    bytes.extend_from_slice(&index);
    let trailer = bytes.len();
    made.numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    let mut name = [0; 16];
    name[..codec.len()].copy_from_slice(codec.as_bytes());
    bytes.extend_from_slice(&name);
    bytes.extend_from_slice(&XxHash3_64::oneshot(&index).to_le_bytes());
    let sum = XxHash3_64::oneshot(&bytes[trailer..]);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(b"UDLOFMEM");
    bytes
}

/// Opens these bytes as a file in memory.
fn opened(bytes: &[u8]) -> Option<File> {
    // SAFETY: the name is a string; nobody else has the descriptor, which is closed with the file.
    let mut to = unsafe {
        let file = libc::memfd_create(c"du_file".as_ptr(), libc::MFD_CLOEXEC);
        assert!(file >= 0);
        SystemFile::from_raw_fd(file)
    };
    to.write_all(bytes).unwrap();
    File::of(to).ok()
}

/// The contents of a tree.
#[derive(Debug, Default, PartialEq)]
struct All {
    directories: Vec<(u32, Row, Vec<u8>, OwnEntry)>,
    entries: Vec<(OwnEntry, Option<Vec<Name>>)>,
    names: Vec<Name>,
}

/// Reads everything in every way.
fn walk(source: &dyn Source, session: &Session<'_>) -> Result<All, Error> {
    let mut all = All::default();
    let (mut way, mut end, mut steps) = (Below::new(0), Ok(()), 0);
    while let Some(step) = way.step(source).unwrap_or_else(|error| {
        end = Err(error);
        None
    }) {
        let Step::Into(number) = step else { continue };
        steps += 1;
        assert!(steps <= source.numbers(), "a directory is entered twice");
        let mut row = source.row(number)?;
        let contents = row.contents();
        let mut slots = 0;
        source.each(contents, &mut |slot, entry| {
            assert_eq!(slot, slots);
            slots += 1;
            if slot % 16 == 0 {
                assert_eq!(source.entry(contents, slot)?.entry(), *entry);
            }
            let names = entry.link.map(|link| source.names(link.inode, link.device.unwrap_or(row.device))).transpose()?;
            all.entries.push(((*entry).into(), names));
            Ok(())
        })?;
        assert_eq!(slots, contents.slots);
        let view = View::open(session, source, number, Sort::default())?;
        for position in (0..view.len()).step_by(16) {
            let slot = view.slot(position)?;
            assert_eq!(view.item(source, position)?.entry, source.entry(contents, slot)?);
            assert_eq!(view.position(source, slot)?, Some(position));
        }
        // Its parts may be at other places in another file.
        row.set_contents(Contents { node: None, ..contents });
        all.directories.push((number, row, source.path(number)?, source.own_entry(number)?));
    }
    source.each_name(&mut |name| {
        all.names.push(*name);
        Ok(())
    })?;
    end.map(|()| all)
}

fuzz_target!(|data: &[u8]| {
    static OURS: OnceLock<[[Vec<u8>; 3]; 2]> = OnceLock::new();
    let ours = OURS.get_or_init(|| {
        let large = large();
        [SMALL, &large].map(|export| CODECS.map(|codec| ours(export, codec)))
    });
    static MADE: OnceLock<[Made; 2]> = OnceLock::new();
    let made = MADE.get_or_init(|| [0, 1].map(|which| made(&ours[which][0])));
    let mut input = Input(data);
    let (which, how) = (input.byte() % 5, input.byte());
    let (codec, of) = (usize::from(how) % 3, usize::from(how / 3 % 8 == 7));
    let bytes = match which {
        0 | 1 => {
            let mut made = made[of].clone();
            let len = made.space.len();
            while !input.0.is_empty() {
                let (place, byte) = (usize::from(input.short()), input.byte());
                // Changes a number by a little, or makes it large.
                match place {
                    0xfff0..0xfff6 => {
                        made.numbers[place - 0xfff0] =
                            made.numbers[place - 0xfff0].wrapping_add_signed((byte as i8).into())
                    }
                    0xfff6..0xfffc => made.numbers[place - 0xfff6] = u64::MAX >> (byte % 64),
                    _ if which == 0 => made.space[place % len] = byte,
                    // Rows, names and head come after the parts, and matter most.
                    _ => made.space[len - 1 - place % len.min(4000)] = byte,
                }
            }
            file(&made, CODECS[codec])
        }
        2 => {
            let numbers = [(); 6].map(|()| u64::from(input.short()));
            let space = input.0.to_vec();
            file(
                &Made {
                    numbers: [space.len() as u64, numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]],
                    space,
                },
                CODECS[codec],
            )
        }
        3 => {
            let mut bytes = ours[of][codec].clone();
            while !input.0.is_empty() {
                let (place, byte) = (usize::from(input.short()) % bytes.len(), input.byte());
                bytes[place] = byte;
            }
            bytes
        }
        _ => input.0.to_vec(),
    };
    let Some(file) = opened(&bytes) else { return };
    // The previous input has left no node in this heap.
    static HEAP: OnceLock<Heap> = OnceLock::new();
    let session = HEAP.get_or_init(heap).session().unwrap();
    let first = walk(&file, &session);
    let exported = json::write(&file, std::io::sink(), &Export { timestamp: 0, extended: true }, |_| true);
    // Writing includes directories that nothing leads to, so it may fail although the walk succeeds.
    let mut again = Vec::new();
    let written = write(&file, "copy", &mut again, &mut |_| true);
    let Ok(first) = first else { return };
    exported.expect("what can be looked at can be exported");
    if written.is_ok() {
        let second = walk(&opened(&again).expect("as can be opened"), &session).expect("and looked at");
        assert_eq!(first, second);
    }
});
