//! The content of an export is in the tree, and is exported again.

use std::io::{self, Read};
use std::sync::atomic::Ordering::Relaxed;

use memfold::heap::{Heap, Limit, Options};
use memfold_du::Error;
use memfold_du::entry::{Entry, Extended, Kind, Link};
use memfold_du::json::{Export, Import, ReadError, WriteError, read, write, write_zstd};
use memfold_du::scan::Progress;
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::{OwnEntry, Tree, flags};
use serde_json::Value;

use super::common::{again, export, heap, tree, with_tree};
use super::large::deep;

/// Every field and value, as memfold writes it.
const ALL: &str = r#"[1,2,{"progname":"memfold","progver":"VERSION","timestamp":1},
[{"name":"/all","asize":4096,"dsize":8192,"dev":18446744073709551615,"uid":1,"gid":2,"mode":16877,"mtime":3},
{"name":"a file","asize":1,"dsize":512},
{"name":"error","read_error":true},
{"name":"error 5","read_error":true,"errno":5},
{"name":"kernel","excluded":"kernfs"},
{"name":"large","asize":9223372036854767615,"dsize":1099511627776},
{"name":"left out","excluded":"pattern"},
{"name":"link","asize":10,"dsize":512,"ino":18446744073709551615,"hlnkc":true,"nlink":4294967295},
{"name":"linked","asize":10,"dsize":512,"ino":18446744073709551615,"hlnkc":true},
{"name":"long ago","memfold_uid":4294967295,"memfold_gid":4294967295,"mode":65535,"mtime":18446744073709551615},
{"name":"no file","notreg":true},
[{"name":"other","excluded":"otherfs"}],
{"name":"quote\"back\\\b\t\n\f\r\u0000"},
[{"name":"cache","asize":1,"excluded":"pattern"}],
[{"name":"closed","read_error":true,"errno":13}],
[{"name":"failed in the middle","read_error":true,"errno":5},
{"name":"before"}],
[{"name":"kernel too","dev":0,"excluded":"kernfs"}],
[{"name":"loop","dev":7,"loop":true}],
[{"name":"sub"},
{"name":"same device as above"}]]]
"#;

fn all() -> String {
    ALL.replace("VERSION", env!("CARGO_PKG_VERSION")).replace("\\u0000", "\\u0001\\u001f\\u007f")
}

#[test]
fn everything_is_read_and_written_again() {
    let all = all();
    assert_eq!(String::from_utf8(again(all.as_bytes())).unwrap(), all);
}

fn find(tree: &Tree<'_>, name: &str) -> OwnEntry {
    let mut found = None;
    let mut look = |_, entry: &Entry<'_>| {
        if entry.name == name.as_bytes() {
            found = Some((*entry).into());
        }
        Ok(())
    };
    for number in 0..tree.numbers() {
        tree.each(tree.row(number).unwrap().contents(), &mut |slot, entry| look(slot, entry)).unwrap();
    }
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn fields_are_what_they_say() {
    let check = |tree: &Tree<'_>| {
        let link = find(tree, "link");
        let inode = u64::MAX;
        assert_eq!((link.kind, link.link), (Kind::File, Some(Link { inode, device: None, names: u32::MAX })));
        assert_eq!(find(tree, "linked").link, Some(Link { inode, device: None, names: 0 }));
        let most = u32::MAX;
        let ago = Extended { modified: -1, user: most, group: most, mode: u16::MAX };
        assert_eq!(find(tree, "long ago").extended, Some(ago));
        let file = find(tree, "a file");
        assert_eq!((file.kind, file.size, file.blocks, file.extended), (Kind::File, 1, 1, None));
        assert_eq!(find(tree, "no file").kind, Kind::Other);
        assert_eq!(find(tree, "other").kind, Kind::OtherFileSystem);
        assert_eq!(find(tree, "kernel").kind, Kind::KernelFileSystem);
        assert_eq!(find(tree, "left out").kind, Kind::Excluded);
        assert_eq!(find(tree, "error").kind, Kind::Failed(0));
        assert_eq!(find(tree, "error 5").kind, Kind::Failed(5));
        let row = |name| match find(tree, name).kind {
            Kind::Directory(number) => tree.row(number).unwrap(),
            kind => panic!("{name} is {kind:?}"),
        };
        assert_eq!(row("cache").flags, flags::CACHE);
        assert_eq!((row("closed").flags, row("closed").error), (flags::FAILED, 13));
        assert_eq!(row("kernel too").flags, flags::KERNEL);
        assert_eq!(row("loop").flags, flags::LOOP);
        let devices = ["sub", "kernel too", "loop"].map(|name| tree.devices()[row(name).device as usize]);
        assert_eq!(devices, [u64::MAX, 0, 7]);
        let root = tree.row(ROOT).unwrap();
        // Two names of one file, which count once.
        assert_eq!((root.items, root.size, root.failures), (20, 9223372036854767615 + 12, 4));
    };
    with_tree(all().as_bytes(), check).unwrap();
}

