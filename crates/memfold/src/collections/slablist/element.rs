//! Elements of lists, and their order.

use std::borrow::ToOwned;
use std::cmp::Ordering;
use std::vec::Vec;

use super::fixed::Fixed;
use super::format::Format;
use super::text::Text;
use crate::heap::Plain;

/// What a list can store: plain old data, `str`, and `[u8]` of any length.
pub trait Element: ToOwned<Owned: Send + Sync> + sealed::Sealed + 'static {
    /// How leaves store it.
    #[doc(hidden)]
    type Format: Format<Self>;

    /// The bytes, if elements can have any length; their natural order is then that of the bytes.
    #[doc(hidden)]
    fn text(&self) -> Option<&[u8]>;

    /// The element with these bytes, if there is such an element and elements can have any length.
    #[doc(hidden)]
    fn from_text(bytes: &[u8]) -> Option<&Self>;

    /// Appends its bytes.
    #[doc(hidden)]
    fn append_to(&self, bytes: &mut Vec<u8>);

    /// Calls `look` with the element that has these bytes, if there is one.
    #[doc(hidden)]
    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R>;
}

mod sealed {
    pub trait Sealed {}
    impl<T: crate::heap::Plain + Copy + Send + Sync> Sealed for T {}
    impl Sealed for str {}
    impl Sealed for [u8] {}
}

impl<T: Plain + Copy + Send + Sync + 'static> Element for T {
    type Format = Fixed<T>;

    #[inline(always)]
    fn text(&self) -> Option<&[u8]> {
        None
    }

    fn from_text(_: &[u8]) -> Option<&Self> {
        None
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_bytes());
    }

    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R> {
        T::read_from_bytes(bytes).ok().map(|element| look(&element))
    }
}

impl Element for str {
    type Format = Text;

    fn text(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }

    fn from_text(bytes: &[u8]) -> Option<&Self> {
        core::str::from_utf8(bytes).ok()
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_bytes());
    }

    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R> {
        Self::from_text(bytes).map(look)
    }
}

impl Element for [u8] {
    type Format = Text;

    fn text(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn from_text(bytes: &[u8]) -> Option<&Self> {
        Some(bytes)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R> {
        Some(look(bytes))
    }
}

/// The order of a list.
///
/// A comparison may look at anything, including other lists of the same heap. If it does, or if other
/// sessions use the heap, it may be called with elements that were never added: bytes that something else has
/// just replaced. Its answer then does not count; but it must not panic, for example by using an element as
/// an index without a check.
pub trait Compare<T: ?Sized> {
    /// It is the type's own order: then strings are found by their first bytes, which is faster.
    #[doc(hidden)]
    const IS_NATURAL: bool = false;

    /// Elements are equal if their beginnings are equal, and no beginning is a prefix of another element's;
    /// for orders with `IS_NATURAL`.
    #[doc(hidden)]
    const IS_BEGIN: bool = false;

    /// The bytes by which an element is found: its beginning, or all of them.
    #[doc(hidden)]
    #[inline(always)]
    fn begin(bytes: &[u8]) -> &[u8] {
        bytes
    }

    /// Compares `a` and `b`.
    fn compare(&self, a: &T, b: &T) -> Ordering;
}

/// The natural order of the type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Natural;

impl<T: Ord + ?Sized> Compare<T> for Natural {
    const IS_NATURAL: bool = true;

    #[inline(always)]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        a.cmp(b)
    }
}

impl<T: ?Sized, F: Fn(&T, &T) -> Ordering> Compare<T> for F {
    #[inline(always)]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        self(a, b)
    }
}

/// No order: elements stay where they are put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ordered;
