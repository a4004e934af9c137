//! What is written is read, and damage is noticed.

use super::*;
use crate::entry::{Entry, Extended, Kind, Link, Target};

fn entries() -> Vec<Entry<'static>> {
    let extended = Extended { modified: 1_700_000_000, user: 1000, group: 100, mode: 0o100_644 };
    let file = Entry { name: b"", kind: Kind::File, ..Entry::default() };
    let link = Link { inode: u64::MAX, device: None, names: 2 };
    vec![
        Entry { name: b"a", size: 1, blocks: 8, ..file },
        Entry {
            name: b"ab",
            kind: Kind::Directory(u32::MAX),
            size: 4096,
            blocks: 8,
            extended: Some(extended),
            ..file
        },
        Entry { name: b"ab\xff\n", kind: Kind::Directory(0), size: 4096, blocks: 9, ..file },
        Entry {
            name: b"abc",
            kind: Kind::Other,
            extended: Some(Extended { modified: i64::MIN, ..extended }),
            ..file
        },
        Entry { name: &[b'b'; 255], size: u64::MAX, blocks: u64::MAX, link: Some(link), ..file },
        Entry {
            name: &[b'b'; 300],
            size: 1 << 40,
            blocks: 0,
            link: Some(Link { inode: 0, device: Some(u32::MAX), names: u32::MAX }),
            ..file
        },
        Entry { name: b"bc", followed: Some(Target { device: None }), ..file },
        Entry { name: b"bd", kind: Kind::Other, followed: Some(Target { device: Some(7) }), ..file },
        Entry {
            name: b"be",
            link: Some(Link { inode: 9, device: Some(3), names: 2 }),
            followed: Some(Target { device: Some(3) }),
            ..file
        },
        Entry { name: b"c", kind: Kind::Failed(13), ..file },
        Entry { name: b"c", kind: Kind::Excluded, ..file },
        Entry { name: b"d", kind: Kind::OtherFileSystem, ..file },
        Entry {
            name: b"e",
            kind: Kind::KernelFileSystem,
            extended: Some(Extended { user: u32::MAX, mode: u16::MAX, ..extended }),
            ..file
        },
        Entry { name: b"", kind: Kind::Gone, ..file },
    ]
}

fn bytes(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut writer, mut bytes) = (Writer::default(), Vec::new());
    writer.begin();
    entries.iter().for_each(|entry| writer.add(entry));
    writer.end(&mut bytes);
    bytes
}

#[test]
fn written_entries_are_read() {
    let entries = entries();
    for count in 0..=entries.len() {
        let bytes = bytes(&entries[..count]);
        let mut reader = Reader::new(&bytes).unwrap();
        assert_eq!(reader.count(), count);
        for entry in &entries[..count] {
            assert_eq!(reader.read().unwrap().as_ref(), Some(entry));
        }
        assert_eq!(reader.read(), Ok(None));
    }
}

#[test]
fn damage_is_an_error_or_other_entries_and_no_more() {
    let bytes = bytes(&entries());
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes)?;
        while reader.read()?.is_some() {}
        Ok::<(), Malformed>(())
    };
    for len in 0..bytes.len() {
        assert_eq!(read(&bytes[..len]), Err(Malformed), "{len} bytes");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            let _ = read(&other);
        }
    }
}
