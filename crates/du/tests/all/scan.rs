//! Scans of real directories, beside what `du` says of them.

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

/// Scans a directory and lets `look` look at the tree.
fn scanned<R>(path: &Path, options: &scan::Options, look: impl FnOnce(&mut Tree<'_>) -> R) -> R {
    let heap = Heap::new(Options::new().limit(Limit::Share).block_size(16 << 10)).unwrap();
    let session = heap.session().unwrap();
    let tree = scan::scan(path, options, &heap, &session, &Progress::default(), |_| true);
    look(&mut tree.unwrap())
}

/// What `du` says of a path: bytes apparently, and on disk.
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

/// The kind of one.
fn kind(tree: &Tree<'_>, number: u32, name: &str) -> Kind {
    let all = entries(tree, number);
    all.iter().find(|(other, _)| other == name.as_bytes()).unwrap_or_else(|| panic!("{name} in {all:?}")).1
}

fn row(tree: &Tree<'_>, number: u32, name: &str) -> Row {
    let Kind::Directory(number) = kind(tree, number, name) else { panic!("{name} is no directory") };
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

/// Compares each directory with what `du` says of it.
fn compare_with_du(tree: &Tree<'_>) {
    for number in directories(tree) {
        let sum = tree.own_entry(number).unwrap().entry().sum().plus(tree.row(number).unwrap().sum());
        let path = tree.path(number).unwrap();
        assert_eq!(bytes(sum), du(&path, &[]), "{}", path.escape_ascii());
    }
}

/// Names of all kinds, files that are sparse, linked and empty, and what is no file.
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

/// Makes directories below each other, and says how each is opened.
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
    // Names in order decide which comes first: now the deep ones do, now those beside them.
    for threads in [1, 3] {
        let options = scan::Options { threads, ..options() };
        scanned(directory.path(), &options, |tree| {
            let row = tree.row(ROOT).unwrap();
            assert_eq!((row.items, row.failures), (3 * depth as u64, 0));
            assert_eq!(bytes(tree.root().entry().sum().plus(row.sum())), du(&tree.root().name, &[]));
        });
    }
    // The tests' own removal calls itself for each level.
    let _ = Command::new("rm").arg("-rf").arg(directory.path().join("n")).status();
}

/// Runs `f` in a thread that may mount what nobody else sees; `None` if the system doesn't allow that.
pub fn with_mounts<R: Send>(f: impl FnOnce() -> R + Send) -> Option<R> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            use rustix::mount::{MountPropagationFlags as Flags, mount_change};
            // SAFETY: of the things that threads can share no longer, this takes mounts only, which nobody relies on.
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

/// Where tests are run as root: makes this thread, and those that it starts, a user who may do little.
pub fn be_nobody() {
    if rustix::process::getuid().is_root() {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
    }
}

#[test]
fn mounts_are_entered_once_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    for name in ["loop", "other", "proc"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    with_mounts(|| {
        use rustix::mount::{MountFlags, mount, mount_bind_recursive};
        mount_bind_recursive(at, at.join("a/b")).unwrap();
        mount("none", at.join("other"), "tmpfs", MountFlags::empty(), c"").unwrap();
        mount("none", at.join("proc"), "proc", MountFlags::empty(), c"").unwrap();
        fs::write(at.join("other/file"), "1234").unwrap();
        let all = scan::Options { exclude_kernel: true, ..options() };
        scanned(at, &all, |tree| {
            assert_eq!(row(tree, ROOT, "proc").flags, flags::KERNEL);
            assert_eq!(row(tree, ROOT, "other").items, 1);
            let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
            assert_eq!(row(tree, a, "b").flags, flags::LOOP);
        });
        // It was asked for: its own names are shown.
        scanned(&at.join("proc"), &all, |tree| {
            assert_eq!(tree.row(ROOT).unwrap().flags & flags::KERNEL, 0);
            assert_eq!(row(tree, ROOT, "sys").flags, flags::KERNEL);
            assert_eq!(kind(tree, ROOT, "uptime"), Kind::File);
        });
        let one = scan::Options { one_file_system: true, ..options() };
        scanned(at, &one, |tree| {
            assert_eq!(kind(tree, ROOT, "proc"), Kind::OtherFileSystem);
            assert_eq!(kind(tree, ROOT, "other"), Kind::OtherFileSystem);
        });
    });
}

/// A file is itself wherever it is mounted, and files of two file systems are two, whatever their numbers.
#[test]
fn mounted_files_are_those_of_their_own_file_systems() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    for name in ["first", "second"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    with_mounts(|| {
        use rustix::mount::{MountFlags, mount, mount_bind};
        let make = |name: &str, bytes: usize| {
            mount("none", at.join(name), "tmpfs", MountFlags::empty(), c"").unwrap();
            fs::write(at.join(name).join("one"), vec![1; bytes]).unwrap();
            fs::hard_link(at.join(name).join("one"), at.join(name).join("two")).unwrap();
        };
        make("first", 100_000);
        make("second", 7_000_000);
        // Both have the same number, since each file system counts from the beginning.
        let inode = |name: &str| fs::metadata(at.join(name).join("one")).unwrap().ino();
        assert_eq!(inode("first"), inode("second"));
        for (from, to) in [("second/one", "first/mounted"), ("first/one", "mounted")] {
            fs::write(at.join(to), "").unwrap();
            mount_bind(at.join(from), at.join(to)).unwrap();
        }
        scanned(at, &options(), |tree| {
            let all = tree.row(ROOT).unwrap().size + tree.root().size;
            assert_eq!(all, du(at.as_os_str().as_bytes(), &[]).0);
            let mut link = None;
            let contents = tree.row(ROOT).unwrap().contents();
            let each = tree.each(contents, &mut |_, entry| {
                link = link.or(entry.link.filter(|_| entry.name == b"mounted"));
                Ok(())
            });
            each.unwrap();
            let link = link.unwrap();
            let names = tree.names(link.inode, link.device.unwrap()).unwrap();
            assert_eq!(names.len(), 3, "{names:?}");
            // And as an export that is read again.
            let (mut json, export) = (Vec::new(), memfold_du::json::Export { timestamp: 0, extended: false });
            memfold_du::json::write(tree, &mut json, &export, |_| true).unwrap();
            let heap = Heap::new(Options::new()).unwrap();
            let session = heap.session().unwrap();
            let (import, progress) = (memfold_du::json::Import::default(), scan::Progress::default());
            let again =
                memfold_du::json::read(&json[..], &import, &heap, &session, &progress, |_| true).unwrap();
            let sums = |row: Row| (row.sum(), row.shared(), row.items);
            assert_eq!(sums(again.row(ROOT).unwrap()), sums(tree.row(ROOT).unwrap()));
            for name in ["first", "second"] {
                assert_eq!(sums(row(&again, ROOT, name)), sums(row(tree, ROOT, name)));
            }
        });
        let one = scan::Options { one_file_system: true, ..options() };
        scanned(at, &one, |tree| assert_eq!(kind(tree, ROOT, "mounted"), Kind::OtherFileSystem));
        // Of an overlay, files are on the file systems of its layers, and stay with -x.
        for name in ["overlay", "first/lower", "second/lower"] {
            fs::create_dir(at.join(name)).unwrap();
        }
        for (layer, bytes) in [("first", 3000), ("second", 50_000)] {
            let lower = at.join(layer).join("lower");
            fs::write(lower.join(layer), vec![1; bytes]).unwrap();
            fs::hard_link(lower.join(layer), lower.join(format!("{layer} again"))).unwrap();
        }
        let path = at.display();
        let layers = CString::new(format!("lowerdir={path}/first/lower:{path}/second/lower")).unwrap();
        if let Err(error) = mount("none", at.join("overlay"), "overlay", MountFlags::empty(), &*layers) {
            return eprintln!("without an overlay: {error}");
        }
        for one_file_system in [false, true] {
            scanned(&at.join("overlay"), &scan::Options { one_file_system, ..options() }, |tree| {
                let row = tree.row(ROOT).unwrap();
                assert_eq!((row.size, row.items), (53_000, 4));
            });
        }
    });
}

/// Of this thread, s: however busy the machine is.
fn cpu_time() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// What is to be known of a file with many names is looked for once, not for each of them.
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
fn what_may_not_be_read_is_said() {
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
                // Names in "a" can be read, but nothing else of them.
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
        // The file, which has a name there, counts once with the link to it.
        assert_eq!(tree.row(d).unwrap().size, 100_000 + 2 + fs::metadata(at.join("d/empty")).unwrap().len());
        assert_eq!(kind(tree, ROOT, "dangling"), Kind::Other);
    });
    // Not the one that is asked for.
    scanned(&at.join("wide"), &options, |tree| {
        let row = tree.row(ROOT).unwrap();
        assert_eq!((row.flags, row.items), (0, 301));
        let (root, seen) = (ROOT, Progress::default());
        scan::rescan(tree, root, &options, &seen, |_| true).unwrap();
        assert_eq!(tree.row(ROOT).unwrap().items, 301);
    });
}

