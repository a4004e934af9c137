//! Which parts of the device hold data.

use crate::disk::Disk;
use crate::index::leaf::{Entry, PAGE, PAGES};
use crate::index::stripes::leaf_of;

/// A part of the device that consists of holes only, or of data only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// It reads as zeros and takes no memory.
    pub is_hole: bool,
}

impl Disk {
    /// The extent that begins at `offset` and ends at or before `end`. `None` if there is nothing between them.
    pub fn extent(&self, offset: u64, end: u64) -> Option<Extent> {
        let end = end.min(self.options.size);
        if offset >= end {
            return None;
        }
        let begin = offset / PAGE as u64;
        let mut kind = None;
        let mut page = begin;
        while page * (PAGE as u64) < end {
            let (number, place) = leaf_of(page);
            let stripe = self.stripes.lock(number);
            let Some(leaf) = stripe.get(number) else {
                drop(stripe);
                if kind == Some(false) {
                    break;
                }
                kind = Some(true);
                // The next existing page; meanwhile it may be this one.
                let next =
                    self.stripes.next(number).map_or(u64::MAX / PAGE as u64, |leaf| leaf * PAGES as u64);
                page = page.max(next);
                continue;
            };
            let same = (place..PAGES).take_while(|&at| {
                let is_hole = leaf.entry(at) == Some(Entry::Hole);
                *kind.get_or_insert(is_hole) == is_hole
            });
            let count = same.count();
            page += count as u64;
            if place + count < PAGES {
                break;
            }
        }
        let until = page.saturating_mul(PAGE as u64).min(end);
        Some(Extent { offset, len: until - offset, is_hole: kind.unwrap_or(true) })
    }
}
