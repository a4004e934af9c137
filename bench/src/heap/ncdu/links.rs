//! The names of one file. A directory counts the file once, however many of its names are below it.

use super::{HLNK, Link, Nodes, PARENT, SIZES};

/// Adds a name to the ring that contains `known`.
pub fn join(nodes: &mut impl Nodes, node: Link, known: Link) {
    nodes.set(node, HLNK, known);
    let mut last = known;
    if let Some(mut at) = nodes.read(last, HLNK).some() {
        // Find the name before the first one.
        loop {
            last = at;
            at = nodes.read(at, HLNK);
            if at == known {
                break;
            }
        }
    }
    nodes.set(last, HLNK, node);
}

/// Removes a name from its ring.
pub fn leave(nodes: &mut impl Nodes, node: Link) {
    let Some(next) = nodes.read(node, HLNK).some() else { return };
    let mut last = next;
    loop {
        let after = nodes.read(last, HLNK);
        if after == node {
            break;
        }
        last = after;
    }
    // A ring of one name is not a ring.
    nodes.set(last, HLNK, if next == last { Link::NONE } else { next });
}

/// Adds `sign` times a file's size to the sizes of those ancestors that have no other name of the file below
/// them.
pub fn count(nodes: &mut impl Nodes, node: Link, sign: i64) {
    let [size, asize] = nodes.read(node, SIZES);
    let ring = nodes.read(node, HLNK);
    let mut ancestor = nodes.read(node, PARENT);
    while let Some(above) = ancestor.some() {
        let mut other = ring;
        while let Some(at) = other.some().filter(|&at| at != node) {
            let mut of_other = nodes.read(at, PARENT);
            while let Some(its) = of_other.some() {
                if its == above {
                    return;
                }
                of_other = nodes.read(its, PARENT);
            }
            other = nodes.read(at, HLNK);
        }
        nodes.change(above, SIZES, |sizes| {
            sizes[0] = sizes[0].saturating_add(sign * size);
            sizes[1] = sizes[1].saturating_add(sign * asize);
        });
        ancestor = nodes.read(above, PARENT);
    }
}
