//! The second operation: opens a directory in the browser.
//!
//! The list of its items is sorted in place, largest first, by size, then apparent size, then name: a bottom-up
//! merge sort of the linked list with all its links in the nodes (Tatham's, as in ncdu). Then one pass finds the
//! selected item and the largest sizes.

use std::cmp::Ordering;

use super::{DIR, FLAGS, Link, NEXT, Nodes, PARENT, PREV, SIZES, SUB, flags};

/// A directory in the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    pub parent: Link,
    pub head: Link,
    pub selected: Link,
    pub largest: i64,
    pub largest_apparent: i64,
}

/// Room for names that are compared.
#[derive(Default)]
struct Rooms(Vec<u8>, Vec<u8>);

fn compare<N: Nodes>(nodes: &N, x: Link, y: Link, rooms: &mut Rooms) -> Ordering {
    // The largest comes first.
    let sizes = nodes.read(y, SIZES).cmp(&nodes.read(x, SIZES));
    sizes.then_with(|| nodes.name(y, &mut rooms.0).cmp(nodes.name(x, &mut rooms.1)))
}

/// Sorts the list that begins with `list`, and returns its new first item.
pub fn sort<N: Nodes>(nodes: &mut N, mut list: Link) -> Link {
    let mut rooms = Rooms::default();
    let mut run = 1;
    loop {
        let (mut p, mut tail, mut merges) = (list, Link::NONE, 0);
        list = Link::NONE;
        while p != Link::NONE {
            merges += 1;
            let (mut q, mut in_p, mut in_q) = (p, 0, run);
            while in_p < run && q != Link::NONE {
                in_p += 1;
                q = nodes.read(q, NEXT);
            }
            while in_p > 0 || (in_q > 0 && q != Link::NONE) {
                let from_p =
                    in_p > 0 && (in_q == 0 || q == Link::NONE || compare(nodes, p, q, &mut rooms).is_le());
                let (from, left) = if from_p { (&mut p, &mut in_p) } else { (&mut q, &mut in_q) };
                let item = *from;
                *from = nodes.read(item, NEXT);
                *left -= 1;
                if tail == Link::NONE {
                    list = item;
                } else {
                    nodes.set(tail, NEXT, item);
                }
                nodes.set(item, PREV, tail);
                tail = item;
            }
            p = q;
        }
        if tail == Link::NONE {
            return list;
        }
        nodes.set(tail, NEXT, Link::NONE);
        if merges <= 1 {
            let parent = nodes.read(list, PARENT);
            nodes.set(parent, SUB, list);
            return list;
        }
        run *= 2;
    }
}

/// Opens a directory; `None` if it is empty.
pub fn open<N: Nodes>(nodes: &mut N, directory: Link) -> Option<Opened> {
    let head = nodes.read(directory, SUB).some()?;
    let head = sort(nodes, head);
    let mut opened =
        Opened { parent: directory, head, selected: Link::NONE, largest: 0, largest_apparent: 0 };
    let mut at = head;
    while let Some(node) = at.some() {
        let dir = nodes.read(node, DIR);
        if dir.flags & flags::BSEL != 0 {
            if opened.selected == Link::NONE {
                opened.selected = node;
            } else {
                nodes.set(node, FLAGS, dir.flags & !flags::BSEL);
            }
        }
        opened.largest = opened.largest.max(dir.size);
        opened.largest_apparent = opened.largest_apparent.max(dir.asize);
        at = dir.next;
    }
    if opened.selected == Link::NONE {
        opened.selected = head;
        nodes.change(head, FLAGS, |flags| *flags |= flags::BSEL);
    }
    Some(opened)
}
