//! The lengths of codes: computing them, storing them, and making codes and tables of them.

use super::LONGEST;
use super::bits::Table;
use crate::Malformed;
use crate::bytes::Out;

/// The length of each byte's code, 0 for bytes that do not occur.
pub(super) struct Lengths(pub [u8; 256]);

/// The code space, in codes of the longest length.
const ALL: u32 = 1 << LONGEST;

impl Lengths {
    /// The optimal lengths, or nearly, for these counts, of which at least two are not zero.
    pub(super) fn of(counts: &[u32; 256]) -> Self {
        // Count, then byte: rare ones first.
        let mut sorted = [0_u64; 256];
        let mut len = 0;
        for (byte, &count) in counts.iter().enumerate() {
            if count > 0 {
                sorted[len] = u64::from(count) << 8 | byte as u64;
                len += 1;
            }
        }
        let sorted = &mut sorted[..len];
        sorted.sort_unstable();
        let mut lengths = [0; 256];
        depths(sorted, &mut lengths[..len]);
        shorten(&mut lengths[..len]);
        let mut by_byte = [0; 256];
        for (&leaf, &length) in sorted.iter().zip(&lengths) {
            by_byte[(leaf & 0xFF) as usize] = length;
        }
        Lengths(by_byte)
    }

    /// Calls `put` with each half byte of the stored form.
    fn halves(&self, mut put: impl FnMut(usize) -> Option<()>) -> Option<()> {
        let mut rest = &self.0[..];
        let mut last = 0;
        while let [length, ..] = *rest {
            let run = rest.iter().position(|&other| other != length).unwrap_or(rest.len());
            let used = if length == 0 {
                put(0)?;
                match run {
                    1..=15 => put(run - 1)?,
                    _ => {
                        put(15)?;
                        put((run - 16) % 16)?;
                        put((run - 16) / 16)?;
                    }
                }
                run
            } else if length == last && run >= 2 {
                put(run.min(5) + 10)?;
                run.min(5)
            } else {
                put(length.into())?;
                1
            };
            last = length;
            rest = &rest[used..];
        }
        Some(())
    }

    /// Bytes of the stored form.
    pub(super) fn size(&self) -> usize {
        let mut halves = 0_usize;
        self.halves(|_| {
            halves += 1;
            Some(())
        });
        halves.div_ceil(2)
    }

    pub(super) fn put(&self, out: &mut Out<'_>) -> Option<()> {
        let mut low = None;
        self.halves(|half| match low.take() {
            None => {
                low = Some(half);
                Some(())
            }
            Some(low) => out.put([(low | half << 4) as u8]),
        })?;
        low.map_or(Some(()), |low| out.put([low as u8]))
    }

    /// Reads the stored form; returns what follows it.
    pub(super) fn take(src: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut used = 0;
        let mut half = || {
            let byte = *src.get(used / 2).ok_or(Malformed)?;
            used += 1;
            Ok(usize::from(if used % 2 == 1 { byte & 15 } else { byte >> 4 }))
        };
        let mut lengths = [0; 256];
        let mut at = 0_usize;
        while at < 256 {
            let (length, run) = match half()? {
                0 => (
                    0,
                    match half()? {
                        15 => 16 + half()? + 16 * half()?,
                        few => few + 1,
                    },
                ),
                repeat @ 12.. => match at.checked_sub(1).map(|last| lengths[last]) {
                    Some(last @ 1..) => (last, repeat - 10),
                    _ => return Err(Malformed),
                },
                length => (length as u8, 1),
            };
            lengths.get_mut(at..at + run).ok_or(Malformed)?.fill(length);
            at += run;
        }
        Ok((Lengths(lengths), &src[used.div_ceil(2)..]))
    }

    /// The first code of each length, left-aligned to the longest length, so that codes of all lengths count
    /// up in one sequence. `Malformed` if the lengths need too many codes.
    fn firsts(&self) -> Result<[u32; LONGEST as usize + 1], Malformed> {
        let mut counts = [0_u32; LONGEST as usize + 1];
        for &length in &self.0 {
            counts[usize::from(length)] += 1;
        }
        let mut firsts = [0; LONGEST as usize + 1];
        let mut next = 0;
        for length in 1..=LONGEST {
            firsts[length as usize] = next;
            next += counts[length as usize] << (LONGEST - length);
        }
        if next <= ALL { Ok(firsts) } else { Err(Malformed) }
    }

    /// For each byte the length and, above 8 bits, the code, its first bit lowest.
    pub(super) fn codes(&self) -> [u32; 256] {
        let mut codes = [0; 256];
        let Ok(mut next) = self.firsts() else { unreachable!("lengths of its own are right") };
        for (code, &length) in codes.iter_mut().zip(&self.0) {
            if length > 0 {
                let next = &mut next[usize::from(length)];
                *code = (*next).reverse_bits() >> (32 - LONGEST) << 8 | u32::from(length);
                *next += 1 << (LONGEST - u32::from(length));
            }
        }
        codes
    }

