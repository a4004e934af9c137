//! Measures one codec over the blocks of one file.
//!
//! ```text
//!  pass:  compress all blocks | decompress all forms     timed each; the median of the passes counts
//!         block -> form, form, form, ...  -> one block   forms lie one behind the other, as in a store
//!  last:  decompress each form once more and compare     not timed
//! ```
//!
//! A block that does not shrink to the threshold counts as stored raw: with its full size and with the time
//! of the attempt to compress it. It takes no part in decompression. Decompression reads the forms from
//! memory and writes them all to one place, as when a page is restored. So it does not measure how fast the
//! file could be written again.

use std::fmt;
use std::time::{Duration, Instant};

use memfold_codec::{Codec, Compressed, ScratchBuf};

use super::plan::Threshold;
use super::subject::{Subject, Trained};

/// Default number of passes.
pub const PASSES: usize = 7;
/// After the first pass, no further pass begins once this much time has been spent.
const BUDGET: Duration = Duration::from_secs(2);

/// The result.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The size of each block's compressed form; None if the block was stored raw.
    pub sizes: Vec<Option<usize>>,
    /// Time to compress all blocks.
    pub compress: Duration,
    /// Time to decompress all blocks that were not stored raw.
    pub decompress: Duration,
    /// The number of passes.
    pub passes: usize,
    /// The dictionaries, if the codec trains them.
    pub trained: Option<Trained>,
}

/// The number of a block that was not restored correctly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch(pub usize);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} was not restored as it was", self.0)
    }
}

/// Measures `codec` over `blocks`, none of them longer than `longest`.
pub fn measure(
    codec: &dyn Codec,
    blocks: &[&[u8]],
    longest: usize,
    threshold: Threshold,
    passes: Option<usize>,
) -> Result<Measured, Mismatch> {
    let mut memory = [
        ScratchBuf::with_size(codec.compress_scratch_up_to(longest)),
        ScratchBuf::with_size(codec.decompress_scratch(longest)),
    ];
    let [compress_memory, decompress_memory] = &mut memory;
    let (mut compress_scratch, mut decompress_scratch) =
        (compress_memory.scratch(), decompress_memory.scratch());
    // Writing the buffer now keeps page faults out of the first pass.
    let room = |block: &&[u8]| threshold.of(block.len()).min(codec.bound(block.len()));
    let mut forms = vec![0xA5; blocks.iter().map(room).sum()];
    let mut sizes = vec![None; blocks.len()];
    let mut again = vec![0xA5; longest];
    let (mut compress, mut decompress) = (Vec::new(), Vec::new());

    let mut subject = Subject::new(codec, blocks);
    let begin = Instant::now();
    loop {
        subject.begin_pass();
        let start = Instant::now();
        let mut used = 0;
        for (number, (block, size)) in blocks.iter().zip(&mut sizes).enumerate() {
            let most = threshold.of(block.len());
            *size = match subject.codec().compress(block, &mut forms[used..], most, &mut compress_scratch) {
                Compressed::Fits(size) => {
                    used += size;
                    Some(size)
                }
                Compressed::Incompressible => None,
            };
            subject.between_blocks(number);
        }
        compress.push(start.elapsed().saturating_sub(subject.aside()));

        let start = Instant::now();
        each_form(blocks, &sizes, &forms, |form, block| {
            codec.decompress(form, &mut again[..block.len()], &mut decompress_scratch).is_ok()
        })?;
        decompress.push(start.elapsed());
        let made = compress.len();
        let wanted = passes.unwrap_or_else(|| affordable(begin.elapsed() / made as u32));
        if made >= wanted {
            break;
        }
    }

    each_form(blocks, &sizes, &forms, |form, block| {
        let dst = &mut again[..block.len()];
        // Bytes that the decoder fails to write then differ from the block.
        dst.iter_mut().zip(block).for_each(|(to, byte)| *to = !byte);
        codec.decompress(form, dst, &mut decompress_scratch).is_ok() && dst == block
    })?;
    let passes = compress.len();
    let trained = subject.trained();
    Ok(Measured { sizes, compress: median(compress), decompress: median(decompress), passes, trained })
}

