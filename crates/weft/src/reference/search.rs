//! The distance of each line.
//!
//! A table remembers where each hash of a word's upper six bytes was seen last: words of one kind agree in
//! their upper bytes more often than in the lower ones. The hashes of a line's words propose distances. The
//! line takes the one at which most of its bytes that are not zero agree.

use crate::Effort;
use crate::format::{FIRST_DISTANCES, LEAST_DISTANCE, LINE, LINE_WORDS, WORD, most_distance};
use crate::ideas::{Idea, is_left_out};
use crate::scratch::Working;

/// A unit that is being compressed, as words.
pub(super) struct Unit<'u>(pub &'u [u8]);

impl Unit<'_> {
    /// The word at this place; zero before the unit and after its end, where the last bytes may be missing.
    pub(super) fn word(&self, at: isize) -> u64 {
        let Ok(at) = usize::try_from(at) else { return 0 };
        let mut bytes = [0; WORD];
        let rest = self.0.get(at * WORD..).unwrap_or_default();
        let there = rest.len().min(WORD);
        bytes[..there].copy_from_slice(&rest[..there]);
        u64::from_le_bytes(bytes)
    }
}

/// What is known of the lines so far.
pub(super) struct Search {
    effort: Effort,
    /// Bits of the hash that index the table.
    bits: u32,
    most: usize,
    /// The distance in use, and the one before it.
    pub(super) distances: [usize; 2],
}

/// How a line's distance is written.
pub(super) enum Change {
    /// That of the line before.
    Same,
    /// The one in use before the last change.
    Back,
    /// Another one.
    To(usize),
}

/// The hash of a word, of 32 bits.
fn hash(word: u64) -> u32 {
    let upper = word >> 16;
    let sum =
        (upper & 0xffff_ffff).wrapping_mul(0x9e37_79b1).wrapping_add((upper >> 32).wrapping_mul(0x85eb_ca77));
    (sum ^ sum >> 32) as u32
}

/// The bits of the table's index for a unit of this many words.
pub(crate) fn hash_bits(words: usize) -> u32 {
    match words {
        0..=512 => 10,
        513..=2048 => 11,
        _ => 12,
    }
}

impl Search {
    pub(super) fn new(effort: Effort, words: usize, scratch: &mut Working) -> Self {
        let bits = hash_bits(words);
        scratch.hashes[..1 << bits].fill(0);
        Search { effort, bits, most: most_distance(words), distances: FIRST_DISTANCES }
    }

    /// The distance of the line that begins at word `first`.
    pub(super) fn line(&mut self, unit: &Unit<'_>, first: usize, scratch: &mut Working) -> Change {
        let proposed = self.proposed(unit, first, scratch);
        if is_left_out(Idea::Distances) {
            return Change::Same;
        }
        let [now, before] = self.distances;
        let score = |distance: usize, bonus: u32| (agreement(unit, first, distance) + bonus, distance);
        let usable = |distance: Option<usize>| distance.map_or(8, least);
        let effort = if is_left_out(Idea::Candidates) { Effort::Fastest } else { self.effort };
        let best = match effort {
            Effort::Fastest => proposed[0].map_or(now, least),
            Effort::Fast => {
                let [one, two, _] = proposed.map(usable);
                score(one, 0).max(score(two, 0)).max(score(now, 1)).1
            }
            Effort::Packed | Effort::Dense => {
                let [one, two, three] = proposed.map(usable);
                // One that lies before the unit would agree with nothing.
                let is_usable = before <= first + LINE_WORDS && !is_left_out(Idea::Back);
                let before = if is_usable { before } else { 8 };
                [score(one, 0), score(two, 0), score(now, 1), score(three, 0), score(before, 0)]
                    .into_iter()
                    .max()
                    .map_or(now, |(_, distance)| distance)
            }
        };
        if best == now {
            return Change::Same;
        }
        self.distances = [best, now];
        if best == before && !is_left_out(Idea::Back) { Change::Back } else { Change::To(best) }
    }

    /// The three largest distances at which the line's words that are not zero were seen.
    fn proposed(&self, unit: &Unit<'_>, first: usize, scratch: &mut Working) -> [Option<usize>; 3] {
        let mut found = [0; LINE_WORDS];
        for (word, found) in (first..).zip(&mut found) {
            let value = unit.word(word as isize);
            let hash = hash(value);
            let entry = hash << 16 | word as u32;
            let last = core::mem::replace(&mut scratch.hashes[(hash >> (32 - self.bits)) as usize], entry);
            let distance = word - (last & 0xffff) as usize;
            let is_same = (last ^ entry) >> 16 == 0 && value != 0 && distance <= self.most;
            *found = if is_same { distance } else { 0 };
        }
        let mut below = usize::MAX;
        [(); 3].map(|()| {
            let next = found.into_iter().filter(|&distance| distance != 0 && distance < below).max();
            below = next.unwrap_or(0);
            next
        })
    }
}

/// The distance itself, or a multiple of it that is long enough.
fn least(distance: usize) -> usize {
    if distance < LEAST_DISTANCE { [8, 4, 4, 6][distance] } else { distance }
}

/// How many of a line's bytes that are not zero agree with those at this distance before.
fn agreement(unit: &Unit<'_>, first: usize, distance: usize) -> u32 {
    let words = (first..).take(LINE_WORDS).map(|word| {
        let (value, reference) = (unit.word(word as isize), unit.word(word as isize - distance as isize));
        let agree =
            value.to_le_bytes().into_iter().zip(reference.to_le_bytes()).filter(|(a, b)| a == b && *a != 0);
        agree.count() as u32
    });
    let sum = words.sum();
    debug_assert!(sum as usize <= LINE);
    sum
}
