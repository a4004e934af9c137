//! Changes to a leaf of strings, and the check of a leaf.

use std::vec::Vec;

use super::{BEGIN, HEADER, Held, LONG, PREFIX, SLOT, Slot, head_of};
use crate::collections::slablist::format::Gone;
use crate::heap::Handle;

/// A leaf being changed.
pub struct Leaf<'n> {
    pub natural: bool,
    pub bytes: &'n mut [u8],
}

/// Offsets in the header.
const COUNT: usize = 0;
const SHARED: usize = 2;
const LOW: usize = 4;
const HOLES: usize = 8;
const LONGS: usize = 12;

fn get32(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn get16(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

/// The slot of an element.
pub fn slot(leaf: &[u8], at: usize) -> Slot {
    Slot(get64(leaf, HEADER + SLOT * at))
}

/// The record that a slot points to.
pub fn held(leaf: &[u8], slot: Slot) -> Option<Held<'_>> {
    let record = leaf.get(slot.offset()..slot.offset() + slot.bytes())?;
    if !slot.is_long() {
        return Some(Held::Inline(record));
    }
    let len = get64(record, 8);
    let begin = &record[16..16 + BEGIN.min(len as usize)];
    Some(Held::Long { node: Handle::from_bits(get64(record, 0))?, len, begin })
}

/// The length of the common prefix of two elements, up to the longest prefix.
#[inline]
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take(PREFIX).take_while(|(a, b)| a == b).count()
}

impl Leaf<'_> {
    /// The number of elements.
    pub fn count(&self) -> usize {
        get16(self.bytes, COUNT)
    }

    fn set_count(&mut self, count: usize) {
        self.bytes[COUNT..COUNT + 2].copy_from_slice(&(count as u16).to_le_bytes());
    }

    fn prefix(&self) -> usize {
        get16(self.bytes, SHARED)
    }

    fn set_prefix(&mut self, prefix: usize) {
        self.bytes[SHARED..SHARED + 2].copy_from_slice(&(prefix as u16).to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }

    #[inline]
    fn set_slot(&mut self, at: usize, slot: Slot) {
        let at = HEADER + SLOT * at;
        self.bytes[at..at + SLOT].copy_from_slice(&slot.0.to_le_bytes());
    }

    /// Where the lowest record begins.
    fn low(&self) -> usize {
        get32(self.bytes, LOW)
    }

    fn end_of_slots(&self) -> usize {
        HEADER + SLOT * self.count()
    }

    /// Bytes that are neither slots nor records.
    fn free(&self) -> usize {
        self.low() - self.end_of_slots() + get32(self.bytes, HOLES)
    }

    fn head(&self, held: &Held<'_>) -> u32 {
        if self.natural { head_of(held.begin().get(self.prefix()..).unwrap_or_default()) } else { 0 }
    }

    /// Shortens the prefix to one that this element shares.
    fn share_prefix(&mut self, element: &Held<'_>) {
        let count = self.count();
        if !self.natural {
            return;
        }
        if count == 0 {
            return self.set_prefix(element.begin().len().min(PREFIX));
        }
        let prefix = self.prefix();
        let first = held(self.bytes, slot(self.bytes, 0));
        let same = first.map_or(0, |first| shared(first.begin(), element.begin()));
        if same >= prefix {
            return;
        }
        self.set_prefix(same);
        for at in 0..count {
            let slot = slot(self.bytes, at);
            let head = held(self.bytes, slot).map_or(0, |held| self.head(&held));
            self.set_slot(at, Slot(u64::from(head) << 32 | slot.0 & 0xffff_ffff));
        }
    }

    /// Writes a record below the lowest one; returns its slot.
    fn put_record(&mut self, element: &Held<'_>) -> Slot {
        let at = self.low() - element.bytes();
        let record = &mut self.bytes[at..at + element.bytes()];
        let len = match element {
            Held::Inline(bytes) => {
                record.copy_from_slice(bytes);
                bytes.len()
            }
            Held::Long { node, len, begin } => {
                record[..8].copy_from_slice(&node.to_bits().to_le_bytes());
                record[8..16].copy_from_slice(&len.to_le_bytes());
                record[16..].fill(0);
                record[16..16 + begin.len()].copy_from_slice(begin);
                let longs = get32(self.bytes, LONGS) + 1;
                self.set32(LONGS, longs);
                LONG
            }
        };
        self.set32(LOW, at);
        let head = self.head(element);
        Slot(u64::from(head) << 32 | (at as u64) << 16 | len as u64)
    }

    /// Inserts an element before the one at `at`. Returns false if there is no room.
    pub fn insert(&mut self, at: usize, element: Held<'_>) -> bool {
        let (count, need) = (self.count(), element.bytes() + SLOT);
        if self.low() - self.end_of_slots() < need {
            // A leaf that is this full would have to be repacked every few insertions.
            if self.free() < need + self.bytes.len() / 64 || count == 0 {
                return false;
            }
            self.close_holes();
        }
        self.share_prefix(&element);
        let new = self.put_record(&element);
        let from = HEADER + SLOT * at;
        self.bytes.copy_within(from..HEADER + SLOT * count, from + SLOT);
        self.set_slot(at, new);
        self.set_count(count + 1);
        true
    }

    /// Replaces an element, if there is room. Returns the change in weight, and the node of the old element.
    pub fn set(&mut self, at: usize, element: Held<'_>) -> Option<(i32, Option<Handle>)> {
        let old = slot(self.bytes, at);
        if let Some(more) = self.set_in_place(at, old, &element) {
            return Some((more, None));
        }
        if self.free() + old.bytes() < element.bytes() + self.bytes.len() / 64 {
            return None;
        }
        let gone = self.remove(at);
        if self.low() - self.end_of_slots() < element.bytes() + SLOT {
            self.close_holes();
        }
        self.share_prefix(&element);
        let (new, count) = (self.put_record(&element), self.count());
        let from = HEADER + SLOT * at;
        self.bytes.copy_within(from..HEADER + SLOT * count, from + SLOT);
        self.set_slot(at, new);
        self.set_count(count + 1);
        Some(((element.bytes() + SLOT) as i32 - gone.weight as i32, gone.long))
    }

    /// Overwrites an element with one of the same length that shares the prefix; does nothing otherwise.
    fn set_in_place(&mut self, at: usize, old: Slot, element: &Held<'_>) -> Option<i32> {
        let Held::Inline(new) = element else { return None };
        let record = old.offset()..old.offset() + old.len();
        if old.is_long()
            || old.len() != new.len()
            || shared(self.bytes.get(record.clone())?, new) < self.prefix()
        {
            return None;
        }
        self.bytes[record].copy_from_slice(new);
        let head = self.head(element);
        self.set_slot(at, Slot(u64::from(head) << 32 | old.0 & 0xffff_ffff));
        Some(0)
    }

    /// Removes the element at a place.
    pub fn remove(&mut self, at: usize) -> Gone {
        let (slot, count) = (slot(self.bytes, at), self.count());
        let long = match held(self.bytes, slot) {
            Some(Held::Long { node, .. }) => Some(node),
            _ => None,
        };
        let (offset, len) = (slot.offset(), slot.bytes());
        self.bytes[offset..offset + len].fill(0);
        if offset == self.low() {
            self.set32(LOW, offset + len);
        } else {
            let holes = get32(self.bytes, HOLES) + len;
            self.set32(HOLES, holes);
        }
        if long.is_some() {
            let longs = get32(self.bytes, LONGS) - 1;
            self.set32(LONGS, longs);
        }
        let (from, end) = (HEADER + SLOT * at, HEADER + SLOT * count);
        self.bytes.copy_within(from + SLOT..end, from);
        self.bytes[end - SLOT..end].fill(0);
        self.set_count(count - 1);
        Gone { weight: (len + SLOT) as u32, long }
    }

    /// Makes records adjacent again, in the order of the elements.
    fn close_holes(&mut self) {
        let old: Vec<u8> = self.bytes.to_vec();
        let count = self.count();
        self.pack((0..count).filter_map(|at| held(&old, slot(&old, at))));
    }

    /// Fills the leaf with these elements.
    pub fn pack<'e>(&mut self, elements: impl DoubleEndedIterator<Item = Held<'e>> + Clone) {
        self.bytes.fill(0);
        self.set32(LOW, self.bytes.len());
        let prefix = match (elements.clone().next(), elements.clone().next_back()) {
            (Some(first), Some(last)) if self.natural => {
                // Elements in order all share the prefix of the first and the last. This does not rely on the
                // order.
                let mut prefix = shared(first.begin(), last.begin());
                elements.clone().for_each(|held| {
                    prefix = prefix.min(shared(first.begin(), held.begin()));
                });
                prefix
            }
            _ => 0,
        };
        self.set_prefix(prefix);
        let mut count = elements.clone().count();
        self.set_count(count);
        // Records are written downwards: beginning with the last, they lie in the order of the elements.
        for held in elements.rev() {
            let slot = self.put_record(&held);
            count -= 1;
            self.set_slot(count, slot);
        }
    }
}

