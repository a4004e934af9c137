//! Mounted file systems and swap devices.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A line of `mountinfo`. Names may contain any bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `MAJOR:MINOR`.
    pub device: Vec<u8>,
    /// The part of the file system that is mounted.
    pub root: Vec<u8>,
    /// Where it is mounted.
    pub place: Vec<u8>,
    /// Type of the file system.
    pub kind: Vec<u8>,
    /// The device, as the mounting program named it.
    pub source: Vec<u8>,
    /// Options of the file system, separated by commas.
    pub options: Vec<u8>,
}

impl Mount {
    /// "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [FIELD...] - TYPE SOURCE OPTIONS"
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let (device, root, place) =
            (words.nth(2)?.to_vec(), unescaped(words.next()?), unescaped(words.next()?));
        let mut words = words.skip_while(|word| *word != b"-").skip(1);
        let (kind, source) = (unescaped(words.next()?), unescaped(words.next()?));
        Some(Mount { device, root, place, kind, source, options: words.next().unwrap_or_default().to_vec() })
    }

    /// Whether the file system has an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(|byte| *byte == b',').any(|one| one == option.as_bytes())
    }
}

/// The mounts that this process sees, in the order in which they were mounted.
pub fn all() -> Vec<Mount> {
    parse(&fs::read("/proc/self/mountinfo").unwrap_or_default()).collect()
}

/// The mounts in the text of `mountinfo`.
pub(crate) fn parse(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|byte| *byte == b'\n').filter_map(Mount::parse)
}

/// The machine's swap devices and swap files.
pub fn swaps() -> Vec<PathBuf> {
    let text = fs::read("/proc/swaps").unwrap_or_default();
    text.split(|byte| *byte == b'\n').skip(1).filter_map(swap).collect()
}

/// The path with which a line of `/proc/swaps` begins.
fn swap(line: &[u8]) -> Option<PathBuf> {
    let path = line.split(|byte| byte.is_ascii_whitespace()).next().filter(|path| !path.is_empty())?;
    Some(OsString::from_vec(unescaped(path)).into())
}

/// Decodes a word: the kernel writes blanks, newlines and backslashes as `\040` and the like.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|it| matches!(it, b'0'..=b'7')));
        let byte = digits.map(|digits| digits.iter().fold(0_u8, |byte, digit| (byte << 3) | (digit - b'0')));
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line =
            b"36 35 7:0 / /mnt/a\\040b\xff rw,noatime shared:1 master:2 - ext4 /dev/loop0 rw,errors=continue";
        let wanted = Mount {
            device: b"7:0".into(),
            root: b"/".into(),
            place: b"/mnt/a b\xff".into(),
            kind: b"ext4".into(),
            source: b"/dev/loop0".into(),
            options: b"rw,errors=continue".into(),
        };
        assert_eq!(Mount::parse(line), Some(wanted));
        let mount = Mount::parse;
        assert_eq!(mount(b"22 28 0:20 / /proc rw - proc proc rw").map(|it| it.source), Some(b"proc".into()));
        assert_eq!((mount(b""), mount(b"36 35 7:0 / /mnt")), (None, None));
        assert_eq!(
            swap(b"/dev/loop1                              partition\t65532\t0\t-2"),
            Some("/dev/loop1".into())
        );
        assert_eq!(swap(b""), None);
        assert_eq!(unescaped(b"\\134\\0\\08x\\1"), b"\\\\0\\08x\\1");
    }
}
