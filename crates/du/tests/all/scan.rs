//! Scans of real directories, compared with `du`.

mod again;
mod mounts;

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memfold::heap::{Heap, Limit, Options};
use memfold_du::Error;
use memfold_du::entry::{BLOCK, Entry, Kind, Sum};
use memfold_du::scan::exclude::Exclude;
use memfold_du::scan::{self, Progress};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::{Row, Tree, flags};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::time::{ClockId, clock_gettime};

fn options() -> scan::Options {
    scan::Options { threads: 2, ..scan::Options::default() }
}

/// Scans a directory and calls `look` with the tree.
fn scanned<R>(path: &Path, options: &scan::Options, look: impl FnOnce(&mut Tree<'_>) -> R) -> R {
    let heap = Heap::new(Options::new().limit(Limit::Share).block_size(16 << 10)).unwrap();
    let session = heap.session().unwrap();
    let tree = scan::scan(path, options, &heap, &session, &Progress::default(), |_| true);
    look(&mut tree.unwrap())
}

/// The sizes that `du` reports for a path: apparent bytes, and bytes on disk.
fn du(path: &[u8], extra: &[&str]) -> (u64, u64) {
    let size = |apparent: &[&str]| {
        let path = OsStr::from_bytes(path);
        let output = Command::new("du")
            .args(["-s", "-0", "-B1"])
            .args(extra)
            .args(apparent)
            .arg(path)
            .output()
            .unwrap();
        let digits: String =
            output.stdout.iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("du: {}", String::from_utf8_lossy(&output.stderr)))
    };
    (size(&["--apparent-size"]), size(&[]))
}

fn bytes(sum: Sum) -> (u64, u64) {
    (sum.size, sum.blocks * BLOCK)
}

/// The entries of a directory.
fn entries(tree: &Tree<'_>, number: u32) -> Vec<(Vec<u8>, Kind)> {
    let mut all = Vec::new();
    let mut look = |_, entry: &Entry<'_>| {
        all.push((entry.name.to_vec(), entry.kind));
        Ok(())
    };
    tree.each(tree.row(number).unwrap().contents(), &mut look).unwrap();
    all
}

/// The kind of the entry with a name.
fn kind(tree: &Tree<'_>, number: u32, name: &str) -> Kind {
    let all = entries(tree, number);
    all.iter().find(|(other, _)| other == name.as_bytes()).unwrap_or_else(|| panic!("{name} in {all:?}")).1
}

fn row(tree: &Tree<'_>, number: u32, name: &str) -> Row {
    let Kind::Directory(number) = kind(tree, number, name) else { panic!("{name} is not a directory") };
    tree.row(number).unwrap()
}

/// Every directory's number.
fn directories(tree: &Tree<'_>) -> Vec<u32> {
    let mut all = vec![ROOT];
    let mut next = 0;
    while next < all.len() {
        let below = entries(tree, all[next]);
        all.extend(below.iter().filter_map(|(_, kind)| match kind {
            Kind::Directory(number) => Some(*number),
            _ => None,
        }));
        next += 1;
    }
    all
}

/// Compares each directory with the sizes that `du` reports.
fn compare_with_du(tree: &Tree<'_>) {
    for number in directories(tree) {
        let sum = tree.own_entry(number).unwrap().entry().sum().plus(tree.row(number).unwrap().sum());
        let path = tree.path(number).unwrap();
        assert_eq!(bytes(sum), du(&path, &[]), "{}", path.escape_ascii());
    }
}

