//! Looking for an element in an order.

use std::cmp::Ordering;

use super::element::{Compare, Element};
use super::format::{Seek, Wanted};

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