/// The number of elements of a leaf and their weight; `None` if the leaf is inconsistent.
pub fn measure(leaf: &[u8], natural: bool) -> Option<(usize, usize)> {
    let (count, prefix, low) = (get16(leaf, COUNT), get16(leaf, SHARED), get32(leaf, LOW));
    let (holes, longs) = (get32(leaf, HOLES), get32(leaf, LONGS));
    if HEADER + SLOT * count > low || low > leaf.len() {
        return None;
    }
    let (mut records, mut seen) = (Vec::new(), 0);
    let first = if count > 0 { Some(held(leaf, slot(leaf, 0))?) } else { None };
    for at in 0..count {
        let slot = slot(leaf, at);
        let held = held(leaf, slot)?;
        let head = if natural { head_of(held.begin().get(prefix..).unwrap_or_default()) } else { 0 };
        let same = first.is_some_and(|first| shared(first.begin(), held.begin()) >= prefix);
        // An empty record may lie below `low`: it keeps the offset that was the lowest when it was added.
        let is_outside = slot.bytes() > 0 && slot.offset() < low;
        if slot.head() != head || is_outside || natural && !same {
            return None;
        }
        if slot.bytes() > 0 {
            records.push((slot.offset(), slot.bytes()));
        }
        seen += usize::from(slot.is_long());
    }
    records.sort_unstable();
    let apart = records.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0);
    let used: usize = records.iter().map(|record| record.1).sum();
    let fits = apart && seen == longs && leaf.len() - low == used + holes;
    fits.then_some((count, used + SLOT * count))
}
