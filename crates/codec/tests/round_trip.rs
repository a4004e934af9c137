//! Every codec restores every block, of any content and length, whatever the scratch was used for before.

mod common;

use common::{KINDS, Random, block, compress, decompress, lengths, some_codecs};
use memfold_codec::{Codec, CodecId, MAX_BLOCK, Scratch, ScratchBuf, all, codec};
use proptest::prelude::*;

const LEVELS: [&str; 15] = [
    "zstd:-50",
    "zstd:-5",
    "zstd:-1",
    "zstd:1",
    "zstd:3",
    "zstd:6",
    "zstd:13",
    "lz4hc:2",
    "lz4hc:9",
    "lz4hc:12",
    "deflate:1",
    "deflate:6",
    "deflate:12",
    "xz:0",
    "xz:6",
];

/// A scratch for each direction, so that contexts are kept between calls.
struct Both {
    compress: Scratch<'static>,
    decompress: Scratch<'static>,
}

impl Both {
    fn new<'c>(codecs: impl IntoIterator<Item = &'c dyn Codec>, len: usize) -> Self {
        let memory = ScratchBuf::for_codecs(codecs, len);
        let size = memory.size();
        Both { compress: memory.leak(), decompress: ScratchBuf::with_size(size).leak() }
    }
}

#[track_caller]
fn round_trip(codec: &dyn Codec, src: &[u8], scratch: &mut Both) -> Vec<u8> {
    let compressed =
        compress(codec, src, usize::MAX, &mut scratch.compress).expect("no threshold, so it fits");
    let again = decompress(codec, &compressed, src.len(), &mut scratch.decompress).expect("its own work");
    assert!(again == src, "{} changed {} bytes", codec.name(), src.len());
    compressed
}

#[test]
fn every_kind_of_block_at_every_length() {
    for codec in some_codecs(&LEVELS) {
        let mut scratch = Both::new([codec], MAX_BLOCK);
        let pipeline = codec.id() == CodecId::PIPELINE;
        let slow = ["xz:6", "bzip2", "deflate:12", "lz4hc:12"].contains(&codec.name());
        for len in lengths() {
            // Pipelines are slow, and have fewer edges of their own.
            if (pipeline || slow) && len > 300 && ![4095, 4096, 4097, 65535, 65536, 131_073].contains(&len) {
                continue;
            }
            // All kinds of blocks where that is cheap, two where it is not.
            let kinds = if len <= 9000 { &KINDS[..] } else { &["noise", "records"] };
            for kind in kinds {
                round_trip(codec, &block(kind, len, len as u64), &mut scratch);
            }
        }
    }
}

#[test]
fn no_bytes_take_no_bytes() {
    for codec in all() {
        assert_eq!(codec.bound(0), 0, "{}", codec.name());
        let mut scratch = Scratch::empty();
        assert_eq!(compress(codec, &[], 0, &mut scratch), Some(Vec::new()), "{}", codec.name());
        assert!(decompress(codec, &[], 0, &mut scratch).is_ok());
        assert!(decompress(codec, &[0], 0, &mut scratch).is_err());
        assert!(decompress(codec, &[], 1, &mut scratch).is_err());
    }
}

#[test]
fn levels_do_what_they_say() {
    let mut scratch = Both::new(all(), 4096);
    let mut size = |name: &str| {
        let codec = codec(name).unwrap();
        KINDS.iter().map(|kind| round_trip(codec, &block(kind, 4096, 3), &mut scratch).len()).sum::<usize>()
    };
    assert!(size("zstd:19") < size("zstd:1"));
    assert!(size("zstd:1") < size("zstd:-5"));
    assert!(size("zstd:-5") < size("zstd:-50"));
    assert!(size("lz4") < size("copy"));
    assert!(size("stride:2") < size("stride:1"));
    assert!(size("stride:3") < size("stride:1"));
    assert_eq!(size("stride"), size("stride:2"));
    assert!(size("weft:2") < size("weft:1"));
    assert!(size("weft:3") < size("weft:2"));
    assert!(size("weft:4") < size("weft:3"));
    assert_eq!(size("weft"), size("weft:3"));
    assert_eq!(size("zstd"), size("zstd:1"));
}

