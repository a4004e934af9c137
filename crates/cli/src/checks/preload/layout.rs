//! The directory of links through which programs find the library.
//!
//! ```text
//! x86_64/libmemfold_preload.so     the library, or a link to it
//! haswell, xeon_phi -> x86_64      names of some processors in glibc before 2.37
//! i686/libmemfold_preload.so       an empty library, for 32-bit programs
//! i386, i486, i586 -> i686
//! libmemfold_preload.so -> x86_64  for scripts that substitute $PLATFORM as their own variable
//! ```
//!
//! The loader replaces `$PLATFORM` with the name that the kernel gives to each program's processor
//! (`AT_PLATFORM`). If nothing exists under that name, the loader prints a message on standard error, and the
//! program runs.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Library, NAME, extract, own_directory};
use crate::sys;

/// The variable that the loader replaces.
const WORD: &str = "$PLATFORM";

/// The loader's names for the processor of a kind of program; the first is a directory, the others are links
/// to it.
type Names = &'static [&'static str];

#[cfg(target_arch = "x86_64")]
const OWN: Names = &["x86_64", "haswell", "xeon_phi"];
#[cfg(target_arch = "aarch64")]
const OWN: Names = &["aarch64"];
/// For 32-bit programs that the same machine runs: the names, the machine number in ELF files, and the flags.
#[cfg(target_arch = "x86_64")]
const SMALL: (Names, u16, u32) = (&["i686", "i386", "i486", "i586"], 3, 0);
#[cfg(target_arch = "aarch64")]
const SMALL: (Names, u16, u32) = (&["v8l", "v7l", "v6l"], 40, 0x0500_0000);

/// Writes the library to a directory of this name below `place`.
pub fn of_copy(place: &Path, name: &str, bytes: &[u8]) -> std::io::Result<Library> {
    own_directory(place)?;
    let directory = place.join(name);
    own_directory(&directory)?;
    let file = extract(&directory.join(OWN[0]), NAME, bytes)?;
    let entry = complete(&directory).unwrap_or_else(|_| file.clone().into());
    Ok(Library { file, entry })
}

/// Makes links to a library that is installed elsewhere. Returns the path for the loader.
pub fn of_file(place: &Path, file: &Path) -> std::io::Result<OsString> {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    own_directory(place)?;
    let directory = place.join(format!("at-{:016x}", hasher.finish()));
    own_directory(&directory)?;
    own_directory(&directory.join(OWN[0]))?;
    link(&directory.join(OWN[0]).join(NAME), file)?;
    complete(&directory)
}

/// Adds the links and the empty 32-bit library. Returns the path for the loader.
fn complete(directory: &Path) -> std::io::Result<OsString> {
    let (small, machine, flags) = SMALL;
    if !OWN.contains(&sys::platform().ok_or(std::io::ErrorKind::Unsupported)?) {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    extract(&directory.join(small[0]), NAME, &nothing(machine, flags))?;
    for names in [OWN, small] {
        names[1..].iter().try_for_each(|name| link(&directory.join(name), Path::new(names[0])))?;
    }
    link(&directory.join(NAME), &Path::new(OWN[0]).join(NAME))?;
    Ok(directory.join(WORD).join(NAME).into())
}

/// Makes a link if it does not exist yet.
fn link(path: &Path, to: &Path) -> std::io::Result<()> {
    let is_there = || std::fs::read_link(path).is_ok_and(|found| found == to);
    if is_there() {
        return Ok(());
    }
    let mut temporary = PathBuf::from(path).into_os_string();
    temporary.push(format!(".{}", std::process::id()));
    symlink(to, &temporary)?;
    // Another process may have made the link meanwhile; the rename replaces it with an equal one.
    std::fs::rename(&temporary, path).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// A 32-bit library without contents.
///
/// ```text
/// 0         52                             148                196          212        228
/// | header  | 3 program headers of 32 bytes | dynamic, 6 x 8   | hash, 4 x 4 | symbol, 16 | no strings |
/// ```
fn nothing(machine: u16, flags: u32) -> Vec<u8> {
    const HEADERS: u32 = 52;
    const DYNAMIC: u32 = HEADERS + 3 * 32;
    const HASH: u32 = DYNAMIC + 6 * 8;
    const SYMBOL: u32 = HASH + 4 * 4;
    const STRINGS: u32 = SYMBOL + 16;
    const END: u32 = STRINGS + 4;
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let short = |bytes: &mut Vec<u8>, numbers: &[u16]| {
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    };
    let word = |bytes: &mut Vec<u8>, numbers: &[u32]| {
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    };
    // A shared object of version 1, without an entry point and sections.
    short(&mut bytes, &[3, machine]);
    word(&mut bytes, &[1, 0, HEADERS, 0, flags]);
    short(&mut bytes, &[52, 32, 3, 40, 0, 0]);
    // The whole file is loaded, and writable, because loaders write to the dynamic section.
    word(&mut bytes, &[1, 0, 0, 0, END, END, 6, 0x1_0000]);
    word(&mut bytes, &[2, DYNAMIC, DYNAMIC, DYNAMIC, 6 * 8, 6 * 8, 6, 4]);
    // Without this the loader would make all stacks executable.
    word(&mut bytes, &[0x6474_e551, 0, 0, 0, 0, 0, 6, 16]);
    word(&mut bytes, &[4, HASH, 5, STRINGS, 6, SYMBOL, 10, 1, 11, 16, 0, 0]);
    word(&mut bytes, &[1, 1, 0, 0]);
    bytes.resize(END as usize, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_a_library() {
        let here = tempfile::tempdir().unwrap();
        let library = of_copy(here.path(), "x", &[7; 5000]).unwrap();
        let text = library.entry.to_str().unwrap();
        let whole = |name: &str| std::fs::read(text.replace(WORD, name)).unwrap();
        for name in OWN.iter().chain(&[""]) {
            assert_eq!(whole(name), [7; 5000], "{name}");
        }
        for name in SMALL.0 {
            assert!(whole(name).starts_with(b"\x7fELF\x01"), "{name}");
        }
        // The second time nothing changes.
        assert_eq!(of_copy(here.path(), "x", &[7; 5000]).unwrap(), library);
        assert_eq!(std::fs::read_dir(here.path().join("x")).unwrap().count(), OWN.len() + SMALL.0.len() + 1);
    }

    #[test]
    fn links_follow_the_installed_file() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("installed.so");
        std::fs::write(&file, "one").unwrap();
        let entry = of_file(&here.path().join("cache"), &file).unwrap();
        std::fs::write(&file, "two").unwrap();
        assert_eq!(of_file(&here.path().join("cache"), &file).unwrap(), entry);
        let path = entry.to_str().unwrap().replace(WORD, OWN[0]);
        assert_eq!(std::fs::read(path).unwrap(), b"two");
    }
}
