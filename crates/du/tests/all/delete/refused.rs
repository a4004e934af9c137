//! Checks what is not deleted: entries that have changed, were not shown, are mounted, or cannot be deleted.

use super::*;

#[test]
fn entries_that_were_not_shown_are_not_deleted() {
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
fn unread_directories_are_not_deleted() {
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
fn files_that_were_written_in_place_are_not_deleted() {
    use std::time::{Duration, SystemTime};
    type Change = (&'static str, fn(&Path), bool);
    let changes: [Change; 6] = [
        (
            "a file with holes that were filled",
            |at| fs::write(at.join("a/holes"), vec![1; 1 << 20]).unwrap(),
            true,
        ),
        (
            "the same with the time that it had",
            |at| {
                let modified = fs::metadata(at.join("a/holes")).unwrap().modified().unwrap();
                fs::write(at.join("a/holes"), vec![1; 1 << 20]).unwrap();
                fs::File::open(at.join("a/holes")).unwrap().set_modified(modified).unwrap();
            },
            true,
        ),
        ("a file of the same length", |at| fs::write(at.join("a/b/100"), vec![2; 100]).unwrap(), true),
        ("a file that was of the future", |at| fs::write(at.join("a/future"), "2").unwrap(), true),
        ("a file that is only looked at", |at| drop(fs::read(at.join("a/b/100")).unwrap()), false),
        (
            "another time of a directory",
            |at| fs::set_permissions(at.join("a/b"), fs::Permissions::from_mode(0o711)).unwrap(),
            false,
        ),
    ];
    for (what, change, is_change) in changes {
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path();
        make(at);
        fs::File::create(at.join("a/holes")).unwrap().set_len(1 << 20).unwrap();
        fs::write(at.join("a/future"), "1").unwrap();
        let later = SystemTime::now() + Duration::from_secs(1000);
        fs::File::open(at.join("a/future")).unwrap().set_modified(later).unwrap();
        // A write in the same clock tick as the scan cannot be told from one just before the scan.
        std::thread::sleep(Duration::from_millis(20));
        scanned(at, |tree| {
            change(at);
            let before = everything(at);
            match remove(tree, "a") {
                Ok(()) => assert!(!is_change, "{what}"),
                Err(failure) => {
                    assert!(is_change && matches!(failure, Failure::Changed(_)), "{what}: {failure}");
                    assert!(everything(at) == before, "{what}: something was deleted");
                    // Files that were just written can be deleted after reading again.
                    scan::rescan(tree, ROOT, &options(), &Progress::default(), |_| true).unwrap();
                    remove(tree, "a").expect(what);
                }
            }
            assert!(!at.join("a").exists(), "{what}");
        });
    }
}

/// `mv target link` puts the file in the link's place, with all attributes that the tree knows.
#[test]
fn a_file_in_the_place_of_a_followed_link_is_not_deleted() {
    for (target, names) in [("a/b/100", 1), ("keep/file", 2)] {
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path();
        make(at);
        symlink(at.join(target), at.join("a/link")).unwrap();
        let options = scan::Options { follow_links: true, ..options() };
        scanned_with(at, &options, |tree| {
            assert_eq!(fs::metadata(at.join("a/link")).unwrap().nlink(), names);
            fs::rename(at.join(target), at.join("a/link")).unwrap();
            let failure = remove_with(tree, "a/link", &options, |_| true).unwrap_err();
            assert!(matches!(failure, Failure::Changed(_)), "{failure}");
            assert!(at.join("a/link").exists());
        });
    }
}

#[test]
fn mounted_directories_are_not_deleted() {
    use rustix::mount::{MountFlags, mount, mount_bind, unmount};
    let tmpfs = |at: &Path| mount("none", at, "tmpfs", MountFlags::empty(), c"").unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    crate::scan::with_mounts(|| {
        make(at);
        fs::create_dir(at.join("copy")).unwrap();
        fs::write(at.join("copy").join(OsStr::from_bytes(b"\xff\n")), "odd").unwrap();
        fs::write(at.join("100"), vec![1; 100]).unwrap();
        // Something that was mounted before the scan: deleting it, or a directory above it.
        let mounted = at.join("a/b/d");
        tmpfs(&mounted);
        fs::write(mounted.join("q"), "q").unwrap();
        fs::write(mounted.join("r"), "r").unwrap();
        scanned(at, |tree| {
            let before = everything(at);
            for path in ["a", "a/b", "a/b/d"] {
                let failure = remove(tree, path).unwrap_err();
                assert!(
                    matches!(&failure, Failure::Mounted(at) if *at == mounted.as_os_str().as_bytes()),
                    "{failure}"
                );
                assert!(everything(at) == before);
            }
            // Its contents were shown, so they can be deleted.
            remove(tree, "a/b/d/q").unwrap();
            assert!(!mounted.join("q").exists() && mounted.join("r").exists());
        });
        unmount(&mounted, rustix::mount::UnmountFlags::empty()).unwrap();

        // Something that was mounted after the scan, with the same names.
        type Change<'a> = (&'static str, &'static str, Box<dyn Fn(&Path) + 'a>);
        let changes: [Change<'_>; 3] = [
            ("another file system", "a/b/d", Box::new(tmpfs)),
            (
                "a directory of the same file system",
                "a/b/c",
                Box::new(|path: &Path| mount_bind(at.join("copy"), path).unwrap()),
            ),
            ("a file", "a/b/100", Box::new(|path: &Path| mount_bind(at.join("100"), path).unwrap())),
        ];
        for (what, path, change) in changes {
            scanned(at, |tree| {
                change(&at.join(path));
                let before = everything(at);
                for path in ["a", path] {
                    let failure = remove(tree, path).expect_err(what);
                    assert!(matches!(failure, Failure::Mounted(_)), "{what}: {failure}");
                    assert!(everything(at) == before, "{what}: something was deleted");
                }
                unmount(at.join(path), rustix::mount::UnmountFlags::empty()).unwrap();
            });
        }

        // A mount above the entry to be deleted.
        scanned(at, |tree| {
            tmpfs(&at.join("a"));
            fs::create_dir_all(at.join("a/b/d")).unwrap();
            let failure = remove(tree, "a/b/d").unwrap_err();
            assert!(matches!(failure, Failure::Changed(_)), "{failure}");
            assert!(at.join("a/b/d").exists());
            unmount(at.join("a"), rustix::mount::UnmountFlags::empty()).unwrap();
        });

        // A mount that appears after the examination.
        let options = options();
        scanned_with(at, &options, |tree| {
            let (mut is_mounted, mut failures) = (false, Vec::new());
            let deleted = remove_with(tree, "a", &options, |event| {
                match event {
                    Event::Step(progress) if progress.deleted > 0 && !is_mounted => {
                        tmpfs(&mounted);
                        is_mounted = true;
                    }
                    Event::Failed(failure) => failures.push(failure.to_string()),
                    Event::Step(_) => (),
                }
                true
            });
            deleted.unwrap();
            assert_eq!(failures.len(), 1, "{failures:?}");
            assert!(failures[0].contains("a/b/d is a mount point"), "{failures:?}");
            assert!(!at.join("a/b/100").exists() && !at.join("a/b/c").exists() && mounted.exists());
            is_as_scanned(tree, at, &options);
        });
    });
}

/// Entries that the user may not delete: the questions about them, and what is left afterwards.
#[test]
fn failed_deletions_may_be_ignored() {
    let options = scan::Options { extended: true, ..options() };
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (stops_at, is_closed) in [(None, true), (Some(0), true), (Some(0), false), (Some(1), true)] {
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path();
        make(at);
        for (path, text) in [("a/two/x", "x"), ("a/two/y", "y"), ("a/zero/z", "z")] {
            fs::create_dir_all(at.join(path).parent().unwrap()).unwrap();
            fs::write(at.join(path), text).unwrap();
        }
        fs::hard_link(at.join("a/two/x"), at.join("keep/x")).unwrap();
        fs::hard_link(at.join("a/zero/z"), at.join("keep/z")).unwrap();
        for path in ["a/b/c", "a/b/d", "a/b", "a/zero", "a", ""] {
            mode(&at.join(path), 0o777);
        }
        mode(&at.join("a/two"), 0o555);
        mode(&at.join("a/b/d"), if is_closed { 0o000 } else { 0o777 });
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                crate::scan::be_nobody();
                scanned_with(at, &options, |tree| {
                    let (before, mut failures) = (tree.row(ROOT).unwrap(), Vec::new());
                    let deleted = remove_with(tree, "a", &options, |event| match event {
                        Event::Step(_) => true,
                        Event::Failed(failure) => {
                            failures.push(failure.to_string());
                            stops_at != Some(failures.len() - 1)
                        }
                    });
                    let mut expected: Vec<String> = ["a/b/d", "a/two/x", "a/two/y"]
                        .map(|path| at.join(path))
                        .map(|path| format!("{}: Permission denied (os error 13)", path.display()))
                        .into();
                    expected.drain(..usize::from(!is_closed));
                    expected.truncate(stops_at.map_or(3, |last| last + 1));
                    assert_eq!(failures, expected);
                    match (deleted, stops_at, is_closed) {
                        (Ok(()), None, _) => {
                            assert!(at.join("a/b").exists() && !at.join("a/b/c").exists());
                            assert!(!at.join("a/zero").exists() && !at.join("a/linked").exists());
                            // root, a, b, d; two, x, y; keep, file, x, z
                            assert_eq!(tree.row(ROOT).unwrap().items, 10);
                        }
                        // Nothing had been deleted.
                        (Err(Failure::Stopped), Some(0), true) => assert_eq!(tree.row(ROOT).unwrap(), before),
                        (Err(Failure::Partly(why)), Some(_), _) if matches!(*why, Failure::Stopped) => {
                            assert!(tree.row(ROOT).unwrap().items < before.items);
                        }
                        (deleted, ..) => panic!("{deleted:?}"),
                    }
                    assert_eq!(fs::metadata(at.join("keep/x")).unwrap().nlink(), 2);
                    is_as_scanned(tree, at, &options);
                });
            });
            thread.join().unwrap();
        });
        // Makes the directories deletable; some no longer exist.
        for path in ["a/two", "a/b/d"] {
            let _ = fs::set_permissions(at.join(path), fs::Permissions::from_mode(0o777));
        }
    }
}