#[test]
fn other_ways_to_write_the_same_are_read() {
    let plain =
        r#"[1,2,{},[{"name":"/r"},{"name":"a/","asize":5,"dsize":512,"mtime":-7}]]"#.replace("a/", "a😀");
    let plain = String::from_utf8(again(plain.as_bytes())).unwrap();
    for other in [
        // White space, order, escapes, unknown keys of all kinds, fractions of seconds, sizes that are not
        // whole blocks.
        " [ 1 , 2 , { \"a\" : [ 1 , { } , [ ] ] } ,\r\n\t[ { \"name\" : \"\\/r\" } , { \"mtime\" : -7.25 , \"dsize\" : 1 , \"asize\" : 5 , \"name\" : \"a\\uD83D\\ude00\" } ] ] \n",
        r#"[1,10000,{"timestamp":1e9},[{"name":"/r","what":{"a":[{"b":"]}\"","c":-1.5e+7}],"":null}},{"n\u0061me":"a😀","asize":5,"dsize":512,"mtime":18446744073709551609,"hlnkc":false,"a key that nobody knows":true}]]"#,
        // There is no inode number, so the file is counted by itself.
        r#"[1,0,{},[{"name":"/r"},{"name":"a😀","asize":5,"dsize":512,"mtime":-7,"hlnkc":true}]]"#,
    ] {
        assert_eq!(String::from_utf8(again(other.as_bytes())).unwrap(), plain);
    }
    // A linked file on another file system than its directory: it is the file with the same number there, and
    // no other.
    let files = r#"[1,0,{},[{"name":"/r","dev":1},{"name":"a","asize":5,"dev":3,"ino":4,"nlink":3},{"name":"b","asize":7,"ino":4,"nlink":2},[{"name":"c","dev":3},{"name":"d","asize":5,"ino":4,"nlink":3}]]]"#;
    let sizes = |tree: &Tree<'_>| (tree.row(0).unwrap().size, tree.row(0).unwrap().shared_size);
    assert_eq!(with_tree(files.as_bytes(), sizes).unwrap(), (12, 12));
    let written = String::from_utf8(again(files.as_bytes())).unwrap();
    assert!(written.contains(r#"{"name":"a","asize":5,"dev":3,"#), "{written}");
    assert_eq!(String::from_utf8(again(written.as_bytes())).unwrap(), written);
    // Halves of surrogate pairs stand for themselves, and a directory of another file system counts if it has
    // contents.
    let halves = again(br#"[1,2,{},[{"name":"/"},{"name":"\ud83dx\ude00\ud83d\ud83d\ude00"},[{"name":"o","excluded":"othfs"},{"name":"in"}]]]"#);
    assert!(halves.ends_with(b"{\"name\":\"\xed\xa0\xbdx\xed\xb8\x80\xed\xa0\xbd\xf0\x9f\x98\x80\"},\n[{\"name\":\"o\"},\n{\"name\":\"in\"}]]]\n"));
}

/// Everything that ncdu 1 accepts: a repeated field, a zero byte in a name, any value in place of the
/// writer's name.
#[test]
fn everything_that_ncdu_accepts_is_read() {
    let plain = String::from_utf8(again(br#"[1,2,{},[{"name":"/r"},{"name":"a","asize":5}]]"#)).unwrap();
    for other in [
        r#"[1,2,null,[{"name":"/r"},{"name":"a","asize":5}]]"#,
        r#"[1,2,"who",[{"name":"/r"},{"name":"a","asize":5}]]"#,
        r#"[1,2,[{"a":[]}],[{"name":"/r"},{"name":"a","asize":5}]]"#,
        r#"[1,2,{},[{"name":"/q","name":"/r"},{"name":"longer","asize":7,"name":"a","asize":5}]]"#,
        r#"[1,2,{},[{"name":"/r\u0000s"},{"name":"a\u0000","asize":5}]]"#,
    ] {
        assert_eq!(String::from_utf8(again(other.as_bytes())).unwrap(), plain, "{other}");
    }
}

/// Names of objects in a store, snapshots under one name, and additions of later versions.
#[test]
fn exports_of_other_programs_are_read() {
    let text = r#"[1,2,{"progname":"others"},[{"name":"s3://bucket","x":[{}]},{"name":"a/b","dsize":512},{"name":"a/b","asize":7,"dsize":512},
        [{"name":"a"},{"name":"."}],[{"name":"a"},{"name":".."},{"name":".."}],{"name":"a"},5,null,"x",[],[[]],[1,{"name":"no"}],
        {"name":"z","asize":1}],{"more":[1]},null]"#;
    let read = String::from_utf8(again(text.as_bytes())).unwrap();
    // The written export reads back as the same tree.
    assert_eq!(String::from_utf8(again(read.as_bytes())).unwrap(), read);
    for (name, times) in [("a/b", 2), (".", 1), ("..", 2), ("a", 3), ("z", 1), ("no", 0)] {
        assert_eq!(read.matches(&format!("{{\"name\":\"{name}\"")).count(), times, "{name}: {read}");
    }
    let sums = with_tree(text.as_bytes(), |tree| {
        let row = tree.row(0).unwrap();
        (row.items, row.size, row.blocks)
    });
    assert_eq!(sums.unwrap(), (9, 8, 2));
}

/// Exports that other programs wrote: `restic ls --ncdu`, ncdu-s3, and a listing of `rclone lsjson -R` whose
/// times are fractions.
#[test]
fn recorded_exports_are_read() {
    let recorded = [
        (&include_bytes!("../../golden/exports/restic-0.18.json")[..], (9, 700, 2)),
        (&include_bytes!("../../golden/exports/ncdu-s3-0.3.json")[..], (13, 0, (1 << 36) + 7)),
        (&include_bytes!("../../golden/exports/rclone-lsjson.json")[..], (6, 1400, 4)),
    ];
    for (text, sums) in recorded {
        let read = with_tree(text, |tree| {
            let row = tree.row(0).unwrap();
            (row.items, row.size, row.blocks)
        });
        assert_eq!(read.unwrap(), sums);
        let written = again(text);
        assert_eq!(again(&written), written);
        // Every name and its place.
        assert_eq!(paths(&written), paths(text));
    }
}

/// The path of every entry, sorted: some occur twice.
fn paths(export: &[u8]) -> Vec<String> {
    fn add(value: &Value, above: &str, to: &mut Vec<String>) {
        let (own, below) = match value {
            Value::Array(values) => (&values[0], &values[1..]),
            value => (value, &[][..]),
        };
        let path = format!("{above}/{}", own["name"].as_str().unwrap());
        below.iter().for_each(|value| add(value, &path, to));
        to.push(path);
    }
    let mut all = Vec::new();
    add(&serde_json::from_slice::<Value>(export).unwrap()[3], "", &mut all);
    all.sort();
    all
}

#[test]
fn frames_that_say_nothing_may_come_first() {
    let text = br#"[1,2,{},[{"name":"/"},{"name":"a"}]]"#;
    for first in [0x50, 0x5f] {
        let mut bytes = vec![first, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        bytes.extend(zstd::encode_all(&text[..], 3).unwrap());
        assert_eq!(again(&bytes), again(text));
    }
}

/// A reader that returns a few bytes at a time, and is interrupted.
struct Slow<'b>(&'b [u8], usize, bool);

impl Read for Slow<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.2 = !self.2;
        if self.2 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = self.1.min(to.len()).min(self.0.len());
        let (now, rest) = self.0.split_at(len);
        to[..len].copy_from_slice(now);
        self.0 = rest;
        Ok(len)
    }
}

#[test]
fn it_does_not_matter_how_it_comes() {
    let escapes =
        r#"[1,2,{},[{"name":"/\ud83d\ude00\ud83d"},{"name":"\u00e9\\\"\/"},{"name":"b","mtime":1.5}]]"#;
    for text in [all(), escapes.replace("\\/", "")] {
        let at_once = again(text.as_bytes());
        for len in [1, 2, 3, 5, 7, 64] {
            let slowly = with_tree(Slow(text.as_bytes(), len, false), export).unwrap();
            assert_eq!(slowly, at_once);
        }
    }
}

#[test]
fn compressed_by_zstd_is_read_as_it_is() {
    let all = all();
    let options = Export { timestamp: 1, extended: true };
    let compressed = |level| {
        with_tree(all.as_bytes(), |tree| {
            let mut bytes = Vec::new();
            write_zstd(tree, &mut bytes, level, &options, |_| true).map(|()| bytes)
        })
        .unwrap()
    };
    for level in [1, 4, 22] {
        let bytes = compressed(level).unwrap();
        assert!(bytes.len() < all.len() / 2);
        assert_eq!(with_tree(&bytes[..], export).unwrap(), all.as_bytes());
        assert_eq!(with_tree(Slow(&bytes, 1, false), export).unwrap(), all.as_bytes());
    }
    let bytes = compressed(3).unwrap();
    for len in 4..bytes.len() {
        assert!(with_tree(&bytes[..len], |_| ()).is_err(), "{len} of {} bytes", bytes.len());
    }
    for at in 4..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 0x10;
        // One bit has no meaning, and one size may be larger than needed.
        if let Ok(read) = with_tree(&other[..], export) {
            assert!(read == all.as_bytes(), "damage at {at}");
        }
    }
    for level in [0, 23, -1] {
        let error = compressed(level).unwrap_err().to_string();
        assert!(error.contains("give one from 1 to 22"), "{error}");
    }
}

