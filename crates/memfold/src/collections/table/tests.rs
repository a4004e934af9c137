//! Tables against vectors of rows.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::collections::testing::{Flaky, heaps, options};
use crate::heap::{Heap, Limit, Options};
use crate::random::Random;

/// The expected content of a row.
#[derive(Debug, Clone, Default, PartialEq)]
struct Known {
    number: u64,
    kind: u8,
    odd: [u8; 13],
    name: String,
    bytes: Vec<u8>,
}

/// Columns of all kinds.
struct Names {
    all: Columns,
    number: Column<u64>,
    kind: Column<u8>,
    odd: Column<[u8; 13]>,
    nothing: Column<()>,
    name: Column<str>,
    bytes: Column<[u8]>,
}

fn columns() -> Names {
    let mut all = Columns::new();
    let (number, kind, odd) = (all.add(), all.add(), all.add());
    let (nothing, name, bytes) = (all.add(), all.add(), all.add());
    Names { all, number, kind, odd, nothing, name, bytes }
}

type Model = BTreeMap<Row, Known>;

fn assert_is(table: &Table<'_>, names: &Names, model: &Model) {
    assert_eq!(table.check(), Ok(()));
    assert_eq!(table.len(), model.len() as u64);
    assert!(table.rows().map(Result::unwrap).eq(model.keys().copied()));
    fn of<T: Content + ?Sized>(table: &Table<'_>, column: Column<T>) -> Vec<(Row, T::Owned)> {
        table.column(column).collect::<Result<_, _>>().unwrap()
    }
    fn known<V>(model: &Model, of: impl Fn(&Known) -> V) -> Vec<(Row, V)> {
        model.iter().map(|(row, known)| (*row, of(known))).collect()
    }
    assert!(of(table, names.number) == known(model, |known| known.number));
    assert!(of(table, names.kind) == known(model, |known| known.kind));
    assert!(of(table, names.odd) == known(model, |known| known.odd));
    assert!(of(table, names.nothing) == known(model, |_| ()));
    assert!(of(table, names.name) == known(model, |known| known.name.clone()));
    assert!(of(table, names.bytes) == known(model, |known| known.bytes.clone()));
}

fn set(
    table: &mut Table<'_>,
    names: &Names,
    row: Row,
    random: &mut Random,
    known: &mut Known,
) -> Result<bool, Error> {
    match random.below(5) {
        0 => {
            let number = random.next();
            let is = table.set(row, names.number, &number)?;
            known.number = number;
            Ok(is)
        }
        1 => {
            let kind = random.below(256) as u8;
            let is = table.set(row, names.kind, &kind)?;
            known.kind = kind;
            Ok(is)
        }
        2 => {
            let odd = std::array::from_fn(|_| random.below(256) as u8);
            let is = table.set(row, names.odd, &odd)?;
            known.odd = odd;
            Ok(is)
        }
        3 => {
            let name = "ß".repeat(random.index(12));
            let is = table.set(row, names.name, &name)?;
            known.name = name;
            Ok(is)
        }
        _ => {
            let len = if random.below(200) == 0 { 9000 } else { random.index(10) };
            let bytes = random.bytes(len);
            let is = table.set(row, names.bytes, &bytes)?;
            known.bytes = bytes;
            Ok(is)
        }
    }
}

fn step(
    table: &mut Table<'_>,
    names: &Names,
    model: &mut Model,
    random: &mut Random,
    add: u64,
) -> Result<(), Error> {
    let end = model.last_key_value().map_or(1, |(row, _)| row.0 + 3);
    let row = Row(random.below(end));
    match random.below(20) {
        what if what < add => {
            let row = table.add_row()?;
            // The first free one.
            assert_eq!(
                row.0,
                model.keys().zip(0..).take_while(|(row, number)| row.0 == *number).count() as u64
            );
            model.insert(row, Known::default());
        }
        what if what < 14 => {
            let mut known = model.get(&row).cloned().unwrap_or_default();
            assert_eq!(set(table, names, row, random, &mut known)?, model.contains_key(&row));
            if let Some(old) = model.get_mut(&row) {
                *old = known;
            }
        }
        14..17 => {
            assert_eq!(table.remove_row(row)?, model.contains_key(&row));
            model.remove(&row);
        }
        _ => {
            let known = model.get(&row);
            assert_eq!(table.contains(row)?, known.is_some());
            assert_eq!(table.get(row, names.number)?, known.map(|known| known.number));
            assert_eq!(table.get(row, names.odd)?, known.map(|known| known.odd));
            assert_eq!(table.get(row, names.name)?, known.map(|known| known.name.clone()));
            assert_eq!(table.get(row, names.nothing)?, known.map(|_| ()));
        }
    }
    Ok(())
}

