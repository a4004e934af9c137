//! Nodes grouped by element, as in section 4.2 of compll's paper: each field of many nodes in a block of its
//! own.
//!
//! ```text
//!   group:   bits │ size... │ asize... │ ino... │ ... │ flags... │ where the name is...
//!   names:   size, name, padding │ size, name, padding │ ...                             in blocks of 16 KiB, at even places
//! ```
//!
//! A link consists of the group's number, from one on, and the node's place in it. A name's location is a block
//! number and an offset, in eight bytes.

use std::collections::HashMap;

use crate::ncdu::{DIR, Dir, Link, Nodes};
use crate::nodes::packed::Packed;

const NAME_BLOCK: usize = 16 << 10;
const NAME_HEADER: usize = 2;
const NAME_ALIGNMENT: usize = 2;

/// A whole tree, grouped by element.
#[derive(Debug, Default)]
pub struct Elements {
    /// For each field, a column of each full group.
    pub columns: Vec<Vec<Vec<u8>>>,
    /// Blocks of names.
    pub names: Vec<Vec<u8>>,
    /// The number of full groups, and the bytes of their nodes alone: fields, and names with their zero.
    pub groups: usize,
    pub node_bytes: u64,
    /// Bytes of the bits that mark a group's used places.
    pub bits: usize,
}

/// Adds a name to the blocks and returns its location.
fn add_name(names: &mut Vec<Vec<u8>>, end: &mut usize, name: &[u8]) -> u64 {
    let needed = (NAME_HEADER + name.len()).next_multiple_of(NAME_ALIGNMENT);
    if names.is_empty() || *end + needed > NAME_BLOCK {
        names.push(vec![0; NAME_BLOCK]);
        *end = 0;
    }
    let number = names.len() as u64;
    let block = names.last_mut().expect("a block");
    let at = *end + NAME_HEADER;
    let len = u16::try_from(name.len()).expect("a name of less than 64 KiB");
    block[*end..at].copy_from_slice(&len.to_le_bytes());
    block[at..at + name.len()].copy_from_slice(name);
    *end += needed;
    (number << 16) | at as u64
}

impl Elements {
    /// The nodes of a tree, `size` of them in each group.
    pub fn of(packed: &Packed, size: usize) -> Self {
        let made = packed.made();
        let place = |at: usize| Link((((at / size + 1) << 16) | (at % size)) as u64);
        let places: HashMap<Link, Link> =
            made.iter().enumerate().map(|(at, &node)| (node, place(at))).collect();
        let moved = |link: Link| link.some().map_or(Link::NONE, |link| places[&link]);
        let groups = made.len() / size;
        let mut elements = Elements { groups, bits: size / 8, ..Elements::default() };
        let (mut end, mut room) = (0, Vec::new());
        for group in made.chunks_exact(size) {
            let mut columns: [Vec<u8>; 12] = Default::default();
            for &node in group {
                let dir: Dir = packed.read(node, DIR);
                let name = packed.name(node, &mut room);
                let at = add_name(&mut elements.names, &mut end, name);
                elements.node_bytes += (size_of::<Dir>() + name.len() + 1) as u64;
                let links = [dir.parent, dir.next, dir.prev, dir.sub, dir.hlnk].map(|link| moved(link).0);
                let words = [dir.size as u64, dir.asize as u64, dir.ino, dir.dev]
                    .into_iter()
                    .chain(links)
                    .chain([at]);
                for (column, word) in columns.iter_mut().zip(words) {
                    column.extend_from_slice(&word.to_le_bytes());
                }
                columns[10].extend_from_slice(&{ dir.items }.to_le_bytes());
                columns[11].extend_from_slice(&{ dir.flags }.to_le_bytes());
            }
            elements.columns.resize(columns.len(), Vec::new());
            for (all, column) in elements.columns.iter_mut().zip(columns) {
                all.push(column);
            }
        }
        elements
    }

    /// Bytes of one group without its names: bits and columns.
    pub fn group_bytes(&self) -> usize {
        self.bits + self.columns.iter().filter_map(|column| column.first()).map(Vec::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncdu::flags;
    use zerocopy::IntoBytes;

    #[test]
    fn elements_are_those_of_the_nodes() {
        let mut packed = Packed::new(4096);
        let mut parent = Link::NONE;
        for i in 0..1100_i64 {
            let dir = Dir { size: i, asize: 2 * i, parent, flags: flags::FILE, ..Dir::default() };
            parent = packed.make(&[dir.as_bytes(), format!("name {i}\0").as_bytes()].concat());
        }
        let elements = Elements::of(&packed, 512);
        assert_eq!((elements.groups, elements.bits), (2, 64));
        assert_eq!(elements.group_bytes(), 64 + 512 * (10 * 8 + 4 + 2));
        let word = |column: usize, group: usize, at: usize| {
            let bytes = &elements.columns[column][group][8 * at..8 * at + 8];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        assert_eq!((word(0, 0, 511), word(1, 1, 3)), (511, 2 * 515));
        // The parent is the node before; for the first node of the second group, it is the last node of the
        // first.
        assert_eq!((word(4, 0, 0), word(4, 0, 1), word(4, 1, 0)), (0, 1 << 16, (1 << 16) | 511));
        let name = word(9, 1, 3);
        let (block, at) = ((name >> 16) as usize - 1, (name & 0xffff) as usize);
        assert!(elements.names[block][at..].starts_with(b"name 515"));
        assert_eq!(u16::from_le_bytes([elements.names[block][at - 2], elements.names[block][at - 1]]), 8);
    }
}
