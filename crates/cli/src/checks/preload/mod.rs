//! Finds the preload library.
//!
//! The search order is:
//!
//! 1. Beside the executable (a build directory, an unpacked archive).
//! 2. In `../lib/memfold` relative to it (`make install`).
//! 3. The copy inside the executable, which is written to a file once and reused by every later run (`cargo
//!    install`).
//!
//! Programs get a path through a directory of links (see [`layout`]):
//! `LD_PRELOAD=.../$PLATFORM/libmemfold_preload.so`. The loader substitutes the processor's name, so 32-bit
//! programs find an empty library. Otherwise their loader would print a message on standard error. musl's
//! loader does not know such variables: it finds nothing, and prints nothing.
//!
//! The loader of every program of the tree opens the path again, possibly much later: as another user after
//! `setuid`, or in a daemon that outlives the supervisor. So the file is permanent and readable by all, and
//! root's copy lies where every user can reach it. (A path like `/proc/PID/fd/N` would end with the
//! supervisor, and is closed to other users. If the file were removed at the end, each later exec of a daemon
//! would print a message.) The name of the file's directory contains a hash of its contents. The file is
//! replaced only by rename. An existing file is used only if it belongs to this user or root, no other user
//! can write it, and its bytes are the same.

mod layout;

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::machine::Machine;
use crate::output::failure::Failure;
use crate::sys::{self, rlimits};

/// File name of the library.
pub const NAME: &str = "libmemfold_preload.so";

/// The library that was built together with this executable.
static EMBEDDED: &[u8] = include_bytes!(env!("MEMFOLD_PRELOAD"));
/// The directory of the written copy: a hash of its contents.
const WRITTEN: &str = env!("MEMFOLD_PRELOAD_HASH");

/// The library, at a place where programs can load it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// The file.
    pub file: PathBuf,
    /// The path that is given to the loader.
    pub entry: OsString,
}

/// Finds the library, or writes a copy.
pub fn find() -> Result<Library, Failure> {
    let is_root = nix::unistd::geteuid().is_root();
    let found = std::env::current_exe().ok().and_then(|executable| installed(&executable));
    // Root's programs may change to other users, which must be able to load the library, too.
    if let Some(file) = found.filter(|path| !is_root || is_open_to_all(path)) {
        let through = places()
            .iter()
            .filter(|place| is_possible(place))
            .find_map(|place| layout::of_file(place, &file).ok());
        // Without the links, the loader of 32-bit programs prints a message, but they run.
        let entry = through.unwrap_or_else(|| file.clone().into());
        return Ok(Library { file, entry });
    }
    let mut refused = String::new();
    for directory in places() {
        if !is_possible(&directory) {
            continue;
        }
        match layout::of_copy(&directory, WRITTEN, EMBEDDED) {
            Ok(library) => return Ok(library),
            Err(e) => refused += &format!("; {}: {e}", memfold_escape::path(directory)),
        }
    }
    if let Some(hint) = rlimits::hint(EMBEDDED.len() as u64) {
        return Err(Failure::new(format!(
            "cannot write memfold's library to a file where programs can load it: {hint}; or install memfold with 'make install'"
        )));
    }
    let other = if Machine::new().container.is_some() {
        "or give the container a directory where programs may run (--tmpfs /tmp:exec)"
    } else if is_root {
        "or mount one of these directories without noexec"
    } else {
        "or set XDG_CACHE_HOME to a directory that is not mounted noexec"
    };
    Err(Failure::new(format!(
        "cannot put memfold's library where programs can load it{refused}; install memfold with 'make install' on a file system that is not mounted noexec, {other}"
    )))
}

/// The copy that came with this executable, if it was installed that way.
fn installed(executable: &Path) -> Option<PathBuf> {
    let directory = executable.parent()?;
    [directory.join(NAME), directory.parent()?.join("lib/memfold").join(NAME)]
        .into_iter()
        .find(|path| is_possible(path) && path.is_file())
}

/// Whether every user can read a file: the file itself, and the path to it.
fn is_open_to_all(path: &Path) -> bool {
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.mode());
    mode(path) & 0o004 != 0 && path.ancestors().skip(1).all(|directory| mode(directory) & 0o001 != 0)
}

/// Whether a path can be in LD_PRELOAD, which has no quoting: spaces and colons separate entries, and `$`
/// begins a variable.
fn is_possible(path: &Path) -> bool {
    path.is_absolute()
        && !path.as_os_str().as_bytes().iter().any(|b| b.is_ascii_whitespace() || matches!(b, b':' | b'$'))
}

/// Directories for the written copy, best first.
fn places() -> Vec<PathBuf> {
    let user = nix::unistd::geteuid();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mut places = Vec::new();
    if user.is_root() {
        // Root's programs may change to other users, which have no access to root's home.
        places.push(PathBuf::from("/var/cache/memfold"));
    } else {
        places.extend(variable("XDG_CACHE_HOME").map(|p| p.join("memfold")));
        places.extend(variable("HOME").map(|p| p.join(".cache/memfold")));
        places.extend(variable("XDG_RUNTIME_DIR").map(|p| p.join("memfold")));
    }
    for shared in ["/var/tmp", "/tmp", "/dev/shm"] {
        places.push(Path::new(shared).join(format!("memfold-{user}")));
    }
    places
}

