//! The codecs that are compared, and their results on blocks.

use memfold_codec::{Codec, Compressed, ScratchBuf, all};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The levels that are compared, for families with levels.
const LEVELS: [(&str, &[&str]); 5] = [
    ("zstd", &["-5", "1", "3", "6", "9", "19"]),
    ("lz4hc", &["4", "9"]),
    ("deflate", &["1", "5", "6", "9"]),
    ("xz", &["0", "6"]),
    ("zstd-dict", &["1", "3"]),
];

/// Every codec of the registry; some levels of families with many.
pub fn compared() -> impl Iterator<Item = &'static dyn Codec> {
    all().filter(|codec| match codec.name().split_once(':') {
        Some((family, level)) => {
            LEVELS.iter().find(|(name, _)| *name == family).is_none_or(|(_, levels)| levels.contains(&level))
        }
        None => true,
    })
}

/// The result of compressing blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Made {
    pub original_bytes: u64,
    pub compressed_bytes: u64,
    /// Microseconds of CPU time per block.
    pub compress_us: f64,
    pub decompress_us: f64,
}

/// Compresses blocks of one length, one after the other, and decompresses them again; a block that does not
/// shrink is kept uncompressed.
///
/// # Panics
///
/// If a block is not restored correctly.
pub fn compress<'b>(codec: &dyn Codec, blocks: impl IntoIterator<Item = &'b [u8]>) -> Made {
    let mut made = Made::default();
    let (mut packed, mut whole, mut count) = (Vec::new(), Vec::new(), 0_u32);
    let mut blocks = blocks.into_iter().peekable();
    let Some(len) = blocks.peek().map(|block| block.len()) else { return made };
    // One scratch for each direction, as threads have them.
    let mut memory =
        [codec.compress_scratch_up_to(len), codec.decompress_scratch(len)].map(ScratchBuf::with_size);
    let [mut to, mut from] = memory.each_mut().map(ScratchBuf::scratch);
    for block in blocks {
        assert_eq!(block.len(), len, "blocks of one length");
        packed.resize(codec.bound(len), 0);
        let began = now();
        let compressed = codec.compress(block, &mut packed, len, &mut to);
        made.compress_us += now() - began;
        made.original_bytes += len as u64;
        count += 1;
        let Compressed::Fits(size) = compressed else {
            made.compressed_bytes += len as u64;
            continue;
        };
        made.compressed_bytes += size as u64;
        whole.resize(len, 0);
        let began = now();
        let done = codec.decompress(&packed[..size], &mut whole, &mut from);
        made.decompress_us += now() - began;
        assert!(done.is_ok() && whole == block, "{} gave another block back", codec.name());
    }
    made.compress_us /= f64::from(count);
    made.decompress_us /= f64::from(count);
    made
}

/// CPU time of this thread, microseconds.
fn now() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock that every kernel has");
    time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3
}
