//! Files of random trees, intact and damaged.

use std::io::Write;

use super::*;
use crate::entry::{Entry, Kind};
use crate::json;
use crate::part;
use crate::source::Source;
use crate::tree::tests::{Random, compare, heap, made, names, tree};
use crate::tree::{Contents, OwnEntry};

/// The bytes of a random tree's file; `look` compares them with the tree.
fn written(seed: u64, codec: &str, look: impl FnOnce(&[u8], &dyn Fn(&dyn Source))) {
    let mut random = Random(seed);
    let (depth, most) = (random.below(5), random.below(40) + 2);
    let model = made(&mut random, depth, most, &[3, 5]);
    let heap = heap(false);
    let session = heap.session().unwrap();
    let tree = tree(&heap, &session, &model, &mut random);
    let mut bytes = Vec::new();
    write(&tree, codec, &mut bytes, &mut |_| true).unwrap();
    look(&bytes, &|source| compare(source, 0, b"/t", &model, false, &names(&model, &[3, 5])));
}

fn opened(bytes: &[u8]) -> Result<File, BadFile> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    File::of(file)
}

/// Reads everything that a browser may read.
fn walk(source: &dyn Source) -> Result<(), Error> {
    let mut way = crate::tree::below::Below::new(0);
    let mut steps = 0;
    while let Some(step) = way.step(source)? {
        let crate::tree::below::Step::Into(number) = step else { continue };
        steps += 1;
        assert!(steps <= source.numbers(), "a directory is entered twice");
        source.path(number)?;
        let row = source.row(number)?;
        source.each(row.contents(), &mut |slot, entry: &Entry<'_>| {
            if let Some(link) = entry.link {
                source.names(link.inode, row.device)?;
            }
            if slot % 7 == 0 { source.entry(row.contents(), slot).map(|_| ()) } else { Ok(()) }
        })?;
    }
    source.each_name(&mut |_| Ok(()))
}

#[test]
fn a_file_is_as_its_tree() {
    for seed in 1..30 {
        for codec in ["zstd:3", "lz4", "copy"] {
            written(seed, codec, |bytes, compare| {
                let file = opened(bytes).unwrap();
                compare(&file);
                walk(&file).unwrap();
                // The same from the file.
                let mut again = Vec::new();
                write(&file, codec, &mut again, &mut |_| true).unwrap();
                assert!(again == bytes);
            });
        }
    }
}

#[test]
fn damage_is_noticed() {
    written(5, "zstd:3", |bytes, compare| {
        for len in 0..bytes.len() {
            assert!(opened(&bytes[..len]).is_err(), "{len} bytes");
        }
        let mut noticed = 0;
        for at in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[at] ^= 1 << (at % 8);
            match opened(&other) {
                Ok(file) if walk(&file).is_ok() => compare(&file),
                _ => noticed += 1,
            }
        }
        // Only damage to bits without meaning goes unnoticed.
        assert!(noticed > bytes.len() * 95 / 100, "{noticed} of {}", bytes.len());
    });
}

/// An attacker can also forge checksums: the contents are changed without a codec and with new checksums.
#[test]
fn made_up_files_are_errors_or_other_trees() {
    written(5, "copy", |bytes, _| {
        let index_len = (bytes.len() - HEADER - TRAILER).div_ceil(BLOCK + INDEX) * INDEX;
        let end = bytes.len() - TRAILER;
        let mut random = Random(99);
        for _ in 0..3000 {
            let mut other = bytes.to_vec();
            for _ in 0..random.below(4) + 1 {
                let at = HEADER + random.below(end - HEADER - index_len);
                other[at] = random.below(256) as u8;
            }
            if random.below(3) == 0 {
                let at = end + random.below(48);
                other[at] = random.below(256) as u8;
            }
            let blocks: Vec<u8> = other[HEADER..end - index_len].to_vec();
            for (number, block) in blocks.chunks(BLOCK).enumerate() {
                let at = end - index_len + number * INDEX + 4;
                other[at..at + 8].copy_from_slice(&space::check(block).to_le_bytes());
            }
            let sum = space::check(&other[end - index_len..end]);
            other[end + 64..end + 72].copy_from_slice(&sum.to_le_bytes());
            let sum = space::check(&other[end..end + 72]);
            other[end + 72..end + 80].copy_from_slice(&sum.to_le_bytes());
            if let Ok(file) = opened(&other) {
                let _ = walk(&file);
            }
        }
    });
}

