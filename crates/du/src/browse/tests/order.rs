//! The order of views is that of a naive sort.

use std::cmp::Ordering;

use super::*;
use crate::tree::flags;

/// Pseudo-random numbers, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    /// A name of few characters, so that many are similar.
    fn name(&mut self) -> Vec<u8> {
        let pieces: [&[u8]; 12] =
            [b"a", b"b", b"10", b"9", b"0", b"009", b".", b"~", b"\xff", b"\n", b":", "ß".as_bytes()];
        let len = 1 + self.below(5);
        (0..len).flat_map(|_| pieces[self.below(12) as usize]).copied().collect()
    }
}

/// The natural order, straight from its definition.
fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut x, mut y) = (a, b);
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (m, n) = (digits(x), digits(y));
        let order = if m > 0 && n > 0 {
            let number = |text: &[u8]| str::from_utf8(text).unwrap().parse::<u128>().unwrap();
            let order = number(&x[..m]).cmp(&number(&y[..n]));
            (x, y) = (&x[m..], &y[n..]);
            order
        } else {
            // A number sorts where zero does.
            let byte = |text: &[u8], digits| if digits > 0 { Some(&b'0') } else { text.first() }.copied();
            let order = byte(x, m).cmp(&byte(y, n));
            if x.is_empty() && y.is_empty() {
                return a.cmp(b);
            }
            (x, y) = (x.get(1..).unwrap_or_default(), y.get(1..).unwrap_or_default());
            order
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The shown slots, in order.
fn naive(source: &dyn Source, sort: Sort) -> Vec<u32> {
    let mut items = Vec::new();
    let contents = source.row(0).unwrap().contents();
    let each = source.each(contents, &mut |slot, entry| {
        items.push((slot, Item::new(source, (*entry).into())?));
        Ok(())
    });
    each.unwrap();
    items.retain(|(_, item)| {
        let name = &item.entry.name;
        let is_hidden = name.starts_with(b".") || name.ends_with(b"~") || item.flag() == '<';
        item.entry.kind != Kind::Gone && (sort.hidden || !is_hidden)
    });
    items.sort_by(|(_, a), (_, b)| {
        let names = || match sort.natural {
            true => natural(&a.entry.name, &b.entry.name),
            false => a.entry.name.cmp(&b.entry.name),
        };
        let (disk, apparent) = (a.sum().blocks.cmp(&b.sum().blocks), a.sum().size.cmp(&b.sum().size));
        let column = match sort.column {
            Column::Name => names(),
            Column::DiskUsage => disk.then(apparent),
            Column::ApparentSize => apparent.then(disk),
            Column::Items => a.items().cmp(&b.items()).then(disk),
            Column::Modified => a.modified().cmp(&b.modified()).then(disk),
        };
        let column = if sort.descending { column.reverse() } else { column };
        let group =
            if sort.directories_first { b.row.is_some().cmp(&a.row.is_some()) } else { Ordering::Equal };
        group.then(column).then_with(names)
    });
    items.into_iter().map(|(slot, _)| slot).collect()
}

fn fill(builder: &mut Builder<'_>, chance: &mut Chance, count: u64, has_times: bool) -> Result<(), Error> {
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..count {
        let mut name = chance.name();
        while !names.insert(name.clone()) {
            name.extend(chance.name());
        }
        let time = [i64::MIN, -5, 0, 1_700_000_000, i64::MAX][chance.below(5) as usize];
        let extended = Extended { modified: time, ..Extended::default() };
        let sizes = [0, 1, 4096, 5000, 1 << 20, u64::MAX >> 2];
        let size = sizes[chance.below(6) as usize];
        let entry = Entry {
            name: &name,
            kind: [Kind::File, Kind::Other, Kind::Excluded, Kind::Failed(13), Kind::Gone]
                [chance.below(5) as usize],
            size,
            blocks: [0, 8, size / 512][chance.below(3) as usize],
            link: None,
            followed: None,
            extended: has_times.then_some(extended),
        };
        if chance.below(4) > 0 {
            builder.add(&entry)?;
            continue;
        }
        let entry = Entry { kind: Kind::Directory(0), size: 4096, blocks: 8, ..entry };
        let flags = [0, 0, flags::FAILED, flags::CACHE][chance.below(4) as usize];
        builder.begin(&entry, row(flags, 0))?;
        for number in 0..chance.below(4) {
            let name = number.to_string();
            builder.add(&Entry { name: name.as_bytes(), extended: entry.extended, ..file("", 100) })?;
        }
        builder.end()?;
    }
    Ok(())
}

#[test]
fn views_are_in_order_whatever_is_asked_for() {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    for count in [0, 1, 7, 64, 65, 700] {
        let heap = heap();
        let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
        let has_times = count % 2 == 1;
        let tree = tree(&heap, &session, None, |builder| fill(builder, &mut chance, count, has_times));
        let columns =
            [Column::Name, Column::DiskUsage, Column::ApparentSize, Column::Items, Column::Modified];
        for column in columns {
            for bits in 0..16 {
                let sort = Sort {
                    column,
                    descending: bits & 1 != 0,
                    directories_first: bits & 2 != 0,
                    natural: bits & 4 != 0,
                    hidden: bits & 8 != 0,
                };
                let mut expected = naive(&tree, sort);
                let view = View::open(&order, &tree, 0, sort).unwrap();
                let slots: Vec<_> = (0..view.len()).map(|at| view.slot(at).unwrap()).collect();
                assert_eq!(slots, expected, "{count} entries, {sort:?}");
                // Each shown entry is found again; hidden ones are not.
                for (position, slot) in slots.iter().enumerate() {
                    assert_eq!(view.position(&tree, *slot).unwrap(), Some(position as u64));
                }
                expected.sort_unstable();
                for slot in 0..tree.row(0).unwrap().contents().slots {
                    if expected.binary_search(&slot).is_err() {
                        assert_eq!(view.position(&tree, slot).unwrap(), None, "{sort:?}");
                    }
                }
                assert!(view.slot(view.len()).is_err());
            }
        }
    }
}

#[test]
fn an_entry_is_found_by_its_name() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = tree(&heap, &session, None, |builder| {
        for number in 0..300u64 {
            builder.add(&file(&format!("f{number}"), number * 4096))?;
        }
        builder.add(&file(".hidden", 1))
    });
    let view = View::open(&order, &tree, 0, Sort { hidden: false, ..Sort::default() }).unwrap();
    assert_eq!(view.find(&tree, b"f299").unwrap(), Some(0));
    assert_eq!(view.find(&tree, b"f0").unwrap(), Some(299));
    assert_eq!(view.find(&tree, b".hidden").unwrap(), None);
    assert_eq!(view.find(&tree, b"none").unwrap(), None);
}

#[test]
fn a_closed_view_leaves_nothing_in_the_heap() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = tree(&heap, &session, None, |builder| {
        (0..5000).try_for_each(|number| builder.add(&file(&format!("file {number}"), number)))
    });
    let nodes = || heap.stats().nodes;
    let before = nodes();
    for natural in [false, true] {
        let view = View::open(&order, &tree, 0, Sort { natural, ..Sort::default() }).unwrap();
        assert!(nodes() > before);
        drop(view);
        assert_eq!(nodes(), before);
    }
}
