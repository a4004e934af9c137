//! Scans across file systems.

use super::*;

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
        // The user named it, so its contents are shown.
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

/// A file is the same wherever it is mounted, and files of two file systems are different even if their
/// numbers are equal.
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
            // The same from an export that is read again.
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
        // Files of an overlay are on the file systems of its layers, and are kept with -x.
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
