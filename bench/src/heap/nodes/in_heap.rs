//! Nodes in the compressed heap, with handles as links.

use memfold::heap::{Handle, Plain, Session};

use crate::ncdu::{Link, NAME, Nodes, Part};

/// See the module.
#[derive(Debug)]
pub struct InHeap<'h>(pub Session<'h>);

#[inline]
fn handle(node: Link) -> Handle {
    Handle::from_bits(node.0).expect("a node")
}

impl Nodes for InHeap<'_> {
    fn make(&mut self, bytes: &[u8]) -> Link {
        Link(self.0.put_bytes(bytes).expect("room").to_bits())
    }

    fn free(&mut self, node: Link) {
        self.0.free(handle(node)).expect("a live node");
    }

    #[inline]
    fn read<T: Plain>(&self, node: Link, part: Part<T>) -> T {
        self.0.get_at(handle(node), part.begin()).expect("a live node")
    }

    #[inline]
    fn change<T: Plain, R>(&mut self, node: Link, part: Part<T>, change: impl FnOnce(&mut T) -> R) -> R {
        self.0.update_at(handle(node), part.begin(), change).expect("a live node")
    }

    #[inline]
    fn set<T: Plain>(&mut self, node: Link, part: Part<T>, value: T) {
        self.0.set_at(handle(node), part.begin(), &value).expect("a live node");
    }

    #[inline]
    fn name<'a>(&'a self, node: Link, room: &'a mut Vec<u8>) -> &'a [u8] {
        self.0.read_into(handle(node), room).expect("a live node");
        &room[NAME..room.len() - 1]
    }
}
