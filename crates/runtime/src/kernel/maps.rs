//! The mappings of this process, as `/proc/self/maps` lists them.

use crate::kernel::sys::{self, Errno, Fd, Result};

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First byte.
    pub start: usize,
    /// First byte after the end.
    pub end: usize,
    /// `rwxp` or `rwxs` with dashes.
    pub permissions: [u8; 4],
    /// 0 for memory without a file.
    pub inode: u64,
    /// Path or `[name]`; empty for plain anonymous memory.
    pub name: &'a [u8],
}

impl Mapping<'_> {
    /// Private memory without a file behind it, excluding the kernel's special mappings and the main stack.
    pub fn is_private_anonymous(&self) -> bool {
        let named = !self.name.is_empty() && self.name != b"[heap]" && !self.name.starts_with(b"[anon:");
        self.permissions[3] == b'p' && self.inode == 0 && !named
    }
}

/// Reads all mappings through `fd`, an open `/proc/self/maps`, and calls `visit` with each. `buffer` must be
/// large enough for the longest line.
pub fn for_each(fd: Fd, buffer: &mut [u8], mut visit: impl FnMut(Mapping<'_>)) -> Result<()> {
    let (mut offset, mut filled) = (0u64, 0usize);
    loop {
        let got = sys::pread(fd, &mut buffer[filled..], offset)?;
        offset += got as u64;
        let end = filled + got;
        let mut at = 0;
        while let Some(length) = buffer[at..end].iter().position(|b| *b == b'\n') {
            if let Some(mapping) = parse(&buffer[at..at + length]) {
                visit(mapping);
            }
            at += length + 1;
        }
        buffer.copy_within(at..end, 0);
        filled = end - at;
        if got == 0 {
            return Ok(());
        }
        if filled == buffer.len() {
            // A line longer than the buffer: its tail is a path, which is not needed.
            filled = 0;
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct QueryArg {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

/// The private anonymous mapping that contains `address`, as it is now. Linux 6.11 has a query for that
/// (PROCMAP_QUERY); on earlier kernels, the whole list is read.
pub fn private_anonymous_at(fd: Fd, address: usize) -> Option<(usize, usize)> {
    const QUERY: usize = 0xC068_6611;
    const SHARED: u64 = 8;
    let mut arg =
        QueryArg { size: size_of::<QueryArg>() as u64, address: address as u64, ..Default::default() };
    // SAFETY: the structure is the one of PROCMAP_QUERY; it only reports.
    match unsafe { sys::ioctl(fd, QUERY, &mut arg) } {
        Ok(_) => {
            let private = arg.inode == 0 && arg.vma_flags & SHARED == 0;
            private.then_some((arg.start as usize, arg.end as usize))
        }
        Err(Errno::NOENT) => None,
        Err(_) => {
            let (mut buffer, mut found) = ([0u8; 8192], None);
            for_each(fd, &mut buffer, |mapping| {
                if mapping.is_private_anonymous() && (mapping.start..mapping.end).contains(&address) {
                    found = Some((mapping.start, mapping.end));
                }
            })
            .ok()?;
            found
        }
    }
}

/// Parses `start-end perms offset dev inode   name`.
pub fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |b| *b == b' ');
    let range = fields.next()?;
    let dash = range.iter().position(|b| *b == b'-')?;
    let permissions = fields.next()?.try_into().ok()?;
    let (_offset, _device) = (fields.next()?, fields.next()?);
    let inode = decimal(fields.next()?)?;
    let name = fields.next().unwrap_or(b"").trim_ascii();
    Some(Mapping { start: hex(&range[..dash])?, end: hex(&range[dash + 1..])?, permissions, inode, name })
}

/// A decimal number.
pub fn decimal(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn hex(text: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

/// Number of resident pages of private anonymous memory of this process, from `fd`, an open
/// `/proc/self/statm`.
pub fn anonymous_pages(fd: Fd) -> Result<u64> {
    let mut buffer = [0u8; 128];
    let length = sys::pread(fd, &mut buffer, 0)?;
    let mut fields = buffer[..length].split(|b| *b == b' ');
    let resident = fields.nth(1).and_then(decimal).unwrap_or(0);
    let shared = fields.next().and_then(decimal).unwrap_or(0);
    Ok(resident.saturating_sub(shared))
}

/// Approximate number of bytes that this process may write to and has not touched yet, from `fd`, an open
/// `/proc/self/statm`.
pub fn untouched_bytes(fd: Fd) -> Result<u64> {
    let mut buffer = [0u8; 128];
    let length = sys::pread(fd, &mut buffer, 0)?;
    let mut fields = buffer[..length].split(|b| *b == b' ').map(|field| decimal(field).unwrap_or(0));
    let resident = fields.nth(1).unwrap_or(0).saturating_sub(fields.next().unwrap_or(0));
    let writable = fields.nth(2).unwrap_or(0);
    Ok(writable.saturating_sub(resident) * sys::PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_found_by_an_address_in_it() {
        let bytes = 64 << 10;
        let start = sys::map_anonymous(bytes, sys::prot::READ).unwrap() as usize;
        let fd = sys::open(c"/proc/self/maps", sys::o::RDONLY).unwrap();
        let (from, to) = private_anonymous_at(fd, start + 5000).unwrap();
        assert!(from <= start && start + bytes <= to);
        let code = a_mapping_is_found_by_an_address_in_it as *const () as usize;
        assert_eq!(private_anonymous_at(fd, code), None);
    }

    #[test]
    fn lines_are_understood() {
        let heap = parse(b"55d0c8a2e000-55d0c8a4f000 rw-p 00000000 00:00 0                          [heap]")
            .unwrap();
        assert!(heap.is_private_anonymous());
        assert_eq!((heap.start, heap.end), (0x55d0c8a2e000, 0x55d0c8a4f000));
        assert!(parse(b"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ").unwrap().is_private_anonymous());
        assert!(parse(b"7f0000000000-7f0000001000 rw-p 00000000 00:00 0").unwrap().is_private_anonymous());
        let stack = parse(b"7ffc1-7ffc2 rw-p 00000000 00:00 0                          [stack]").unwrap();
        assert!(!stack.is_private_anonymous());
        let file = parse(b"7f1-7f2 r--p 00001000 fe:00 131 /usr/lib/a b (deleted)").unwrap();
        assert_eq!((file.inode, file.name), (131, b"/usr/lib/a b (deleted)".as_slice()));
        assert!(!file.is_private_anonymous());
        assert!(!parse(b"7f1-7f2 rw-s 00000000 00:01 5 /dev/zero (deleted)").unwrap().is_private_anonymous());
        assert_eq!(parse(b"garbage"), None);
    }
}