/// As ncdu has it, whose exports say the same: one more name of a target that has several.
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
        // All names are there, and one more.
        assert_eq!(tree.row(ROOT).unwrap().size, below.size + own + 1000);
        assert_eq!(tree.row(ROOT).unwrap().shared_size, 0);
        let (mut json, export) = (Vec::new(), memfold_du::json::Export { timestamp: 0, extended: false });
        memfold_du::json::write(tree, &mut json, &export, |_| true).unwrap();
        let device = format!("\"dev\":{}}}", fs::metadata(other).unwrap().dev());
        let json = String::from_utf8(json).unwrap();
        let line = json.lines().find(|line| line.contains("to far")).unwrap();
        assert!(line.trim_end_matches([',', ']']).ends_with(&device), "{line}");
        // What is a link goes without one of the file's own names.
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
        // It is no directory.
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

#[test]
fn directories_may_come_and_go_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let (at, stop) = (directory.path(), AtomicBool::new(false));
    make_mixed(at);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut turn = 0;
            while !stop.load(Relaxed) {
                turn += 1;
                let path = at.join(format!("a/b/c/{}", turn % 7));
                let _ = fs::create_dir_all(path.join("x/y/z"));
                let _ = fs::write(path.join("x/y/file"), "1");
                let _ = fs::remove_dir_all(at.join(format!("a/b/c/{}", (turn + 3) % 7)));
            }
        });
        for _ in 0..200 {
            scanned(at, &options(), |tree| {
                for number in directories(tree) {
                    let (mut sum, mut items) = (Sum::default(), 0);
                    tree.each(tree.row(number).unwrap().contents(), &mut |_, entry| {
                        // What counts once is beside the point here.
                        sum = sum.plus(if entry.link.is_some() { Sum::default() } else { entry.sum() });
                        items += 1;
                        if let Kind::Directory(below) = entry.kind {
                            items += tree.row(below)?.items;
                        }
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(tree.row(number).unwrap().items, items);
                    assert!(tree.row(number).unwrap().size >= sum.size);
                }
            });
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn a_directory_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    scanned(at, &options(), |tree| {
        let changes: [&dyn Fn(); 6] = [
            &|| fs::write(at.join("a/b/more"), vec![1; 70_000]).unwrap(),
            &|| fs::remove_file(at.join("a/b/c/l")).unwrap(),
            &|| fs::hard_link(at.join("d/l"), at.join("a/b/again")).unwrap(),
            &|| fs::remove_dir_all(at.join("a/b/c")).unwrap(),
            &|| (0..500).for_each(|number| fs::create_dir(at.join(format!("a/b/{number}"))).unwrap()),
            &|| fs::write(at.join("a/b/499/x"), "x").unwrap(),
        ];
        for change in changes {
            change();
            let b = {
                let Kind::Directory(a) = kind(tree, ROOT, "a") else { panic!() };
                let Kind::Directory(b) = kind(tree, a, "b") else { panic!() };
                b
            };
            scan::rescan(tree, b, &options(), &Progress::default(), |_| true).unwrap();
            compare_with_du(tree);
        }
        // The root, too, and what is stopped.
        fs::remove_dir_all(at.join("a")).unwrap();
        scan::rescan(tree, ROOT, &options(), &Progress::default(), |_| true).unwrap();
        compare_with_du(tree);
        let Kind::Directory(d) = kind(tree, ROOT, "d") else { panic!() };
        let before = tree.row(ROOT).unwrap();
        let linked = tree.row(d).unwrap();
        let stopped = scan::rescan(tree, d, &options(), &Progress::default(), |_| false);
        assert!(matches!(stopped, Err(Error::Stopped)));
        assert_eq!((tree.row(ROOT).unwrap(), tree.row(d).unwrap()), (before, linked));
        compare_with_du(tree);
        scan::rescan(tree, d, &options(), &Progress::default(), |_| true).unwrap();
        compare_with_du(tree);
        let sums = |row: Row| (row.sum(), row.shared(), row.items, row.failures);
        assert_eq!(sums(tree.row(ROOT).unwrap()), sums(before));
    });
}

/// Names that don't compress.
fn make_many(at: &Path, count: u64) {
    fs::create_dir(at).unwrap();
    let mut state = 1_u64;
    for _ in 0..count {
        let mut name = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            name += &format!("{:016x}", state ^ state >> 29);
        }
        File::create(at.join(name)).unwrap();
    }
}

#[test]
fn what_does_not_fit_leaves_the_tree_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    fs::create_dir(at.join("linked")).unwrap();
    for number in 0..500 {
        let path = at.join(format!("wide/{number} directory/x/y"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("z"), "z").unwrap();
        fs::hard_link(path.join("z"), at.join(format!("linked/{number}"))).unwrap();
    }
    let heap = Heap::new(Options::new().limit(Limit::Share).block_size(16 << 10)).unwrap();
    let session = heap.session().unwrap();
    let options = options();
    let progress = Progress::default;
    let mut tree = scan::scan(at, &options, &heap, &session, &progress(), |_| true).unwrap();
    let used = heap.stats().payload_bytes;
    let sums = |tree: &Tree<'_>| {
        let below = directories(tree).into_iter().map(|number| {
            let row = tree.row(number).unwrap();
            let links: usize = (0..3).map(|at| tree.names(at, 0).unwrap().len()).sum();
            (tree.path(number).unwrap(), row.sum(), row.shared(), row.items, row.failures, links)
        });
        below.collect::<Vec<_>>()
    };
    let rescan =
        |tree: &mut Tree<'_>, directory| scan::rescan(tree, directory, &options, &progress(), |_| true);
    let before = sums(&tree);
    let (limit, count) = (1 << 20, 20_000);
    heap.set_limit(Limit::Bytes(heap.stats().memory_bytes().max(used) + limit)).unwrap();
    // As it is, it fits twice.
    rescan(&mut tree, ROOT).unwrap();
    assert_eq!(sums(&tree), before);
    let nodes = heap.stats().nodes;
    make_many(&at.join("wide/many"), count);
    let Kind::Directory(wide) = kind(&tree, ROOT, "wide") else { panic!() };
    for directory in [ROOT, wide, ROOT] {
        let failure = rescan(&mut tree, directory).unwrap_err();
        assert!(matches!(failure, Error::NoRoom), "{failure}");
        assert!(failure.to_string().contains("does not fit into the limit beside what is shown"));
        assert_eq!(sums(&tree), before);
        // Rows that were added and are free again stay with the table, in few nodes.
        assert!(heap.stats().nodes <= nodes + 40, "{} of {nodes}", heap.stats().nodes);
    }
    fs::remove_dir_all(at.join("wide/many")).unwrap();
    for turn in 0..10 {
        let Kind::Directory(wide) = kind(&tree, ROOT, "wide") else { panic!() };
        rescan(&mut tree, [ROOT, wide][turn % 2]).unwrap();
        assert!(heap.stats().nodes <= nodes + 200, "{} of {nodes}", heap.stats().nodes);
    }
    let now = sums(&tree);
    now.iter().zip(&before).for_each(|(now, before)| assert_eq!(now, before));
    compare_with_du(&tree);
}

