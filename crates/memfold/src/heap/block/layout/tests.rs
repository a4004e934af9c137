//! Blocks against a model: a list of nodes with their content.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::vec::Vec;

use super::equal;
use super::image::Image;
use super::mixed::{self, Extents, Mixed};
use crate::random::Random;

struct Memory(NonNull<u8>, usize);

impl Memory {
    fn new(len: usize) -> Self {
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(Layout::from_size_align(len, 64).unwrap()) };
        Memory(NonNull::new(base).unwrap(), len)
    }

    fn image(&self) -> Image {
        // SAFETY: the memory outlives each test, which has one thread.
        unsafe { Image::new(self.0, self.1) }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.1) }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let place = self.image().place(at, bytes.len()).unwrap();
        // SAFETY: within the memory.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), Layout::from_size_align(self.1, 64).unwrap()) };
    }
}

/// The invariants of a block: extents cover it, nodes hold what the model says, and free bytes are zero
/// except for links and units.
fn check(memory: &Memory, shape: mixed::Shape, model: &BTreeMap<usize, Vec<u8>>) {
    let block = Mixed::new(memory.image(), shape);
    let (mut seen, mut end) = (0, shape.first());
    for extent in block.extents() {
        let extent = extent.unwrap();
        assert_eq!(extent.place, end);
        if let Some(len) = extent.node {
            assert_eq!(&memory.bytes()[extent.place..extent.place + len], &model[&extent.place]);
            seen += 1;
        }
        end = extent.place + extent.stride;
    }
    assert_eq!((seen, end), (model.len(), shape.first() + shape.room()));
    let bytes = model.values().map(Vec::len).sum();
    let free = shape.room() - model.values().map(|node| shape.stride(node.len())).sum::<usize>();
    assert_eq!(block.check(), Ok((seen, bytes, free)));
}

/// Free extents, according to the headers.
fn free_extents(block: Mixed) -> Vec<usize> {
    block.extents().map(|extent| extent.unwrap()).filter(|e| e.node.is_none()).map(|e| e.stride).collect()
}

#[test]
fn mixed_blocks_do_as_the_model() {
    for (size, align) in
        [(1024, 1), (1024, 8), (4096, 2), (4096, 16), (32768, 8), (32768, 1), (1 << 19, 8), (65536, 4096)]
    {
        let (memory, shape) = (Memory::new(size), mixed::Shape::new(size, align));
        let block = Mixed::new(memory.image(), shape);
        let mut lists = Extents::new();
        block.format().unwrap();
        let mut random = Random(size as u64 + align as u64);
        let mut model: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let longest = shape.longest().min(if size > 60_000 { 3000 } else { 300 });
        for step in 0..6000 {
            if step % (1 + random.index(100)) == 0 {
                let longest = block.list(&mut lists).unwrap();
                let free = free_extents(block);
                assert_eq!(longest, free.iter().copied().max().unwrap_or(0));
                let nodes = block.extents().map(|extent| extent.unwrap().node.is_some());
                assert!(nodes.is_sorted_by(|a, b| *a || *b), "two free extents side by side");
            }
            if random.index(50) == 0 {
                block.clear().unwrap();
                let zero = |extent: &mixed::Extent| {
                    let end = extent.place + extent.stride - 2;
                    let from = (extent.place + 6).min(end);
                    memory.bytes()[from..end].iter().all(|&byte| byte == 0)
                };
                assert!(block.extents().map(|e| e.unwrap()).filter(|e| e.node.is_none()).all(|e| zero(&e)));
            }
            let len = 1 + random.index(longest);
            let nth = random.index(model.len().max(1));
            let some = model.keys().nth(nth).copied();
            match (random.index(8), some) {
                (0..=3, _) | (_, None) => {
                    let Some(place) = block.alloc(&mut lists, len).unwrap() else { continue };
                    assert!(place.is_multiple_of(align.max(shape.align())) && place + len <= size);
                    assert!(memory.bytes()[place..place + len].iter().all(|&byte| byte == 0));
                    let bytes: Vec<u8> = (0..len).map(|_| random.index(256) as u8).collect();
                    memory.write(place, &bytes);
                    assert!(model.insert(place, bytes).is_none());
                }
                (4..=6, Some(place)) => {
                    let node = model.remove(&place).unwrap();
                    assert_eq!(block.free(place, node.len()), Ok(shape.stride(node.len())));
                }
                (_, Some(place)) => {
                    let node = model.get_mut(&place).unwrap();
                    let more = shape.stride(len) as isize - shape.stride(node.len()) as isize;
                    if let Some(taken) = block.resize(place, len).unwrap() {
                        assert_eq!(taken, more);
                        node.resize(len, 0);
                    }
                    block.list(&mut lists).unwrap();
                }
            }
            if step % 16 == 0 || size < 5000 {
                check(&memory, shape, &model);
            }
        }
        while !model.is_empty() {
            let place = *model.keys().nth(random.index(model.len())).unwrap();
            let node = model.remove(&place).unwrap();
            block.free(place, node.len()).unwrap();
            if random.index(20) == 0 {
                block.list(&mut lists).unwrap();
            }
        }
        // However the block was divided, one free extent is left, and the longest node fits in it.
        assert_eq!(block.list(&mut lists), Ok(shape.room()));
        assert_eq!(free_extents(block), [shape.room()]);
        assert!(block.alloc(&mut lists, shape.longest()).unwrap().is_some());
    }
}

