//! The fourth operation: deletes everything in the root, file by file, but without the system calls that
//! would delete it on disk.
//!
//! Each deleted node is removed from its list and its ring, and the sizes and counts of all its ancestors are
//! updated.

use super::{DIR, Dir, FLAGS, Link, NEXT, Nodes, PREV, SUB, add_to_parents, flags, links};

/// Deletes everything below `root`.
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
