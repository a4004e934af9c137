//! Files of memfold's own that were made once, which must be read for ever as they were. The files under `golden/` are never made again; `make_missing` adds those that are not there yet: of a new version of the format, say.
//!
//! `vN-NAME.CODEC.mfdu` is a file of version N of the format; `NAME.txt` says what is in it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use memfold_du::entry::{Entry, Kind};
use memfold_du::file::{File, write};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::Tree;

use super::json::common::{heap, tree};

const CODECS: [(&str, &str); 3] = [("copy", "copy"), ("lz4", "lz4"), ("zstd", "zstd:4")];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Everything that a tree can have, in a few entries; NUMBERS stands for a directory of two parts.
const SMALL: &str = r#"[1,2,{},[{"name":"/small","asize":4096,"dsize":8192,"dev":18446744073709551615,"uid":1,"gid":2,"mode":16877,"mtime":3},
{"name":"a file","asize":1,"dsize":512,"uid":1,"gid":2,"mode":33188,"mtime":1700000000},
{"name":"a file too","asize":1,"dsize":512,"uid":1,"gid":2,"mode":33188,"mtime":1700000001},
{"name":"a gap","asize":1,"dsize":512},
{"name":"error","read_error":true},
{"name":"error 5","read_error":true,"errno":5},
{"name":"gone","asize":77,"dsize":4096},
{"name":"kernel","excluded":"kernfs"},
{"name":"large","asize":4611686018427387905,"dsize":1099511627776},
{"name":"left out","excluded":"pattern"},
{"name":"link","asize":10,"dsize":512,"ino":18446744073709551615,"hlnkc":true,"nlink":4294967295},
{"name":"linked","asize":1000,"dsize":1024,"ino":7,"hlnkc":true,"nlink":2,"mode":33188,"mtime":5},
{"name":"long ago","uid":4294967295,"gid":4294967295,"mode":65535,"mtime":18446744073709551615},
{"name":"no file","notreg":true},
{"name":"\ud83d\ude00 \u0001\n\"\\\u007f"},
[{"name":"other","excluded":"otherfs"}],
[{"name":"cache","asize":1,"excluded":"pattern"}],
[{"name":"closed","read_error":true,"errno":13}],
[{"name":"failed in the middle","read_error":true,"errno":5},{"name":"before"}],
[{"name":"kernel too","dev":0,"excluded":"kernfs"}],
[{"name":"loop","dev":7,"loop":true}],
[{"name":"numbers"}NUMBERS],
[{"name":"sub"},
{"name":"linked","asize":10,"dsize":512,"ino":8,"hlnkc":true,"nlink":2},
[{"name":"below"},
{"name":"linked","asize":1000,"dsize":1024,"ino":7,"hlnkc":true,"nlink":2,"mode":33188,"mtime":5},
{"name":"linked too","asize":10,"dsize":512,"ino":8,"hlnkc":true,"nlink":2}]]]]"#;

fn small() -> String {
    let numbers: String =
        (0..70).map(|number| format!(",{{\"name\":\"{number}\",\"asize\":{}}}", number * 1000)).collect();
    SMALL.replace("NUMBERS", &numbers)
}

/// More than fits into a block, in directories of many parts.
fn large() -> String {
    let mut text = String::from("[1,2,{},[{\"name\":\"/large\"}");
    for directory in 0..3 {
        write!(text, ",[{{\"name\":\"{directory}\"}}").unwrap();
        for file in 0..1500 {
            let name = "n".repeat(file % 7 * 9);
            write!(text, ",{{\"name\":\"{name}{file}\",\"asize\":{}}}", file * 997 * (directory + 1))
                .unwrap();
        }
        text += "]";
    }
    text + "]]"
}

