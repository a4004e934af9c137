//! Searching for a string in a leaf.

use std::cmp::Ordering;

use super::{Found, Slot, Text, head_of, head_up_to};
use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::{Seek, Wanted};
use crate::heap::{Handle, View};

impl Text {
    /// Compares the `len` bytes at `at` with the other bytes.
    pub(super) fn compare(leaf: View<'_>, at: usize, len: usize, other: &[u8]) -> Ordering {
        let common = len.min(other.len());
        let mut done = 0;
        while done + 8 <= common {
            let (mine, mut theirs) = (leaf.get::<u64>(at + done).map_or(0, u64::from_le), [0; 8]);
            theirs.copy_from_slice(&other[done..done + 8]);
            match mine.swap_bytes().cmp(&u64::from_be_bytes(theirs)) {
                Ordering::Equal => done += 8,
                differs => return differs,
            }
        }
        for (i, theirs) in other[done..common].iter().enumerate() {
            match leaf.get::<u8>(at + done + i).unwrap_or(0).cmp(theirs) {
                Ordering::Equal => {}
                differs => return differs,
            }
        }
        len.cmp(&other.len())
    }

    /// Calls `look` with the element of a slot; `None` if it has to be read first, or is not an element.
    pub(super) fn with<E: ?Sized + Element, R>(
        leaf: View<'_>,
        slot: Slot,
        memo: &mut Found,
        look: impl FnOnce(&E) -> R,
    ) -> Option<R> {
        let element = if slot.is_long() {
            let node = leaf.get::<u64>(slot.offset()).and_then(|bits| Handle::from_bits(u64::from_le(bits)));
            let Some(node) = node else {
                memo.damaged = true;
                return None;
            };
            let Some((_, bytes)) = memo.longs.iter().find(|(known, _)| *known == node) else {
                memo.wanted = Some(node);
                return None;
            };
            bytes
        } else {
            memo.element.resize(slot.len(), 0);
            if !leaf.copy_to(slot.offset(), &mut memo.element) {
                memo.damaged = true;
                return None;
            }
            &memo.element
        };
        match E::from_text(element) {
            Some(element) => Some(look(element)),
            None => {
                memo.damaged = true;
                None
            }
        }
    }

    /// The first of some places for which `is_before` does not hold; `None` if it could not decide.
    pub(super) fn partition(
        from: usize,
        to: usize,
        mut is_before: impl FnMut(usize) -> Option<bool>,
    ) -> Option<usize> {
        let (mut from, mut to) = (from, to);
        while from < to {
            let middle = from.midpoint(to);
            if is_before(middle)? { from = middle + 1 } else { to = middle }
        }
        Some(from)
    }

    /// As `find`, in the order of bytes.
    pub(super) fn find_natural<E: ?Sized + Element<Format = Self>, S: Seek<E>>(
        self,
        leaf: View<'_>,
        wanted: Wanted<'_>,
        seek: &S,
        memo: &mut Found,
    ) -> Option<(usize, bool)> {
        let (len, sought) = (self.len(leaf), wanted.bytes);
        let prefix = usize::from(leaf.get::<u16>(2).map_or(0, u16::from_le));
        if len > 0 && prefix > 0 {
            // The prefix of all elements.
            let first = Self::slot(leaf, 0);
            let at = first.offset() + if first.is_long() { 16 } else { 0 };
            let part = &sought[..prefix.min(sought.len())];
            match Self::compare(leaf, at, wanted.len_of(prefix), part) {
                Ordering::Equal => {}
                Ordering::Less => return Some((len, false)),
                Ordering::Greater => return Some((0, false)),
            }
        }
        let rest = sought.get(prefix..).unwrap_or_default();
        let head = head_of(rest);
        let last_head = if wanted.is_begin { head_up_to(rest) } else { head };
        let low = Self::partition(0, len, |at| Some(Self::slot(leaf, at).head() < head))?;
        let mut high = low;
        if low < len && Self::slot(leaf, low).head() <= last_head {
            high = Self::partition(low, len, |at| Some(Self::slot(leaf, at).head() <= last_head))?;
        }
        let at = Self::partition(low, high, |at| {
            let slot = Self::slot(leaf, at);
            if slot.is_long() {
                return Self::with(leaf, slot, memo, |other| seek.is_before(other));
            }
            Some(wanted.is_before(Self::compare(leaf, slot.offset(), wanted.len_of(slot.len()), sought)))
        })?;
        let mut is_equal = false;
        if at > low {
            let slot = Self::slot(leaf, at - 1);
            is_equal = if slot.is_long() {
                Self::with(leaf, slot, memo, |other| seek.is_equal(other))?
            } else {
                Self::compare(leaf, slot.offset(), wanted.len_of(slot.len()), sought).is_eq()
            };
        }
        Some((at, is_equal))
    }

    /// The same in any order.
    pub(super) fn find_other<E: ?Sized + Element<Format = Self>, S: Seek<E>>(
        self,
        leaf: View<'_>,
        seek: &S,
        memo: &mut Found,
    ) -> Option<(usize, bool)> {
        let at = Self::partition(0, self.len(leaf), |at| {
            Self::with(leaf, Self::slot(leaf, at), memo, |other| seek.is_before(other))
        })?;
        let last = at.checked_sub(1).map(|at| Self::slot(leaf, at));
        let is_equal = match last {
            Some(slot) => Self::with(leaf, slot, memo, |other| seek.is_equal(other))?,
            None => false,
        };
        Some((at, is_equal))
    }
}