#[test]
fn extended_information_is_left_out_unless_requested() {
    let all = all();
    let heap = heap(16);
    let session = heap.session().unwrap();
    let plainly = Import { extended: false };
    let read = read(all.as_bytes(), &plainly, &heap, &session, &Progress::default(), |_| true).unwrap();
    let without = with_tree(all.as_bytes(), |tree| {
        let mut bytes = Vec::new();
        write(tree, &mut bytes, &Export { timestamp: 1, extended: false }, |_| true).unwrap();
        bytes
    });
    assert_eq!(export(&read), without.unwrap());
    assert!(!export(&read).windows(7).any(|key| key == b"\"mtime\""));
}

/// An endless export: the number of entries so far, and the pending bytes.
#[derive(Default)]
struct Endless(u64, Vec<u8>);

impl Read for Endless {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = match self.0 {
                0 => String::from("[1,2,{},[{\"name\":\"/\"}"),
                number => format!(",{{\"name\":\"{number}\"}}"),
            }
            .into_bytes();
            self.0 += 1;
        }
        let len = to.len().min(self.1.len());
        to[..len].copy_from_slice(&self.1[..len]);
        self.1.drain(..len);
        Ok(len)
    }
}

#[test]
fn reading_can_be_stopped_and_shows_its_progress() {
    let heap = heap(64);
    let session = heap.session().unwrap();
    let (progress, mut last) = (Progress::default(), 0);
    let stop = |progress: &Progress| {
        let items = progress.items.load(Relaxed);
        assert!(items > last);
        let is_second = last > 0;
        last = items;
        !is_second
    };
    let result = read(Endless::default(), &Import::default(), &heap, &session, &progress, stop);
    assert!(matches!(result, Err(ReadError::Tree(Error::Stopped))));
}

