//! Finds the distances at which a segment repeats itself.
//!
//! Places of the segment are sampled; each one looks up the last occurrence of its six bytes and gives the
//! distance to it a vote. The distances with the most votes win. Distances are in bytes, since rows of a
//! database or texts repeat at any distance. Sampling every place would cost more than everything else, and
//! sampling only multiples of eight would miss unaligned data. So the content selects the places (see
//! [`Kernels::samples`]); repeated data are then sampled at the same places in both copies.

use super::format::MAX_DISTANCES;
use super::kernels::{Kernels, VIEW};
use super::scratch::{MAX_SEEN_BITS, Vote};

/// How closely to sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    /// The density of [`Kernels::samples`]; 0 is every place.
    pub density: u8,
    /// The places of a line that are sampled whatever their content.
    pub always: u64,
    /// How many sixteenths of a segment are sampled, from its start: half of it shows nearly as much as the
    /// whole.
    pub share: usize,
}

/// The state of the vote in a block.
pub(super) struct Voter<'a> {
    vote: &'a mut Vote,
    /// Votes for each distance; zero between segments.
    counts: &'a mut [u16],
    seen_bits: u32,
}

/// The distances that won, the one with the most votes first.
pub(super) struct Distances {
    list: [u16; MAX_DISTANCES],
    len: usize,
    none: bool,
}

impl Distances {
    /// Whether no repetition was found.
    #[inline(always)]
    pub(super) fn found_none(&self) -> bool {
        self.none
    }

    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[u16] {
        &self.list[..self.len]
    }
}

impl<'a> Voter<'a> {
    /// A vote for a block of that length; `counts` has the length that [`super::scratch::counters`] returns.
    #[inline(always)]
    pub(super) fn new(vote: &'a mut Vote, counts: &'a mut [u16], len: usize, sampling: Sampling) -> Self {
        let more = if sampling.density == 0 { 2 } else { 0 };
        let bits = usize::BITS - (len - 1).leading_zeros();
        let seen_bits = (bits + more).saturating_sub(2).clamp(8, MAX_SEEN_BITS);
        vote.seen[..1 << seen_bits].fill(0);
        counts.fill(0);
        Voter { vote, counts, seen_bits }
    }

    /// Holds the vote over the segment of `len` bytes at `at`. At most `most` distances win, none shorter
    /// than `least`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one caller")]
    pub(super) fn distances(
        &mut self,
        kernels: impl Kernels,
        block: &[u8],
        at: usize,
        len: usize,
        sampling: Sampling,
        most: usize,
        least: usize,
    ) -> Distances {
        // The last seven places do not have a whole word.
        let places = len.saturating_sub(7).min((len * sampling.share).div_ceil(16));
        let mut count = 0;
        for line in (0..places).step_by(64) {
            let mut samples = if sampling.density == 0 {
                u64::MAX
            } else {
                let from = at + line;
                let mut edge = [0; VIEW];
                let view = if from > 0 && from + 66 <= block.len() {
                    block[from - 1..from + 66].try_into().expect("as long as a view")
                } else {
                    let first = usize::from(from == 0);
                    let inside = (from + 66).min(block.len());
                    let piece = &block[from + first - 1..inside];
                    edge[first..][..piece.len()].copy_from_slice(piece);
                    &edge
                };
                kernels.samples(view, sampling.density) | sampling.always
            };
            if places - line < 64 {
                samples &= (1 << (places - line)) - 1;
            }
            count = kernels.places(samples, line as u16, &mut self.vote.places, count);
        }
        // SAFETY: `places` are below `len - 7` at most, so eight bytes are there.
        let voted = unsafe { self.ask(block, at, count) };
        self.count(voted, most, least)
    }

    /// Each of the first `count` places looks up the last occurrence of its bytes. Returns how many distances
    /// got a vote.
    ///
    /// # Safety
    /// From each of these places of the segment at `at`, `block` must hold eight bytes, and it must have the
    /// length that was given to `new`.
    #[inline(always)]
    unsafe fn ask(&mut self, block: &[u8], at: usize, count: usize) -> usize {
        let Vote { seen, voted, places } = &mut *self.vote;
        let (block, counts) = (block.as_ptr(), self.counts.as_mut_ptr());
        let mut found = 0;
        for &place in &places[..count] {
            let place = at + usize::from(place);
            // SAFETY: `place` is inside, see above. The distance is at most 65535 and at most `place`: the
            // entry of `seen` is the low half of an earlier place (then `place - distance` is that place or a
            // later one) or zero (then it is a multiple of 65536, not after `place`). So it is inside, too,
            // and the distance is below the number of counters, which is the length of the block or more, or
            // 65536. A hash has `seen_bits` bits. `voted` has room for one distance for each place.
            unsafe {
                // The six bytes at a place, and two zeros.
                let word = |at: usize| u64::from_le_bytes(block.add(at).cast::<[u8; 8]>().read()) << 16;
                let here = word(place);
                let hash = (here.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.seen_bits)) as usize;
                let distance = place.wrapping_sub(usize::from(*seen.get_unchecked(hash))) & 0xFFFF;
                *seen.get_unchecked_mut(hash) = place as u16;
                let votes = (word(place - distance) == here) & (here != 0);
                let count = *counts.add(distance);
                *voted.get_unchecked_mut(found) = distance as u16;
                found += usize::from(votes & (count == 0));
                *counts.add(distance) = count + u16::from(votes);
            }
        }
        found
    }

    /// The winners among the first `voted` distances; all counters are zero again. Distances shorter than
    /// `least` are multiplied until they are not, and `least` itself is added if there is room: it covers
    /// neighbours that are alike, which a vote over equal words does not see.
    #[inline(always)]
    fn count(&mut self, voted: usize, most: usize, least: usize) -> Distances {
        // Votes above, distance below: sorting by that, the shorter distance
        // wins a tie.
        let mut best = [0_u32; MAX_DISTANCES];
        let mut len = 0;
        // Most distances have a single vote. They are dropped first, without a branch, which would be
        // unpredictable.
        let mut several = 0;
        for i in 0..voted {
            let distance = self.vote.voted[i];
            let count = &mut self.counts[usize::from(distance)];
            let keep = *count > 1;
            *count = if keep { *count } else { 0 };
            self.vote.voted[several] = distance;
            several += usize::from(keep);
        }
        for &distance in &self.vote.voted[..several] {
            let count = core::mem::take(&mut self.counts[usize::from(distance)]);
            let key = u32::from(count) << 16 | u32::from(!distance);
            // A place may have found itself, in a table entry that was not written yet.
            if distance == 0 || key <= best[most - 1] {
                continue;
            }
            let mut to = len.min(most - 1);
            len = (len + 1).min(most);
            while to > 0 && best[to - 1] < key {
                best[to] = best[to - 1];
                to -= 1;
            }
            best[to] = key;
        }
        let none = len == 0;
        let (mut list, mut kept) = ([0; MAX_DISTANCES], 0);
        for &key in best[..len].iter().chain(&[u32::from(!(least as u16))]) {
            let distance = usize::from(!(key as u16));
            let distance = distance.max(least.div_ceil(distance) * distance) as u16;
            if kept < most && !list[..kept].contains(&distance) {
                list[kept] = distance;
                kept += 1;
            }
        }
        Distances { list, len: kept, none }
    }
}
