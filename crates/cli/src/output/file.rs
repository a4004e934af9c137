//! Output files. They are checked before the program starts and written after it has ended: an hour's run
//! must not end with "permission denied".
//!
//! A regular file appears whole or not at all: the text goes to a new file beside it, which then replaces it.
//! Until then the new file has no name, if the file system allows that, so nothing stays behind if memfold is
//! killed. If a new file is not possible (a device, a pipe, a directory that memfold may not write), the file
//! itself is opened before the start and written in place.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::linkat;

use super::failure::Failure;
use crate::sys;

/// A file to be written.
pub struct Output {
    path: PathBuf,
    way: Way,
}

enum Way {
    /// Written without a name, then linked beside `path`, then renamed to it.
    Nameless(File),
    /// Written here, then renamed to `path`.
    Beside(PathBuf, File),
    /// Written in place.
    Open(File),
}

impl Output {
    /// Makes sure that the file can be written; `option` is the option that names it.
    pub fn prepare(path: &Path, option: &str) -> Result<Self, Failure> {
        prepare(path).map_err(|e| {
            Failure::new(format!(
                "cannot write the file '{}' of {option}: {e}; give one that you may write, in a directory that exists",
                memfold_escape::path(path)
            ))
        })
    }

    /// Like [`Output::prepare`], for data that others must not read: a new file is accessible to its owner only.
    #[cfg(feature = "bench")]
    pub fn prepare_private(path: &Path, option: &str) -> Result<Self, Failure> {
        let is_new = std::fs::metadata(path).is_err();
        let output = Self::prepare(path, option)?;
        if let (true, Way::Nameless(file) | Way::Beside(_, file)) = (is_new, &output.way) {
            // The file is still empty.
            file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(|e| {
                Failure::new(format!(
                    "cannot make the file '{}' of {option} private: {e}",
                    memfold_escape::path(path)
                ))
            })?;
        }
        Ok(output)
    }

    /// The descriptor that the output keeps open.
    pub fn descriptor(&self) -> RawFd {
        match &self.way {
            Way::Nameless(file) | Way::Beside(_, file) | Way::Open(file) => file.as_raw_fd(),
        }
    }

    /// Its path, as far as links were followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file.
    pub fn write(mut self, text: &[u8]) -> std::io::Result<()> {
        self.file().write_all(text)?;
        self.finish()
    }

    /// The file, to write it in pieces; `finish` must follow.
    pub fn file(&mut self) -> &mut File {
        match &mut self.way {
            Way::Nameless(file) | Way::Beside(_, file) | Way::Open(file) => file,
        }
    }

    /// Gives the file its name, now that all of it is written.
    pub fn finish(self) -> std::io::Result<()> {
        match &self.way {
            Way::Open(_) => Ok(()),
            Way::Nameless(file) => {
                let temporary = give_name(file, &self.path)?;
                std::fs::rename(&temporary, &self.path).inspect_err(|_| {
                    let _ = std::fs::remove_file(&temporary);
                })
            }
            // If this fails, dropping `self` removes the temporary file.
            Way::Beside(temporary, _) => std::fs::rename(temporary, &self.path),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Way::Beside(temporary, _) = &self.way {
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn prepare(path: &Path) -> std::io::Result<Output> {
    if let Some(number) = descriptor_named(path) {
        let file = sys::duplicate(number)?;
        return Ok(Output { path: path.into(), way: Way::Open(file.into()) });
    }
    // A link stays a link: its target is replaced. The path is resolved now, because memfold may change its
    // directory.
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(e)?;
            let directory = match path.parent() {
                Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                Some(parent) => parent,
                None => Path::new("/"),
            };
            directory.canonicalize()?.join(name)
        }
        Err(e) => return Err(e),
    };
    let before = match std::fs::metadata(&path) {
        Ok(meta) if meta.is_dir() => return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory)),
        // A device or a pipe. A pipe under /proc/PID/fd has no canonical path, and gets here through the arm
        // for NotFound above.
        Ok(meta) if !meta.is_file() => return in_place(path),
        // `--stats PROGRAM` is a mistake for `--stats FILE PROGRAM`.
        Ok(meta) if meta.permissions().mode() & 0o111 != 0 => {
            return Err(std::io::Error::other("it exists and is executable"));
        }
        Ok(meta) => Some(meta.permissions()),
        Err(_) => None,
    };
    let is_new = before.is_none();
    if !is_new {
        // A file that may not be written must not be replaced either.
        OpenOptions::new().append(true).open(&path)?;
    }
    let like_before = |file: &File| {
        if let Some(permissions) = before {
            // A user who may write the file need not own it.
            let _ = file.set_permissions(permissions);
        }
    };
    if let Ok(file) = open_nameless(&path) {
        like_before(&file);
        return Ok(Output { path, way: Way::Nameless(above_standard(file)?) });
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    match OpenOptions::new().write(true).create_new(true).open(&temporary) {
        Ok(file) => {
            like_before(&file);
            Ok(Output { path, way: Way::Beside(temporary, above_standard(file)?) })
        }
        Err(_) if !is_new => in_place(path),
        Err(e) => Err(e),
    }
}

/// `-`, `/dev/stdout` and similar names mean the descriptor with its current file position: opening a redirected
/// standard output by name would truncate it.
fn descriptor_named(path: &Path) -> Option<RawFd> {
    match path.to_str()? {
        "/dev/stdin" => Some(0),
        "-" | "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        other => {
            let number = other.strip_prefix("/dev/fd/").or_else(|| other.strip_prefix("/proc/self/fd/"))?;
            number.parse().ok()
        }
    }
}