/// Whenever it stops, nothing of what was read stays.
#[test]
fn what_is_stopped_leaves_nothing_in_the_heap() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_mixed(at);
    for number in 0..3000 {
        fs::create_dir(at.join(format!("a/{number}"))).unwrap();
        fs::hard_link(at.join("plain"), at.join(format!("a/{number}/plain"))).unwrap();
    }
    let heap = Heap::new(Options::new().limit(Limit::Share).block_size(16 << 10)).unwrap();
    let session = heap.session().unwrap();
    let mut tree = scan::scan(at, &options(), &heap, &session, &Progress::default(), |_| true).unwrap();
    let (row, mut nodes) = (tree.row(ROOT).unwrap(), heap.stats().nodes);
    for last in [0, 1, 2, 5, 10, 20, 40, 1, 3, 0] {
        let mut ticks = 0;
        let stopped = scan::rescan(&mut tree, ROOT, &options(), &Progress::default(), |_| {
            ticks += 1;
            ticks <= last
        });
        assert!(matches!(stopped, Err(Error::Stopped)), "{last}: {stopped:?}");
        assert_eq!(tree.row(ROOT).unwrap(), row);
        // Rows of the table stay with it, and are used again.
        let now = heap.stats().nodes;
        assert!(now <= nodes + 60, "{last}: {nodes}, now {now}");
        nodes = nodes.min(now);
    }
}

