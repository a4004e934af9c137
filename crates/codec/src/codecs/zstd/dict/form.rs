//! The version at the start of a form: a number in groups of seven bits, lowest first, in as few bytes as
//! possible.
//!
//! ```text
//! +---------------------------+---------------------------------------------+
//! | version, 1 to 5 bytes     | frame of Zstandard, as `zstd` writes it,    |
//! | 0: no dictionary          | made with the dictionary of that version    |
//! +---------------------------+---------------------------------------------+
//! ```

/// The most bytes of a version.
pub(super) const LONGEST: usize = 5;

/// The version that means "without dictionary".
pub(super) const NONE: u32 = 0;

/// The bytes of a version, and how many.
pub(super) fn tag(version: u32) -> ([u8; LONGEST], usize) {
    let (mut tag, mut rest, mut len) = ([0; LONGEST], version, 0);
    loop {
        let low = (rest & 0x7F) as u8;
        rest >>= 7;
        tag[len] = if rest == 0 { low } else { low | 0x80 };
        len += 1;
        if rest == 0 {
            return (tag, len);
        }
    }
}

/// The version of a form, and its frame. Each version has exactly one encoding; others are refused.
pub(super) fn split(form: &[u8]) -> Option<(u32, &[u8])> {
    let mut version = 0_u64;
    for (i, &byte) in form.iter().take(LONGEST).enumerate() {
        version |= u64::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            let shortest = byte != 0 || i == 0;
            let version = u32::try_from(version).ok().filter(|_| shortest)?;
            return Some((version, &form[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_were_written() {
        for (version, len) in
            [(0, 1), (1, 1), (127, 1), (128, 2), (16383, 2), (16384, 3), (1 << 28, 5), (u32::MAX, 5)]
        {
            let (tag, written) = tag(version);
            assert_eq!(written, len, "{version}");
            let form = [&tag[..len], &[9, 8]].concat();
            assert_eq!(split(&form), Some((version, &[9, 8][..])));
            for shorter in 0..len {
                assert_eq!(split(&form[..shorter]), None, "{version}");
            }
        }
    }

    #[test]
    fn other_ways_to_write_a_version_are_refused() {
        for bad in [&[][..], &[0x80, 0], &[0x81, 0x80, 0], &[0x80; 6], &[0xFF, 0xFF, 0xFF, 0xFF, 0x10]] {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }
}
