//! Which parts of a leaf are read, if its block may stay compressed.

use std::ops::Range;

use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::{Format, Seek};
use crate::heap::{Parts, View};

/// The sublayer, and in the slab that it selects the last element before the target.
pub struct Sought<'s, E: ?Sized + Element, S> {
    pub format: E::Format,
    pub seek: &'s S,
}

impl<E: ?Sized + Element, S: Seek<E>> Parts for Sought<'_, E, S> {
    const HAS_BORDER: bool = E::Format::IS_WORD;

    fn first(&self) -> Option<Range<usize>> {
        self.format.sublayer()
    }

    fn second(&self, leaf: View<'_>) -> Option<Range<usize>> {
        Some(self.format.slab_bytes(leaf, self.format.slab_of(leaf, self.seek)))
    }

    #[inline(always)]
    fn is_before(&self, word: u64) -> bool {
        E::Format::word_is_before(word, self.seek)
    }
}

/// The sublayer, and the element with a number in the leaf.
pub struct Numbered<E: ?Sized + Element> {
    pub format: E::Format,
    pub index: usize,
}

impl<E: ?Sized + Element> Parts for Numbered<E> {
    const HAS_BORDER: bool = E::Format::IS_WORD;

    fn first(&self) -> Option<Range<usize>> {
        self.format.sublayer()
    }

    fn second(&self, leaf: View<'_>) -> Option<Range<usize>> {
        Some(self.format.element_bytes(leaf, self.format.place(leaf, self.index)))
    }

    /// It is the last one.
    fn is_before(&self, _: u64) -> bool {
        true
    }
}
