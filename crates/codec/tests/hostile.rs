//! Decoders given anything but the output of their encoder: they return an error or fill the block. Input and
//! output lie next to inaccessible pages, so that one byte read or written outside ends the test.

mod common;
#[path = "common/guard.rs"]
mod guard;

use common::{KINDS, PIPELINES, Random, block, compress, decompress, some_codecs};
use guard::{Against, Guarded};
use memfold_codec::{Codec, ScratchBuf, codec};
use proptest::prelude::*;
use std::cell::RefCell;

/// For these codecs, two forms in a row may also decode as one block of twice the length: nothing in the form
/// says where it ends.
const ROWS: [&str; 8] = ["copy", "lzrw1a", "pbpm", "pbpm:tapes", "pbpm:word", "wkdm", "bewalgo", "bewalgo2"];

fn names() -> Vec<&'static str> {
    let codecs =
        some_codecs(&["zstd:1", "zstd-dict:1", "deflate:6", "xz:0"]).into_iter().map(|codec| codec.name());
    codecs.chain(["auto"]).collect()
}

const CAPACITY: usize = 1 << 16;

/// Decoders that detect every form that is truncated, extended, or of a block of another length. The other
/// pipelines are left out: their coders cannot tell where a form ends.
fn strict() -> Vec<&'static str> {
    let pipelines = ["delta:8x6+shuffle:8+zstd:1", "delta:2x2+shuffle:2+lz4"];
    names().into_iter().filter(|name| !PIPELINES.contains(name) || pipelines.contains(name)).collect()
}

/// A decoder with guarded memory for its input and output.
struct Decoder {
    codec: &'static dyn Codec,
    scratch: ScratchBuf,
    src: Guarded,
    dst: Guarded,
}

impl Decoder {
    fn new(name: &str) -> Self {
        let codec = codec(name).unwrap();
        let scratch = ScratchBuf::for_codecs([codec], CAPACITY);
        Decoder { codec, scratch, src: Guarded::new(CAPACITY), dst: Guarded::new(CAPACITY) }
    }

    /// The block of `len` bytes to which `src` decodes, if it does. The result must not depend on the
    /// previous content of the output.
    fn accepts(&mut self, src: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut scratch = self.scratch.scratch();
        let mut results = [(Against::Start, 0x00), (Against::End, 0xFF)].map(|(against, before)| {
            let src = self.src.copy(src, against);
            let dst = self.dst.slice(len, against);
            dst.fill(before);
            self.codec.decompress(src, dst, &mut scratch).ok().map(|()| dst.to_vec())
        });
        assert!(results[0] == results[1], "{} leaves bytes unwritten", self.codec.name());
        results[0].take()
    }
}

/// Compressed forms of all kinds of blocks, and the length of each block.
fn compressed(codec: &dyn Codec) -> Vec<(Vec<u8>, usize)> {
    let mut all = Vec::new();
    for len in [1, 7, 13, 100, 700, 4096] {
        let mut memory = ScratchBuf::for_codecs([codec], len);
        for kind in KINDS {
            let src = block(kind, len, 77);
            all.push((compress(codec, &src, usize::MAX, &mut memory.scratch()).unwrap(), len));
        }
    }
    all
}