/// One scratch for all codecs, in random order: no codec may use what another has left there, nor may its
/// result depend on it. Each codec stays for a few calls, so that contexts are kept as well as replaced.
#[test]
fn one_scratch_serves_all_codecs_in_turn() {
    let codecs = some_codecs(&LEVELS);
    let lens = [1, 64, 4096, 4097, 16384, 20_000];
    let mut scratch = Both::new(codecs.iter().copied(), 20_000);
    let mut random = Random(1);
    let (mut codec, mut len) = (codecs[0], lens[0]);
    for _ in 0..2000 {
        match random.below(4) {
            0 => codec = codecs[random.below(codecs.len())],
            1 => len = lens[random.below(lens.len())],
            _ => {}
        }
        let src = block(KINDS[random.below(KINDS.len())], len, random.next());
        let compressed = round_trip(codec, &src, &mut scratch);
        if random.below(4) == 0 {
            // The other direction uses the same memory, and gets garbage.
            let _ = decompress(codec, &compressed, len, &mut scratch.compress);
            let _ = decompress(codec, &src, len, &mut scratch.compress);
            let _ = decompress(codec, &src, len, &mut scratch.decompress);
        }
        let mut fresh = ScratchBuf::for_codecs([codec], len);
        let alone = compress(codec, &src, usize::MAX, &mut fresh.scratch());
        assert!(alone.as_ref() == Some(&compressed), "{} remembers something", codec.name());
    }
}

/// A kept zstd context indexes every byte that it has ever seen with 32 bits, and starts afresh before they
/// run out. The test passes that point.
#[test]
fn a_context_lives_for_more_than_four_gigabytes() {
    let codec = codec("zstd:-50").unwrap();
    let mut memory = ScratchBuf::for_codecs([codec], MAX_BLOCK);
    let mut scratch = memory.scratch();
    let src = block("zero", MAX_BLOCK, 0);
    let mut dst = vec![0; codec.bound(MAX_BLOCK)];
    let rounds = (9_usize << 29).div_ceil(MAX_BLOCK);
    for _ in 0..rounds {
        codec.compress(&src, &mut dst, usize::MAX, &mut scratch);
    }
    let fresh = {
        let mut memory = ScratchBuf::for_codecs([codec], MAX_BLOCK);
        compress(codec, &block("records", MAX_BLOCK, 1), usize::MAX, &mut memory.scratch())
    };
    assert!(compress(codec, &block("records", MAX_BLOCK, 1), usize::MAX, &mut scratch) == fresh);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(
        pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), 1_usize..60), 1..20),
        which in any::<prop::sample::Index>(),
    ) {
        let src: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
        let codec = *which.get(&some_codecs(&LEVELS));
        round_trip(codec, &src, &mut Both::new([codec], src.len()));
    }
}

/// A pipeline passes blocks of any length up to a limit to its last codec, in a scratch that was made once.
#[test]
fn a_scratch_for_the_longest_block_serves_shorter_ones() {
    let mut random = Random(3);
    for codec in all() {
        for longest in [4096, 5000, 16384, 16385, 131_072, 131_073, 262_145, MAX_BLOCK] {
            let most = codec.compress_scratch_up_to(longest);
            for len in
                [1, 100, longest - 1, longest].into_iter().chain((0..50).map(|_| random.below(longest) + 1))
            {
                assert!(codec.compress_scratch(len) <= most, "{} {len} of {longest}", codec.name());
            }
        }
    }
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn every_codec_there_is() {
        for codec in all() {
            for len in [1, 100, 4096, 16384, MAX_BLOCK] {
                // The densest levels are slow, most of all on large blocks.
                if len == MAX_BLOCK && codec.compress_scratch(len) > 8 << 20 && codec.name() != "zstd:22" {
                    continue;
                }
                let mut scratch = Both::new([codec], len);
                for kind in ["records", "text", "records"] {
                    round_trip(codec, &block(kind, len, 7), &mut scratch);
                }
            }
        }
    }
}