/// Makes a directory and its missing parents, regardless of the umask.
fn make_directory(directory: &Path) -> std::io::Result<()> {
    if std::fs::symlink_metadata(directory).is_err() {
        directory.parent().map_or(Ok(()), make_directory)?;
        match std::fs::DirBuilder::new().mode(0o755).create(directory) {
            Ok(()) => std::fs::set_permissions(directory, Permissions::from_mode(0o755))?,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Makes sure that the directory exists, and that no other user made it or can change it.
fn own_directory(directory: &Path) -> std::io::Result<()> {
    make_directory(directory)?;
    // Check the directory itself, not the target of a link: in a world-writable directory, any user could
    // have put a link.
    trusted(&std::fs::symlink_metadata(directory)?)
}

/// Writes `bytes` to a file in `directory`, unless the file exists with these contents.
fn extract(directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    own_directory(directory)?;
    let path = directory.join(name);
    if is_whole(&path, bytes) {
        return usable(path);
    }
    let temporary = directory.join(format!(".{name}.{}", std::process::id()));
    let written = write_new(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    usable(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Fails if a user other than this one and root may have made the file or can change it.
fn trusted(meta: &std::fs::Metadata) -> std::io::Result<()> {
    let own = [0, nix::unistd::geteuid().as_raw()].contains(&meta.uid());
    if own && meta.mode() & 0o022 == 0 && !meta.is_symlink() {
        return Ok(());
    }
    Err(std::io::Error::other("another user owns it or can write to it"))
}

fn is_whole(path: &Path, bytes: &[u8]) -> bool {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return false };
    let fits = meta.is_file() && trusted(&meta).is_ok() && meta.len() == bytes.len() as u64;
    fits && meta.mode() & 0o444 == 0o444 && std::fs::read(path).is_ok_and(|found| found == bytes)
}

fn usable(path: PathBuf) -> std::io::Result<PathBuf> {
    if sys::can_map_executable(&File::open(&path)?.into()) {
        return Ok(path);
    }
    Err(std::io::Error::other("it is mounted noexec"))
}

/// Whether a process has the library in its memory.
pub fn is_loaded_by(pid: i32) -> bool {
    const STEM: &[u8] = b"/libmemfold_preload";
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.windows(STEM.len()).any(|part| part == STEM)
}

/// The value of LD_PRELOAD: our library before the user's entries.
pub fn with_users_own(library: &std::ffi::OsStr, users: Option<&std::ffi::OsStr>) -> OsString {
    let mut value = library.to_owned();
    let entries = users.map(OsStrExt::as_bytes).unwrap_or_default();
    for entry in entries.split(|b| matches!(b, b':' | b' ')).filter(|entry| !entry.is_empty()) {
        // If memfold runs inside memfold, only the inner one manages its program.
        let name = entry.rsplit(|b| *b == b'/').next().unwrap_or(entry);
        if !name.starts_with(b"libmemfold_preload") {
            value.push(":");
            value.push(std::ffi::OsStr::from_bytes(entry));
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn written_once_and_repaired() {
        let here = tempfile::tempdir().unwrap();
        let directory = here.path().join("a/b");
        let path = extract(&directory, "x.so", &[7; 5000]).unwrap();
        let first = std::fs::metadata(&path).unwrap();
        assert_eq!(first.mode() & 0o777, 0o644);
        assert_eq!(extract(&directory, "x.so", &[7; 5000]).unwrap(), path);
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), first.ino());

        std::fs::write(&path, [8; 5000]).unwrap();
        assert_eq!(extract(&directory, "x.so", &[7; 5000]).unwrap(), path);
        assert_eq!(std::fs::read(&path).unwrap(), [7; 5000]);

        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        extract(&directory, "x.so", &[7; 5000]).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_of_somebody_else_is_not_used() {
        let here = tempfile::tempdir().unwrap();
        let open = here.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(extract(&open, "x.so", b"x").is_err());
        let link = here.path().join("link");
        std::os::unix::fs::symlink(here.path(), &link).unwrap();
        assert!(extract(&link, "x.so", b"x").is_err());
    }

    #[test]
    fn installed_copies() {
        let here = tempfile::tempdir().unwrap();
        let (bin, lib) = (here.path().join("bin"), here.path().join("lib/memfold"));
        for directory in [&bin, &lib] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let executable = bin.join("memfold");
        assert_eq!(installed(&executable), None);
        std::fs::write(lib.join(NAME), "").unwrap();
        assert_eq!(installed(&executable), Some(lib.join(NAME)));
        std::fs::write(bin.join(NAME), "").unwrap();
        assert_eq!(installed(&executable), Some(bin.join(NAME)));
    }

    #[test]
    fn a_way_that_is_closed_to_others() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("library");
        std::fs::write(&path, "").unwrap();
        let open = |file: u32, directory: u32| {
            std::fs::set_permissions(&path, Permissions::from_mode(file)).unwrap();
            std::fs::set_permissions(here.path(), Permissions::from_mode(directory)).unwrap();
            is_open_to_all(&path)
        };
        assert!(open(0o644, 0o711));
        assert!(!open(0o640, 0o711));
        assert!(!open(0o644, 0o700));
    }

    #[test]
    fn the_users_own_libraries_stay() {
        let value = |users: &str| with_users_own(OsStr::new("/x/m.so"), Some(OsStr::new(users)));
        assert_eq!(with_users_own(OsStr::new("/x/m.so"), None), "/x/m.so");
        assert_eq!(value(""), "/x/m.so");
        assert_eq!(value("/a.so b.so:/c.so"), "/x/m.so:/a.so:b.so:/c.so");
        assert_eq!(value("/old/libmemfold_preload-12.so:/a.so"), "/x/m.so:/a.so");
    }

    #[test]
    fn paths_that_cannot_be_said() {
        assert!(is_possible(Path::new("/usr/lib/x.so")));
        for bad in ["/a b/x.so", "/a:b/x.so", "/$LIB/x.so", "relative.so"] {
            assert!(!is_possible(Path::new(bad)), "{bad}");
        }
    }
}
