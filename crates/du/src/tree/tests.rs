//! Random trees, compared with a model that recomputes everything.

use std::collections::{BTreeMap, BTreeSet};

use memfold::heap::{Heap, Limit, Options, Session};

use super::*;
use crate::entry::{BLOCK, Extended, Kind, Link, Sum};
use crate::part::MOST;

/// A generator of pseudo-random numbers (xorshift64*).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end as u64) as usize
    }
}

/// An entry of the model; a directory includes its contents.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    entry: OwnEntry,
    below: Option<BTreeMap<Vec<u8>, Node>>,
    failed: bool,
}

fn file(name: Vec<u8>, size: u64) -> OwnEntry {
    OwnEntry { name, kind: Kind::File, size, blocks: size.div_ceil(BLOCK), ..OwnEntry::default() }
}

/// Makes the contents of a directory. Files with the numbers in `files` have several names.
fn contents(random: &mut Random, depth: usize, most: usize, files: &[(u64, u32)]) -> BTreeMap<Vec<u8>, Node> {
    let mut all = BTreeMap::new();
    for _ in 0..random.below(most + 1) {
        let len = random.below(12) + 1;
        let name: Vec<u8> = (0..len).map(|_| [b'a', b'b', b'7', 0xff][random.below(4)]).collect();
        let mut entry = file(name.clone(), random.below(100_000) as u64);
        entry.extended = Some(Extended { modified: random.below(1000) as i64, ..Extended::default() });
        let (mut below, mut failed) = (None, false);
        match random.below(8) {
            0 | 1 if depth > 0 => {
                entry.kind = Kind::Directory(0);
                below = Some(contents(random, depth - 1, most, files));
                failed = random.below(10) == 0;
            }
            2 | 3 if !files.is_empty() => {
                let (inode, names) = files[random.below(files.len())];
                entry = OwnEntry { name: name.clone(), ..file(Vec::new(), inode * 1000) };
                // The file is on the second file system, the directory on the first.
                let device = (inode % 3 == 0).then_some(1);
                entry.link = Some(Link { inode, device, names });
            }
            4 => entry.kind = Kind::Failed(13),
            5 => entry.kind = Kind::Other,
            _ => (),
        }
        all.insert(name, Node { entry, below, failed });
    }
    all
}

/// Every node of the model, with the path to it.
fn each<'n>(at: &'n BTreeMap<Vec<u8>, Node>, path: &[Vec<u8>], look: &mut dyn FnMut(&[Vec<u8>], &'n Node)) {
    for (name, node) in at {
        let mut path = path.to_vec();
        path.push(name.clone());
        look(&path, node);
        if let Some(below) = &node.below {
            each(below, &path, look);
        }
    }
}

/// The expected sums of a directory.
fn expected(
    at: &BTreeMap<Vec<u8>, Node>,
    failed: bool,
    all: &BTreeMap<u64, u32>,
) -> (Sum, Sum, u64, u32, i64, bool) {
    let (mut sum, mut shared, mut items, mut failures, mut modified) =
        (Sum::default(), Sum::default(), 0, 0, 0);
    let mut files = BTreeMap::<u64, (u32, Sum)>::new();
    each(at, &[], &mut |_, node| {
        items += 1;
        failures += u32::from(node.failed) + u32::from(matches!(node.entry.kind, Kind::Failed(_)));
        modified = modified.max(node.entry.extended.map_or(0, |extended| extended.modified));
        let own = node.entry.entry().sum();
        match node.entry.link {
            Some(link) => files.entry(link.inode).or_insert((0, own)).0 += 1,
            None => sum = sum.plus(own),
        }
    });
    for (inode, (here, own)) in files {
        sum = sum.plus(own);
        if here < all[&inode] {
            shared = shared.plus(own);
        }
    }
    (sum, shared, items, failures, modified, failed)
}

fn build(builder: &mut Builder<'_>, at: &BTreeMap<Vec<u8>, Node>, random: &mut Random) {
    let mut order: Vec<&Node> = at.values().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    for node in order {
        let Some(below) = &node.below else {
            builder.add(&node.entry.entry()).unwrap();
            continue;
        };
        let flags = if node.failed { flags::FAILED } else { 0 };
        builder.begin(&node.entry.entry(), Row { flags, ..Row::default() }).unwrap();
        build(builder, below, random);
        assert!(!builder.end().unwrap());
    }
}