/// Makes names of all kinds, sparse, linked and empty files, and non-files.
fn make_mixed(at: &Path) {
    let write = |name: &[u8], len: usize| fs::write(at.join(OsStr::from_bytes(name)), vec![7; len]).unwrap();
    for (name, len) in
        [(&b"plain"[..], 5000), (b"new\nline", 1), (b"\xff\xfe not utf-8", 4096), (b"-rf", 0), (b" ", 17)]
    {
        write(name, len);
    }
    write(&[b'n'; 255], 3);
    File::create(at.join("sparse")).unwrap().set_len(10 << 30).unwrap();
    for below in ["a", "a/b", "a/b/c", "d", "d/empty", "wide"] {
        fs::create_dir(at.join(below)).unwrap();
    }
    fs::write(at.join("a/linked"), vec![1; 100_000]).unwrap();
    for name in ["a/linked too", "a/b/c/l", "d/l"] {
        fs::hard_link(at.join("a/linked"), at.join(name)).unwrap();
    }
    fs::write(at.join("a/b/two"), vec![1; 50_000]).unwrap();
    fs::hard_link(at.join("a/b/two"), at.join("a/b/c/two")).unwrap();
    symlink("nowhere", at.join("dangling")).unwrap();
    symlink("../a/linked", at.join("d/to a file")).unwrap();
    symlink("..", at.join("d/up")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    for number in 0..300 {
        fs::write(at.join(format!("wide/{number}")), vec![0; number]).unwrap();
    }
}

#[test]
fn sizes_are_those_of_du() {
    let directory = tempfile::tempdir().unwrap();
    make_mixed(directory.path());
    for threads in [1, 4] {
        let options = scan::Options { threads, extended: threads == 4, ..options() };
        scanned(directory.path(), &options, |tree| {
            compare_with_du(tree);
            let found = fs::metadata(directory.path().join("a")).unwrap();
            let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
            let entry = tree.own_entry(a).unwrap();
            assert_eq!(
                entry.extended.map(|extended| extended.modified),
                (threads == 4).then_some(found.mtime())
            );
        });
    }
}

#[test]
fn links_are_known_by_all_their_names() {
    let directory = tempfile::tempdir().unwrap();
    make_mixed(directory.path());
    scanned(directory.path(), &options(), |tree| {
        let inode = fs::metadata(directory.path().join("d/l")).unwrap().ino();
        let names = tree.names(inode, row(tree, ROOT, "a").device).unwrap();
        let mut paths: Vec<Vec<u8>> = names
            .iter()
            .map(|name| {
                let entry = tree.entry(tree.row(name.directory).unwrap().contents(), name.slot).unwrap();
                [&tree.path(name.directory).unwrap()[directory.path().as_os_str().len()..], b"/", &entry.name]
                    .concat()
            })
            .collect();
        paths.sort();
        let expected =
            ["/a/b/c/l", "/a/linked", "/a/linked too", "/d/l"].map(|path| path.as_bytes().to_vec());
        assert_eq!(paths, expected);
        // "a" has all names of one file, and three of another one's four.
        assert_eq!(row(tree, ROOT, "a").shared().size, 100_000);
        assert_eq!(tree.row(ROOT).unwrap().shared().size, 0);
    });
}

/// Makes a chain of nested directories, with entries beside them if `beside`.
fn make_deep(at: &Path, depth: usize, name: &[u8], beside: bool) {
    let mut open: OwnedFd = File::open(at).unwrap().into();
    let name = CString::new(name).unwrap();
    for _ in 0..depth {
        let all = Mode::RWXU;
        mkdirat(&open, &name, all).unwrap();
        if beside {
            mkdirat(&open, c"beside", all).unwrap();
            let flags = OFlags::CREATE | OFlags::WRONLY;
            let file = openat(&open, c"beside/file", flags, Mode::RUSR).unwrap();
            rustix::io::write(&file, b"12345").unwrap();
        }
        open = openat(&open, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

#[test]
fn paths_may_be_longer_than_the_system_takes() {
    let directory = tempfile::tempdir().unwrap();
    make_deep(directory.path(), 60, &[b'd'; 200], false);
    scanned(directory.path(), &options(), |tree| {
        assert_eq!(
            bytes(tree.root().entry().sum().plus(tree.row(ROOT).unwrap().sum())),
            du(&tree.root().name, &[])
        );
        let deepest = *directories(tree).last().unwrap();
        assert_eq!(tree.path(deepest).unwrap().len(), directory.path().as_os_str().len() + 60 * 201);
    });
}

#[test]
fn more_directories_wait_than_may_be_open() {
    let directory = tempfile::tempdir().unwrap();
    let depth = 700;
    make_deep(directory.path(), depth, b"n", true);
    // The order of names decides which come first: the deep ones or those beside them.
    for threads in [1, 3] {
        let options = scan::Options { threads, ..options() };
        scanned(directory.path(), &options, |tree| {
            let row = tree.row(ROOT).unwrap();
            assert_eq!((row.items, row.failures), (3 * depth as u64, 0));
            assert_eq!(bytes(tree.root().entry().sum().plus(row.sum())), du(&tree.root().name, &[]));
        });
    }
    // `TempDir` would recurse into each level.
    let _ = Command::new("rm").arg("-rf").arg(directory.path().join("n")).status();
}

/// Runs `f` in a thread with private mounts; `None` if the system does not allow that.
pub fn with_mounts<R: Send>(f: impl FnOnce() -> R + Send) -> Option<R> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            use rustix::mount::{MountPropagationFlags as Flags, mount_change};
            // SAFETY: this stops sharing only mounts with the other threads, and nothing relies on them being
            // shared.
            let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
            let result = unshared.and_then(|()| mount_change("/", Flags::PRIVATE | Flags::REC));
            if let Err(error) = result {
                eprintln!("skipped, since nothing can be mounted here: {error}");
                return None;
            }
            Some(f())
        });
        thread.join().unwrap()
    })
}