/// The usual listing that shows that a boundary-tag allocator leaves no fragments: nodes are freed in several
/// orders, and after each step there is one free extent for each gap.
#[test]
fn adjacent_free_space_is_one_extent() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let (memory, shape) = (Memory::new(4096), mixed::Shape::new(4096, 8));
        let (block, mut lists) = (Mixed::new(memory.image(), shape), Extents::new());
        block.format().unwrap();
        block.list(&mut lists).unwrap();
        // Four nodes that fill the block.
        let mut left: usize = shape.room();
        let nodes: Vec<(usize, usize)> = (0..4)
            .map(|i| {
                let len = if i == 3 { left - 2 } else { 100 + 50 * i };
                left -= shape.stride(len);
                (block.alloc(&mut lists, len).unwrap().unwrap(), len)
            })
            .collect();
        assert_eq!(block.alloc(&mut lists, 1), Ok(None));
        let mut is_free = [false; 4];
        for i in order {
            block.free(nodes[i].0, nodes[i].1).unwrap();
            is_free[i] = true;
            block.list(&mut lists).unwrap();
            let gaps = is_free.chunk_by(|a, b| a == b).filter(|chunk| chunk[0]).count();
            assert_eq!(free_extents(block).len(), gaps, "{order:?}");
        }
        assert_eq!(free_extents(block), [shape.room()]);
    }
}

#[test]
fn the_best_fit_is_taken() {
    let (memory, shape) = (Memory::new(4096), mixed::Shape::new(4096, 8));
    let (block, mut lists) = (Mixed::new(memory.image(), shape), Extents::new());
    block.format().unwrap();
    block.list(&mut lists).unwrap();
    let mut node = |len| block.alloc(&mut lists, len).unwrap().unwrap();
    let (large, _a, small, _b, middle, _c) = (node(200), node(8), node(60), node(8), node(100), node(8));
    for (place, len) in [(large, 200), (small, 60), (middle, 100)] {
        block.free(place, len).unwrap();
    }
    block.list(&mut lists).unwrap();
    assert_eq!(block.alloc(&mut lists, 90), Ok(Some(middle)));
    assert_eq!(block.alloc(&mut lists, 50), Ok(Some(small)));
    assert_eq!(block.alloc(&mut lists, 50), Ok(Some(large)));
}

#[test]
fn bytes_that_contradict_themselves_are_refused() {
    let (memory, shape) = (Memory::new(4096), mixed::Shape::new(4096, 8));
    let block = Mixed::new(memory.image(), shape);
    let mut random = Random(7);
    for _ in 0..5000 {
        memory.image().zero(0, 4096).unwrap();
        let mut lists = Extents::new();
        block.format().unwrap();
        block.list(&mut lists).unwrap();
        let nodes: Vec<(usize, usize)> = (0..20)
            .filter_map(|_| {
                let len = 1 + random.index(200);
                block.alloc(&mut lists, len).unwrap().map(|place| (place, len))
            })
            .collect();
        for &(place, len) in nodes.iter().step_by(3) {
            block.free(place, len).unwrap();
        }
        if random.index(2) == 0 {
            block.list(&mut lists).unwrap();
        }
        for _ in 0..1 + random.index(8) {
            memory.write(random.index(4096), &[random.index(256) as u8]);
        }
        // Whatever the results are, nothing outside the block is touched, and nothing panics.
        for &(place, len) in &nodes {
            let _ = block.resize(place, 1 + random.index(300));
            let _ = block.free(place, len);
            let _ = block.alloc(&mut lists, 1 + random.index(300));
        }
        let _ = block.list(&mut lists);
        let _ = block.check();
    }
}