/// A sparse file may be longer than its contents, and claim to have an index of gigabytes.
#[test]
fn a_file_of_holes_takes_no_memory() {
    use std::os::unix::fs::FileExt;
    written(5, "copy", |bytes, _| {
        let file = tempfile::tempfile().unwrap();
        let mut trailer = bytes[bytes.len() - TRAILER..].to_vec();
        let len = 1 << 40;
        trailer[..8].copy_from_slice(&(1_u64 << 45).to_le_bytes());
        let sum = space::check(&trailer[..72]);
        trailer[72..80].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes[..HEADER], 0).unwrap();
        file.write_all_at(&trailer, len).unwrap();
        assert!(matches!(File::of(file), Err(BadFile::Damaged("its index"))));
    });
}

/// Nested directories, each of which is in two slots of its parent, or claims to be in another directory.
struct Twice {
    names: &'static [&'static [u8]],
    above: fn(u32) -> u32,
    root: OwnEntry,
}

const DEPTH: u32 = 50;

impl Twice {
    fn new(names: &'static [&'static [u8]], above: fn(u32) -> u32) -> Self {
        let root = Entry { name: b"/", kind: Kind::Directory(0), ..Entry::default() };
        Twice { names, above, root: root.into() }
    }
}

impl Source for Twice {
    fn root(&self) -> &OwnEntry {
        &self.root
    }

    fn numbers(&self) -> u32 {
        DEPTH
    }

    fn devices(&self) -> &[u64] {
        &[0]
    }

    fn row(&self, number: u32) -> Result<Row, Error> {
        let mut row = Row::default();
        let slots = if number + 1 < DEPTH { self.names.len() as u32 } else { 0 };
        row.set_node((number + 1).into(), slots);
        Ok(row)
    }

    fn above(&self, number: u32) -> Result<u32, Error> {
        Ok((self.above)(number))
    }

    fn slot(&self, _: u32) -> Result<u32, Error> {
        Ok(0)
    }

    fn part(&self, contents: Contents, _: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        let number = contents.node.map_or(0, |node| node.to_bits() as u32);
        let mut writer = part::Writer::default();
        writer.begin();
        for name in self.names {
            writer.add(&Entry { name, kind: Kind::Directory(number), ..self.root.entry() });
        }
        to.clear();
        writer.end(to);
        Ok(())
    }

    fn names(&self, _: u64, _: u32) -> Result<Vec<Name>, Error> {
        Ok(Vec::new())
    }

    fn each_name(&self, _: &mut dyn FnMut(&Name) -> Result<(), Error>) -> Result<(), Error> {
        Ok(())
    }
}

/// Without the check, reading a few kilobytes could take years.
#[test]
fn a_directory_that_is_in_several_places_is_an_error() {
    let above = |number: u32| number.saturating_sub(1);
    let cases = [
        (Twice::new(&[b"a"], above), true),
        (Twice::new(&[b"a", b"b"], above), false),
        (Twice::new(&[b"a"], |number| number.saturating_sub(1).min(40)), false),
    ];
    for (source, is_right) in cases {
        let mut bytes = Vec::new();
        write(&source, "zstd:3", &mut bytes, &mut |_| true).unwrap();
        let file = opened(&bytes).unwrap();
        assert_eq!(walk(&file).is_ok(), is_right);
        let mut items = 0;
        let options = json::Export { timestamp: 0, extended: false };
        let written = json::write(&file, std::io::sink(), &options, |seen| {
            items = seen;
            items < 1000
        });
        assert_eq!(written.is_ok(), is_right);
        assert!(items < 1000);
    }
}

#[test]
fn other_files_are_refused_with_what_to_do() {
    assert!(matches!(opened(b""), Err(BadFile::NotOurs)));
    assert!(matches!(opened(b"[1,0,{},[]]"), Err(BadFile::NotOurs)));
    written(3, "copy", |bytes, _| {
        let mut later = bytes.to_vec();
        later[8] = 2;
        assert!(matches!(opened(&later), Err(BadFile::Version(2))));
        let mut codec = bytes.to_vec();
        let end = codec.len() - TRAILER;
        codec[end + 48..end + 52].copy_from_slice(b"xz:9");
        let sum = space::check(&codec[end..end + 72]);
        codec[end + 72..end + 80].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(opened(&codec), Err(BadFile::Codec(name)) if name == "xz:9"));
    });
}