/// If tests run as root, makes this thread, and those that it starts, an unprivileged user.
pub fn be_nobody() {
    if rustix::process::getuid().is_root() {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
    }
}

/// The CPU time of this thread in seconds, which does not depend on the machine's load.
fn cpu_time() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The names of a file with many names are looked up once, not for each of them.
#[test]
fn many_names_of_one_file_take_no_longer_than_many_files() {
    const NAMES: usize = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for name in ["a", "b"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    fs::write(at.join("a/0"), vec![1; 10_000]).unwrap();
    for number in 1..2 * NAMES {
        let above = if number < NAMES { "a" } else { "b" };
        fs::hard_link(at.join("a/0"), at.join(above).join(number.to_string())).unwrap();
    }
    scanned(at, &options(), |tree| {
        let sums = |tree: &Tree<'_>| {
            let row = tree.row(ROOT).unwrap();
            (
                row.size,
                row.shared_size,
                row.items,
                tree.names(fs::metadata(at.join("a/0")).unwrap().ino(), 0).unwrap().len(),
            )
        };
        let before = sums(tree);
        assert_eq!(before.3, 2 * NAMES);
        let began = cpu_time();
        let Kind::Directory(b) = kind(tree, ROOT, "b") else { panic!() };
        scan::rescan(tree, b, &options(), &Progress::default(), |_| true).unwrap();
        assert_eq!(sums(tree), before);
        let slot = entries(tree, ROOT).iter().position(|(name, _)| name == b"b").unwrap();
        tree.remove(ROOT, slot as u32).unwrap();
        let own = fs::metadata(at.join("a")).unwrap().len();
        assert_eq!(sums(tree), (10_000 + own, 0, NAMES as u64 + 1, NAMES));
        // It took a minute when all names were fetched for each.
        let took = cpu_time() - began;
        assert!(took < 5.0, "{took} s");
    });
}

#[test]
fn unreadable_directories_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    make_mixed(directory.path());
    let closed = directory.path().join("d");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(directory.path().join("a"), fs::Permissions::from_mode(0o744)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            be_nobody();
            scanned(directory.path(), &options(), |tree| {
                let d = row(tree, ROOT, "d");
                assert_eq!((d.flags, d.error, d.items), (flags::FAILED, libc_eacces(), 0));
                // Names in "a" can be read, but not their attributes.
                let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
                if !rustix::process::getuid().is_root() {
                    assert_eq!(entries(tree, a).len(), 3);
                }
                let root = tree.row(ROOT).unwrap();
                assert!(root.failures >= 1, "{root:?}");
                assert_eq!(root.failures, 1 + tree.row(a).unwrap().failures);
            });
        });
        thread.join().unwrap();
    });
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

fn libc_eacces() -> u16 {
    rustix::io::Errno::ACCESS.raw_os_error() as u16
}