#[test]
fn truncated_input_is_refused() {
    for name in strict() {
        let mut decoder = Decoder::new(name);
        for (src, len) in compressed(decoder.codec) {
            for shorter in 0..src.len() {
                assert!(decoder.accepts(&src[..shorter], len).is_none(), "{name} {len} {shorter}");
            }
        }
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for name in strict() {
        let mut decoder = Decoder::new(name);
        for (src, len) in compressed(decoder.codec) {
            assert!(decoder.accepts(&src, len).is_some());
            for more in [&[0][..], &[0xFF], &[0; 8], &[0x00, 0x10, 0x01, 0x00, 0x00], &src] {
                let longer = [&src, more].concat();
                assert!(decoder.accepts(&longer, len).is_none(), "{name} {len} {more:?}");
            }
            if !ROWS.contains(&name) {
                assert!(decoder.accepts(&[&src[..], &src].concat(), 2 * len).is_none(), "{name} {len} twice");
            }
        }
    }
}

#[test]
fn a_block_of_another_length_is_refused() {
    for name in strict() {
        let mut decoder = Decoder::new(name);
        for (src, len) in compressed(decoder.codec) {
            for other in [0, 1, len - 1, len + 1, len / 2, len + 8, 2 * len, CAPACITY] {
                if other != len {
                    assert!(decoder.accepts(&src, other).is_none(), "{name} {len} as {other}");
                }
            }
        }
    }
}

#[test]
fn damaged_and_random_input_is_survived() {
    for name in names() {
        let mut decoder = Decoder::new(name);
        let samples = compressed(decoder.codec);
        let mut random = Random(99);
        for round in 0..5_000 {
            let (mut src, mut len) = samples[random.below(samples.len())].clone();
            match round % 3 {
                // Some bytes changed.
                0 => {
                    for _ in 0..=random.below(8) {
                        let at = random.below(src.len());
                        src[at] = random.next() as u8;
                    }
                }
                // The beginning of one form followed by the end of another.
                1 => {
                    let (other, _) = &samples[random.below(samples.len())];
                    src.truncate(random.below(src.len() + 1));
                    src.extend(&other[random.below(other.len())..]);
                }
                // Noise.
                _ => {
                    src = block("noise", random.below(200), random.next());
                    len = random.below(10_000);
                }
            }
            decoder.accepts(&src, len);
        }
    }
}

/// Cases that random bytes do not reach: Zstandard frames with features that our encoder never uses, or that
/// the format forbids.
#[test]
fn other_frames_of_zstandard_are_refused() {
    let mut decoder = Decoder::new("zstd:1");
    let frame = |header: &[u8]| [header, &[0x21, 0x00, 0x00], b"abcd"].concat();
    assert_eq!(decoder.accepts(&frame(&[0x00, 0x00]), 4).as_deref(), Some(&b"abcd"[..]));
    // In order: a single segment with a content size; a checksum; a dictionary id; the reserved bit; two
    // frames with the magic number.
    for header in [
        &[0x20, 0x04][..],
        &[0x04, 0x00],
        &[0x01, 0x00, 0x07],
        &[0x08, 0x00],
        &[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x00],
        &[0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x04],
    ] {
        assert!(decoder.accepts(&frame(header), 4).is_none(), "{header:x?}");
    }
    // A reserved kind of block, and a frame that never ends.
    assert!(decoder.accepts(&[0x00, 0x00, 0x27, 0x00, 0x00, 1, 2, 3, 4], 4).is_none());
    assert!(decoder.accepts(&[0x00, 0x00, 0x20, 0x00, 0x00, 1, 2, 3, 4], 4).is_none());
    // A window as large as the format can say.
    assert!(decoder.accepts(&frame(&[0x00, 0xFF]), 5).is_none());
}

#[test]
fn compressors_stay_within_their_input() {
    let levels = ["zstd:-7", "zstd:3", "zstd:5", "zstd:9", "zstd:13", "zstd:19"];
    for name in names().into_iter().chain(levels) {
        let codec = codec(name).unwrap();
        let mut src = Guarded::new(1 << 17);
        for len in [1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 4095, 4096, 4097, 70_000] {
            if len > 5000 && name.contains("bwt") {
                continue;
            }
            let mut memory = ScratchBuf::for_codecs([codec], len);
            let mut scratch = memory.scratch();
            for kind in KINDS {
                let block = block(kind, len, 5);
                for against in [Against::Start, Against::End] {
                    let src = src.copy(&block, against);
                    let packed = compress(codec, src, usize::MAX, &mut scratch).unwrap();
                    assert!(decompress(codec, &packed, len, &mut scratch).unwrap() == block);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_for_any_length(src in prop::collection::vec(any::<u8>(), 0..300), len in 0_usize..5000) {
        thread_local! {
            static DECODERS: RefCell<Vec<Decoder>> = RefCell::new(names().into_iter().map(Decoder::new).collect());
        }
        DECODERS.with_borrow_mut(|decoders| {
            for decoder in decoders {
                decoder.accepts(&src, len);
            }
        });
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn every_flipped_bit_is_survived() {
        for name in names() {
            let mut decoder = Decoder::new(name);
            for (mut src, len) in compressed(decoder.codec) {
                // All bits of small ones, the first and the last of large ones.
                let bits = src.len() * 8;
                let most = if PIPELINES.contains(&name) { 400 } else { 2000 };
                for bit in (0..bits).filter(|bit| bits < most || *bit < most / 2 || bits - bit < most / 4) {
                    src[bit / 8] ^= 1 << (bit % 8);
                    decoder.accepts(&src, len);
                    src[bit / 8] ^= 1 << (bit % 8);
                }
                assert!(decoder.accepts(&src, len).is_some(), "the decoder still works");
            }
        }
    }
}
