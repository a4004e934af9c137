//! `range`: range coding. Each bit narrows the interval of numbers, at first 0 to 2^32 - 1, to the share of
//! its probability; leading bytes that all remaining numbers have in common are written. The probabilities
//! are learned from the block itself, so there is no table to store, which would not pay for a small block. A
//! byte is coded as eight bits, and each of the 255 nodes in the tree of its bits has its own probability,
//! which adapts more and more slowly.
//!
//! ```text
//! +---+-----------------------------+
//! | 1 | written bytes               |      | 0 | the block, if that is shorter |
//! +---+-----------------------------+
//! ```
//!
//! At the end it writes the fewest bytes, at least one, that denote a remaining number if zeros follow. The
//! reader can compute how many these are.

use crate::bytes::Out;
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The step `range`.
pub(crate) struct Range;

const RAW: u8 = 0;
const CODED: u8 = 1;

/// After this many bits, the rate of adaptation stays constant.
const SLOWEST: u32 = 126;

/// 65536 / (n + 1.5), the rate at which the n-th bit moves a probability.
static SPEEDS: [u16; SLOWEST as usize + 1] = speeds();

const fn speeds() -> [u16; SLOWEST as usize + 1] {
    let mut speeds = [0; SLOWEST as usize + 1];
    let mut n = 0;
    while n < speeds.len() {
        speeds[n] = (131_072 / (2 * n + 3)) as u16;
        n += 1;
    }
    speeds
}

/// The tree: the probability of a one at each node, and how many bits were seen there.
struct Model {
    /// A probability of 22 bits, then a count of 10.
    places: [u32; 256],
}

impl Model {
    fn new() -> Self {
        Model { places: [1 << 31; 256] }
    }

    /// In 65536ths, never quite zero or one.
    #[inline(always)]
    fn one(&self, place: usize) -> u32 {
        (self.places[place & 0xFF] >> 16).clamp(24, 65536 - 24)
    }

    #[inline(always)]
    fn learn(&mut self, place: usize, bit: bool) {
        let place = &mut self.places[place & 0xFF];
        let (seen, likely) = (*place & 0x3FF, i64::from(*place >> 10));
        let wanted = if bit { (1 << 22) - 1 } else { 0 };
        let speed = i64::from(SPEEDS[seen.min(SLOWEST) as usize]);
        let likely = likely + (((wanted - likely) * speed) >> 16);
        *place = (likely as u32) << 10 | (seen + 1).min(SLOWEST);
    }
}

/// The interval of remaining numbers.
struct Interval {
    low: u32,
    high: u32,
}

impl Interval {
    fn all() -> Self {
        Interval { low: 0, high: u32::MAX }
    }

    /// The last number of the part that stands for a one.
    #[inline(always)]
    fn middle(&self, one: u32) -> u32 {
        let range = u64::from(self.high - self.low);
        self.low + ((range * u64::from(one)) >> 16) as u32
    }

    #[inline(always)]
    fn keep(&mut self, middle: u32, bit: bool) {
        if bit {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
    }

    /// If all numbers begin with the same byte, removes it and returns it.
    #[inline(always)]
    fn shift(&mut self) -> Option<u8> {
        if (self.low ^ self.high) >> 24 != 0 {
            return None;
        }
        let byte = (self.low >> 24) as u8;
        self.low <<= 8;
        self.high = self.high << 8 | 0xFF;
        Some(byte)
    }

    /// The remaining number that ends with the most zero bytes, and how many bytes precede these.
    fn last(&self) -> (u32, usize) {
        for bytes in 1..4 {
            let zeros = u32::MAX >> (8 * bytes);
            let number = self.low.checked_add(zeros).map(|number| number & !zeros);
            if let Some(number) = number.filter(|number| *number <= self.high) {
                return (number, bytes);
            }
        }
        (self.low, 4)
    }
}

fn encode(src: &[u8], out: &mut Out<'_>) -> Option<()> {
    let (mut model, mut left) = (Model::new(), Interval::all());
    for &byte in src {
        let mut place = 1;
        for bit in (0..8).rev().map(|bit| byte >> bit & 1 == 1) {
            left.keep(left.middle(model.one(place)), bit);
            model.learn(place, bit);
            place = place << 1 | usize::from(bit);
            while let Some(byte) = left.shift() {
                out.put([byte])?;
            }
        }
    }
    let (number, bytes) = left.last();
    out.put_all(&number.to_be_bytes()[..bytes])
}

impl Step for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(1)
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Option<usize> {
        // A form longer than the block itself is not worth it.
        let room = dst.len().min(src.len() + 1);
        let mut out = Out::after(&mut dst[..room], 0)?;
        out.put([CODED])?;
        if encode(src, &mut out).is_some() {
            return Some(out.len());
        }
        let mut out = Out::after(dst, 0)?;
        out.put([RAW])?;
        out.put_all(src)?;
        Some(out.len())
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (&kind, src) = src.split_first().ok_or(Malformed)?;
        match kind {
            RAW if src.len() == dst.len() => {
                dst.copy_from_slice(src);
                return Ok(());
            }
            CODED => {}
            _ => return Err(Malformed),
        }
        let mut bytes = src.iter().copied();
        let mut number = 0;
        for _ in 0..4 {
            number = number << 8 | u32::from(bytes.next().unwrap_or(0));
        }
        let (mut model, mut left) = (Model::new(), Interval::all());
        let mut shifted = 0;
        for to in dst {
            let mut place = 1;
            for _ in 0..8 {
                let middle = left.middle(model.one(place));
                let bit = number <= middle;
                left.keep(middle, bit);
                model.learn(place, bit);
                place = place << 1 | usize::from(bit);
                while left.shift().is_some() {
                    number = number << 8 | u32::from(bytes.next().unwrap_or(0));
                    shifted += 1;
                }
            }
            *to = place as u8;
        }
        let (last, few) = left.last();
        if src.len() == shifted + few && number == last { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval is never empty after a bit, however long the input.
    #[test]
    fn the_interval_never_closes() {
        let mut left = Interval { low: 0x1234_5600, high: 0x1300_0000 };
        for one in [24, 1000, 32768, 65536 - 24] {
            let middle = left.middle(one);
            assert!(left.low <= middle && middle < left.high);
            left = Interval { low: 0x12FF_FFFF, high: 0x1300_0000 };
            let middle = left.middle(one);
            assert!(left.low <= middle && middle < left.high);
        }
    }

    #[test]
    fn the_last_number_is_as_short_as_can_be() {
        let last = |low, high| Interval { low, high }.last();
        assert_eq!(last(0, u32::MAX), (0, 1));
        assert_eq!(last(1, 0x0100_0000), (0x0100_0000, 1));
        assert_eq!(last(0x0100_0001, 0x01FF_FFFF), (0x0101_0000, 2));
        assert_eq!(last(0xFFFF_FF01, u32::MAX), (0xFFFF_FF01, 4));
    }
}
