//! Deletes in scratch trees, and checks what must not be deleted.

mod refused;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use memfold::heap::{Heap, Limit, Options};
use memfold_du::delete::{self, Event, Failure};
use memfold_du::entry::Kind;
use memfold_du::scan::{self, Progress};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::Tree;

fn options() -> scan::Options {
    scan::Options { threads: 2, ..scan::Options::default() }
}

fn scanned<R>(path: &Path, look: impl FnOnce(&mut Tree<'_>) -> R) -> R {
    scanned_with(path, &options(), look)
}

fn scanned_with<R>(path: &Path, options: &scan::Options, look: impl FnOnce(&mut Tree<'_>) -> R) -> R {
    let heap = Heap::new(Options::new().limit(Limit::Share).block_size(16 << 10)).unwrap();
    let session = heap.session().unwrap();
    look(&mut scan::scan(path, options, &heap, &session, &Progress::default(), |_| true).unwrap())
}

/// The directory and slot of a path in a tree.
fn find(tree: &Tree<'_>, path: &str) -> (u32, u32) {
    let (mut directory, mut found) = (ROOT, None);
    for name in path.split('/') {
        found = None;
        tree.each(tree.row(directory).unwrap().contents(), &mut |slot, entry| {
            if entry.name == name.as_bytes() {
                found = Some((directory, slot, entry.kind));
            }
            Ok(())
        })
        .unwrap();
        if let Some((_, _, Kind::Directory(number))) = found {
            directory = number;
        }
    }
    let (directory, slot, _) = found.unwrap_or_else(|| panic!("no {path}"));
    (directory, slot)
}

fn make(at: &Path) {
    for below in ["a/b/c", "a/b/d", "keep"] {
        fs::create_dir_all(at.join(below)).unwrap();
    }
    fs::write(at.join("keep/file"), "precious").unwrap();
    for number in 0..200 {
        fs::write(at.join(format!("a/b/{number}")), vec![1; number]).unwrap();
    }
    fs::write(at.join(OsStr::from_bytes(b"a/b/c/\xff\n")), "odd").unwrap();
    fs::hard_link(at.join("keep/file"), at.join("a/linked")).unwrap();
    symlink("../../keep", at.join("a/b/link to a directory")).unwrap();
    symlink("../../keep/file", at.join("a/b/link to a file")).unwrap();
}

/// All paths with type, size and number of links, for comparison.
fn everything(at: &Path) -> Vec<u8> {
    let output = Command::new("find").arg(at).args(["-printf", "%P %y %s %n\\0"]).output().unwrap();
    let mut all: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    all.sort();
    all.join(&0)
}

/// Deletes a path; a reported failure fails the test.
fn remove(tree: &mut Tree<'_>, path: &str) -> Result<(), Failure> {
    remove_with(tree, path, &options(), |event| {
        assert!(matches!(event, Event::Step(_)), "{event:?}");
        true
    })
}

fn remove_with(
    tree: &mut Tree<'_>,
    path: &str,
    options: &scan::Options,
    mut tell: impl FnMut(Event<'_>) -> bool,
) -> Result<(), Failure> {
    let (directory, slot) = find(tree, path);
    delete::delete(tree, directory, slot, options, &mut tell)
}

/// Checks that a tree equals a new scan.
#[track_caller]
fn is_as_scanned(tree: &Tree<'_>, at: &Path, options: &scan::Options) {
    fn look(tree: &Tree<'_>, directory: u32, path: &str, all: &mut Vec<String>) {
        let row = tree.row(directory).unwrap();
        let sums = (row.sum(), row.shared(), row.items, row.failures, row.modified, row.flags, row.error);
        all.push(format!("{path} {sums:?}"));
        let mut below = Vec::new();
        tree.each(row.contents(), &mut |_, entry| {
            let path = format!("{path}/{}", entry.name.escape_ascii());
            let (kind, extended) = (entry.kind, entry.extended);
            match kind {
                Kind::Gone => (),
                Kind::Directory(number) => {
                    all.push(format!("{path} {} {extended:?}", entry.size));
                    below.push((number, path));
                }
                _ => {
                    all.push(format!("{path} {kind:?} {} {extended:?}", entry.size));
                }
            }
            Ok(())
        })
        .unwrap();
        below.into_iter().for_each(|(number, path)| look(tree, number, &path, all));
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    look(tree, ROOT, "", &mut here);
    scanned_with(at, options, |tree| look(tree, ROOT, "", &mut there));
    here.iter().zip(&there).for_each(|(here, there)| assert_eq!(here, there));
    assert_eq!(here.len(), there.len());
}

#[test]
fn a_directory_goes_with_all_in_it_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    scanned(scratch.path(), |tree| {
        remove(tree, "a/b/link to a directory").unwrap();
        remove(tree, "a/b/17").unwrap();
        assert!(!scratch.path().join("a/b/17").exists() && scratch.path().join("a/b/18").exists());
        remove(tree, "a").unwrap();
        assert!(!scratch.path().join("a").exists());
        assert_eq!(fs::read(scratch.path().join("keep/file")).unwrap(), b"precious");
        let row = tree.row(ROOT).unwrap();
        let keep = fs::metadata(scratch.path().join("keep")).unwrap().len();
        assert_eq!((row.items, row.size, row.shared_size), (2, keep + 8, 0));
    });
}

/// What is changed, how, and whether it must be detected as a change or as something not shown.
type Change = (&'static str, fn(&Path), &'static str);

#[test]
fn it_stops_when_asked() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    scanned(scratch.path(), |tree| {
        let before = everything(scratch.path());
        let stopped = remove_with(tree, "a", &options(), |_| false);
        assert!(matches!(stopped, Err(Failure::Stopped)));
        assert!(everything(scratch.path()) == before);
    });
}

#[test]
fn paths_may_be_longer_than_the_system_takes() {
    let scratch = tempfile::tempdir().unwrap();
    let script = "mkdir deep && cd deep && for i in $(seq 60); do n=$(printf 'd%.0s' $(seq 200)); mkdir $n && cd $n && echo x >f; done";
    assert!(
        Command::new("bash").args(["-c", script]).current_dir(scratch.path()).status().unwrap().success()
    );
    scanned(scratch.path(), |tree| {
        assert_eq!(tree.row(ROOT).unwrap().items, 121);
        remove(tree, "deep").unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(tree.row(ROOT).unwrap().items, 0);
    });
}

#[test]
fn deletions_before_a_stop_are_reported() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    let options = scan::Options { extended: true, ..options() };
    scanned_with(scratch.path(), &options, |tree| {
        let before = tree.row(ROOT).unwrap().items;
        let failure = remove_with(
            tree,
            "a",
            &options,
            |event| matches!(event, Event::Step(progress) if progress.deleted == 0),
        )
        .unwrap_err();
        assert!(matches!(&failure, Failure::Partly(why) if matches!(**why, Failure::Stopped)), "{failure}");
        assert!(tree.row(ROOT).unwrap().items < before);
        is_as_scanned(tree, scratch.path(), &options);
        // The rest can be deleted, since it was read again.
        remove_with(tree, "a", &options, |_| true).unwrap();
        assert!(!scratch.path().join("a").exists());
        assert_eq!(tree.row(ROOT).unwrap().items, 2);
    });
}

/// Anyone who may write above the root can put another directory in its place, whose contents equal the
/// tree's in name, kind and length.
#[test]
fn another_root_is_neither_deleted_from_nor_read_again() {
    type Change = (&'static str, fn(&Path));
    let changes: [Change; 4] = [
        ("a link for the root", |at| {
            fs::rename(at.join("home/user/stuff"), at.join("home/user/moved")).unwrap();
            symlink("../../etc", at.join("home/user/stuff")).unwrap();
        }),
        ("a link above the root", |at| {
            fs::rename(at.join("home/user"), at.join("home/moved")).unwrap();
            fs::create_dir(at.join("etc/stuff")).unwrap();
            fs::rename(at.join("etc/conf"), at.join("etc/stuff/conf")).unwrap();
            symlink("../etc", at.join("home/user")).unwrap();
        }),
        ("a directory for the root", |at| {
            fs::rename(at.join("home/user/stuff"), at.join("home/user/moved")).unwrap();
            fs::rename(at.join("etc"), at.join("home/user/stuff")).unwrap();
        }),
        ("nothing for the root", |at| {
            fs::rename(at.join("home/user/stuff"), at.join("home/user/moved")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let scratch = tempfile::tempdir().unwrap();
        let (at, root) = (scratch.path(), scratch.path().join("home/user/stuff"));
        for (directory, text) in [("home/user/stuff/conf", "shown.."), ("etc/conf", "secret\n")] {
            fs::create_dir_all(at.join(directory)).unwrap();
            fs::write(at.join(directory).join("passwd"), text).unwrap();
        }
        scanned(&root, |tree| {
            change(at);
            let (before, row) = (everything(at), tree.row(ROOT).unwrap());
            let (_, slot) = find(tree, "conf");
            let Kind::Directory(conf) = tree.entry(row.contents(), slot).unwrap().kind else { panic!() };
            let again = |tree: &mut Tree<'_>, directory| {
                scan::rescan(tree, directory, &scan::Options::default(), &Progress::default(), |_| true)
            };
            let failures = [
                remove(tree, "conf").unwrap_err().to_string(),
                remove(tree, "conf/passwd").unwrap_err().to_string(),
                again(tree, conf).unwrap_err().to_string(),
                again(tree, ROOT).unwrap_err().to_string(),
            ];
            let says = match what {
                "nothing for the root" => "stuff: No such file or directory",
                _ => "stuff is not the directory that was scanned",
            };
            for failure in failures {
                assert!(failure.contains(says), "{what}: {failure}");
            }
            assert!(everything(at) == before, "{what}: something was deleted");
            assert_eq!(tree.row(ROOT).unwrap(), row, "{what}");
            // With the original directory back in its place, both work again.
            if what == "a link for the root" {
                fs::remove_file(&root).unwrap();
                fs::rename(at.join("home/user/moved"), &root).unwrap();
                again(tree, ROOT).unwrap();
                remove(tree, "conf").unwrap();
            }
        });
    }
}

#[test]
fn a_directory_that_could_not_be_read_again_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    scanned(scratch.path(), |tree| {
        let (directory, slot) = find(tree, "a/b");
        let Kind::Directory(b) = tree.entry(tree.row(directory).unwrap().contents(), slot).unwrap().kind
        else {
            panic!()
        };
        fs::rename(scratch.path().join("a"), scratch.path().join("moved")).unwrap();
        let (options, row) = (scan::Options::default(), tree.row(ROOT).unwrap());
        let error = scan::rescan(tree, b, &options, &Progress::default(), |_| true).unwrap_err();
        let path = scratch.path().join("a");
        assert_eq!(error.to_string(), format!("{}: No such file or directory (os error 2)", path.display()));
        assert_eq!(tree.row(ROOT).unwrap(), row);
    });
}

#[test]
fn all_that_is_known_is_compared() {
    use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};
    type Change = (&'static str, bool, bool, fn(&Path));
    fn set_modified(path: &Path, seconds: i64) {
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    let changes: [Change; 9] = [
        ("a link for a file, of its length", false, false, |at| {
            fs::remove_file(at.join("a/b/100")).unwrap();
            symlink("x".repeat(100), at.join("a/b/100")).unwrap();
        }),
        ("another file with one name less", false, false, |at| {
            fs::write(at.join("other"), "precious").unwrap();
            fs::rename(at.join("other"), at.join("a/linked")).unwrap();
        }),
        ("a link to something else", false, false, |at| {
            fs::remove_file(at.join("a/b/link to a file")).unwrap();
            symlink("../../keep/other", at.join("a/b/link to a file")).unwrap();
        }),
        ("a file that was written again", false, true, |at| {
            fs::write(at.join("a/b/100"), vec![2; 100]).unwrap();
            set_modified(&at.join("a/b/100"), 1_000_000_001);
        }),
        ("a link that was made again", false, true, |at| {
            fs::remove_file(at.join("a/b/link to a file")).unwrap();
            symlink("../../KEEP/FILE", at.join("a/b/link to a file")).unwrap();
        }),
        ("a socket for a pipe", false, true, |at| {
            fs::remove_file(at.join("a/pipe")).unwrap();
            drop(std::os::unix::net::UnixListener::bind(at.join("a/pipe")).unwrap());
            set_modified(&at.join("a/pipe"), 1_000_000_000);
        }),
        ("the target of a link that was followed", true, false, |at| {
            fs::write(at.join("keep/file"), "longer than that").unwrap();
        }),
        ("no target for a link that was followed", true, false, |at| {
            fs::remove_file(at.join("keep/file")).unwrap();
        }),
        ("a link for a file with several names", true, false, |at| {
            fs::remove_file(at.join("a/linked")).unwrap();
            symlink("../keep/file", at.join("a/linked")).unwrap();
        }),
    ];
    for (what, follow_links, extended, change) in changes {
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path();
        make(at);
        mknodat(CWD, at.join("a/pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        for path in ["a/pipe", "a/b/100", "a/b/link to a file"] {
            set_modified(&at.join(path), 1_000_000_000);
        }
        let options = scan::Options { follow_links, extended, ..options() };
        scanned_with(at, &options, |tree| {
            let row = tree.row(ROOT).unwrap();
            change(at);
            let before = everything(at);
            let failure = remove_with(tree, "a", &options, |_| true).expect_err(what);
            assert!(matches!(failure, Failure::Changed(_)), "{what}: {failure}");
            assert!(everything(at) == before, "{what}: something was deleted");
            assert_eq!(tree.row(ROOT).unwrap(), row);
            // After reading again, the tree shows the current state.
            scan::rescan(tree, ROOT, &options, &Progress::default(), |_| true).unwrap();
            remove_with(tree, "a", &options, |_| true).expect(what);
            assert!(!at.join("a").exists());
        });
    }
}

#[test]
fn of_links_that_were_followed_only_the_links_go() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    make(at);
    symlink("100", at.join("a/b/link in it")).unwrap();
    symlink("nowhere", at.join("a/b/link to nowhere")).unwrap();
    symlink("/dev/null", at.join("a/b/link to a device")).unwrap();
    for extended in [false, true] {
        let options = scan::Options { follow_links: true, extended, ..options() };
        scanned_with(at, &options, |tree| {
            if !extended {
                return remove_with(tree, "a/b/link to a device", &options, |_| true).unwrap();
            }
            remove_with(tree, "a", &options, |event| matches!(event, Event::Step(_))).unwrap();
            assert!(!at.join("a").exists() && Path::new("/dev/null").exists());
            assert_eq!(fs::read(at.join("keep/file")).unwrap(), b"precious");
            assert_eq!(tree.row(ROOT).unwrap().items, 2);
        });
    }
}

/// Names in a directory that can be read, but not searched.
#[test]
fn entries_that_could_not_be_examined_are_marked() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    make(at);
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for path in ["a/b/c", "a/b", "a", ""] {
        mode(&at.join(path), 0o777);
    }
    mode(&at.join("a/b/c"), 0o666);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            super::scan::be_nobody();
            scanned(at, |tree| {
                let mut failures = Vec::new();
                let mut ask = |event: Event<'_>| match event {
                    Event::Step(_) => true,
                    Event::Failed(failure) => {
                        failures.push(failure.to_string());
                        false
                    }
                };
                let before = everything(at);
                for path in ["a/b/c", "a"] {
                    let stopped = remove_with(tree, path, &options(), &mut ask);
                    assert!(matches!(stopped, Err(Failure::Stopped)), "{stopped:?}");
                }
                assert!(everything(at) == before);
                for failure in failures {
                    assert!(
                        failure.contains("a/b/c/\\xff\\n could not be examined (Permission denied"),
                        "{failure}"
                    );
                    assert!(failure.contains("chmod u+x"), "{failure}");
                }
            });
        });
        thread.join().unwrap();
    });
    mode(&at.join("a/b/c"), 0o777);
}
