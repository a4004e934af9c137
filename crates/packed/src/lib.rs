//! Detects from its first bytes how a file is compressed, and names the command that decompresses it.
//!
//! Tools that need the uncompressed file report this instead of misreading compressed bytes:
//!
//! ```text
//!   [skippable frame]..  head  -> "lz4", "lz4 -dc"
//! ```

/// The number of first bytes that detection needs.
pub const HEAD: usize = 16;
/// Bytes of a skippable frame before its contents.
pub const FRAME_HEAD: usize = 8;

/// A compressed file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Its name.
    pub by: &'static str,
    /// The command that writes the contents of a FILE to standard output.
    pub with: &'static str,
}

/// Each format with its first bytes. Memory and text practically never begin with them.
const BEGINS: [(&[u8], Packed); 11] = [
    // The window may be as large as 2 GiB.
    (&[0x28, 0xb5, 0x2f, 0xfd], Packed { by: "zstd", with: "zstdcat --long=31" }),
    (&[0x1f, 0x8b, 8], Packed { by: "gzip", with: "zcat" }),
    (&[0x1f, 0x9d], Packed { by: "compress", with: "zcat" }),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packed { by: "xz", with: "xzcat" }),
    (&[0x04, 0x22, 0x4d, 0x18], Packed { by: "lz4", with: "lz4cat" }),
    (&[0x02, 0x21, 0x4c, 0x18], Packed { by: "lz4", with: "lz4cat" }),
    (b"BZh", Packed { by: "bzip2", with: "bzcat" }),
    (b"LZIP\x01", Packed { by: "lzip", with: "lzip -dc" }),
    (b"\x89LZO\0\r\n\x1a\n", Packed { by: "lzop", with: "lzop -dc" }),
    (b"PK\x03\x04", Packed { by: "zip", with: "unzip -p" }),
    (b"7z\xbc\xaf\x27\x1c", Packed { by: "7-Zip", with: "7z x -so" }),
];
const LZMA: Packed = Packed { by: "lzma", with: "xzcat" };

/// The format of a file that begins with `head`.
pub fn packed(head: &[u8]) -> Option<Packed> {
    let known = BEGINS.into_iter().find(|(begins, _)| head.starts_with(begins));
    known.map(|(_, packed)| packed).or_else(|| is_lzma(head).then_some(LZMA))
}

/// An lzma file without a container has no magic number: it begins with the usual parameters, the size of the
/// dictionary, and the size of the contents.
fn is_lzma(head: &[u8]) -> bool {
    let Some((parameters, sizes)) = head.split_at_checked(1) else { return false };
    let (Some(dictionary), Some(len)) = (sizes.first_chunk::<4>(), sizes.get(4..12)) else { return false };
    let dictionary = u32::from_le_bytes(*dictionary);
    let is_usual =
        |size: u32| size.is_power_of_two() || size.is_multiple_of(3) && (size / 3).is_power_of_two();
    parameters == [0x5d]
        && dictionary >= 1 << 12
        && is_usual(dictionary)
        && (len == [0xff; 8] || len[5..] == [0; 3] && len[..5] != [0; 5])
}

/// If `head` begins with a skippable frame, the length of the frame after [`FRAME_HEAD`]. Files of zstd and
/// lz4 may begin with such frames.
pub fn skippable(head: &[u8]) -> Option<u64> {
    let (begins, len) = head.first_chunk::<FRAME_HEAD>()?.split_at(4);
    let is_skippable = begins[0] & 0xf0 == 0x50 && begins[1..] == [0x2a, 0x4d, 0x18];
    is_skippable.then(|| len.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lzma_is_distinguished_from_memory() {
        let head = |dictionary: u32, len: u64| {
            [&[0x5d][..], &dictionary.to_le_bytes(), &len.to_le_bytes(), &[0, 1]].concat()
        };
        for good in [head(1 << 23, u64::MAX), head(3 << 22, 5000), head(1 << 12, 1 << 39)] {
            assert_eq!(packed(&good), Some(LZMA), "{good:?}");
        }
        for bad in [head(0, u64::MAX), head(1 << 23, 0), head(1 << 23, 1 << 40), head(5 << 20, 7), vec![0x5d]]
        {
            assert_eq!(packed(&bad), None, "{bad:?}");
        }
        assert_eq!(packed(b""), None);
        assert_eq!(packed(&[0; HEAD]), None);
    }

    #[test]
    fn frames_say_how_long_they_are() {
        assert_eq!(skippable(&[0x5f, 0x2a, 0x4d, 0x18, 1, 2, 0, 0xff, 9]), Some(0xff00_0201));
        assert_eq!(skippable(&[0x60, 0x2a, 0x4d, 0x18, 1, 2, 0, 0]), None);
        assert_eq!(skippable(&[0x5f, 0x2a, 0x4d, 0x18, 1, 2, 0]), None);
    }
}