fn with_tree<R>(export: &str, look: impl FnOnce(&mut Tree<'_>) -> R) -> R {
    let heap = heap(16);
    let session = heap.session().unwrap();
    look(&mut tree(export.as_bytes(), &heap, &session).unwrap())
}

/// With an empty slot.
fn with_small<R>(look: impl FnOnce(&Tree<'_>) -> R) -> R {
    with_tree(&small(), |tree| {
        let mut gone = None;
        tree.each(tree.row(ROOT).unwrap().contents(), &mut |slot, entry| {
            gone = if entry.name == b"gone" { Some(slot) } else { gone };
            Ok(())
        })
        .unwrap();
        tree.remove(ROOT, gone.unwrap()).unwrap();
        look(tree)
    })
}

fn entry_text(entry: &Entry<'_>) -> String {
    let Entry { name, kind, size, blocks, link, followed, extended } = entry;
    let kind = match kind {
        Kind::File => String::from("file"),
        Kind::Directory(number) => format!("directory {number}"),
        Kind::Other => String::from("other"),
        Kind::Excluded => String::from("excluded"),
        Kind::OtherFileSystem => String::from("other file system"),
        Kind::KernelFileSystem => String::from("kernel file system"),
        Kind::Failed(error) => format!("failed {error}"),
        Kind::Gone => String::from("gone"),
    };
    let mut text = format!("{kind} \"{}\" size {size} blocks {blocks}", name.escape_ascii());
    if let Some(target) = followed {
        text += &format!(" followed {:?}", target.device);
    }
    if let Some(link) = link {
        write!(text, " inode {} names {}", link.inode, link.names).unwrap();
    }
    if let Some(extended) = extended {
        let (time, user, group, mode) = (extended.modified, extended.user, extended.group, extended.mode);
        write!(text, " modified {time} user {user} group {group} mode {mode:o}").unwrap();
    }
    text
}

/// All that can be read.
fn text(source: &dyn Source) -> String {
    let mut text = format!("devices {:?}\nroot {}\n", source.devices(), entry_text(&source.root().entry()));
    for number in 0..source.numbers() {
        let row = source.row(number).unwrap();
        let (above, slot) = (source.above(number).unwrap(), source.slot(number).unwrap());
        let path = source.path(number).unwrap();
        writeln!(text, "{number} \"{}\" in slot {slot} of {above}", path.escape_ascii()).unwrap();
        writeln!(
            text,
            "  size {} blocks {} items {} shared {} {} modified {} device {} failures {} error {} flags {}",
            row.size,
            row.blocks,
            row.items,
            row.shared_size,
            row.shared_blocks,
            row.modified,
            row.device,
            row.failures,
            row.error,
            row.flags
        )
        .unwrap();
        let mut each = |slot, entry: &Entry<'_>| {
            writeln!(text, "  {slot} {}", entry_text(entry)).unwrap();
            assert_eq!(source.entry(row.contents(), slot)?.entry(), *entry);
            Ok(())
        };
        source.each(row.contents(), &mut each).unwrap();
    }
    source
        .each_name(&mut |name| {
            let found = source.names(name.inode, name.device).unwrap();
            assert!(found.contains(name), "{name:?}");
            writeln!(
                text,
                "name inode {} device {} slot {} of {} names {} size {} blocks {}",
                name.inode, name.device, name.slot, name.directory, name.names, name.size, name.blocks
            )
            .unwrap();
            Ok(())
        })
        .unwrap();
    text
}

#[test]
fn golden_files_are_read_as_they_were() {
    let mut count = 0;
    for entry in fs::read_dir(golden("")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let Some((version, rest)) = file.split_once('-') else { continue };
        let opened = File::open(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let expected = match rest.split('.').next().unwrap() {
            "large" => with_tree(&large(), |tree| text(tree)),
            name => fs::read_to_string(golden(&format!("{name}.txt"))).unwrap(),
        };
        let read = text(&opened);
        let other = read.lines().zip(expected.lines()).find(|(read, expected)| read != expected);
        assert!(read == expected, "{file}: {other:#?}");
        count += 1;
        assert_eq!(version, "v1");
    }
    assert_eq!(count, CODECS.len() + 1);
}

/// What is written has the format that it says to have. If this fails, and what is written is right nevertheless, files of the new form must be read by older versions, or have another version's number; and they
/// become golden, beside those that are there.
#[test]
fn what_is_written_is_as_it_was() {
    let mut bytes = Vec::new();
    with_small(|tree| {
        assert_eq!(text(tree), fs::read_to_string(golden("small.txt")).unwrap());
        write(tree, "copy", &mut bytes, &mut |_| true).unwrap();
    });
    let golden = fs::read(golden("v1-small.copy.mfdu")).unwrap();
    let other = bytes.iter().zip(&golden).position(|(now, then)| now != then);
    assert!(bytes == golden, "{} bytes for {}, the first other one at {other:?}", bytes.len(), golden.len());
}

#[test]
#[ignore = "writes files"]
fn make_missing() {
    let add = |name: &str, bytes: &[u8]| {
        let path = golden(name);
        if !path.exists() {
            fs::write(&path, bytes).unwrap();
        }
    };
    let file = |tree: &Tree<'_>, codec: &str| {
        let mut bytes = Vec::new();
        write(tree, codec, &mut bytes, &mut |_| true).unwrap();
        bytes
    };
    with_small(|tree| {
        add("small.txt", text(tree).as_bytes());
        CODECS.iter().for_each(|(name, codec)| add(&format!("v1-small.{name}.mfdu"), &file(tree, codec)));
    });
    with_tree(&large(), |tree| add("v1-large.zstd.mfdu", &file(tree, "zstd:4")));
}