#[test]
fn caches_are_left_out_and_links_followed_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    fs::write(at.join("wide/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n# a cache")
        .unwrap();
    fs::write(at.join("a/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc56").unwrap();
    let options = scan::Options { exclude_caches: true, follow_links: true, ..options() };
    scanned(at, &options, |tree| {
        assert_eq!((row(tree, ROOT, "wide").flags, row(tree, ROOT, "wide").items), (flags::CACHE, 0));
        assert_eq!(row(tree, ROOT, "a").flags, 0);
        let Kind::Directory(d) = kind(tree, ROOT, "d") else { panic!() };
        assert_eq!(kind(tree, d, "to a file"), Kind::File);
        assert_eq!(kind(tree, d, "up"), Kind::Other);
        // The file, which has a name in this directory, and the link to it count once.
        assert_eq!(tree.row(d).unwrap().size, 100_000 + 2 + fs::metadata(at.join("d/empty")).unwrap().len());
        assert_eq!(kind(tree, ROOT, "dangling"), Kind::Other);
    });
    // The scanned directory itself is not left out.
    scanned(&at.join("wide"), &options, |tree| {
        let row = tree.row(ROOT).unwrap();
        assert_eq!((row.flags, row.items), (0, 301));
        let (root, seen) = (ROOT, Progress::default());
        scan::rescan(tree, root, &options, &seen, |_| true).unwrap();
        assert_eq!(tree.row(ROOT).unwrap().items, 301);
    });
}

/// As in ncdu and its exports: a followed link is one more name of a target that has several.
#[test]
fn links_that_are_followed_count_with_the_names_of_their_targets() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let (at, other) = (directory.path(), other.path());
    assert_ne!(fs::metadata(at).unwrap().dev(), fs::metadata(other).unwrap().dev());
    for (path, len) in [(at.join("one"), 1000), (at.join("two"), 20_000), (other.join("far"), 300_000)] {
        fs::write(path, vec![1; len]).unwrap();
    }
    fs::create_dir(at.join("a")).unwrap();
    fs::hard_link(at.join("two"), at.join("a/two")).unwrap();
    for (target, name) in [("../two", "to two"), ("../one", "to one"), ("to one", "to that")] {
        symlink(target, at.join("a").join(name)).unwrap();
    }
    symlink(other.join("far"), at.join("a/to far")).unwrap();
    let own = fs::metadata(at.join("a")).unwrap().len();
    let follow = scan::Options { follow_links: true, ..options() };
    scanned(at, &follow, |tree| {
        let below = row(tree, ROOT, "a");
        assert_eq!(below.size, 300_000 + 20_000 + 2 * 1000);
        // All names are in the tree, and one more.
        assert_eq!(tree.row(ROOT).unwrap().size, below.size + own + 1000);
        assert_eq!(tree.row(ROOT).unwrap().shared_size, 0);
        let (mut json, export) = (Vec::new(), memfold_du::json::Export { timestamp: 0, extended: false });
        memfold_du::json::write(tree, &mut json, &export, |_| true).unwrap();
        let device = format!("\"dev\":{}}}", fs::metadata(other).unwrap().dev());
        let json = String::from_utf8(json).unwrap();
        let line = json.lines().find(|line| line.contains("to far")).unwrap();
        assert!(line.trim_end_matches([',', ']']).ends_with(&device), "{line}");
        // Removing the link does not remove one of the file's own names.
        let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
        let slot = |name: &str| entries(tree, a).iter().position(|(other, _)| other == name.as_bytes());
        let slot = slot("to two").unwrap() as u32;
        tree.remove(a, slot).unwrap();
        let inode = fs::metadata(at.join("two")).unwrap().ino();
        assert!(tree.names(inode, 0).unwrap().iter().all(|name| name.names == 2));
    });
    let one = scan::Options { one_file_system: true, ..follow };
    scanned(at, &one, |tree| {
        let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
        assert_eq!(kind(tree, a, "to far"), Kind::OtherFileSystem);
        assert_eq!(kind(tree, a, "to two"), Kind::File);
        assert_eq!(row(tree, ROOT, "a").size, 20_000 + 2 * 1000);
        let (mut json, export) = (Vec::new(), memfold_du::json::Export { timestamp: 0, extended: false });
        memfold_du::json::write(tree, &mut json, &export, |_| true).unwrap();
        // It is not a directory.
        let json = String::from_utf8(json).unwrap();
        assert!(json.lines().any(|line| line.starts_with("{\"name\":\"to far\",\"dev\":")), "{json}");
    });
}

#[test]
fn patterns_leave_names_out() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    let place = format!("{}/a/*", at.to_str().unwrap());
    let exclude = Exclude::new(["*1", "b/c", "d", &place[..]]);
    scanned(at, &scan::Options { exclude, ..options() }, |tree| {
        assert_eq!(kind(tree, ROOT, "d"), Kind::Excluded);
        assert_eq!(row(tree, ROOT, "wide").items, 300);
        let Kind::Directory(wide) = kind(tree, ROOT, "wide") else { panic!() };
        assert_eq!((kind(tree, wide, "31"), kind(tree, wide, "32")), (Kind::Excluded, Kind::File));
        let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
        assert!(entries(tree, a).iter().all(|(_, kind)| *kind == Kind::Excluded));
        assert_eq!(tree.row(a).unwrap().sum(), Sum::default());
    });
}
