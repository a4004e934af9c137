//! `bwt`: the transform of M. Burrows and D. Wheeler. All suffixes of the block are sorted, and each byte is
//! put at the rank of the suffix that follows it, which brings bytes that precede similar data together.
//!
//! ```text
//! +------------------+----------------------------------------+
//! | row of the whole | bytes before the sorted ends           |
//! +------------------+----------------------------------------+
//!  2 bytes, or 4 if the block has more than 65535
//! ```
//!
//! The empty suffix comes first. The whole block has no byte before it; its row is stored instead.
//!
//! The sort is that of N. Larsson and K. Sadakane: first by two bytes, in linear time; then suffixes that are
//! equal so far are sorted by the rank of the suffixes after those bytes, which doubles the number of
//! compared bytes each time. It takes n log n steps even for the worst blocks, and does not recurse.

use crate::scratch::parts::{Parts, part};
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The step `bwt`.
pub(crate) struct Bwt;

/// The inverse packs a row and a byte into 32 bits.
const MOST: usize = (1 << 24) - 1;

const fn head(len: usize) -> usize {
    if len <= u16::MAX as usize { 2 } else { 4 }
}

impl Step for Bwt {
    fn name(&self) -> &'static str {
        "bwt"
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(head(len))
    }

    fn forward_scratch(&self, len: usize) -> usize {
        3 * part::<u32>(len + 1)
    }

    fn backward_scratch(&self, len: usize) -> usize {
        part::<u32>(len + 1)
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let head = head(src.len());
        if src.len() > MOST || dst.len() < head + src.len() {
            return None;
        }
        let mut parts = Parts::new(scratch.bytes(self.forward_scratch(src.len())));
        let [ends, ranks, spare] = [(); 3].map(|()| parts.take::<u32>(src.len() + 1));
        sort(src, ends, ranks, spare);
        let (row, to) = dst.split_at_mut(head);
        row.copy_from_slice(&ranks[0].to_le_bytes()[..head]);
        // Nothing precedes the whole block.
        let before = ends.iter().filter_map(|&end| src.get((end as usize).wrapping_sub(1)));
        for (to, &byte) in to.iter_mut().zip(before) {
            *to = byte;
        }
        Some(head + src.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let head = head(dst.len());
        if dst.len() > MOST || src.len() != head + dst.len() {
            return Err(Malformed);
        }
        let (row, src) = src.split_at(head);
        let whole = row.iter().rev().fold(0, |row, &byte| row << 8 | usize::from(byte));
        if whole == 0 || whole > src.len() {
            return Err(Malformed);
        }
        // For each row: the row of the suffix that is one byte shorter, and the byte by which it is shorter.
        let next = Parts::new(scratch.bytes(self.backward_scratch(dst.len()))).take::<u32>(src.len() + 1);
        next[0] = (whole as u32) << 8;
        let mut starts = [0_u32; 256];
        for &byte in src {
            starts[usize::from(byte)] += 1;
        }
        let mut sum = 1;
        for start in &mut starts {
            sum += core::mem::replace(start, sum);
        }
        for (i, &byte) in src.iter().enumerate() {
            let row = i + usize::from(i >= whole);
            let start = &mut starts[usize::from(byte)];
            next[*start as usize] = (row as u32) << 8 | u32::from(byte);
            *start += 1;
        }
        let mut row = whole;
        for to in dst {
            let step = next[row];
            *to = step as u8;
            row = (step >> 8) as usize;
        }
        // The last is the empty suffix.
        if row == 0 { Ok(()) } else { Err(Malformed) }
    }
}

/// Fills `ends` with the starts of the sorted suffixes of `src`, and `ranks` with the rank of each. Both are
/// one longer than `src`.
fn sort(src: &[u8], ends: &mut [u32], ranks: &mut [u32], spare: &mut [u32]) {
    let len = src.len();
    // The first two bytes, each plus one so that 0 stands for none.
    let first = |end: u32| src.get(end as usize).map_or(0, |&byte| usize::from(byte) + 1);
    let second = |end: u32| first(end + 1);
    count_by(second, 0..=len as u32, spare);
    count_by(first, spare.iter().copied(), ends);
    let same = |a: u32, b: u32| first(a) == first(b) && second(a) == second(b);
    rank(ends, ranks, same);
    let mut known = 2;
    loop {
        let mut sorted = true;
        let mut at = 0;
        while at <= len {
            let last = ranks[ends[at] as usize] as usize;
            if last > at {
                sorted = false;
                let group = &mut ends[at..=last];
                // A suffix shorter than the known length is alone in its group.
                let key = |&end: &u32| ranks.get(end as usize + known).copied().unwrap_or(0);
                group.sort_unstable_by_key(key);
                let places = &mut spare[at..=last];
                let mut of = last;
                for i in (0..group.len()).rev() {
                    if i + 1 < group.len() && key(&group[i]) != key(&group[i + 1]) {
                        of = at + i;
                    }
                    places[i] = of as u32;
                }
                for (&end, &place) in group.iter().zip(places.iter()) {
                    ranks[end as usize] = place;
                }
            }
            at = last + 1;
        }
        if sorted {
            return;
        }
        known *= 2;
    }
}

/// Sorts `from` into `to` by a key up to 256; the sort is stable.
fn count_by(key: impl Fn(u32) -> usize, from: impl Iterator<Item = u32> + Clone, to: &mut [u32]) {
    let mut starts = [0_u32; 257];
    for end in from.clone() {
        starts[key(end)] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += core::mem::replace(start, sum);
    }
    for end in from {
        let start = &mut starts[key(end)];
        to[*start as usize] = end;
        *start += 1;
    }
}

/// Gives all suffixes of a group of equals the rank of its last one.
fn rank(ends: &[u32], ranks: &mut [u32], same: impl Fn(u32, u32) -> bool) {
    let mut of = ends.len() - 1;
    for i in (0..ends.len()).rev() {
        if i + 1 < ends.len() && !same(ends[i], ends[i + 1]) {
            of = i;
        }
        ranks[ends[i] as usize] = of as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn ends_are_in_order() {
        let noise = |n: usize, m: usize| (0..n).map(|i| (i * i * 7 / 3 % m) as u8).collect::<Vec<u8>>();
        for block in [
            b"b".to_vec(),
            b"banana".to_vec(),
            vec![0; 3000],
            b"ab".repeat(1000),
            [vec![0; 999], vec![1], vec![0; 999]].concat(),
            noise(2000, 2),
            noise(2000, 256),
        ] {
            let n = block.len() + 1;
            let (mut ends, mut ranks, mut spare) = (vec![0; n], vec![0; n], vec![0; n]);
            sort(&block, &mut ends, &mut ranks, &mut spare);
            let mut wanted: Vec<u32> = (0..n as u32).collect();
            wanted.sort_by_key(|&end| &block[end as usize..]);
            assert!(ends == wanted);
            assert!(ends.iter().enumerate().all(|(rank, &end)| ranks[end as usize] == rank as u32));
        }
    }

    #[test]
    fn banana() {
        // Suffixes: "", a, ana, anana, banana, na, nana. The bytes before them: a n n b - a a.
        let mut memory = crate::ScratchBuf::with_size(Bwt.forward_scratch(6));
        let mut out = [0; 8];
        assert_eq!(Bwt.forward(b"banana", &mut out, &mut memory.scratch()), Some(8));
        assert_eq!(out, *b"\x04\x00annbaa");
        let mut again = [0; 6];
        Bwt.backward(&out, &mut again, &mut memory.scratch()).unwrap();
        assert_eq!(again, *b"banana");
    }
}
