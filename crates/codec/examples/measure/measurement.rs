//! Measures one codec over the blocks of one file.
//!
//! All blocks are compressed one after the other, then all are decompressed,
//! over and over; the median of the passes counts. Same-filled blocks are left
//! out, since they never reach a codec. A block that does not shrink to the
//! threshold counts as stored raw: with its full size, and with the time that
//! finding out took. In the end all blocks are decompressed once more
//! and compared with the file.

use std::time::{Duration, Instant};

use memfold_codec::{Codec, Compressed, ScratchBuf, same_filled};

/// What is measured and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Bytes of a block.
    pub block: usize,
    /// The most bytes that a compressed form may take to be kept.
    pub threshold: usize,
    /// Passes, of which the median counts.
    pub passes: usize,
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Row {
    pub blocks: usize,
    pub same_filled: usize,
    pub stored_raw: usize,
    pub original_bytes: usize,
    pub compressed_bytes: usize,
    pub compress: Duration,
    pub decompress: Duration,
    /// Bytes that took part in decompression: all but those stored raw.
    pub decompressed_bytes: usize,
}

impl Row {
    pub fn ratio(&self) -> f64 {
        self.original_bytes as f64 / self.compressed_bytes as f64
    }
}

/// Measures `codec` over `file`; what is left over after the last whole block
/// is a shorter one.
///
/// # Panics
/// If a block does not come back as it was.
pub fn measure(codec: &dyn Codec, file: &[u8], plan: Plan) -> Row {
    let all = file.len().div_ceil(plan.block);
    let blocks: Vec<&[u8]> = file.chunks(plan.block).filter(|block| same_filled(block).is_none()).collect();
    let mut memory = [(); 2].map(|()| ScratchBuf::for_codecs([codec], plan.block));
    let [compress_memory, decompress_memory] = &mut memory;
    let (mut compress_scratch, mut decompress_scratch) =
        (compress_memory.scratch(), decompress_memory.scratch());

    // One form behind the other, as a store keeps them.
    let mut forms = vec![0; blocks.iter().map(|block| codec.bound(block.len())).sum()];
    let mut sizes = vec![None; blocks.len()];
    let mut again = vec![0; plan.block];
    let (mut compress, mut decompress) = (Vec::new(), Vec::new());
    for _ in 0..plan.passes {
        let start = Instant::now();
        let mut used = 0;
        for (block, size) in blocks.iter().zip(&mut sizes) {
            let threshold = plan.threshold * block.len() / plan.block;
            *size = match codec.compress(block, &mut forms[used..], threshold, &mut compress_scratch) {
                Compressed::Fits(size) => {
                    used += size;
                    Some(size)
                }
                Compressed::Incompressible => None,
            };
        }
        compress.push(start.elapsed());

        // Into one place, as a page comes back; so the forms come from memory,
        // but what is measured is not how fast the file can be written again.
        let start = Instant::now();
        let mut left = &forms[..];
        for (block, size) in blocks.iter().zip(&sizes) {
            if let Some(size) = *size {
                let (form, others) = left.split_at(size);
                let dst = &mut again[..block.len()];
                codec.decompress(form, dst, &mut decompress_scratch).expect("a form just made");
                left = others;
            }
        }
        decompress.push(start.elapsed());
    }

    let mut left = &forms[..];
    for (block, size) in blocks.iter().zip(&sizes) {
        if let Some(size) = *size {
            let (form, others) = left.split_at(size);
            let dst = &mut again[..block.len()];
            dst.fill(0xA5);
            codec.decompress(form, dst, &mut decompress_scratch).expect("a form just made");
            assert!(dst == *block, "{} changed a block", codec.name());
            left = others;
        }
    }

    let total = |blocks: &mut dyn Iterator<Item = usize>| blocks.sum::<usize>();
    Row {
        blocks: all,
        same_filled: all - blocks.len(),
        stored_raw: sizes.iter().filter(|size| size.is_none()).count(),
        original_bytes: total(&mut blocks.iter().map(|block| block.len())),
        compressed_bytes: total(
            &mut blocks.iter().zip(&sizes).map(|(block, size)| size.unwrap_or(block.len())),
        ),
        decompressed_bytes: total(
            &mut blocks.iter().zip(&sizes).filter(|(_, size)| size.is_some()).map(|(block, _)| block.len()),
        ),
        compress: median(compress),
        decompress: median(decompress),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
