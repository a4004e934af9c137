//! Round trips of blocks, and forged input.

use std::vec;
use std::vec::Vec;

use super::super::image::Image;
use super::super::mixed::{self, Extents, Mixed};
use super::super::{Shape, equal};
use super::{Fields, MOST_COLUMNS, Of, Plan, Predictor};
use crate::random::Random;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// A block in which nodes were made and freed: structs with links and names, and others.
fn block(size: usize, align: usize, marks: usize, seed: u64) -> (Of, Vec<u8>) {
    let shape = mixed::Shape::new(size, align);
    let of = Of { shape: Shape::Mixed(shape), handle: 0x0003_0000_0007_0000 };
    let mut memory = vec![Line([0; 64]); (size + marks).div_ceil(64)];
    let base = std::ptr::NonNull::from(&mut memory[..]).cast();
    // SAFETY: the memory outlives the image, and nobody else uses it.
    let image = unsafe { Image::new(base, size) };
    let (block, mut lists) = (Mixed::new(image, shape), Extents::new());
    block.format().unwrap();
    block.list(&mut lists).unwrap();
    let mut random = Random(seed);
    let mut nodes: Vec<(usize, usize)> = vec![];
    for _ in 0..random.index(size / 16) {
        let len = if random.index(20) == 0 {
            1 + random.index(shape.longest().min(500))
        } else {
            10 + random.index(90)
        };
        let Some(at) = block.alloc(&mut lists, len.min(shape.longest())).unwrap() else { continue };
        let len = len.min(shape.longest());
        nodes.push((at, len));
        for byte in 0..len {
            image.set8(at + byte, if byte % 8 < 2 { random.next() as u8 } else { byte as u8 / 8 }).unwrap();
        }
        if random.index(4) == 0 {
            let (at, len) = nodes.swap_remove(random.index(nodes.len()));
            block.free(at, len).unwrap();
        }
    }
    block.clear().unwrap();
    let mut bytes: Vec<u8> = memory.iter().flat_map(|line| line.0).collect();
    bytes.truncate(size + marks);
    random.bytes(marks).iter().zip(&mut bytes[size..]).for_each(|(from, to)| *to = *from);
    (of, bytes)
}

#[test]
fn grouping_is_reversible() {
    let mut fields = Fields::default();
    let mut grouped = 0;
    for (size, align) in
        [(1024, 1), (4096, 2), (32768, 8), (32768, 1), (1 << 19, 8), (1 << 17, 2), (65536, 4096)]
    {
        for seed in 0..20 {
            let (of, block) = block(size, align, [0, 1000][seed % 2], seed as u64);
            let most = fields.plan(of, &block).unwrap();
            let mut random = Random(seed as u64);
            for columns in 0..=most.columns {
                let mut plan = Plan { columns, ..most };
                if seed % 3 == 0 {
                    plan.predictors = [(); MOST_COLUMNS].map(|()| Predictor::ALL[random.index(4)]);
                }
                let (mut to, mut back) = (vec![7; block.len()], vec![9; block.len()]);
                if fields.group(of, &plan, &block, &mut to).is_some() {
                    fields.ungroup(of, &to, &mut back).unwrap();
                    assert_eq!(back, block);
                    grouped += usize::from(columns > 0);
                }
            }
        }
    }
    assert!(grouped > 500, "{grouped}");
}

#[test]
fn grouping_of_equal_nodes_is_reversible() {
    let mut fields = Fields::default();
    let mut random = Random(8);
    for (size, align, len) in [
        (1024, 1, 1),
        (4096, 1, 3),
        (4096, 8, 8),
        (32768, 4, 20),
        (32768, 16, 100),
        (1 << 16, 8, 300),
        (8192, 1, 57),
    ] {
        for marks in [0, 40, 1000] {
            let shape = equal::Shape::new(size, align, len);
            let of = Of { shape: Shape::Equal(shape), handle: 0x0100_0000_0005_0000 };
            // Each word counts up slowly, and the data after it have few distinct values.
            let mut block = random.bytes(shape.used().next_multiple_of(8) + marks);
            for (place, at) in (shape.first()..shape.used()).step_by(shape.stride()).enumerate() {
                let whole = shape.stride() / 8 * 8;
                block[at..at + whole]
                    .chunks_mut(8)
                    .for_each(|word| word.copy_from_slice(&(place as u64).to_le_bytes()));
            }
            let most = fields.plan(of, &block).unwrap();
            assert_eq!(usize::from(most.columns), shape.stride().div_ceil(8).min(MOST_COLUMNS));
            for columns in 1..=most.columns {
                let mut plan = Plan { columns, ..most };
                if marks == 40 {
                    plan.predictors = [(); MOST_COLUMNS].map(|()| Predictor::ALL[random.index(4)]);
                }
                let (mut to, mut back) = (vec![7; block.len()], vec![9; block.len()]);
                // Whole words shrink, so the descriptions of columns fit.
                let done = fields.group(of, &plan, &block, &mut to);
                assert!(done.is_some() || len < 8 || marks == 40, "{len} {columns} {marks}");
                if done.is_some() {
                    fields.ungroup(of, &to, &mut back).unwrap();
                    assert_eq!(back, block);
                }
            }
        }
    }
}