/// Compares a directory and everything below it with the model.
pub(crate) fn compare(
    tree: &dyn Source,
    number: u32,
    path: &[u8],
    at: &BTreeMap<Vec<u8>, Node>,
    failed: bool,
    all: &BTreeMap<u64, u32>,
) {
    let row = tree.row(number).unwrap();
    let is = (row.sum(), row.shared(), row.items, row.failures, row.modified, row.flags & flags::FAILED != 0);
    assert_eq!(is, expected(at, failed, all), "{}", path.escape_ascii());
    assert_eq!(tree.path(number).unwrap(), path);
    let mut entries = Vec::new();
    tree.each(row.contents(), &mut |slot, entry| {
        entries.push((slot, OwnEntry::from(*entry)));
        Ok(())
    })
    .unwrap();
    let slots: Vec<u32> = entries.iter().map(|(slot, _)| *slot).collect();
    assert_eq!(slots, (0..row.contents().slots).collect::<Vec<_>>());
    entries.retain(|(_, entry)| entry.kind != Kind::Gone);
    assert!(entries.iter().map(|(_, entry)| &entry.name).eq(at.keys()), "{}", path.escape_ascii());
    for ((slot, entry), node) in entries.iter().zip(at.values()) {
        assert_eq!(tree.entry(row.contents(), *slot).unwrap(), *entry);
        let Kind::Directory(below) = entry.kind else {
            assert_eq!(*entry, node.entry);
            if let Some(link) = entry.link {
                let names = tree.names(link.inode, link.device.unwrap_or(row.device)).unwrap();
                assert!(names.iter().any(|name| (name.directory, name.slot) == (number, *slot)));
                assert!(names.iter().all(|name| name.names == all[&link.inode]), "{names:?}");
            }
            continue;
        };
        assert_eq!((tree.above(below).unwrap(), tree.slot(below).unwrap()), (number, *slot));
        let path = [path, b"/", &entry.name].concat();
        compare(tree, below, &path, node.below.as_ref().unwrap(), node.failed, all);
    }
}

pub(crate) fn heap(paranoid: bool) -> Heap {
    Heap::new(Options::new().block_size(16 << 10).limit(Limit::Blocks(8)).paranoid(paranoid)).unwrap()
}

fn root() -> OwnEntry {
    OwnEntry { kind: Kind::Directory(0), ..file(b"/t".to_vec(), 4096) }
}

/// How many names each file has: those in the tree, and possibly one elsewhere.
pub(crate) fn names(at: &BTreeMap<Vec<u8>, Node>, elsewhere: &[u64]) -> BTreeMap<u64, u32> {
    let mut all = BTreeMap::new();
    each(at, &[], &mut |_, node| {
        if let Some(link) = node.entry.link {
            *all.entry(link.inode).or_insert(u32::from(elsewhere.contains(&link.inode))) += 1;
        }
    });
    all
}

/// A random tree in which links know the number of names.
pub(crate) fn made(
    random: &mut Random,
    depth: usize,
    most: usize,
    elsewhere: &[u64],
) -> BTreeMap<Vec<u8>, Node> {
    let files: Vec<_> = (1..20).map(|inode| (inode, 0)).collect();
    let mut model = contents(random, depth, most, &files);
    let all = names(&model, elsewhere);
    set_names(&mut model, &all);
    model
}

fn set_names(at: &mut BTreeMap<Vec<u8>, Node>, all: &BTreeMap<u64, u32>) {
    for node in at.values_mut() {
        if let Some(link) = &mut node.entry.link {
            link.names = all[&link.inode];
        }
        if let Some(below) = &mut node.below {
            set_names(below, all);
        }
    }
}

pub(crate) fn tree<'s>(
    heap: &'s Heap,
    session: &'s Session<'_>,
    model: &BTreeMap<Vec<u8>, Node>,
    random: &mut Random,
) -> Tree<'s> {
    let mut builder = Builder::new(heap, session, root(), Row::default()).unwrap();
    build(&mut builder, model, random);
    assert!(builder.end().unwrap());
    builder.finish(vec![0]).unwrap()
}

#[test]
fn sums_are_those_of_a_model() {
    for seed in 1..60 {
        let mut random = Random(seed);
        let (depth, most) = (random.below(5), random.below(30) + 2);
        let model = made(&mut random, depth, most, &[3, 5]);
        let heap = heap(seed % 4 == 0);
        let session = heap.session().unwrap();
        let tree = tree(&heap, &session, &model, &mut random);
        compare(&tree, 0, b"/t", &model, false, &names(&model, &[3, 5]));
    }
}

