//! The contents of a tree in nodes, to compare two kinds of memory with each other and with the plan.

use super::{DIR, Dir, Link, Nodes, flags};
use crate::model::Totals;

/// An order-dependent checksum of bytes (64-bit FNV-1a).
#[derive(Debug, Clone, Copy)]
pub struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

/// Totals of a tree, and a checksum of everything in its nodes but links, in the order of the lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub totals: Totals,
    pub sum: u64,
}

/// Walks a tree from its root. Wrong back links, counts that do not add up, and invalid parents end the
/// program.
pub fn summary<N: Nodes>(nodes: &N, root: Link) -> Summary {
    let mut walk = Walk { nodes, totals: Totals::default(), sum: Sum::default(), name: Vec::new() };
    walk.node(root);
    Summary { totals: walk.totals, sum: walk.sum.value() }
}

struct Walk<'n, N> {
    nodes: &'n N,
    totals: Totals,
    sum: Sum,
    name: Vec<u8>,
}

impl<N: Nodes> Walk<'_, N> {
    fn node(&mut self, node: Link) -> Dir {
        let dir: Dir = self.nodes.read(node, DIR);
        let name = self.nodes.name(node, &mut self.name);
        self.sum.add(name);
        for number in [dir.size, dir.asize, i64::from(dir.items), i64::from(dir.flags)] {
            self.sum.add(&number.to_le_bytes());
        }
        for number in [dir.ino, dir.dev] {
            self.sum.add(&number.to_le_bytes());
        }
        self.totals.name_bytes += name.len() as u64;
        if dir.flags & flags::DIR == 0 {
            self.totals.files += 1;
            self.totals.bytes += dir.asize as u64;
        } else {
            self.totals.directories += 1;
        }
        let (mut at, mut before, mut items) = (dir.sub, Link::NONE, 0);
        while at != Link::NONE {
            let child = self.node(at);
            assert_eq!({ child.parent }, node, "a child's parent");
            assert_eq!({ child.prev }, before, "a child's link back");
            items += child.items + 1;
            (before, at) = (at, child.next);
        }
        assert_eq!({ dir.items }, items, "a directory's items");
        dir
    }
}