#[test]
fn as_rows() {
    for (heap, times) in heaps() {
        let session = heap.session().unwrap();
        let random = &mut Random(times as u64);
        let names = columns();
        let (mut table, mut model) = (Table::new(&session, &names.all), Model::new());
        // The table grows, shrinks, and grows again.
        for add in [12, 12, 1, 8] {
            for _ in 0..times.div_ceil(8) {
                (0..150).for_each(|_| step(&mut table, &names, &mut model, random, add).unwrap());
                assert_is(&table, &names, &model);
            }
        }
        assert!(model.len() > 20);
        table.clear().unwrap();
        assert_is(&table, &names, &Model::new());
        table.add_row().unwrap();
        drop(table);
        assert_eq!(heap.stats().nodes, 0);
    }
}

#[test]
fn a_failed_operation_changes_nothing() {
    let (heap, flaky) = Flaky::heap();
    let session = heap.session().unwrap();
    let random = &mut Random(4);
    let names = columns();
    let (mut failed, mut partly) = (0, 0);
    let (mut table, mut model) = (Table::new(&session, &names.all), Model::new());
    (0..1500).for_each(|_| step(&mut table, &names, &mut model, random, 10).unwrap());
    for _ in 0..600 {
        let before = random.below(4) * random.below(4);
        let old = table.len();
        let done = flaky.with(before, 1, || step(&mut table, &names, &mut model, random, 6));
        assert!(matches!(done, Ok(()) | Err(Error::Damaged)), "{done:?}");
        if done.is_err() && table.len() < old {
            // An element of a removed row could not be freed; no other operation reports this.
            partly += 1;
            let rows: Vec<Row> = table.rows().map(Result::unwrap).collect();
            model.retain(|row, _| rows.contains(row));
        }
        if done.is_err() {
            failed += 1;
            assert_is(&table, &names, &model);
        }
    }
    assert_is(&table, &names, &model);
    assert!(failed > 20 && partly < failed, "{failed}, {partly}");
}

#[test]
fn one_column_without_the_others() {
    const ROWS: u64 = 100_000;
    let heap = Heap::new(options()).unwrap();
    let session = heap.session().unwrap();
    let mut all = Columns::new();
    let (number, kind, wide, name) =
        (all.add::<u64>(), all.add::<u8>(), all.add::<[u64; 4]>(), all.add::<str>());
    let mut table = Table::new(&session, &all);
    // Column by column: with three frames, going row by row would fault in each block again and again.
    (0..ROWS).for_each(|row| assert_eq!(table.add_row(), Ok(Row(row))));
    let rows = || (0..ROWS).map(Row);
    rows().for_each(|row| assert_eq!(table.set(row, number, &row.0), Ok(true)));
    rows().for_each(|row| assert_eq!(table.set(row, kind, &((row.0 % 7) as u8)), Ok(true)));
    rows().for_each(|row| assert_eq!(table.set(row, wide, &[row.0; 4]), Ok(true)));
    rows().for_each(|row| assert_eq!(table.set(row, name, &format!("{}", row.0)), Ok(true)));
    let blocks = |bytes: u64| (ROWS * bytes).div_ceil(session.longest() as u64);
    let bits = ROWS.div_ceil(8).div_ceil(session.longest() as u64);
    let faults = |scan: &dyn Fn() -> u64, of: u64| {
        let before = heap.stats().faults;
        let result = scan();
        let faults = heap.stats().faults - before;
        // This includes unused space at the end of nodes.
        assert!(faults <= (of + bits) * 9 / 8 + 4, "{faults} blocks, not {of}");
        assert!(faults >= of.saturating_sub(3), "{faults} blocks, not {of}");
        result
    };
    let sum = |column| table.column(column).map(|cell| cell.unwrap().1).sum::<u64>();
    assert_eq!(faults(&|| sum(number), blocks(8)), ROWS * (ROWS - 1) / 2);
    let kinds = || table.column(kind).map(|cell| u64::from(cell.unwrap().1)).sum();
    assert_eq!(faults(&kinds, blocks(1)), (0..ROWS).map(|i| i % 7).sum());
    let wides = || table.column(wide).map(|cell| cell.unwrap().1[3]).sum();
    assert_eq!(faults(&wides, blocks(32)), ROWS * (ROWS - 1) / 2);
    let rows = || table.rows().map(Result::unwrap).count() as u64;
    assert_eq!(faults(&rows, 0), ROWS);
    assert!(heap.stats().blocks > 1000, "{:?}", heap.stats());
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn columns_of_others() {
    let heap = Heap::new(options()).unwrap();
    let session = heap.session().unwrap();
    let (mut some, mut others) = (Columns::new(), Columns::new());
    let (number, foreign) = (some.add::<u64>(), others.add::<u64>());
    let mut table = Table::new(&session, &some);
    let late = some.add::<u64>();
    let row = table.add_row().unwrap();
    assert_eq!((table.get(row, number), table.get(row, foreign)), (Ok(Some(0)), Err(Error::Stale)));
    assert_eq!((table.get(row, late), table.set(row, foreign, &1)), (Err(Error::Stale), Err(Error::Stale)));
    assert_eq!(table.column(foreign).collect::<Vec<_>>(), [Err(Error::Stale)]);
    assert_eq!((table.get(Row(u64::MAX), number), table.remove_row(Row(1))), (Ok(None), Ok(false)));
    assert_eq!(format!("{table:?} {number:?}"), "Table { columns: 1, len: 1, .. } Column { number: 0, .. }");
}

#[test]
fn small_and_wide() {
    let heap = Heap::new(Options::new()).unwrap();
    let session = heap.session().unwrap();
    let names = columns();
    let mut table = Table::new(&session, &names.all);
    (0..10).for_each(|row| assert_eq!(table.add_row(), Ok(Row(row))));
    assert!(heap.stats().node_bytes < 64 * 40, "{:?}", heap.stats());
    assert_eq!(heap.stats().blocks, 1);
    // Eight elements of 800 bytes are longer than a block: groups have that few.
    let heap = Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(1 << 10)).unwrap();
    let session = heap.session().unwrap();
    let mut wide = Columns::new();
    let (long, flag) = (wide.add::<[u64; 100]>(), wide.add::<u8>());
    let mut table = Table::new(&session, &wide);
    assert_eq!(table.rows_per_group(), 8);
    let rows: Vec<Row> = (0..100).map(|_| table.add_row().unwrap()).collect();
    for row in &rows {
        assert_eq!(table.set(*row, long, &[row.0; 100]), Ok(true));
        assert_eq!(table.set(*row, flag, &(row.0 as u8)), Ok(true));
    }
    assert!(rows.iter().all(|row| table.get(*row, long) == Ok(Some([row.0; 100]))));
    assert!(table.column(long).map(|cell| cell.unwrap().1[99]).eq(0..100));
    assert_eq!(table.check(), Ok(()));
    drop(table);
    assert_eq!(heap.stats().nodes, 0);
}

