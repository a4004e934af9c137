//! Deletes in scratch trees, and what must not be deleted.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use memfold::heap::{Heap, Options};
use memfold_du::delete::{Failure, delete};
use memfold_du::entry::Kind;
use memfold_du::scan::{self, Progress};
use memfold_du::source::{ROOT, Source};
use memfold_du::tree::Tree;

fn scanned<R>(path: &Path, look: impl FnOnce(&mut Tree<'_>) -> R) -> R {
    let heap = Heap::new(Options::new().block_size(16 << 10)).unwrap();
    let session = heap.session().unwrap();
    let options = scan::Options { threads: 2, ..scan::Options::default() };
    look(&mut scan::scan(path, &options, &heap, &session, &Progress::default(), |_| true).unwrap())
}

/// Where a path is in a tree.
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

/// All paths, to be compared.
fn everything(at: &Path) -> Vec<u8> {
    let output = Command::new("find").arg(at).args(["-printf", "%P %y %s %n\\0"]).output().unwrap();
    let mut all: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    all.sort();
    all.join(&0)
}

fn remove(tree: &mut Tree<'_>, path: &str) -> Result<(), Failure> {
    let (directory, slot) = find(tree, path);
    delete(tree, directory, slot, &mut |_| true)
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

/// What is changed, how, and whether that must be noticed as a change or as something not shown.
type Change = (&'static str, fn(&Path), &'static str);

#[test]
fn what_was_not_shown_is_not_deleted() {
    let changes: [Change; 7] = [
        ("a new file", |at| fs::write(at.join("a/b/c/new"), "x").unwrap(), "not shown"),
        ("a new directory", |at| fs::create_dir(at.join("a/b/d/new")).unwrap(), "not shown"),
        ("a longer file", |at| fs::write(at.join("a/b/100"), vec![2; 101]).unwrap(), "changed"),
        (
            "a file for another one",
            |at| fs::rename(at.join("a/b/100"), at.join("a/b/other")).unwrap(),
            "changed",
        ),
        (
            "a link for a directory",
            |at| {
                fs::remove_dir(at.join("a/b/d")).unwrap();
                symlink("../../keep", at.join("a/b/d")).unwrap();
            },
            "changed",
        ),
        (
            "a directory for a file",
            |at| {
                fs::remove_file(at.join("a/b/5")).unwrap();
                fs::create_dir(at.join("a/b/5")).unwrap();
            },
            "changed",
        ),
        (
            "a link for all of it",
            |at| {
                fs::rename(at.join("a"), at.join("moved")).unwrap();
                symlink("keep", at.join("a")).unwrap();
            },
            "changed",
        ),
    ];
    for (what, change, why) in changes {
        let scratch = tempfile::tempdir().unwrap();
        make(scratch.path());
        scanned(scratch.path(), |tree| {
            let row = tree.row(ROOT).unwrap();
            change(scratch.path());
            let before = everything(scratch.path());
            let failure = remove(tree, "a").unwrap_err();
            match why {
                "changed" => assert!(matches!(failure, Failure::Changed(_)), "{what}: {failure}"),
                _ => assert!(matches!(failure, Failure::NotShown(_)), "{what}: {failure}"),
            }
            assert!(everything(scratch.path()) == before, "{what}: something was deleted");
            assert_eq!(tree.row(ROOT).unwrap(), row);
        });
    }
}

#[test]
fn what_could_not_be_read_is_not_deleted() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    fs::write(scratch.path().join("a/b/c/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55")
        .unwrap();
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    let options = scan::Options { exclude_caches: true, ..scan::Options::default() };
    let mut tree =
        scan::scan(scratch.path(), &options, &heap, &session, &Progress::default(), |_| true).unwrap();
    let before = everything(scratch.path());
    assert!(matches!(remove(&mut tree, "a"), Err(Failure::NotShown(_))));
    assert!(everything(scratch.path()) == before);
}

#[test]
fn it_stops_when_asked() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    scanned(scratch.path(), |tree| {
        let (directory, slot) = find(tree, "a");
        let before = everything(scratch.path());
        assert!(matches!(delete(tree, directory, slot, &mut |_| false), Err(Failure::Stopped)));
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
fn what_was_deleted_before_it_stopped_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    scanned(scratch.path(), |tree| {
        let (directory, slot) = find(tree, "a");
        let failure = delete(tree, directory, slot, &mut |progress| progress.deleted == 0).unwrap_err();
        assert!(matches!(&failure, Failure::Partly(why) if matches!(**why, Failure::Stopped)), "{failure}");
        let Kind::Directory(a) = tree.entry(tree.row(directory).unwrap().contents(), slot).unwrap().kind
        else {
            panic!()
        };
        let before = tree.row(ROOT).unwrap().items;
        scan::rescan(tree, a, &scan::Options::default(), &Progress::default(), |_| true).unwrap();
        let left =
            everything(scratch.path()).split(|byte| *byte == 0).filter(|line| !line.is_empty()).count();
        assert!(tree.row(ROOT).unwrap().items < before);
        // `find` counts the root, too.
        assert_eq!(tree.row(ROOT).unwrap().items as usize + 1, left);
    });
}

/// Whoever may write above the root can put something else in its place, which then has what the tree has by name, kind and length.
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
            // The same directory in its place again is the same.
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
fn what_could_not_be_read_again_is_named() {
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
