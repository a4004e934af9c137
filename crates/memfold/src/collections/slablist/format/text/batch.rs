//! Strings outside the heap, in sequence.

use std::borrow::ToOwned;
use std::vec::Vec;

use super::change::{held, slot};
use super::{BEGIN, Held, Key, SLOT, Slot, Text};
use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::{Batch, Format};
use crate::heap::{Error, Handle, Session, View};

/// A record, in `data`.
#[derive(Debug, Clone, Copy)]
struct Item {
    start: usize,
    len: usize,
    /// The node and the length of a long one; `data` has its beginning.
    long: Option<(Handle, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Strings {
    data: Vec<u8>,
    items: Vec<Item>,
    total: usize,
    /// A leaf that is copied as a whole.
    leaf: Vec<u8>,
}

impl Strings {
    /// The record of an element.
    #[inline]
    pub fn get(&self, at: usize) -> Held<'_> {
        let Item { start, len, long } = self.items[at];
        let bytes = &self.data[start..start + len];
        match long {
            None => Held::Inline(bytes),
            Some((node, len)) => Held::Long { node, len, begin: bytes },
        }
    }

    fn add(&mut self, len: usize, long: Option<(Handle, u64)>) -> &mut [u8] {
        let start = self.data.len();
        self.data.resize(start + len, 0);
        self.items.push(Item { start, len, long });
        self.total += SLOT + if long.is_some() { super::LONG_BYTES } else { len };
        &mut self.data[start..]
    }

    /// Appends the first elements of a leaf.
    pub fn copy_leaf(&mut self, leaf: View<'_>, bytes: usize, count: usize) {
        let mut copy = std::mem::take(&mut self.leaf);
        copy.resize(bytes, 0);
        let _ = leaf.copy_to(0, &mut copy);
        self.items.reserve(count);
        self.data.reserve(bytes);
        let most = self.data.len() + bytes;
        for at in 0..count {
            // Records do not overlap, so more data mean that the view no longer shows a leaf; the caller will
            // look again.
            if self.data.len() > most {
                break;
            }
            // A slot that points nowhere becomes an empty element.
            match held(&copy, slot(&copy, at)) {
                Some(held) => self.push_held(held),
                None => self.push_held(Held::Inline(&[])),
            }
        }
        self.leaf = copy;
    }

    fn push_held(&mut self, element: Held<'_>) {
        let (start, begin) = (self.data.len(), element.begin());
        let long = match element {
            Held::Inline(_) => None,
            Held::Long { node, len, .. } => Some((node, len)),
        };
        self.data.extend_from_slice(begin);
        self.items.push(Item { start, len: begin.len(), long });
        self.total += SLOT + element.bytes();
    }

    /// Appends the record that a slot points to. A slot that points nowhere becomes an empty element: the
    /// view no longer shows a leaf.
    pub fn copy(&mut self, leaf: View<'_>, slot: Slot) {
        let at = slot.offset();
        if !slot.is_long() {
            let len = slot.len();
            let _ = leaf.copy_to(at, self.add(len, None));
            return;
        }
        let word = |at: usize| leaf.get::<u64>(at).map_or(0, u64::from_le);
        match Handle::from_bits(word(at)) {
            Some(node) => {
                let len = word(at + 8);
                let _ = leaf.copy_to(at + 16, self.add(BEGIN.min(len as usize), Some((node, len))));
            }
            None => {
                self.add(0, None);
            }
        }
    }
}

impl<E: ?Sized + Element<Format = Text>> Batch<E> for Strings {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn clear(&mut self) {
        self.data.clear();
        self.items.clear();
        self.total = 0;
    }

    fn push(&mut self, element: Held<'_>) {
        self.push_held(element);
    }

    fn owned(&self, session: &Session<'_>, at: usize) -> Result<<E as ToOwned>::Owned, Error> {
        let long;
        let bytes = match self.get(at) {
            Held::Inline(bytes) => bytes,
            Held::Long { node, .. } => {
                long = session.read(node)?;
                &long
            }
        };
        E::from_text(bytes).map(E::to_owned).ok_or(Error::Damaged)
    }

    fn key(&self, at: usize) -> Key {
        <Text as Format<E>>::key(self.get(at))
    }

    fn weight(&self, at: usize) -> usize {
        SLOT + self.get(at).bytes()
    }

    fn total(&self) -> usize {
        self.total
    }

    fn long(&self, at: usize) -> Option<Handle> {
        self.items[at].long.map(|(node, _)| node)
    }

    fn keep(&mut self, from: usize, to: usize) {
        let (start, end) = match self.items[from..to] {
            [] => (0, 0),
            [first, .., last] => (first.start, last.start + last.len),
            [only] => (only.start, only.start + only.len),
        };
        self.data.truncate(end);
        self.data.drain(..start);
        self.items.truncate(to);
        self.items.drain(..from);
        self.items.iter_mut().for_each(|item| item.start -= start);
        self.total = (0..self.items.len()).map(|at| SLOT + self.get(at).bytes()).sum();
    }

    fn reverse(&mut self) {
        let mut turned = Strings::default();
        (0..self.items.len()).rev().for_each(|at| Batch::<E>::push(&mut turned, self.get(at)));
        *self = turned;
    }
}