#[test]
fn in_blocks_of_all_sizes() {
    for size in [1 << 10, 64 << 10, 1 << 20] {
        let heap = Heap::new(Options::new().block_size(size).limit(Limit::Blocks(3))).unwrap();
        let session = heap.session().unwrap();
        let mut columns = Columns::new();
        let (number, kind) = (columns.add::<u64>(), columns.add::<u16>());
        let mut table = Table::new(&session, &columns);
        let mut kinds = vec![];
        for i in 0..20_000u64 {
            let row = table.add_row().unwrap();
            assert_eq!(row.0, i);
            table.set(row, number, &(i * 3)).unwrap();
            table.set(row, kind, &(i as u16)).unwrap();
            kinds.push((row, i as u16));
        }
        assert!(table.column(number).map(|cell| cell.unwrap().1).eq((0..20_000).map(|i| i * 3)));
        (0..20_000).step_by(3).for_each(|row| assert_eq!(table.remove_row(Row(row)), Ok(true)));
        kinds.retain(|(row, _)| row.0 % 3 != 0);
        assert_eq!(table.column(kind).collect::<Result<Vec<_>, _>>(), Ok(kinds));
        assert_eq!((table.check(), table.add_row(), table.add_row()), (Ok(()), Ok(Row(0)), Ok(Row(3))));
    }
}

/// An error is injected at each step of each operation, and from then on into every free: nothing has
/// changed, and nothing is left behind.
#[test]
fn a_failed_operation_leaves_no_node() {
    let mut heap = Heap::new(options()).unwrap();
    {
        let session = heap.session().unwrap();
        let (random, names, mut failed) = (&mut Random(5), columns(), 0);
        let (mut table, mut model) = (Table::new(&session, &names.all), Model::new());
        for turn in 0..600 {
            let seed = random.0;
            for before in 0.. {
                random.0 = seed;
                let adds = if turn < 300 { 10 } else { 6 };
                let operation = || step(&mut table, &names, &mut model, random, adds);
                let (done, _) = session.with_fault(before, operation);
                if done.is_ok() {
                    break;
                }
                failed += 1;
                assert_eq!(done, Err(Error::Pinned));
                assert!(failed % 8 > 0 || table.check() == Ok(()));
            }
        }
        assert!(failed > 300, "{failed}");
        assert_is(&table, &names, &model);
    }
    assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
}