#[test]
fn equal_blocks_do_as_the_model() {
    for (size, align, len) in
        [(1024, 1, 1), (4096, 8, 16), (4096, 1, 13), (32768, 64, 100), (1 << 20, 1, 3), (4096, 8, 2000)]
    {
        let shape = equal::Shape::new(size, align, len);
        assert!(shape.used() <= size && shape.nodes() > 0);
        let memory = Memory::new(size);
        let block = shape.block(memory.image());
        let mut random = Random(size as u64);
        let mut model: BTreeMap<u16, u8> = BTreeMap::new();
        for _ in 0..3000 {
            let nth = random.index(model.len().max(1));
            match (random.index(3), model.keys().nth(nth).copied()) {
                (0, Some(number)) => {
                    let place = shape.place(number).unwrap();
                    assert_eq!(memory.bytes()[place], model.remove(&number).unwrap());
                    memory.image().zero(place, len).unwrap();
                    let word = usize::from(number / 64) * 8;
                    let live = memory.image().get64(word).unwrap();
                    memory.image().set64(word, live & !(1 << (number % 64))).unwrap();
                    assert_eq!(equal::is_live(memory.image(), number), Ok(false));
                }
                _ => {
                    let words = (0..shape.words()).map(|word| (word, block.free(word).unwrap()));
                    let Some((word, free)) = words.into_iter().find(|(_, free)| *free != 0) else {
                        assert_eq!(model.len(), shape.nodes());
                        continue;
                    };
                    let number = (word * 64) as u16 + free.trailing_zeros() as u16;
                    block.take(number).unwrap();
                    let place = shape.place(number).unwrap();
                    assert!(place.is_multiple_of(align) && place + len <= size);
                    assert!(memory.bytes()[place..place + len].iter().all(|&byte| byte == 0));
                    let byte = 1 + random.index(255) as u8;
                    memory.write(place, &std::vec![byte; len]);
                    assert!(model.insert(number, byte).is_none());
                }
            }
            let live = |number: &u16| equal::is_live(memory.image(), *number) == Ok(true);
            assert_eq!((0..=(shape.nodes() - 1) as u16).filter(live).count(), model.len());
        }
    }
}

/// The filling after a live node stays when the node is freed, so a block from a file that has data there
/// would contradict itself later.
#[test]
fn filling_behind_nodes_of_one_size_is_zero() {
    let shape = equal::Shape::new(1024, 16, 34);
    let memory = Memory::new(1024);
    let block = shape.block(memory.image());
    block.take(3).unwrap();
    let place = shape.place(3).unwrap();
    memory.write(place, &[7; 34]);
    assert_eq!(block.check(), Ok(1));
    for at in [34, shape.stride() - 1] {
        memory.write(place + at, &[1]);
        assert!(block.check().is_err(), "{at}");
        memory.write(place + at, &[0]);
    }
    assert_eq!(block.check(), Ok(1));
}

#[test]
fn extents_longer_than_a_header_says_are_listed() {
    for (size, align) in [(1 << 19, 8), (1 << 16, 1)] {
        let memory = Memory::new(size);
        let shape = mixed::Shape::new(size, align);
        let (block, mut lists) = (Mixed::new(memory.image(), shape), Extents::new());
        block.format().unwrap();
        assert_eq!(block.list(&mut lists), Ok(shape.room()));
        let first = block.alloc(&mut lists, mixed::MOST_BYTES).unwrap().unwrap();
        let second = block.alloc(&mut lists, 100).unwrap().unwrap();
        block.free(first, mixed::MOST_BYTES).unwrap();
        block.list(&mut lists).unwrap();
        assert_eq!(block.alloc(&mut lists, mixed::MOST_BYTES), Ok(Some(first)));
        block.free(second, 100).unwrap();
        block.free(first, mixed::MOST_BYTES).unwrap();
        assert_eq!(block.list(&mut lists), Ok(shape.room()));
        assert_eq!(block.check(), Ok((0, 0, shape.room())));
    }
}
