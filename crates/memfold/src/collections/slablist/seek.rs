//! Looking for an element in an order.

use std::cmp::Ordering;

use super::element::{Compare, Element};
use super::format::Seek;

/// Before or behind the elements that are equal to one.
pub struct Of<'a, E: ?Sized, C> {
    pub element: &'a E,
    pub order: &'a C,
    pub behind: bool,
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
    fn natural(&self) -> Option<(&[u8], bool)> {
        if C::IS_NATURAL { self.element.text().map(|bytes| (bytes, self.behind)) } else { None }
    }
}
