//! The bytes and seconds of a codec on a file, and the figures derived from them. The sums of several files
//! can be added.
//!
//! The **effective speed** is that of zBeWalgo's evaluation: how fast a file goes into a memory that is too small
//! for it, with a slower device for the rest. The memory is as large as the codec with the best ratio needs for
//! the blocks that it compresses. The device takes the blocks stored raw and whatever a worse ratio leaves over:
//!
//! ```text
//!  device bytes    = raw + max(0, packed - packed of the best) * ratio of the packed blocks
//!  effective speed = original / (time of the codec + device bytes / speed of the device)
//! ```

use std::iter::Sum;

use super::measure::Measured;

/// Bytes and seconds. The bytes are those of the blocks given to the codecs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// All blocks.
    pub original: u64,
    /// Blocks stored raw.
    pub raw: u64,
    /// The number of blocks stored raw.
    pub raw_blocks: usize,
    /// Compressed forms of the other blocks, and the dictionaries that they need.
    pub packed: u64,
    /// Time to compress all blocks.
    pub compress: f64,
    /// Time to decompress the blocks that are not stored raw.
    pub decompress: f64,
    /// Time to write everything, including the device's time.
    pub effective_write: f64,
    /// Time to read everything.
    pub effective_read: f64,
}

impl Sums {
    /// The sums of one codec on one file. `with_device` fills in the effective times.
    pub fn new(blocks: &[&[u8]], measured: &Measured) -> Self {
        let sizes = Self::of_sizes(blocks, &measured.sizes);
        if blocks.is_empty() {
            // Without blocks, the times measure only the clock.
            return sizes;
        }
        Self {
            packed: sizes.packed + measured.trained.map_or(0, |trained| trained.bytes),
            compress: measured.compress.as_secs_f64(),
            decompress: measured.decompress.as_secs_f64(),
            ..sizes
        }
    }

    /// The sums of compressed sizes, without times.
    pub fn of_sizes(blocks: &[&[u8]], sizes: &[Option<usize>]) -> Self {
        let mut sums = Self::default();
        for (block, size) in blocks.iter().zip(sizes) {
            sums.original += block.len() as u64;
            match size {
                Some(size) => sums.packed += *size as u64,
                None => {
                    sums.raw += block.len() as u64;
                    sums.raw_blocks += 1;
                }
            }
        }
        sums
    }

    /// Bytes that are stored in total.
    pub fn compressed(&self) -> u64 {
        self.packed + self.raw
    }

    /// Original bytes per compressed byte, if there was something to compress.
    pub fn ratio(&self) -> Option<f64> {
        quotient(self.original as f64, self.compressed() as f64)
    }

    /// Bytes per second.
    pub fn compress_speed(&self) -> Option<f64> {
        quotient(self.original as f64, self.compress)
    }

    /// Bytes per second; None if no block was decompressed.
    pub fn decompress_speed(&self) -> Option<f64> {
        quotient((self.original - self.raw) as f64, self.decompress)
    }

    /// Bytes per second written to memory and device.
    pub fn effective_speed(&self) -> Option<f64> {
        quotient(self.original as f64, self.effective_write)
    }

    /// Bytes per second read from memory and device.
    pub fn effective_read_speed(&self) -> Option<f64> {
        quotient(self.original as f64, self.effective_read)
    }

    /// Fills in the effective times for a memory of `room` bytes and a device with these speeds in bytes per
    /// second.
    pub fn with_device(mut self, room: u64, device: crate::bench::plan::Device) -> Self {
        let left_over = self.packed.saturating_sub(room) as f64;
        let packed_ratio = quotient((self.original - self.raw) as f64, self.packed as f64).unwrap_or(1.0);
        let on_device = self.raw as f64 + left_over * packed_ratio;
        self.effective_write = self.compress + on_device / device.write;
        self.effective_read = self.decompress + on_device / device.read;
        self
    }
}

impl Sum for Sums {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            original: a.original + b.original,
            raw: a.raw + b.raw,
            raw_blocks: a.raw_blocks + b.raw_blocks,
            packed: a.packed + b.packed,
            compress: a.compress + b.compress,
            decompress: a.decompress + b.decompress,
            effective_write: a.effective_write + b.effective_write,
            effective_read: a.effective_read + b.effective_read,
        })
    }
}

/// The size of the memory: the bytes that the codec with the best ratio needs for the blocks that it
/// compresses.
pub fn room<'a>(all: impl IntoIterator<Item = &'a Sums>) -> u64 {
    let best = all.into_iter().filter(|sums| sums.original > 0).min_by_key(|sums| sums.compressed());
    best.map_or(0, |best| best.packed)
}

/// The harmonic mean of ratios: the ratio of all bytes if all files were equally long.
pub fn harmonic_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, inverse) =
        ratios.fold((0.0, 0.0), |(count, inverse), ratio| (count + 1.0, inverse + 1.0 / ratio));
    quotient(count, inverse)
}

fn quotient(above: f64, below: f64) -> Option<f64> {
    (above > 0.0 && below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Device;

    fn sums(raw: u64, packed: u64, compress: f64) -> Sums {
        Sums { original: 1000, raw, packed, compress, decompress: compress / 2.0, ..Sums::default() }
    }

    #[test]
    fn effective_speed_by_hand() {
        let device = Device { write: 100.0, read: 200.0 };
        // The best codec compresses 1000 bytes to 400 in 1 s. The other stores 200 bytes raw, and compresses
        // 800 to 500 in 0.5 s.
        let (best, other) = (sums(0, 400, 1.0), sums(200, 500, 0.5));
        assert_eq!(room([&other, &best]), 400);
        let best = best.with_device(400, device);
        assert_eq!(best.effective_speed(), Some(1000.0));
        assert_eq!(best.effective_read_speed(), Some(2000.0));
        // 200 + 100 * 1.6 = 360 bytes go to the device: 3.6 s.
        let other = other.with_device(400, device);
        assert!((other.effective_speed().unwrap() - 1000.0 / 4.1).abs() < 1e-9);
        assert!((other.effective_read_speed().unwrap() - 1000.0 / 2.05).abs() < 1e-9);
    }

    #[test]
    fn room_that_is_left_does_not_take_raw_blocks() {
        // Half is raw and the rest tiny: the device takes at least that half.
        let device = Device { write: 100.0, read: 100.0 };
        let odd = sums(500, 10, 1.0).with_device(450, device);
        assert_eq!(odd.effective_speed(), Some(1000.0 / 6.0));
        let raw = sums(1000, 0, 0.0).with_device(450, device);
        assert_eq!(raw.effective_speed(), Some(100.0));
    }

    #[test]
    fn sums_add_up() {
        let blocks: [&[u8]; 3] = [&[1; 10], &[2; 10], &[3; 5]];
        let sums = Sums::of_sizes(&blocks, &[Some(4), None, Some(1)]);
        assert_eq!((sums.original, sums.raw, sums.raw_blocks, sums.packed), (25, 10, 1, 5));
        assert_eq!(sums.ratio(), Some(25.0 / 15.0));
        let both: Sums = [sums, sums].into_iter().sum();
        assert_eq!((both.compressed(), both.raw_blocks), (30, 2));
    }

    #[test]
    fn nothing_has_no_speed() {
        let none = Sums::default();
        assert_eq!((none.ratio(), none.compress_speed(), none.effective_speed()), (None, None, None));
        assert_eq!(room([&none]), 0);
        assert_eq!(harmonic_mean([].into_iter()), None);
        assert_eq!(harmonic_mean([2.0, 6.0].into_iter()), Some(3.0));
    }
}
