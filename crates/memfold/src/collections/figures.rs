//! Memory per element when nearly all elements are compressed: `cargo test --release -p memfold --lib
//! collections::figures -- --nocapture` prints it.

use std::format;
use std::println;
use std::string::String;
use std::time::Instant;
use std::vec::Vec;

use super::list::{Doubly, List, Singly};
use super::table::{Columns, Table};
use super::tree::{At, Tree};
use crate::heap::{Heap, Limit, Options};
use crate::random::Random;

const COUNT: u64 = 100_000;

/// Prints the bytes per element, and fails if `most` or more are compressed bytes. Most bytes of tables do
/// not depend on the number of elements.
fn report(what: &str, heap: &Heap, most: f64) {
    let (stats, each) = (heap.stats(), |bytes: u64| bytes as f64 / COUNT as f64);
    let (nodes, payload) = (each(stats.node_bytes), each(stats.payload_bytes));
    let (tables, frames) = (each(stats.table_bytes), each(stats.frame_bytes));
    println!(
        "{what:<28} {nodes:>6.1} in nodes, {payload:>5.2} compressed, {tables:.1} tables, {frames:.1} frames"
    );
    assert!(payload < most, "{what}: {payload} compressed bytes an element");
}

/// With another codec than the default, for a comparison, if `CODEC` names one.
fn heap() -> Heap {
    let options = Options::new().limit(Limit::Blocks(8));
    Heap::new(match std::env::var("CODEC") {
        Ok(name) => options.codec(&name),
        Err(_) => options,
    })
    .unwrap()
}

/// Sizes and names like those of files.
fn file(number: u64, random: &mut Random) -> (u64, String) {
    let (bits, kind) = (random.below(20), ["c", "h", "txt", "rs", "o"][random.index(5)]);
    let name = ["test", "main", "util", "readme"][random.index(4)];
    (random.below(1 << bits), format!("{name}_{number}.{kind}"))
}

#[test]
fn lists() {
    let random = &mut Random(1);
    {
        let heap = heap();
        let session = heap.session().unwrap();
        let mut list: List<u64, Singly> = List::new(&session);
        list.extend((0..COUNT).map(|_| random.below(1000))).unwrap();
        report("singly, u64 below 1000", &heap, 3.0);
    }
    {
        let heap = heap();
        let session = heap.session().unwrap();
        let mut list: List<u64, Doubly> = List::new(&session);
        list.extend((0..COUNT).map(|_| random.below(1000))).unwrap();
        report("doubly, u64 below 1000", &heap, 3.0);
        let start = Instant::now();
        assert_eq!(list.iter().filter(|one| one.is_ok()).count() as u64, COUNT);
        println!("  in {} ns an element, cold", start.elapsed().as_nanos() as u64 / COUNT);
    }
    let heap = heap();
    let session = heap.session().unwrap();
    let mut list: List<str> = List::new(&session);
    (0..COUNT).for_each(|number| assert!(list.push_back(&file(number, random).1).is_ok()));
    assert_eq!(list.len(), COUNT);
    report("doubly, names", &heap, 12.0);
}

#[test]
fn trees() {
    let (heap, random) = (heap(), &mut Random(1));
    let session = heap.session().unwrap();
    let mut tree: Tree<'_, [u64; 2]> = Tree::new(&session);
    let mut directories = Vec::new();
    for number in 0..COUNT {
        let (size, name) = file(number, random);
        let parent = directories.last().copied();
        let node = tree.add(At::Last(parent), &[size, 0], name.as_bytes()).unwrap();
        match random.below(24) {
            0 => directories.push(node),
            1 if directories.len() > 1 => drop(directories.pop()),
            _ => {}
        }
    }
    let start = Instant::now();
    tree.sum_up(None, |data| data[0], |a, b| a + b, |data, sum| data[1] = sum).unwrap();
    println!("  sums in {} ns an entry, cold", start.elapsed().as_nanos() as u64 / COUNT);
    report("tree, sizes and names", &heap, 16.0);
}

#[test]
fn tables() {
    let (heap, random) = (heap(), &mut Random(1));
    let session = heap.session().unwrap();
    let mut columns = Columns::new();
    let (size, kind, name) = (columns.add::<u64>(), columns.add::<u8>(), columns.add::<str>());
    let mut table = Table::new(&session, &columns);
    let files: Vec<_> = (0..COUNT).map(|number| file(number, random)).collect();
    let rows: Vec<_> = files.iter().map(|_| table.add_row().unwrap()).collect();
    for (row, file) in rows.iter().zip(&files) {
        table.set(*row, size, &file.0).unwrap();
        table.set(*row, kind, &(random.below(5) as u8)).unwrap();
        table.set(*row, name, &file.1).unwrap();
    }
    report("table, sizes, kinds, names", &heap, 16.0);
    let (start, faults) = (Instant::now(), heap.stats().faults);
    let sum: u64 = table.column(size).map(|cell| cell.unwrap().1).sum();
    let nanoseconds = start.elapsed().as_nanos() as f64 / COUNT as f64;
    println!(
        "  one column: {nanoseconds:.1} ns a row, cold, {} faults; sum {sum}",
        heap.stats().faults - faults
    );
}