#[test]
fn links_of_a_list_vanish() {
    // Nodes of 64 bytes one after the other: a link to the next and to the one before, a number, and 40 bytes
    // that are the same in all.
    let (size, shape) = (8192, mixed::Shape::new(8192, 8));
    let of = Of { shape: Shape::Mixed(shape), handle: 9 << 16 };
    let mut memory = vec![Line([0; 64]); size / 64];
    let base = std::ptr::NonNull::from(&mut memory[..]).cast();
    // SAFETY: the memory outlives the image, and nobody else uses it.
    let image = unsafe { Image::new(base, size) };
    let (block, mut lists) = (Mixed::new(image, shape), Extents::new());
    block.format().unwrap();
    block.list(&mut lists).unwrap();
    let places: Vec<usize> = std::iter::from_fn(|| block.alloc(&mut lists, 64).unwrap()).collect();
    let handle = |place: Option<&usize>| place.map_or(0, |&place| of.handle + u64::from(shape.unit(place)));
    for (i, &place) in places.iter().enumerate() {
        image.set64(place, handle(places.get(i + 1))).unwrap();
        image.set64(place + 8, handle(i.checked_sub(1).and_then(|i| places.get(i)))).unwrap();
        image.set64(place + 16, 1000 + 3 * i as u64).unwrap();
        (3..8).for_each(|word| image.set64(place + 8 * word, 0x1234_5678_9abc_def0).unwrap());
    }
    let bytes: Vec<u8> = memory.iter().flat_map(|line| line.0).collect();
    let mut fields = Fields::default();
    let plan = fields.plan(of, &bytes).unwrap();
    assert_eq!(&plan.predictors[..2], [Predictor::Next, Predictor::Previous]);
    assert_eq!((plan.columns, plan.predictors[2]), (8, Predictor::Same));
    let mut to = vec![1; size];
    fields.group(of, &plan, &bytes, &mut to).unwrap();
    let used = to.iter().rposition(|&byte| byte != 0).unwrap();
    // One plane of the first difference (which is taken from zero), two of headers, and fillings of six
    // bytes.
    assert!(used < places.len() * 10 + 200, "{used} bytes for {} nodes", places.len());
}

#[test]
fn damage_is_refused_or_harmless() {
    let mut fields = Fields::default();
    let mut random = Random(5);
    for seed in 0..300 {
        let (of, mut block) = block(4096, [1, 8][seed % 2], 0, seed as u64);
        let plan = Plan { columns: 1 + random.index(8) as u8, ..fields.plan(of, &block).unwrap() };
        let mut to = vec![0; block.len()];
        if fields.group(of, &plan, &block, &mut to).is_none() {
            continue;
        }
        for _ in 0..1 + random.index(5) {
            let most = [8, 60, to.len()][random.index(3)];
            let at = random.index(most);
            to[at] = random.next() as u8;
        }
        let mut back = vec![0; block.len()];
        // Whatever the input holds, `ungroup` stays within its bounds.
        let _ = fields.ungroup(of, &to, &mut back);
        let _ = fields.ungroup(of, &to[..random.index(to.len())], &mut back);
        let len = random.index(back.len());
        let _ = fields.ungroup(of, &to, &mut back[..len]);
        for _ in 0..5 {
            let at = random.index(block.len());
            block[at] = random.next() as u8;
        }
        if fields.group(of, &plan, &block, &mut to).is_some() {
            fields.ungroup(of, &to, &mut back).unwrap();
            assert_eq!(back, block);
        }
    }
}

#[test]
fn more_columns_than_nodes_have_words_are_refused() {
    let mut fields = Fields::default();
    for (len, fits) in [(8, 1), (20, 3), (57, 8), (300, MOST_COLUMNS)] {
        let shape = equal::Shape::new(32768, 1, len);
        let of = Of { shape: Shape::Equal(shape), handle: 1 << 16 };
        let mut block = vec![0; 32768];
        for columns in 1..=MOST_COLUMNS {
            // All words are zero, and so are all predictors.
            let mut from = vec![0; 40_000];
            from[0] = columns as u8;
            assert_eq!(fields.ungroup(of, &from, &mut block).is_some(), columns <= fits, "{len} {columns}");
        }
    }
}

#[test]
fn a_single_node_counts_as_an_array() {
    let mut fields = Fields::default();
    for (size, align) in [(4096, 8), (4096, 1), (32768, 64)] {
        let first = 8usize.next_multiple_of(align);
        let shape = equal::Shape::new(size, align, (size - 64 - first) / align * align);
        assert_eq!(shape.nodes(), 1);
        let of = Of { shape: Shape::Equal(shape), handle: 0x0003_0000_0007_0000 };
        let len = shape.used().next_multiple_of(8);
        let mut random = Random(align as u64);
        let (mut block, mut number) = (vec![0; len + 16], 1u64 << 40);
        for word in block[first..len].chunks_exact_mut(8) {
            number += random.below(32);
            word.copy_from_slice(&number.to_le_bytes());
        }
        block[0] = 1;
        let most = fields.plan(of, &block).unwrap();
        assert_eq!(usize::from(most.columns), MOST_COLUMNS);
        for columns in 0..=most.columns {
            let plan = Plan { columns, ..most };
            let (mut to, mut back) = (vec![7; block.len() + block.len() / 4], vec![9; block.len()]);
            let used = fields.group(of, &plan, &block, &mut to);
            if columns == 1 {
                // Most elements keep one byte of eight; the first element differs in a different byte.
                assert!(used.unwrap() < len / 4 + 128, "{used:?}");
            }
            if used.is_some() {
                fields.ungroup(of, &to, &mut back).unwrap();
                assert_eq!(back, block);
            }
        }
    }
}
