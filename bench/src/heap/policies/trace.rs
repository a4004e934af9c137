//! Traces: the order in which blocks are used.
//!
//! Consecutive uses of one block count as one **use**: a heap does not distinguish them, and they cost it
//! nothing. A trace also records when a block's last node was freed, because such a block leaves its frame
//! without being evicted.

use std::cell::RefCell;

use memfold::heap::Plain;

use crate::ncdu::{Link, Nodes, Part};
use crate::nodes::packed::{Packed, block_of};
use crate::random::Random;

/// An event of a block, by its number from zero on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Use(u32),
    Free(u32),
}

/// A part of a trace, whose hits are counted separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    pub name: String,
    pub events: Vec<Event>,
}

/// A sequence of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub name: String,
    pub phases: Vec<Phase>,
}

impl Trace {
    /// All events, in order.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.phases.iter().flat_map(|phase| phase.events.iter().copied())
    }

    /// The number of blocks, and the most that exist at a time.
    pub fn blocks(&self) -> (usize, usize) {
        let (mut there, mut now, mut most) = (Vec::new(), 0_usize, 0);
        for event in self.events() {
            let (block, live) = match event {
                Event::Use(block) => (block as usize, true),
                Event::Free(block) => (block as usize, false),
            };
            if there.len() <= block {
                there.resize(block + 1, false);
            }
            match (std::mem::replace(&mut there[block], live), live) {
                (false, true) => now += 1,
                (true, false) => now -= 1,
                _ => {}
            }
            most = most.max(now);
        }
        (there.len(), most)
    }
}

/// Memory for nodes that records which of its blocks is used.
#[derive(Debug)]
pub struct Recorder {
    packed: Packed,
    events: RefCell<Vec<Event>>,
    /// Live nodes of each block.
    live: Vec<u32>,
}

impl Recorder {
    pub fn new(block_size: usize) -> Self {
        Recorder { packed: Packed::new(block_size), events: RefCell::default(), live: Vec::new() }
    }

    /// The events since the last call.
    pub fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    fn note(&self, node: Link) {
        let now = Event::Use(block_of(node) as u32);
        let mut events = self.events.borrow_mut();
        if events.last() != Some(&now) {
            events.push(now);
        }
    }
}

impl Nodes for Recorder {
    fn make(&mut self, bytes: &[u8]) -> Link {
        let node = self.packed.make(bytes);
        self.live.resize(block_of(node) + 1, 0);
        self.live[block_of(node)] += 1;
        self.note(node);
        node
    }

    fn free(&mut self, node: Link) {
        self.note(node);
        self.packed.free(node);
        let live = &mut self.live[block_of(node)];
        *live -= 1;
        if *live == 0 {
            self.events.borrow_mut().push(Event::Free(block_of(node) as u32));
        }
    }

    fn read<T: Plain>(&self, node: Link, part: Part<T>) -> T {
        self.note(node);
        self.packed.read(node, part)
    }

    fn change<T: Plain, R>(&mut self, node: Link, part: Part<T>, change: impl FnOnce(&mut T) -> R) -> R {
        self.note(node);
        self.packed.change(node, part, change)
    }

    fn name<'a>(&'a self, node: Link, room: &'a mut Vec<u8>) -> &'a [u8] {
        self.note(node);
        self.packed.name(node, room)
    }
}

fn synthetic(name: &str, uses: usize, mut next: impl FnMut() -> u32) -> Trace {
    let mut events: Vec<Event> = Vec::with_capacity(uses);
    while events.len() < uses {
        let event = Event::Use(next());
        if events.last() != Some(&event) {
            events.push(event);
        }
    }
    Trace { name: name.to_owned(), phases: vec![Phase { name: String::from("all"), events }] }
}

/// Blocks by Zipf's law with an exponent of 0.99, the frequent ones spread over all numbers.
pub fn zipf(blocks: u32, uses: usize) -> Trace {
    let mut random = Random(99);
    let mut sums = Vec::with_capacity(blocks as usize);
    let mut sum = 0.0;
    for rank in 1..=blocks {
        sum += f64::from(rank).powf(-0.99);
        sums.push(sum);
    }
    let mut places: Vec<u32> = (0..blocks).collect();
    for i in (1..places.len()).rev() {
        places.swap(i, random.below(i + 1));
    }
    synthetic("zipf 0.99", uses, || {
        let at = sum * (random.below(1 << 53) as f64 / (1_u64 << 53) as f64);
        places[sums.partition_point(|&until| until < at).min(places.len() - 1)]
    })
}

/// On average, every other use is of one of `hot` blocks; the others loop through all blocks.
pub fn scan_and_hot(blocks: u32, hot: u32, uses: usize) -> Trace {
    let (mut random, mut at) = (Random(7), 0);
    synthetic("scan + hot set", uses, || {
        if random.below(2) == 0 {
            return random.below(hot as usize) as u32 * (blocks / hot);
        }
        at = (at + 1) % blocks;
        at
    })
}
