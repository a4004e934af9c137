//! Reading a directory again, and scans that end early or do not fit.

use super::*;

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
                        // Linked files, which count once, are not checked here.
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
        // The root is read again, and reading is stopped.
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

/// Makes files whose names do not compress.
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
fn a_rescan_that_does_not_fit_leaves_the_tree_unchanged() {
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
    // The present contents fit twice.
    rescan(&mut tree, ROOT).unwrap();
    assert_eq!(sums(&tree), before);
    let nodes = heap.stats().nodes;
    make_many(&at.join("wide/many"), count);
    let Kind::Directory(wide) = kind(&tree, ROOT, "wide") else { panic!() };
    for directory in [ROOT, wide, ROOT] {
        let failure = rescan(&mut tree, directory).unwrap_err();
        assert!(matches!(failure, Error::NoRoom), "{failure}");
        assert!(failure.to_string().contains("do not fit into the limit beside the old ones"));
        assert_eq!(sums(&tree), before);
        // Rows that were added and freed again stay in the table, in few nodes.
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

/// Whenever reading stops, nothing of the new contents stays.
#[test]
fn a_stopped_rescan_leaves_nothing_in_the_heap() {
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
        // Freed rows stay in the table, and are reused.
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
