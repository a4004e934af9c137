//! Finds the program and decides, before it starts, whether it can be managed.
//!
//! The search is that of `execvp`, which shells and `env` use. The file examined is the one that the kernel
//! will really run: for a script, its interpreter, or the interpreter's interpreter. memfold refuses only
//! programs that certainly cannot be managed. It starts a program whose file it cannot read; if the program
//! then is not managed, the supervisor reports it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::statvfs::FsFlags;
use nix::unistd::{AccessFlags, faccessat};

use super::elf::{self, Elf};
use crate::output::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::sys;

/// The directories that `execvp` searches if there is no PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The number of nested interpreters that the kernel follows.
const DEEPEST: u32 = 5;
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2010;

/// Finds a program as `execvp` does.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    find_in(name, std::env::var_os("PATH").as_deref())
}

fn find_in(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let shown = memfold_escape::path(name);
    if name.is_empty() {
        return Err(Failure::with(NOT_FOUND, "the name of the program is empty; give the program to run"));
    }
    if name.as_bytes().contains(&b'/') {
        return match judge(Path::new(name)) {
            Ok(()) => Ok(name.into()),
            Err(_) if Path::new(name).is_dir() => Err(cannot_execute(&shown, Errno::EISDIR)),
            Err(errno) => Err(cannot_execute(&shown, errno)),
        };
    }
    let mut found = Errno::ENOENT;
    for directory in path.unwrap_or(DEFAULT_PATH.as_ref()).as_bytes().split(|b| *b == b':') {
        let directory = if directory.is_empty() { b"." } else { directory };
        let candidate = Path::new(OsStr::from_bytes(directory)).join(name);
        match judge(&candidate) {
            Ok(()) => return Ok(candidate),
            // A file of that name exists: report this error unless a later directory has an executable one.
            Err(Errno::EACCES) => found = Errno::EACCES,
            Err(_) => {}
        }
    }
    Err(cannot_execute(&shown, found))
}

/// Whether the file's permissions let the kernel execute it.
fn judge(path: &Path) -> Result<(), Errno> {
    let meta = std::fs::metadata(path).map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))?;
    if !meta.is_file() {
        return Err(Errno::EACCES);
    }
    faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS)
}

/// The message for a program that cannot be executed for this reason.
pub fn cannot_execute(name: &str, errno: Errno) -> Failure {
    match errno {
        Errno::ENOENT | Errno::ENOTDIR if name.contains('/') => Failure::with(
            NOT_FOUND,
            format!(
                "cannot run '{name}': no such file (nor, if it is a script, the interpreter that its first line names); check the path"
            ),
        ),
        Errno::ENOENT | Errno::ENOTDIR => Failure::with(
            NOT_FOUND,
            format!(
                "cannot run '{name}': there is no such program in PATH; check the name, or give its path"
            ),
        ),
        Errno::EACCES => Failure::with(
            NOT_EXECUTABLE,
            format!(
                "cannot run '{name}': it exists but is not executable; if it is a program, try chmod +x, or put an interpreter before it"
            ),
        ),
        other => Failure::with(NOT_EXECUTABLE, format!("cannot run '{name}': {}", other.desc())),
    }
}

/// Refuses a program that cannot be managed. A static program passes if one of its arguments is a program
/// that can be managed, because it may only execute that one (`gosu USER PROGRAM`).
pub fn check(path: &Path, arguments: &[OsString]) -> Result<(), Failure> {
    let Err(failure) = check_to(path, path, DEEPEST) else { return Ok(()) };
    let is_static =
        File::open(path).and_then(|file| elf::examine(&file)).is_ok_and(|what| what == Elf::Static);
    let can_be = |word: &OsString| find(word).is_ok_and(|path| check_to(&path, &path, DEEPEST).is_ok());
    if is_static && arguments.iter().any(can_be) { Ok(()) } else { Err(failure) }
}

fn check_to(asked: &Path, path: &Path, depth: u32) -> Result<(), Failure> {
    // Executable but not readable: only the kernel can tell what it is.
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    let what = elf::examine(&file)
        .map_err(|e| Failure::new(format!("cannot read '{}': {e}", memfold_escape::path(path))))?;
    let about = if asked == path {
        format!("'{}'", memfold_escape::path(asked))
    } else {
        format!("'{}', which runs '{}',", memfold_escape::path(asked), memfold_escape::path(path))
    };
    match what {
        Elf::No if depth > 0 => match interpreters(&mut file) {
            Some(next) => next.iter().try_for_each(|next| check_to(asked, next, depth - 1)),
            None => Ok(()),
        },
        Elf::No | Elf::Broken => Ok(()),
        Elf::Static if is_loader(path) => Ok(()),
        Elf::Static => Err(Failure::new(format!(
            "{about} is statically linked: the loader, which would load memfold's library, never runs, so it cannot be managed; link it dynamically (without -static), or use a dynamically linked build; if it only starts another program, let it start memfold ({name} ... memfold run -- PROGRAM)",
            name = memfold_escape::path(path.file_name().unwrap_or_default()),
        ))),
        Elf::Foreign(kind) => Err(Failure::new(format!(
            "{about} is a program for {kind}, but this memfold is for 64-bit {}: it cannot be managed; use a build for this machine",
            std::env::consts::ARCH
        ))),
        Elf::Dynamic(loader) if loader.contains("ld-musl") => Err(Failure::new(format!(
            "{about} is linked with the musl C library ({loader}), but memfold's library needs glibc: it cannot be managed; use a glibc build"
        ))),
        Elf::Dynamic(_) => check_privileges(&about, &file, path),
    }
}

