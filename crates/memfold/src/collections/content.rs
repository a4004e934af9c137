//! What collections of nodes hold: plain values, all of one length, or strings and byte slices of any.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::heap::{Plain, View};

/// What is kept in the heap: a plain value ([`Plain`] and `Copy`), `str`, or `[u8]`.
pub trait Content: sealed::Sealed {
    /// What comes back: the value itself, a `String`, or a `Vec<u8>`.
    type Owned;
    /// Bytes of an element, if all have as many.
    #[doc(hidden)]
    const FIXED: Option<usize>;
    /// What is stored.
    #[doc(hidden)]
    fn bytes(&self) -> &[u8];
    /// What was stored, of exactly these bytes; `None` if they are none of an element's.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Option<Self::Owned>;
    /// The same, of `len` bytes of a node from `from` on.
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