#[test]
fn writing_can_be_stopped() {
    /// A slow writer.
    struct Slow;
    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            std::thread::sleep(std::time::Duration::from_millis(30));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let options = Export { timestamp: 1, extended: true };
    let mut told = 0;
    let mut stop = |items| {
        told = items;
        false
    };
    let result = with_tree(&deep(30_000, 0)[..], |tree| write(tree, Slow, &options, &mut stop)).unwrap();
    assert!(matches!(result, Err(WriteError::Tree(Error::Stopped))), "{result:?}");
    assert!((1..30_000).contains(&told), "{told}");
}

#[test]
fn failures_are_reported() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    for begin in [&b""[..], b"[1,2,{},[{\"name\":\"/\"},", b"\x28\xb5\x2f\xfd"] {
        let error = with_tree(begin.chain(Fails), |_| ()).unwrap_err();
        assert!(matches!(error, ReadError::Io(_)), "{error:?}");
        assert!(error.to_string().starts_with("the export can't be read: permission denied"), "{error}");
    }
    let options = Export { timestamp: 1, extended: true };
    let mut room = [0; 10];
    let result = with_tree(all().as_bytes(), |tree| write(tree, &mut room[..], &options, |_| true)).unwrap();
    assert!(matches!(result, Err(WriteError::Io(_))), "{result:?}");
    // More entries than the heap has room for.
    let heap = Heap::new(Options::new().block_size(4 << 10).limit(Limit::Bytes(1 << 20))).unwrap();
    let session = heap.session().unwrap();
    let error = tree(Endless::default(), &heap, &session).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("use a larger --limit"), "{error}");
}