/// Calls `comes_back` with each compressed form and the block that it must decompress to.
fn each_form(
    blocks: &[&[u8]],
    sizes: &[Option<usize>],
    forms: &[u8],
    mut comes_back: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), Mismatch> {
    let mut left = forms;
    for (number, (block, size)) in blocks.iter().zip(sizes).enumerate() {
        if let Some(size) = *size {
            let (form, others) = left.split_at(size);
            if !comes_back(form, block) {
                return Err(Mismatch(number));
            }
            left = others;
        }
    }
    Ok(())
}

/// The number of passes of this length that fit the budget. The number is odd, so that the median is one of
/// them.
fn affordable(pass: Duration) -> usize {
    let fitting = BUDGET.as_nanos() / pass.as_nanos().max(1);
    let fitting = usize::try_from(fitting).unwrap_or(PASSES).clamp(1, PASSES);
    fitting - (fitting + 1) % 2
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use memfold_codec::{CodecId, Malformed, Scratch, codec};

    use super::*;
    use crate::bench::corpus::tests::plan;

    /// A codec that changes a byte, refuses its own form, or writes nothing, depending on its number.
    struct Broken(u8);

    impl Codec for Broken {
        fn name(&self) -> &str {
            "broken"
        }
        fn id(&self) -> CodecId {
            CodecId::COPY
        }
        fn bound(&self, len: usize) -> usize {
            len
        }
        fn compress_scratch(&self, _: usize) -> usize {
            0
        }
        fn decompress_scratch(&self, _: usize) -> usize {
            0
        }
        fn compress(&self, src: &[u8], dst: &mut [u8], most: usize, _: &mut Scratch<'_>) -> Compressed {
            if src.len() > most {
                return Compressed::Incompressible;
            }
            dst[..src.len()].copy_from_slice(src);
            Compressed::Fits(src.len())
        }
        fn decompress(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch<'_>) -> Result<(), Malformed> {
            dst.copy_from_slice(src);
            match self.0 {
                1 => dst[dst.len() - 1] ^= u8::from(src[0] == 2),
                2 if src[0] == 2 => return Err(Malformed),
                3 => dst[..8].iter_mut().zip(src).for_each(|(to, byte)| *to = !byte),
                _ => {}
            }
            Ok(())
        }
    }

    fn blocks() -> Vec<Vec<u8>> {
        (0..5u8).map(|first| (first..first + 100).collect()).collect()
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let blocks = blocks();
        let blocks: Vec<_> = blocks.iter().map(Vec::as_slice).collect();
        let threshold = plan(&["--threshold=4096"]).threshold;
        let wrong =
            |how| measure(&Broken(how), &blocks, 100, threshold, Some(2)).map(|m| m.sizes).unwrap_err();
        assert_eq!(wrong(1), Mismatch(2));
        assert_eq!(wrong(2), Mismatch(2));
        assert_eq!(wrong(3), Mismatch(0));
        let fine = measure(&Broken(0), &blocks, 100, threshold, Some(2)).unwrap();
        assert_eq!((fine.sizes, fine.passes), (vec![Some(100); 5], 2));
    }

    #[test]
    fn incompressible_blocks_are_raw() {
        let noise: Vec<u8> =
            (0..4096u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8 ^ i as u8).collect();
        let text = b"a line of text, and ".repeat(205);
        let threshold = plan(&[]).threshold;
        let done =
            measure(codec("lz4").unwrap(), &[&noise, &text[..4096]], 4096, threshold, Some(1)).unwrap();
        assert_eq!(done.sizes[0], None);
        assert!(done.sizes[1].unwrap() < 200);
    }

    #[test]
    fn slow_codecs_get_fewer_passes() {
        assert_eq!(affordable(Duration::ZERO), 7);
        assert_eq!(affordable(BUDGET / 7), 7);
        assert_eq!(affordable(BUDGET / 6), 5);
        assert_eq!(affordable(BUDGET / 2), 1);
        assert_eq!(affordable(BUDGET * 2), 1);
    }
}
