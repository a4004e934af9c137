//! The fourth operation: deletes all that the root holds, file by file, but for the calls that would delete it on disk.
//!
//! Each node that goes is taken out of its list and its ring, and all its ancestors' sizes and counts are brought up to date.

use super::{DIR, Dir, FLAGS, Link, NEXT, Nodes, PREV, SUB, add_to_parents, flags, links};

/// Deletes what is below `root`.
pub fn delete<N: Nodes>(nodes: &mut N, root: Link) {
    below(nodes, root);
}

fn below<N: Nodes>(nodes: &mut N, directory: Link) {
    let mut next = nodes.read(directory, SUB);
    while let Some(node) = next.some() {
        next = nodes.read(node, NEXT);
        if nodes.read(node, FLAGS) & flags::DIR != 0 {
            below(nodes, node);
        }
        free(nodes, node);
    }
}

/// Frees a node that has nothing below it.
fn free<N: Nodes>(nodes: &mut N, node: Link) {
    let dir: Dir = nodes.read(node, DIR);
    debug_assert!({ dir.sub } == Link::NONE);
    if { dir.parent } != Link::NONE && nodes.read(dir.parent, SUB) == node {
        nodes.set(dir.parent, SUB, dir.next);
    }
    if { dir.prev } != Link::NONE {
        nodes.set(dir.prev, NEXT, dir.next);
    }
    if { dir.next } != Link::NONE {
        nodes.set(dir.next, PREV, dir.prev);
    }
    if dir.flags & flags::HLNKC == 0 {
        add_to_parents(nodes, dir.parent, -dir.size, -dir.asize, -(dir.items + 1));
    } else {
        links::count(nodes, node, -1);
        links::leave(nodes, node);
        add_to_parents(nodes, dir.parent, 0, 0, -(dir.items + 1));
    }
    nodes.free(node);
}
