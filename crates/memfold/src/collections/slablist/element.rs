//! What lists keep, and in which order.

use std::borrow::ToOwned;
use std::cmp::Ordering;
use std::vec::Vec;

use super::fixed::Fixed;
use super::format::Format;
use super::text::Text;
use crate::heap::Plain;

/// What a list can keep: plain old data, `str`, and `[u8]` of any length.
pub trait Element: ToOwned<Owned: Send + Sync> + sealed::Sealed + 'static {
    /// How leaves keep it.
    #[doc(hidden)]
    type Format: Format<Self>;

    /// The bytes, if they can have any length; elements are in their order then.
    #[doc(hidden)]
    fn text(&self) -> Option<&[u8]>;

    /// The element that has these bytes, if one does, and if it can have any length.
    #[doc(hidden)]
    fn from_text(bytes: &[u8]) -> Option<&Self>;

    /// Appends its bytes.
    #[doc(hidden)]
    fn append_to(&self, bytes: &mut Vec<u8>);

    /// Lets `look` look at the element that has these bytes, if one does.
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
/// It may look at anything, other lists of the same heap too. Where it does, or where other sessions use the heap, it may be asked about elements that were never put in: bytes that something else had just then
/// taken the place of. What it answers then counts for nothing; but it must not panic, as by taking an element for an index without looking.
pub trait Compare<T: ?Sized> {
    /// It is the type's own: then strings are found by their first bytes, which is faster.
    #[doc(hidden)]
    const IS_NATURAL: bool = false;

    /// Elements are equal if they begin alike, and no beginning is one of another's: where `IS_NATURAL`.
    #[doc(hidden)]
    const IS_BEGIN: bool = false;

    /// The bytes of an element by which it is found: those that it begins with, or all.
    #[doc(hidden)]
    #[inline(always)]
    fn begin(bytes: &[u8]) -> &[u8] {
        bytes
    }

    /// How `a` and `b` stand in it.
    fn compare(&self, a: &T, b: &T) -> Ordering;
}

/// The order that the type has by itself.
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