    /// Fills the decoding table.
    pub(super) fn fill(&self, table: &mut Table) -> Result<(), Malformed> {
        let mut next = self.firsts()?;
        table.fill(0);
        for (byte, &length) in self.0.iter().enumerate() {
            if length > 0 {
                let next = &mut next[usize::from(length)];
                let entry = (byte as u16) << 8 | u16::from(length);
                let code = (*next).reverse_bits() >> (32 - LONGEST);
                *next += 1 << (LONGEST - u32::from(length));
                for to in table[code as usize..].iter_mut().step_by(1 << length) {
                    *to = entry;
                }
            }
        }
        Ok(())
    }
}

/// The depths of leaves in Huffman's tree; the leaves' weights, above 8 bits, are in ascending order. It uses
/// two queues: of leaves, and of joined trees, which also come out in ascending order.
fn depths(leaves: &[u64], depths: &mut [u8]) {
    let len = leaves.len();
    let mut weights = [0_u64; 256];
    let mut parents = [0_u16; 512];
    let (mut leaf, mut tree) = (0, 0);
    for joined in 0..len - 1 {
        for _ in 0..2 {
            let light = leaf < len && (tree == joined || leaves[leaf] >> 8 <= weights[tree]);
            if light {
                weights[joined] += leaves[leaf] >> 8;
                parents[leaf] = (len + joined) as u16;
                leaf += 1;
            } else {
                weights[joined] += weights[tree];
                parents[len + tree] = (len + joined) as u16;
                tree += 1;
            }
        }
    }
    // The last tree joined is the root. Parents come after their children.
    let mut depth = [0_u8; 512];
    for node in (0..2 * len - 2).rev() {
        depth[node] = depth[usize::from(parents[node])].saturating_add(1);
    }
    depths.copy_from_slice(&depth[..len]);
}

/// Limits lengths to the longest allowed, and lengthens others, rare bytes first, until all codes fit; then
/// shortens codes with the code space left over.
fn shorten(lengths: &mut [u8]) {
    let share = |length: u8| ALL >> length;
    let mut used = 0;
    for length in lengths.iter_mut() {
        *length = (*length).min(LONGEST as u8);
        used += share(*length);
    }
    for length in lengths.iter_mut() {
        while used > ALL && u32::from(*length) < LONGEST {
            used -= share(*length) / 2;
            *length += 1;
        }
    }
    for length in lengths.iter_mut().rev() {
        while *length > 1 && used + share(*length) <= ALL {
            used += share(*length);
            *length -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn codes_have_room_and_tables_are_full() {
        let mut fibonacci = [0; 256];
        let (mut a, mut b) = (1, 1);
        for count in &mut fibonacci[100..140] {
            *count = a;
            (a, b) = (b, a + b);
        }
        let mut two = [0; 256];
        (two[0], two[255]) = (1, 1_000_000);
        let even = [7; 256];
        let slope = core::array::from_fn(|i| i as u32);
        for counts in [fibonacci, two, even, slope] {
            let lengths = Lengths::of(&counts);
            let used: u32 = lengths.0.iter().filter(|&&l| l > 0).map(|&l| ALL >> l).sum();
            assert!(used <= ALL);
            for (&length, &count) in lengths.0.iter().zip(&counts) {
                assert_eq!(length > 0, count > 0);
                assert!(u32::from(length) <= LONGEST);
            }
            let mut stored = vec![0; lengths.size()];
            lengths.put(&mut Out::after(&mut stored, 0).unwrap()).unwrap();
            let (again, rest) = Lengths::take(&stored).unwrap();
            assert!(again.0 == lengths.0 && rest.is_empty());
            assert!(Lengths::take(&stored[..stored.len() - 1]).is_err());
            let mut table = [0; 1 << LONGEST];
            lengths.fill(&mut table).unwrap();
            for (byte, code) in lengths.codes().into_iter().enumerate().filter(|(_, code)| *code > 0) {
                assert_eq!(table[(code >> 8) as usize], (byte as u16) << 8 | code as u16 & 0xFF);
            }
        }
    }

    #[test]
    fn the_lengths_are_huffmans() {
        let mut counts = [0; 256];
        counts[..6].copy_from_slice(&[45, 13, 12, 16, 9, 5]);
        assert_eq!(Lengths::of(&counts).0[..6], [1, 3, 3, 3, 4, 4]);
    }

    #[test]
    fn too_many_codes_are_refused() {
        let mut lengths = [0; 256];
        lengths[..3].fill(1);
        assert!(Lengths(lengths).fill(&mut [0; 1 << LONGEST]).is_err());
    }
}
