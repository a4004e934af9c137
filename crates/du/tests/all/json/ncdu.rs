//! Imports and exports, compared with the real ncdu.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use memfold_du::scan::{self, Progress};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::Tree;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use tempfile::TempDir;

use super::common::{again, entries, export, heap, with_tree};

/// The ID of a user who may not read everything.
const NOBODY: u32 = 65534;

fn ncdu(arguments: &[&OsStr], input: &[u8], is_nobody: bool) -> Vec<u8> {
    let mut command = Command::new("ncdu");
    command.args(["--ignore-config", "-0"]).args(arguments).env("HOME", "/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if is_nobody && rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("ncdu is missing: install it, as root: apt-get install ncdu")
        }
        Err(error) => panic!("ncdu does not start: {error}"),
    };
    let mut to = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        scope.spawn(move || to.write_all(input));
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn ncdu_scan(path: &Path, options: &[&str], is_nobody: bool) -> Vec<u8> {
    let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    arguments.extend([OsStr::new("-o"), OsStr::new("-"), path.as_os_str()]);
    ncdu(&arguments, b"", is_nobody)
}

/// An export, imported and exported by ncdu.
fn ncdu_again(export: &[u8]) -> Vec<u8> {
    ncdu(&["-e", "-f", "-", "-o", "-"].map(OsStr::new), export, false)
}

fn memfold_scan(path: &Path, options: &scan::Options, is_nobody: bool) -> Vec<u8> {
    let scan = || {
        if is_nobody && rustix::process::geteuid().is_root() {
            // This affects only this thread, and those that it starts.
            let nobody = rustix::fs::Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let heap = heap(16);
        let session = heap.session().unwrap();
        export(&scan::scan(path, options, &heap, &session, &Progress::default(), |_| true).unwrap())
    };
    thread::scope(|scope| scope.spawn(scan).join().unwrap())
}

/// A directory that is removed afterwards.
struct Scratch(TempDir);

impl Scratch {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Without this, only root could remove it.
        let _ = fs::set_permissions(self.path().join("closed"), fs::Permissions::from_mode(0o755));
    }
}

