//! Writes one entry of an export.

use crate::entry::{Entry, Extended, Kind, Link};
use crate::tree::{Row, flags};

/// Appends an entry, with its row if it is a directory, and with its file system if one is given.
pub fn put(out: &mut Vec<u8>, entry: &Entry<'_>, device: Option<u64>, row: Option<&Row>, is_extended: bool) {
    out.extend_from_slice(b"{\"name\":\"");
    name(out, entry.name);
    out.push(b'"');
    let mut field = |key: &str, value: u64| {
        out.extend_from_slice(key.as_bytes());
        number(out, value);
    };
    if entry.size > 0 {
        field(",\"asize\":", entry.sum().size);
    }
    if entry.blocks > 0 {
        field(",\"dsize\":", entry.sum().disk_bytes());
    }
    if let Some(device) = device {
        field(",\"dev\":", device);
    }
    if let Some(Extended { modified, user, group, mode }) = entry.extended.filter(|_| is_extended) {
        // ncdu 1 rejects a file with an ID from 2^31 on, even one of its own. It skips unknown fields.
        let is_large = |id: u32| id > i32::MAX as u32;
        field(if is_large(user) { ",\"memfold_uid\":" } else { ",\"uid\":" }, user.into());
        field(if is_large(group) { ",\"memfold_gid\":" } else { ",\"gid\":" }, group.into());
        field(",\"mode\":", mode.into());
        field(",\"mtime\":", modified as u64);
    }
    if let Some(Link { inode, names, .. }) = entry.link {
        field(",\"ino\":", inode);
        out.extend_from_slice(b",\"hlnkc\":true");
        if names > 0 {
            out.extend_from_slice(b",\"nlink\":");
            number(out, names.into());
        }
    }
    let of_row = |flag| row.is_some_and(|row| row.flags & flag != 0);
    let (failed, error) = match (entry.kind, row) {
        (Kind::Failed(error), _) => (true, error),
        (_, Some(row)) => (of_row(flags::FAILED), row.error),
        _ => (false, 0),
    };
    if failed {
        out.extend_from_slice(b",\"read_error\":true");
        if error != 0 {
            out.extend_from_slice(b",\"errno\":");
            number(out, error.into());
        }
    }
    let words: &[u8] = match entry.kind {
        Kind::Other => b",\"notreg\":true",
        Kind::OtherFileSystem => b",\"excluded\":\"otherfs\"",
        Kind::KernelFileSystem => b",\"excluded\":\"kernfs\"",
        Kind::Excluded => b",\"excluded\":\"pattern\"",
        _ if of_row(flags::KERNEL) => b",\"excluded\":\"kernfs\"",
        _ if of_row(flags::CACHE) => b",\"excluded\":\"pattern\"",
        _ => b"",
    };
    out.extend_from_slice(words);
    if of_row(flags::LOOP) {
        out.extend_from_slice(b",\"loop\":true");
    }
    out.push(b'}');
}

/// Appends a number in digits.
pub fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a name as a string's contents. Bytes that are not UTF-8 stay unchanged.
fn name(out: &mut Vec<u8>, mut name: &[u8]) {
    let is_special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f);
    while let Some(at) = name.iter().position(is_special) {
        out.extend_from_slice(&name[..at]);
        let short = match name[at] {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            byte @ (b'"' | b'\\') => byte,
            byte => {
                let digit = |digit: u8| b"0123456789abcdef"[usize::from(digit)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
                name = &name[at + 1..];
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
        name = &name[at + 1..];
    }
    out.extend_from_slice(name);
}
