//! The order of a list, and looking for an element in it.

use std::cmp::Ordering;

use super::format::{Element, Seek, Wanted};

/// The order of a list.
///
/// A comparison may look at anything, including other lists of the same heap. If it does, or if other
/// sessions use the heap, it may be called with elements that were never added: bytes that were being
/// overwritten. Its answer then does not count; but it must not panic, for example by using an element as an
/// index without a check.
pub trait Compare<T: ?Sized> {
    /// Whether it is the type's own order; then strings are found by their first bytes, which is faster.
    #[doc(hidden)]
    const IS_NATURAL: bool = false;

    /// Whether elements are equal if their beginnings are, and no beginning is a prefix of another element's;
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

/// The place before or after the elements equal to a given one.
pub struct Of<'a, E: ?Sized, C> {
    element: &'a E,
    order: &'a C,
    behind: bool,
    /// Computed once: a search needs it at each sublayer.
    wanted: Option<Wanted<'a>>,
}

impl<'a, E: ?Sized + Element, C: Compare<E>> Of<'a, E, C> {
    #[inline(always)]
    pub fn new(element: &'a E, order: &'a C, behind: bool) -> Self {
        let bytes = if C::IS_NATURAL { element.text() } else { None };
        let wanted = bytes.map(|bytes| Wanted { bytes: C::begin(bytes), behind, is_begin: C::IS_BEGIN });
        Of { element, order, behind, wanted }
    }
}

impl<E: ?Sized + Element, C: Compare<E>> Seek<E> for Of<'_, E, C> {
    #[inline(always)]
    fn is_before(&self, other: &E) -> bool {
        if self.behind {
            self.order.compare(self.element, other) != Ordering::Less
        } else {
            self.order.compare(other, self.element) == Ordering::Less
        }
    }

    #[inline(always)]
    fn is_equal(&self, other: &E) -> bool {
        self.order.compare(other, self.element) == Ordering::Equal
    }

    #[inline(always)]
    fn natural(&self) -> Option<Wanted<'_>> {
        self.wanted
    }
}