/// Everything that a directory may hold.
fn scratch() -> Scratch {
    let scratch = tempfile::Builder::new().prefix("memfold-json-").tempdir().unwrap();
    let root = scratch.path();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    let at = |name: &[u8]| root.join(OsStr::from_bytes(name));
    for name in ["empty", "sub/below", "other", "cache", "closed"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in [
        &b"new\nline"[..],
        b"quote\"back\\slash",
        b"control\x01\x08\x09\x0c\x0d\x1f\x7f",
        b"\xff\xfe no UTF-8 \xc3",
        "ümläut \u{1f600}".as_bytes(),
        &[b'n'; 255],
        &[0xe9; 255],
        b" ",
        b"{\"name\":\"x\"}],",
        b"\\u0041",
    ] {
        fs::write(at(name), name).unwrap();
    }
    fs::create_dir(at(b"directory\n\"\xff")).unwrap();
    fs::write(at(b"directory\n\"\xff").join("file"), [7; 70_000]).unwrap();
    fs::write(root.join("nothing"), []).unwrap();
    fs::File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    fs::write(root.join("links"), [1; 5000]).unwrap();
    for link in ["links too", "sub/links", "sub/below/links"] {
        fs::hard_link(root.join("links"), root.join(link)).unwrap();
    }
    fs::write(root.join("sub/twice"), [1; 10]).unwrap();
    fs::hard_link(root.join("sub/twice"), root.join("sub/twice more")).unwrap();
    symlink("nowhere", root.join("symbolic")).unwrap();
    for (target, name) in
        [("../links", "to links"), ("../nothing", "to nothing"), ("..", "to above"), ("/dev/null", "to null")]
    {
        symlink(target, root.join("sub").join(name)).unwrap();
    }
    rustix::fs::mknodat(CWD, root.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::write(root.join("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    fs::write(root.join("cache/much"), [1; 100_000]).unwrap();
    fs::write(root.join("closed/unseen"), [1; 100]).unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let old = std::time::UNIX_EPOCH - std::time::Duration::from_secs(86_400);
    fs::File::open(root.join("nothing")).unwrap().set_modified(old).unwrap();
    // A path longer than the system accepts.
    let mut directory = openat(CWD, root, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..25 {
        let name = [b'd'; 200];
        mkdirat(&directory, &name[..], Mode::RWXU | Mode::from_raw_mode(0o055)).unwrap();
        directory = openat(&directory, &name[..], OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    openat(&directory, "deep", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    Scratch(scratch)
}

fn same(left: &[u8], right: &[u8]) {
    let (left, right) = (entries(left), entries(right));
    let only: Vec<_> = left.symmetric_difference(&right).collect();
    assert!(only.is_empty(), "only one side has {only:#?}");
    assert!(left.len() > 50, "{} entries", left.len());
}

#[test]
fn scans_of_both_give_the_same_export() {
    let scratch = scratch();
    for extended in [false, true] {
        for is_nobody in [false, true] {
            let options = scan::Options { extended, exclude_caches: true, threads: 2, ..Default::default() };
            let ours = memfold_scan(scratch.path(), &options, is_nobody);
            let mut flags = vec!["--exclude-caches"];
            flags.extend(extended.then_some("-e"));
            let theirs = ncdu_scan(scratch.path(), &flags, is_nobody);
            same(&ours, &theirs);
            assert_eq!(ours.windows(7).any(|key| key == b"\"mtime\""), extended);
            assert!(ours.windows(9).any(|word| word == b"\"pattern\""));
        }
    }
}

#[test]
fn both_follow_links_alike() {
    let scratch = scratch();
    for one_file_system in [false, true] {
        let options =
            scan::Options { extended: true, follow_links: true, one_file_system, ..Default::default() };
        let ours = memfold_scan(scratch.path(), &options, false);
        let mut flags = vec!["-e", "-L"];
        flags.extend(one_file_system.then_some("-x"));
        same(&ours, &ncdu_scan(scratch.path(), &flags, false));
    }
}

#[test]
fn ncdu_reads_what_is_written() {
    let scratch = scratch();
    let options = scan::Options { extended: true, ..Default::default() };
    let ours = memfold_scan(scratch.path(), &options, true);
    let is_root = rustix::process::geteuid().is_root();
    assert!(ours.windows(17).any(|key| key == b"\"read_error\":true"), "{is_root}");
    same(&ours, &ncdu_again(&ours));
}

#[test]
fn exports_of_ncdu_are_read_and_written_again() {
    let scratch = scratch();
    for options in
        [&[][..], &["-e"], &["-e", "--exclude-caches", "--exclude", "links*", "--exclude", "other"]]
    {
        let theirs = ncdu_scan(scratch.path(), options, true);
        let ours = again(&theirs);
        same(&theirs, &ours);
        assert!(ours.windows(17).any(|key| key == b"\"read_error\":true"));
        same(&ours, &ncdu_again(&ours));
    }
}

/// All file systems of a machine.
#[test]
fn entries_that_ncdu_left_out_are_read() {
    let theirs = ncdu_scan(Path::new("/dev"), &["-x", "-e"], false);
    same_small(&theirs, &again(&theirs));
    let kernel = ncdu(&["-e", "-f", "-", "-o", "-"].map(OsStr::new), LEFT_OUT, false);
    same_small(LEFT_OUT, &kernel);
    same_small(&kernel, &again(&kernel));
    same_small(LEFT_OUT, &again(LEFT_OUT));
}

const LEFT_OUT: &[u8] = br#"[1,2,{},[{"name":"/","dev":1},
[{"name":"other","excluded":"otherfs"}],
[{"name":"kernel","dev":3,"excluded":"kernfs"}],
{"name":"pattern","excluded":"pattern"},
{"name":"failed","read_error":true},
[{"name":"device","dev":2},{"name":"linked","ino":7,"hlnkc":true,"nlink":2},[{"name":"same","dev":1}]],
{"name":"linked","ino":7,"hlnkc":true,"nlink":2}]]"#;

fn same_small(left: &[u8], right: &[u8]) {
    assert_eq!(entries(left), entries(right));
}

/// ncdu 1 writes them as negative numbers, and does not read its own files.
#[test]
fn owners_from_2_31_on_are_read_and_written() {
    for (written, user) in
        [(3_000_000_000_u64, 3_000_000_000), (u64::MAX - 1, u32::MAX - 1), (u64::MAX << 31, 1 << 31), (7, 7)]
    {
        let theirs = format!(
            r#"[1,2,{{}},[{{"name":"/","mode":16877}},{{"name":"f","asize":5,"uid":{written},"gid":{written},"mode":33188,"mtime":1}}]]"#
        );
        let owner = |export: &[u8]| {
            let look = |tree: &Tree<'_>| tree.entry(tree.row(ROOT).unwrap().contents(), 0).unwrap().extended;
            let extended = with_tree(export, look).unwrap().unwrap();
            (extended.user, extended.group)
        };
        assert_eq!(owner(theirs.as_bytes()), (user, user));
        let ours = again(theirs.as_bytes());
        assert_eq!(owner(&ours), (user, user));
        let kept = ncdu_again(&ours);
        assert!(kept.windows(9).any(|field| field == b"\"asize\":5"), "{}", kept.escape_ascii());
    }
    for bad in [1 << 32, (u64::MAX << 31) - 1] {
        let bad = format!(r#"[1,2,{{}},[{{"name":"/","uid":{bad}}}]]"#);
        assert!(with_tree(bad.as_bytes(), |_| ()).is_err(), "{bad}");
    }
}