#[test]
fn a_file_has_the_size_that_was_read_last_wherever_it_counts() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for name in ["a/s", "b/s"] {
        fs::create_dir_all(at.join(name)).unwrap();
    }
    fs::write(at.join("a/s/f"), "x\n").unwrap();
    fs::hard_link(at.join("a/s/f"), at.join("b/s/f")).unwrap();
    scanned(at, &options(), |tree| {
        let Kind::Directory(b) = kind(tree, ROOT, "b") else { panic!() };
        let Kind::Directory(s) = kind(tree, b, "s") else { panic!() };
        for len in [5_000_000, 1, 70_000] {
            fs::write(at.join("a/s/f"), vec![1; len]).unwrap();
            scan::rescan(tree, s, &options(), &Progress::default(), |_| true).unwrap();
            compare_with_du(tree);
            let inode = fs::metadata(at.join("a/s/f")).unwrap().ino();
            for name in tree.names(inode, 0).unwrap() {
                let entry = tree.entry(tree.row(name.directory).unwrap().contents(), name.slot).unwrap();
                assert_eq!((entry.size, name.size), (len as u64, len as u64));
                assert_eq!(entry.blocks, name.blocks);
            }
            assert_eq!(tree.row(ROOT).unwrap().shared_size, 0);
        }
    });
}