#[test]
fn removed_entries_no_longer_count() {
    for seed in 1..40 {
        let mut random = Random(seed);
        let mut model = made(&mut random, 4, 12, &[3, 5]);
        let heap = heap(seed % 4 == 0);
        let session = heap.session().unwrap();
        let mut tree = tree(&heap, &session, &model, &mut random);
        for _ in 0..30 {
            let mut paths = BTreeSet::new();
            each(&model, &[], &mut |path, _| {
                paths.insert(path.to_vec());
            });
            let Some(path) = paths.iter().nth(random.below(paths.len().max(1))) else { break };
            let (directory, slot) = find(&tree, path);
            tree.remove(directory, slot).unwrap();
            let mut at = &mut model;
            for name in &path[..path.len() - 1] {
                at = at.get_mut(name).unwrap().below.as_mut().unwrap();
            }
            at.remove(path.last().unwrap()).unwrap();
            // A link's own count of names dates from the time when it was read.
            let all = names(&model, &[3, 5]);
            compare_sums(&tree, &model, &all);
        }
    }
}

/// The position of the entry with a path.
fn find(tree: &Tree<'_>, path: &[Vec<u8>]) -> (u32, u32) {
    let (mut directory, mut found) = (0, (0, 0));
    for name in path {
        tree.each(tree.row(directory).unwrap().contents(), &mut |slot, entry| {
            if entry.name == *name && entry.kind != Kind::Gone {
                found = (directory, slot);
                if let Kind::Directory(number) = entry.kind {
                    directory = number;
                }
            }
            Ok(())
        })
        .unwrap();
    }
    found
}

/// Like `compare`, but links in entries may be out of date.
fn compare_sums(tree: &Tree<'_>, model: &BTreeMap<Vec<u8>, Node>, all: &BTreeMap<u64, u32>) {
    let row = tree.row(0).unwrap();
    let is = (row.sum(), row.shared(), row.items, row.failures, row.modified, false);
    assert_eq!(is, expected(model, false, all));
    each(model, &[], &mut |path, node| {
        let Some(below) = &node.below else { return };
        let (directory, slot) = find(tree, path);
        let entry = tree.entry(tree.row(directory).unwrap().contents(), slot).unwrap();
        let Kind::Directory(number) = entry.kind else { panic!("{entry:?}") };
        let row = tree.row(number).unwrap();
        let failed = row.flags & flags::FAILED != 0;
        let is = (row.sum(), row.shared(), row.items, row.failures, row.modified, failed);
        assert_eq!(is, expected(below, node.failed, all), "{path:?}");
    });
}

#[test]
fn wide_directories_are_in_order_and_mostly_in_the_heap() {
    let heap = heap(false);
    let session = heap.session().unwrap();
    let mut builder = Builder::new(&heap, &session, root(), Row::default()).unwrap();
    let count = 30_000;
    let mut random = Random(9);
    let mut numbers: Vec<u32> = (0..count).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at + 1));
    }
    for number in numbers {
        let name = format!("{number:08}").into_bytes();
        if number % 10 == 0 {
            builder
                .begin(&OwnEntry { kind: Kind::Directory(0), ..file(name, 1) }.entry(), Row::default())
                .unwrap();
            builder.add(&file(b"x".to_vec(), 1).entry()).unwrap();
            builder.end().unwrap();
        } else {
            builder.add(&file(name, 1).entry()).unwrap();
        }
    }
    builder.end().unwrap();
    let tree = builder.finish(vec![0]).unwrap();
    let row = tree.row(0).unwrap();
    assert_eq!((row.size, row.items), (33_000, 33_000));
    let mut next = 0;
    tree.each(row.contents(), &mut |slot, entry| {
        assert_eq!((slot, entry.name), (next, format!("{next:08}").as_bytes()));
        if let Kind::Directory(number) = entry.kind {
            assert_eq!((tree.above(number)?, tree.slot(number)?), (0, slot));
        }
        next += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(next, count);
    assert_eq!(row.contents().parts(), (count as usize).div_ceil(MOST));
}

#[test]
fn removed_entries_leave_no_nodes_in_the_heap() {
    let heap = heap(false);
    let session = heap.session().unwrap();
    let mut random = Random(77);
    let model = made(&mut random, 4, 20, &[]);
    let mut tree = tree(&heap, &session, &model, &mut random);
    let before = heap.stats().nodes;
    for slot in 0..tree.row(0).unwrap().contents().slots {
        tree.remove(0, slot).unwrap();
    }
    let row = tree.row(0).unwrap();
    assert_eq!((row.size, row.blocks, row.items, row.failures, row.shared_size), (0, 0, 0, 0, 0));
    assert!(tree.links.is_empty());
    // Only the nodes of the root and of the table are left.
    assert!(heap.stats().nodes < 12 && before > 50, "{before}, {}", heap.stats().nodes);
}
