//! Nodes in uncompressed blocks as compll's paper lays them out (figure 4.2), to see what blocks consist of.
//!
//! ```text
//!   0 first free │ 2 padding │ 6 size │ 8 node ... │ padding │ size │ node ... │ unused
//!                                       ^ at multiples of eight
//! ```
//!
//! Nodes follow each other in the order of their allocation; room is not reused. Like the heap's handles, a
//! link consists of the block's number, from one on, and the node's offset in units of eight bytes.

use std::ops::Range;

use memfold::heap::Plain;

use crate::ncdu::{Link, NAME, Nodes, Part};

const ALIGNMENT: usize = 8;
const HEADER: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct Packed {
    block_size: usize,
    blocks: Vec<Vec<u8>>,
    /// All allocated nodes, in order.
    made: Vec<Link>,
    /// Where the last node ends.
    end: usize,
}

/// How the bytes of blocks are divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Uses {
    pub nodes: u64,
    pub node_bytes: u64,
    pub headers: u64,
    pub alignment: u64,
    pub unused: u64,
}

impl Packed {
    /// With blocks of at most 512 KiB.
    pub fn new(block_size: usize) -> Self {
        assert!(block_size <= ALIGNMENT << 16 && block_size.is_multiple_of(ALIGNMENT));
        Packed { block_size, blocks: Vec::new(), made: Vec::new(), end: usize::MAX }
    }

    /// All blocks except the last one, which is not full.
    pub fn full(&self) -> &[Vec<u8>] {
        self.blocks.split_last().map_or(&[], |(_, full)| full)
    }

    /// The nodes, in the order in which they were made.
    pub fn made(&self) -> &[Link] {
        &self.made
    }

    /// How the bytes of [`Packed::full`] are divided, over all blocks.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::default();
        let last = self.blocks.len();
        for &node in self.made.iter().filter(|&&node| block_of(node) + 1 < last) {
            uses.nodes += 1;
            uses.node_bytes += self.range(node).len() as u64;
        }
        uses.headers = uses.nodes * HEADER as u64;
        for block in self.full() {
            let (mut at, mut end) = (ALIGNMENT, ALIGNMENT - HEADER);
            // Six bytes before the first header, and the gap before each of the others.
            uses.alignment += (ALIGNMENT - HEADER) as u64;
            loop {
                let len = if at <= self.block_size { size_at(block, at) } else { 0 };
                if len == 0 {
                    break;
                }
                uses.alignment += (at - HEADER - end) as u64;
                end = at + len;
                at = (end + HEADER).next_multiple_of(ALIGNMENT);
            }
            uses.unused += (self.block_size - end) as u64;
        }
        uses
    }

    fn range(&self, node: Link) -> Range<usize> {
        let at = (node.0 & 0xffff) as usize * ALIGNMENT;
        at..at + size_at(&self.blocks[block_of(node)], at)
    }

    fn bytes(&self, node: Link) -> &[u8] {
        &self.blocks[block_of(node)][self.range(node)]
    }
}

/// The number of a node's block, from zero on.
pub fn block_of(node: Link) -> usize {
    (node.0 >> 16) as usize - 1
}

/// The size stored before a place; zero if there is none.
fn size_at(block: &[u8], at: usize) -> usize {
    let header = block.get(at - HEADER..at).and_then(|header| header.try_into().ok());
    header.map_or(0, |header| usize::from(u16::from_le_bytes(header)))
}

impl Nodes for Packed {
    fn make(&mut self, bytes: &[u8]) -> Link {
        let size = u16::try_from(bytes.len()).expect("a node of less than 64 KiB");
        let mut at =
            self.end.saturating_add(HEADER).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        if self.blocks.is_empty() || at.saturating_add(bytes.len()) > self.block_size {
            self.blocks.push(vec![0; self.block_size]);
            at = ALIGNMENT;
        }
        self.end = at + bytes.len();
        assert!(self.end <= self.block_size, "a node that fits into a block");
        let number = self.blocks.len();
        let block = &mut self.blocks[number - 1];
        block[at - HEADER..at].copy_from_slice(&size.to_le_bytes());
        block[at..self.end].copy_from_slice(bytes);
        let node = Link((number as u64) << 16 | (at / ALIGNMENT) as u64);
        self.made.push(node);
        node
    }

    fn free(&mut self, node: Link) {
        let range = self.range(node);
        self.blocks[block_of(node)][range].fill(0);
    }

    fn read<T: Plain>(&self, node: Link, part: Part<T>) -> T {
        T::read_from_prefix(&self.bytes(node)[part.begin()..]).expect("a part of a node").0
    }

    fn change<T: Plain, R>(&mut self, node: Link, part: Part<T>, change: impl FnOnce(&mut T) -> R) -> R {
        // The value is copied, since a vector of bytes may begin at any address.
        let mut value = self.read(node, Part::at(part.begin()));
        let result = change(&mut value);
        let from = self.range(node).start + part.begin();
        self.blocks[block_of(node)][from..from + size_of::<T>()].copy_from_slice(value.as_bytes());
        result
    }

    fn name<'a>(&'a self, node: Link, _: &'a mut Vec<u8>) -> &'a [u8] {
        let bytes = self.bytes(node);
        &bytes[NAME..bytes.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncdu::{DIR, Dir, SIZES};
    use zerocopy::IntoBytes;

    #[test]
    fn every_byte_of_a_block_is_accounted_for() {
        let mut packed = Packed::new(4096);
        for i in 0..500_usize {
            let dir = Dir { size: i as i64, ..Dir::default() };
            let node = packed.make(&[dir.as_bytes(), &vec![b'n'; 1 + i * 7 % 40], &[0]].concat());
            packed.change(node, SIZES, |sizes| sizes[1] = -1);
            assert_eq!(packed.read(node, DIR), Dir { asize: -1, ..dir });
            assert_eq!(packed.name(node, &mut Vec::new()).len(), 1 + i * 7 % 40);
        }
        let uses = packed.uses();
        assert!(packed.full().len() > 10);
        let all = uses.node_bytes + uses.headers + uses.alignment + uses.unused;
        assert_eq!(all, 4096 * packed.full().len() as u64);
        assert!(uses.alignment > 0 && uses.unused > 0);
    }
}
