//! Nodes from `malloc` with pointers as links, as in ncdu.

use std::ffi::CStr;
use std::ptr;

use memfold::heap::Plain;

use crate::ncdu::{Link, NAME, Nodes, Part};

/// Nodes from malloc. Every [`Link`] passed to it must be one of its own live nodes, which the calling code
/// guarantees as ncdu does.
#[derive(Debug, Default)]
pub struct Malloc {
    live: u64,
}

impl Malloc {
    /// The number of nodes that were made and not freed.
    pub fn live(&self) -> u64 {
        self.live
    }
}

#[inline]
fn at(node: Link, from: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut::<u8>(node.0 as usize + from)
}

impl Nodes for Malloc {
    fn make(&mut self, bytes: &[u8]) -> Link {
        assert!(bytes.len() > NAME && bytes.ends_with(&[0]), "a node with a name");
        // SAFETY: any size may be requested.
        let node: *mut u8 = unsafe { libc::malloc(bytes.len()).cast() };
        assert!(!node.is_null(), "no memory");
        // SAFETY: the node is new, and as long as the bytes.
        unsafe { node.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.live += 1;
        Link(node.expose_provenance() as u64)
    }

    fn free(&mut self, node: Link) {
        self.live -= 1;
        // SAFETY: a live node, which is not used afterwards.
        unsafe { libc::free(at(node, 0).cast()) };
    }

    #[inline]
    fn read<T: Plain>(&self, node: Link, part: Part<T>) -> T {
        const { assert!(size_of::<T>() <= NAME) };
        // SAFETY: a part lies within the struct that each live node begins with, and any bytes are a plain value.
        unsafe { at(node, part.begin()).cast::<T>().read_unaligned() }
    }

    #[inline]
    fn change<T: Plain, R>(&mut self, node: Link, part: Part<T>, change: impl FnOnce(&mut T) -> R) -> R {
        const { assert!(size_of::<T>() <= NAME && align_of::<T>() <= 8) };
        // SAFETY: as above; malloc aligns to 16 bytes and parts begin where their types may, and nothing else
        // accesses it meanwhile.
        change(unsafe { &mut *at(node, part.begin()).cast::<T>() })
    }

    #[inline]
    fn name<'a>(&'a self, node: Link, _: &'a mut Vec<u8>) -> &'a [u8] {
        // SAFETY: after the struct there is the name with its zero, and while it is borrowed nothing is changed
        // or freed.
        unsafe { CStr::from_ptr(at(node, NAME).cast()) }.to_bytes()
    }
}