/// A file without a name, on the file system of `path`.
fn open_nameless(path: &Path) -> std::io::Result<File> {
    // A nameless file can get a name only through /proc.
    if !Path::new("/proc/self/fd").exists() {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let directory = path.parent().ok_or(std::io::ErrorKind::NotFound)?;
    OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(directory)
}

/// Links a nameless file beside `path` under an unused name. The name is short, because that of `path` may
/// already have the maximum length.
fn give_name(file: &File, path: &Path) -> std::io::Result<PathBuf> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut tries = 0..100;
    loop {
        let number = tries.next().ok_or(std::io::ErrorKind::AlreadyExists)?;
        let name = path.with_file_name(format!(".memfold-{}-{number}.tmp", std::process::id()));
        match linkat(AT_FDCWD, open.as_str(), AT_FDCWD, &name, AtFlags::AT_SYMLINK_FOLLOW) {
            Ok(()) => return Ok(name),
            Err(nix::errno::Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn in_place(path: PathBuf) -> std::io::Result<Output> {
    let file = OpenOptions::new().write(true).truncate(true).open(&path)?;
    Ok(Output { way: Way::Open(above_standard(file)?), path })
}

fn above_standard(file: File) -> std::io::Result<File> {
    sys::above_standard(file.into()).map(File::from)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn listing(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn appears_whole_or_not_at_all() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("stats.json");
        fs::write(&path, "old").unwrap();
        let output = prepare(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        if let Way::Nameless(_) = output.way {
            assert_eq!(listing(here.path()), ["stats.json"]);
            // An existing file of that name stays.
            fs::write(here.path().join(format!(".memfold-{}-0.tmp", std::process::id())), "theirs").unwrap();
        }
        output.write(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let theirs = here.path().join(format!(".memfold-{}-0.tmp", std::process::id()));
        if theirs.exists() {
            assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
            fs::remove_file(theirs).unwrap();
        }
        assert_eq!(listing(here.path()), ["stats.json"]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        prepare(&path).unwrap().write(b"newer").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o604);
        drop(prepare(&here.path().join("never")).unwrap());
        assert_eq!(listing(here.path()), ["stats.json"]);
    }

    #[test]
    fn the_longest_name_there_can_be() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("n".repeat(255));
        if let Ok(output) = prepare(&path) {
            output.write(b"all of it").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"all of it");
            assert_eq!(listing(here.path()).len(), 1);
        }
    }

    #[test]
    fn links_and_devices() {
        let here = tempfile::tempdir().unwrap();
        let (file, link) = (here.path().join("file"), here.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        prepare(&link).unwrap().write(b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        prepare(Path::new("/dev/null")).unwrap().write(b"gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().len() == 0);
    }

    #[test]
    fn paths_that_cannot_be_written() {
        let here = tempfile::tempdir().unwrap();
        assert!(prepare(here.path()).is_err());
        assert!(prepare(&here.path().join("no/such/directory")).is_err());
        assert!(prepare(Path::new("")).is_err());
        assert!(prepare(Path::new("/")).is_err());
        assert!(prepare(Path::new("/proc/memfold-stats")).is_err());
        assert!(prepare(Path::new("/dev/fd/987")).is_err());
        let program = here.path().join("program");
        fs::write(&program, "#!/bin/sh").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(prepare(&program).is_err());
        assert_eq!(fs::read(&program).unwrap(), b"#!/bin/sh");
    }

    #[test]
    fn a_descriptor_goes_on_where_it_is() {
        use std::io::{Read, Seek};
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before ").unwrap();
        let name = format!("/dev/fd/{}", file.as_raw_fd());
        prepare(Path::new(&name)).unwrap().write(b"after").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before after");
    }
}
