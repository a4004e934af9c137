//! Blocks against a model: a list of nodes with what they hold.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::vec::Vec;

use super::equal::{self, Equal};
use super::image::Image;
use super::mixed::{self, Bins, Mixed};
use crate::random::Random;

struct Memory(NonNull<u8>, usize);

impl Memory {
    fn new(len: usize) -> Self {
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(Layout::from_size_align(len, 64).unwrap()) };
        Memory(NonNull::new(base).unwrap(), len)
    }

    fn image(&self) -> Image {
        // SAFETY: the memory lives through each test, which has one thread.
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

/// What must hold of a block: extents cover it, neighbours know of each other, nodes hold what the model says, and free
/// bytes are zero but for what belongs there.
fn check(memory: &Memory, shape: mixed::Shape, model: &BTreeMap<usize, Vec<u8>>) {
    let mut bins = Bins::new();
    let block = Mixed::new(memory.image(), shape, &mut bins);
    let (mut seen, mut before_free, mut end) = (0, false, shape.first());
    for extent in block.extents() {
        let extent = extent.unwrap();
        assert_eq!(extent.place, end);
        let header = memory.image().get16(extent.place - 2).unwrap();
        assert_eq!(header >> 15 != 0, before_free, "the flag at {}", extent.place);
        match extent.node {
            Some(len) => {
                let node = &model[&extent.place];
                assert_eq!(&memory.bytes()[extent.place..extent.place + len], node);
                let filling = &memory.bytes()[extent.place + len..extent.place + extent.stride - 2];
                assert!(filling.iter().all(|&byte| byte == 0));
                seen += 1;
            }
            None => {
                let inner = &memory.bytes()[extent.place..extent.place + extent.stride - 2];
                let (front, back) = if inner.len() > 16 { (8, 6) } else { (inner.len(), 0) };
                assert!(inner[front..inner.len() - back].iter().all(|&byte| byte == 0));
                assert!(!before_free || extent.stride < 4, "two free extents side by side");
            }
        }
        before_free = extent.node.is_none() && extent.stride >= 4;
        end = extent.place + extent.stride;
    }
    assert_eq!(seen, model.len());
    assert_eq!(end, shape.first() + shape.room());
}

#[test]
fn mixed_blocks_do_as_the_model() {
    for (size, align) in
        [(1024, 1), (1024, 8), (4096, 2), (4096, 16), (32768, 8), (32768, 1), (1 << 19, 8), (65536, 4096)]
    {
        let (memory, shape) = (Memory::new(size), mixed::Shape::new(size, align));
        let mut bins = Bins::new();
        Mixed::format(memory.image(), shape, &mut bins).unwrap();
        let mut random = Random(size as u64 + align as u64);
        let mut model: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let longest = shape.longest().min(if size > 60_000 { 3000 } else { 300 });
        for step in 0..4000 {
            if step % 500 == 250 {
                // As after loading: lists are made anew.
                Mixed::listed(memory.image(), shape, &mut bins).unwrap();
            }
            let mut block = Mixed::new(memory.image(), shape, &mut bins);
            let len = 1 + random.index(longest);
            let nth = random.index(model.len().max(1));
            let some = model.keys().nth(nth).copied();
            match (random.index(8), some) {
                (0..=3, _) | (_, None) => {
                    let sure = len <= block.surely_fits();
                    let Some(place) = block.alloc(len).unwrap() else {
                        assert!(!sure || align == 1);
                        continue;
                    };
                    assert!(place.is_multiple_of(align.max(shape.align())) && place + len <= size);
                    assert_eq!(mixed::node_len(memory.image(), place), Ok(Some(len)));
                    assert!(memory.bytes()[place..place + len].iter().all(|&byte| byte == 0));
                    let bytes: Vec<u8> = (0..len).map(|_| random.index(256) as u8).collect();
                    memory.write(place, &bytes);
                    assert!(model.insert(place, bytes).is_none());
                }
                (4..=6, Some(place)) => {
                    model.remove(&place);
                    assert_eq!(block.free(place).unwrap(), model.is_empty());
                }
                (_, Some(place)) => {
                    if block.resize(place, len).unwrap() {
                        let node = model.get_mut(&place).unwrap();
                        node.resize(len, 0);
                    }
                }
            }
            if step % 16 == 0 || size < 5000 {
                check(&memory, shape, &model);
            }
        }
        let mut block = Mixed::new(memory.image(), shape, &mut bins);
        while !model.is_empty() {
            let place = *model.keys().nth(random.index(model.len())).unwrap();
            model.remove(&place);
            assert_eq!(block.free(place).unwrap(), model.is_empty());
        }
        // However it was cut up, one free extent is left.
        assert_eq!(block.extents().count(), 1);
        assert_eq!(block.surely_fits().min(shape.longest()), block.surely_fits());
    }
}

#[test]
fn the_best_fit_is_taken() {
    let (memory, shape) = (Memory::new(4096), mixed::Shape::new(4096, 8));
    let mut bins = Bins::new();
    let mut block = Mixed::format(memory.image(), shape, &mut bins).unwrap();
    let mut node = |len| block.alloc(len).unwrap().unwrap();
    let (large, _a, small, _b, middle, _c) = (node(200), node(8), node(60), node(8), node(100), node(8));
    for place in [large, small, middle] {
        block.free(place).unwrap();
    }
    assert_eq!(block.alloc(90), Ok(Some(middle)));
    assert_eq!(block.alloc(50), Ok(Some(small)));
    assert_eq!(block.alloc(50), Ok(Some(large)));
}

#[test]
fn bytes_that_contradict_themselves_are_refused() {
    let (memory, shape) = (Memory::new(4096), mixed::Shape::new(4096, 8));
    let mut random = Random(7);
    for _ in 0..3000 {
        memory.image().zero(0, 4096).unwrap();
        let mut bins = Bins::new();
        let mut block = Mixed::format(memory.image(), shape, &mut bins).unwrap();
        let nodes: Vec<usize> = (0..20).filter_map(|_| block.alloc(1 + random.index(200)).unwrap()).collect();
        for &place in nodes.iter().step_by(3) {
            block.free(place).unwrap();
        }
        for _ in 0..1 + random.index(8) {
            memory.write(random.index(4096), &[random.index(256) as u8]);
        }
        // Whatever comes of it, nothing outside of the block is touched, and nothing panics.
        let mut block = Mixed::new(memory.image(), shape, &mut bins);
        for &place in &nodes {
            let _ = block.resize(place, 1 + random.index(300));
            let _ = block.free(place);
            let _ = block.alloc(1 + random.index(300));
        }
        let _ = Mixed::listed(memory.image(), shape, &mut bins);
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
        let mut block = Equal::new(memory.image(), shape);
        let mut random = Random(size as u64);
        let mut model: BTreeMap<u16, u8> = BTreeMap::new();
        for _ in 0..3000 {
            let nth = random.index(model.len().max(1));
            match (random.index(3), model.keys().nth(nth).copied()) {
                (0, Some(number)) => {
                    let place = shape.place(number).unwrap();
                    assert_eq!(memory.bytes()[place], model.remove(&number).unwrap());
                    block.free(number).unwrap();
                    assert!(block.free(number).is_err());
                    assert_eq!(equal::is_live(memory.image(), number), Ok(false));
                }
                _ => {
                    let from = random.index(shape.nodes()) as u16;
                    let Some(number) = block.alloc(from).unwrap() else {
                        assert_eq!(model.len(), shape.nodes());
                        continue;
                    };
                    let place = shape.place(number).unwrap();
                    assert!(place.is_multiple_of(align) && place + len <= size);
                    assert!(memory.bytes()[place..place + len].iter().all(|&byte| byte == 0));
                    let byte = 1 + random.index(255) as u8;
                    memory.write(place, &std::vec![byte; len]);
                    assert!(model.insert(number, byte).is_none());
                }
            }
            let live = |number: &u16| equal::is_live(memory.image(), *number) == Ok(true);
            assert_eq!((0..=shape.nodes() as u16 - 1).filter(live).count(), model.len());
        }
    }
}

#[test]
fn bins_are_in_the_order_of_sizes() {
    let memory = Memory::new(1 << 19);
    let shape = mixed::Shape::new(1 << 19, 8);
    let mut bins = Bins::new();
    let mut block = Mixed::format(memory.image(), shape, &mut bins).unwrap();
    // A free extent whose units do not fit into a header.
    assert_eq!(block.extents().count(), 1);
    assert_eq!(block.surely_fits(), mixed::MOST_BYTES);
    let first = block.alloc(mixed::MOST_BYTES).unwrap().unwrap();
    let second = block.alloc(100).unwrap().unwrap();
    block.free(first).unwrap();
    assert_eq!(block.alloc(mixed::MOST_BYTES), Ok(Some(first)));
    block.free(second).unwrap();
    assert!(block.free(first).unwrap());
}
