//! Elements of collections of nodes: plain values, all of one length, or strings and byte slices of any
//! length.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::heap::{Plain, View};

/// What can be stored in the heap: a plain value ([`Plain`] and `Copy`), `str`, or `[u8]`.
pub trait Content: sealed::Sealed {
    /// What reading returns: the value itself, a `String`, or a `Vec<u8>`.
    type Owned;
    /// Bytes of an element, if all have the same length.
    #[doc(hidden)]
    const FIXED: Option<usize>;
    /// The bytes to store.
    #[doc(hidden)]
    fn bytes(&self) -> &[u8];
    /// The element with exactly these bytes; `None` if no element has them.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Option<Self::Owned>;
    /// The same from the `len` bytes of a node at `from`.
    #[doc(hidden)]
    fn read(node: View<'_>, from: usize, len: usize) -> Option<Self::Owned>;
}

mod sealed {
    pub trait Sealed {}

    impl<T: crate::heap::Plain + Copy> Sealed for T {}
    impl Sealed for str {}
    impl Sealed for [u8] {}
}

impl<T: Plain + Copy> Content for T {
    type Owned = T;
    const FIXED: Option<usize> = Some(size_of::<T>());

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    #[inline(always)]
    fn from_bytes(bytes: &[u8]) -> Option<T> {
        T::read_from_bytes(bytes).ok()
    }

    #[inline(always)]
    fn read(node: View<'_>, from: usize, len: usize) -> Option<T> {
        if len == size_of::<T>() { node.get(from) } else { None }
    }
}

impl Content for [u8] {
    type Owned = Vec<u8>;
    const FIXED: Option<usize> = None;

    fn bytes(&self) -> &[u8] {
        self
    }

    fn from_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }

    fn read(node: View<'_>, from: usize, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        node.copy_to(from, &mut bytes).then_some(bytes)
    }
}

impl Content for str {
    type Owned = String;
    const FIXED: Option<usize> = None;

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<String> {
        std::str::from_utf8(bytes).ok().map(String::from)
    }

    fn read(node: View<'_>, from: usize, len: usize) -> Option<String> {
        <[u8]>::read(node, from, len).and_then(|bytes| String::from_utf8(bytes).ok())
    }
}
