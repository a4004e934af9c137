//! The number of a terminal's colours according to the terminfo database.
//!
//! ```text
//!   magic, bytes of names, booleans, numbers, ... ││ names │ booleans │ pad to even │ numbers: max_colors is the 14th │ ...
//!   six times 16 bits, little-endian              ││         numbers have 16 bits, or 32 by the magic
//! ```

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAGIC: u16 = 0o432;
/// The same with numbers of 32 bits.
const MAGIC_32: u16 = 0o1036;
/// The index of the number of colours.
const COLOURS: usize = 13;

/// The number of colours of the terminal in TERM; `None` if it is unknown.
pub(crate) fn colours() -> Option<u32> {
    let name = std::env::var_os("TERM")?;
    // The name becomes a component of paths.
    if name.is_empty() || name.as_bytes().contains(&b'/') || name.as_bytes()[0] == b'.' {
        return None;
    }
    places().iter().find_map(|place| colours_of(&read(place, &name)?))
}

/// The directories to search, in the order of ncurses.
fn places() -> Vec<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut places: Vec<PathBuf> = of("TERMINFO").into_iter().map(PathBuf::from).collect();
    places.extend(of("HOME").map(|home| Path::new(&home).join(".terminfo")));
    places.extend(of("TERMINFO_DIRS").iter().flat_map(std::env::split_paths));
    places.extend(
        ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo"].map(PathBuf::from),
    );
    places
}

fn read(place: &Path, name: &OsStr) -> Option<Vec<u8>> {
    let first = name.as_bytes()[0];
    let below = [OsStr::from_bytes(&[first]).to_owned(), format!("{first:x}").into()];
    below.iter().find_map(|below| std::fs::read(place.join(below).join(name)).ok())
}

/// The number in an entry: `None` if it is not a valid entry, 0 if there are no colours.
fn colours_of(entry: &[u8]) -> Option<u32> {
    let half = |at: usize| Some(u16::from_le_bytes(entry.get(at..at + 2)?.try_into().ok()?));
    let width = match half(0)? {
        MAGIC => 2,
        MAGIC_32 => 4,
        _ => return None,
    };
    let (names, booleans, numbers) = (half(2)?, half(4)?, half(6)?);
    if usize::from(numbers) <= COLOURS {
        return Some(0);
    }
    let begin = (12 + usize::from(names) + usize::from(booleans)).next_multiple_of(2);
    let number = entry.get(begin + COLOURS * width..)?.get(..width)?;
    let number = match number.try_into() {
        Ok(bytes) => i32::from_le_bytes(bytes),
        Err(_) => i16::from_le_bytes(number.try_into().ok()?).into(),
    };
    // A negative number means no colours.
    Some(u32::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(magic: u16, numbers: &[i32]) -> Vec<u8> {
        let mut entry = Vec::new();
        for number in [magic, 5, 2, numbers.len() as u16, 0, 0] {
            entry.extend(number.to_le_bytes());
        }
        // Seven bytes, and one for alignment.
        entry.extend(b"xyz|\0\x01\0\0");
        for number in numbers {
            let bytes = number.to_le_bytes();
            entry.extend(if magic == MAGIC { &bytes[..2] } else { &bytes[..] });
        }
        entry
    }

    #[test]
    fn entries() {
        let mut numbers = [-1; 16];
        assert_eq!(colours_of(&entry(MAGIC, &numbers)), Some(0));
        assert_eq!(colours_of(&entry(MAGIC, &numbers[..13])), Some(0));
        for (magic, count) in [(MAGIC, 8), (MAGIC, 256), (MAGIC_32, 16), (MAGIC_32, 1 << 24)] {
            numbers[COLOURS] = count;
            let entry = entry(magic, &numbers);
            assert_eq!(colours_of(&entry), Some(count as u32));
            // A truncated entry is not valid.
            assert_eq!((colours_of(&entry[..20]), colours_of(&entry[..11])), (None, None));
        }
        assert_eq!((colours_of(b""), colours_of(&entry(7, &numbers))), (None, None));
    }

    /// Compares with ncurses itself, if its database is installed.
    #[test]
    fn entries_of_this_machine() {
        for (name, count) in
            [("linux", 8), ("xterm", 8), ("xterm-16color", 16), ("xterm-256color", 256), ("vt100", 0)]
        {
            let found = ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"];
            match found.iter().find_map(|place| read(place.as_ref(), name.as_ref())) {
                Some(entry) => assert_eq!(colours_of(&entry), Some(count), "{name}"),
                None => eprintln!("skipped: no entry of {name}"),
            }
        }
    }
}
