//! Lines of `/proc/PID/maps` and of `/proc/PID/smaps`, where figures follow each mapping's line.

/// The line of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// As in `rw-p`.
    pub rights: &'a [u8],
    /// The file or the kernel's name for it, which may contain any bytes; empty for plain memory.
    pub name: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// "START-END RIGHTS OFFSET DEVICE INODE [NAME]"; `None` if the line has another form.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let (start, end) = str::from_utf8(words.next()?).ok()?.split_once('-')?;
        let rights = words.next()?;
        // Names may contain blanks: the name is everything after the first five words.
        let name = words.nth(3).unwrap_or_default().trim_ascii();
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { start: address(start)?, end: address(end)?, rights, name })
    }

    /// Whether writes to it stay private to the process.
    pub fn is_private(&self) -> bool {
        self.rights.ends_with(b"p")
    }
}

/// The name and the bytes of a figure in `smaps`, as in `Anonymous:   120 kB`.
pub fn figure(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let kib: u64 = value.trim().trim_end_matches(" kB").parse().ok()?;
    Some((name, kib << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let of = |line| Mapping::parse(line).map(|it| (it.start, it.end, it.is_private(), it.name.to_vec()));
        let named = |private, name: &[u8]| Some((0x1000, 0x3000, private, name.to_vec()));
        assert_eq!(of(b"1000-3000 rw-p 00000000 00:00 0 "), named(true, b""));
        assert_eq!(of(b"1000-3000 rw-p 00000000 00:00 0          [heap]"), named(true, b"[heap]"));
        assert_eq!(of(b"1000-3000 r--s 00002000 08:01 77   /a b\xff"), named(false, b"/a b\xff"));
        assert_eq!((of(b""), of(b"Size:   4 kB"), of(b"VmFlags: rd wr")), (None, None, None));
        assert_eq!(figure("Anonymous:   120 kB"), Some(("Anonymous", 120 << 10)));
        assert_eq!((figure("VmFlags: rd wr"), figure("1000-3000 rw-p")), (None, None));
    }
}
