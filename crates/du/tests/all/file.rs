//! Files in memfold's own format that must be readable for ever, with the same content. The files under
//! `golden/` are never regenerated; `make_missing` adds missing ones, for example for a new version of the
//! format.
//!
//! `vN-NAME.CODEC.mfdu` is a file of version N of the format; `NAME.txt` lists its contents.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use memfold_du::entry::{Entry, Kind};
use memfold_du::file::{File, write};
use memfold_du::source::{LONGEST_PATH, MOST_DEVICES, ROOT, Source};
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

/// More data than fit into a block, in directories of many parts.
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

/// The small tree, with an empty slot.
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

/// Everything that can be read from a tree.
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

/// A written file has the format of its version number. If this fails although the new form is intended,
/// older versions must be able to read it, or it needs a new version number; and new files become golden in
/// addition to the existing ones.
#[test]
fn the_written_format_has_not_changed() {
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

/// Writes the tree to a file with this codec, and calls `look` with the file.
fn from_file<R>(tree: &dyn Source, codec: &str, look: impl FnOnce(&File) -> R) -> R {
    let mut bytes = Vec::new();
    write(tree, codec, &mut bytes, &mut |_| true).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let file = File::of(file).unwrap_or_else(|error| panic!("{codec}: {error}"));
    let mut again = Vec::new();
    write(&file, codec, &mut again, &mut |_| true).unwrap();
    assert!(again == bytes, "{codec}: what was read is written as something else");
    look(&file)
}

/// Checks that the tree of each of these exports is the same when read from a file, and from its own export.
fn comes_back(exports: &[String]) {
    for export in exports {
        with_tree(export, |tree| {
            let expected = text(tree);
            for (_, codec) in CODECS {
                from_file(tree, codec, |file| assert!(text(file) == expected, "{codec}"));
            }
            let again = String::from_utf8(super::json::common::export(tree)).unwrap();
            with_tree(&again, |tree| assert!(text(tree) == expected, "the export of the export"));
        });
    }
}

#[test]
fn names_of_every_length_are_read_back() {
    let around = |len: usize| [len - 1, len, len + 1];
    let longest = memfold_du::part::LONGEST_NAME;
    let lengths = [1, 2]
        .into_iter()
        .chain([255, 4096, 65_535 / 2].into_iter().flat_map(around))
        .chain([longest - 1, longest]);
    let each = |len: usize| format!("{{\"name\":\"{}\"}}", "n".repeat(len));
    let directory = |len: usize| each(len).replacen("\"n", "\"d", 2).replacen("\"dame", "\"name", 1);
    // One entry in a directory; a full part of entries, and one more.
    let exports: Vec<String> = lengths
        .map(|len| {
            let all: Vec<String> =
                (0..65).map(|last| each(len).replace("\"}", &format!("{last}\"}}"))).collect();
            let all = if len < longest - 1 { all } else { vec![] };
            format!(
                "[1,2,{{}},[{{\"name\":\"/top\"}},{0},[{1},{0},[{1},{0}]]{2}]]",
                each(len),
                directory(len),
                all.iter().map(|entry| format!(",{entry}")).collect::<String>()
            )
        })
        .collect();
    comes_back(&exports);
}

#[test]
fn the_longest_parts_are_read_back() {
    let longest = memfold_du::part::LONGEST_NAME;
    // No name shares a prefix with the one before.
    let name = |number: usize| format!("{}{}", char::from(b'0' + number as u8 % 74), "n".repeat(longest - 1));
    let names: String = (1..=64).filter(|number| *number != 44).map(|number| {
        let name = name(number).replacen('\\', "(", 1);
        format!(",{{\"name\":\"{name}\",\"asize\":9007199254740993,\"dsize\":512,\"ino\":{},\"hlnkc\":true,\"nlink\":4294967295,\"uid\":{number},\"gid\":4294967295,\"mode\":65535,\"mtime\":{}}}", u64::MAX / number as u64, u64::MAX / (2 * number as u64))
    }).collect();
    comes_back(&[format!("[1,2,{{}},[{{\"name\":\"/top\"}}{names}]]")]);
}

#[test]
fn numbers_at_their_bounds_are_read_back() {
    let bounds =
        [0, 1, 127, 128, 255, 256, (1 << 31) - 1, 1 << 31, u64::from(u32::MAX), 1 << 32, i64::MAX as u64];
    let times = bounds.into_iter().chain([1 << 63, u64::MAX]);
    let mut entries = String::new();
    for (number, time) in times.enumerate() {
        write!(entries, ",{{\"name\":\"time {number}\",\"mtime\":{time}}}").unwrap();
    }
    for (number, ino) in bounds.into_iter().chain([u64::MAX]).enumerate() {
        write!(
            entries,
            ",{{\"name\":\"ino {number}\",\"ino\":{ino},\"hlnkc\":true,\"nlink\":{}}}",
            u32::MAX - number as u32
        )
        .unwrap();
    }
    // Sums are clamped to the largest size, so each tree has only one large size.
    let exports: Vec<String> = bounds
        .into_iter()
        .flat_map(|size| [("asize", size), ("dsize", size / 512 * 512)])
        .map(|(field, size)| {
            format!("[1,2,{{}},[{{\"name\":\"/\"}}{entries},{{\"name\":\"size\",\"{field}\":{size}}}]]")
        })
        .collect();
    comes_back(&exports);
}

#[test]
fn deep_and_wide_trees_are_read_back() {
    let deep = |levels: usize| {
        format!(
            "[1,2,{{}},[{{\"name\":\"/\"}}{}{}]]",
            ",[{\"name\":\"d\"},{\"name\":\"f\"}".repeat(levels),
            "]".repeat(levels)
        )
    };
    let wide = |entries: u32| {
        let all: String = (0..entries).map(|number| format!(",{{\"name\":\"{number}\"}}")).collect();
        format!("[1,2,{{}},[{{\"name\":\"/\"}}{all}]]")
    };
    comes_back(&[deep(0), deep(1), deep(3000)]);
    comes_back(&[0, 1, 63, 64, 65, 127, 128, 129, 4096, 70_000].map(wide));
}

/// Once, a head of more than a mebibyte could be written, but not read.
#[test]
fn the_longest_path_and_most_file_systems_are_read_back() {
    let path = |len: usize| format!("/{}", "p".repeat(len - 1));
    for len in [1, 2, LONGEST_PATH - 1, LONGEST_PATH] {
        let export = format!("[1,2,{{}},[{{\"name\":\"{}\"}},{{\"name\":\"f\"}}]]", path(len));
        comes_back(&[export]);
    }
    for (devices, len) in [(MOST_DEVICES - 1, 10), (MOST_DEVICES, LONGEST_PATH)] {
        let all: String = (1..devices as u64)
            .map(|number| format!(",[{{\"name\":\"{number}\",\"dev\":{}}}]", u64::MAX - number))
            .collect();
        let export = format!("[1,2,{{}},[{{\"name\":\"{}\",\"dev\":{}}}{all}]]", path(len), u64::MAX);
        with_tree(&export, |tree| {
            assert_eq!(tree.devices().len(), devices);
            from_file(tree, "lz4", |file| {
                assert_eq!(file.devices(), tree.devices());
                assert_eq!(file.root(), tree.root());
                assert_eq!(file.numbers(), tree.numbers());
            });
        });
    }
}