/// Whether the program is the loader, which may be run with a program as its argument. It has no interpreter,
/// but loads preload libraries all the same.
fn is_loader(path: &Path) -> bool {
    let own = File::open("/proc/self/exe").and_then(|file| elf::examine(&file));
    let Ok(Elf::Dynamic(loader)) = own else { return false };
    matches!((std::fs::canonicalize(path), std::fs::canonicalize(loader)), (Ok(a), Ok(b)) if a == b)
}

/// Refuses a program that gains privileges when it starts, because the loader then ignores the preload
/// library.
fn check_privileges(about: &str, file: &File, path: &Path) -> Result<(), Failure> {
    let Ok(meta) = file.metadata() else { return Ok(()) };
    let ineffective = nix::sys::statvfs::fstatvfs(file).is_ok_and(|s| s.flags().contains(FsFlags::ST_NOSUID))
        || nix::sys::prctl::get_no_new_privs().unwrap_or(false);
    if ineffective {
        return Ok(());
    }
    let (user, group) = (nix::unistd::getuid(), nix::unistd::getgid());
    let gains = if meta.mode() & SET_UID != 0 && meta.uid() != user.as_raw() {
        "is set-user-id"
    } else if meta.mode() & SET_GID == SET_GID && meta.gid() != group.as_raw() {
        "is set-group-id"
    } else if !user.is_root() && sys::has_attribute(path, c"security.capability") {
        "has file capabilities"
    } else {
        return Ok(());
    };
    Err(Failure::new(format!(
        "{about} {gains}: for such programs the loader ignores preloaded libraries, so it cannot be managed; if it starts another program, let it start memfold ({} ... memfold run -- PROGRAM), otherwise run memfold as the user that it changes to",
        memfold_escape::path(path.file_name().unwrap_or_default())
    )))
}

/// The programs that a script's first line will run: its interpreter and, for `env`, also the program that
/// `env` will find. None if the file is not a script.
fn interpreters(file: &mut File) -> Option<Vec<PathBuf>> {
    let mut start = Vec::new();
    file.take(512).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    let mut found = Vec::new();
    if first.file_name() == Some(OsStr::new("env")) {
        let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        found.extend(named.and_then(|name| find(OsStr::from_bytes(name)).ok()));
    }
    found.push(first);
    Some(found)
}

/// The reason for a process that is not managed although nothing in its file prevents it.
pub const WITHOUT_ENVIRONMENT: &str = "started without memfold's environment";

/// Why a running process of the tree cannot be managed, as far as its file shows.
pub fn why_not_managed(executable: &Path) -> &'static str {
    let Ok(file) = File::open(executable) else { return "its file cannot be read" };
    match elf::examine(&file) {
        Ok(Elf::Static) => "statically linked",
        Ok(Elf::Foreign(_)) => "made for another kind of machine",
        Ok(Elf::Dynamic(loader)) if loader.contains("ld-musl") => "linked with musl",
        Ok(Elf::Dynamic(_)) if check_privileges("", &file, executable).is_err() => "set-user-id or the like",
        _ => WITHOUT_ENVIRONMENT,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_search_goes_on_and_remembers() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        script(first.path(), "tool", "", 0o644);
        fs::create_dir(first.path().join("thing")).unwrap();
        let good = script(second.path(), "tool", "", 0o755);
        let path =
            OsString::from(format!("/nonexistent:{}:{}", first.path().display(), second.path().display()));
        assert_eq!(find_in("tool".as_ref(), Some(&path)), Ok(good));
        let status = |name: &str| find_in(name.as_ref(), Some(&path)).unwrap_err().status;
        assert_eq!(status("thing"), NOT_EXECUTABLE);
        assert_eq!(status("absent"), NOT_FOUND);
        assert_eq!(status(""), NOT_FOUND);
        assert_eq!(status("/etc/passwd/x"), NOT_FOUND);
        assert_eq!(status("/tmp"), NOT_EXECUTABLE);
        assert_eq!(find_in("sh".as_ref(), None), Ok("/bin/sh".into()));
    }

    #[test]
    fn scripts_are_followed() {
        let here = tempfile::tempdir().unwrap();
        let ways = |text: &str| {
            let path = script(here.path(), "script", text, 0o755);
            interpreters(&mut File::open(path).unwrap())
        };
        assert_eq!(ways("#! /bin/sh -e\n"), Some(vec!["/bin/sh".into()]));
        assert_eq!(ways("#!/usr/bin/env -S A=1 cat -u\n").unwrap().last(), Some(&"/usr/bin/env".into()));
        assert_eq!(ways("#!/usr/bin/env -S A=1 cat -u\n").unwrap().len(), 2);
        assert_eq!(ways("echo\n"), None);
        assert_eq!(ways("#!\n"), None);
        let own = script(here.path(), "loop", "", 0o755);
        fs::write(&own, format!("#!{}\n", own.display())).unwrap();
        assert_eq!(check(&own, &[]), Ok(()));
    }

    #[test]
    fn ordinary_programs_pass() {
        check(Path::new("/bin/sh"), &[]).unwrap();
        check(Path::new("/proc/self/exe"), &[]).unwrap();
        let file = File::open("/proc/self/exe").unwrap();
        let Elf::Dynamic(loader) = elf::examine(&file).unwrap() else { panic!() };
        check(Path::new(&loader), &[]).unwrap();
    }
}
