//! Blocks for the tests of this crate, and wrappers of codecs that detect every write outside the output.
#![allow(dead_code, reason = "each test file uses some of this")]

use memfold_codec::{Codec, Compressed, Malformed, Scratch};

/// A small seeded generator (SplitMix64), so that failures are reproducible.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The kinds of synthetic blocks.
pub const KINDS: [&str; 10] =
    ["zero", "word", "noise", "text", "pointers", "records", "floats", "sparse", "half noise", "runs"];

/// A block of that kind.
pub fn block(kind: &str, len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut out = Vec::with_capacity(len + 64);
    match kind {
        "zero" => out.resize(len, 0),
        "word" => {
            let word = random.next().to_le_bytes();
            out.extend(word.iter().cycle().take(len));
        }
        "noise" => {
            while out.len() < len {
                out.extend(random.next().to_le_bytes());
            }
        }
        "text" => {
            const WORDS: [&str; 12] = [
                "block ",
                "page ",
                "frame ",
                "the ",
                "of ",
                "codec ",
                "memory ",
                "is ",
                "a ",
                "kept ",
                "compressed ",
                "and ",
            ];
            while out.len() < len {
                out.extend(WORDS[random.below(WORDS.len())].bytes());
            }
        }
        // Addresses in one heap, as in a table of references.
        "pointers" => {
            while out.len() < len {
                out.extend((0x7F12_3400_0000 + (random.next() & 0xF_FFF0)).to_le_bytes());
            }
        }
        // Nodes of 48 bytes: header, two references, a counter, padding.
        "records" => {
            let mut count = 0_u64;
            while out.len() < len {
                count += random.next() & 3;
                let fields = [0x31, 0x5555_0000_0000 + (random.next() & 0xFFF0), 0, count, 0, u64::MAX];
                out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
            }
        }
        "floats" => {
            let mut x = 0.25_f64;
            while out.len() < len {
                x += (random.next() & 0xFFFF) as f64 * 1e-9;
                out.extend(x.sin().to_le_bytes());
            }
        }
        "sparse" => {
            out.resize(len, 0);
            for _ in 0..len / 64 {
                let at = random.below(len);
                out[at] = random.next() as u8;
            }
        }
        "half noise" => {
            while out.len() < len {
                let noise = random.next().to_le_bytes();
                out.extend(if out.len() % 1024 < 512 { noise } else { [7; 8] });
            }
        }
        "runs" => {
            while out.len() < len {
                let (byte, run) = (random.next() as u8, random.below(40) + 1);
                out.resize(out.len() + run, byte);
            }
        }
        _ => panic!("no such kind: {kind}"),
    }
    out.truncate(len);
    out
}

/// Pipelines with every step and every kind of codec, both at the end and before it.
pub const PIPELINES: [&str; 20] = [
    "delta:8x6+shuffle:8+zstd:1",
    "delta:2x2+shuffle:2+lz4",
    "xor:4x1+bitshuffle:4+huffman",
    "delta:1x3+xor:2x6+delta:4x5",
    "bwt+mtf+huffman+jbe+rle",
    "bitshuffle:8+rle+bitshuffle:8+rle",
    "bewalgo2+bitshuffle:8+rle",
    "bitshuffle:1+bewalgo2+mtf+bewalgo+jbe2",
    "bitshuffle:2+zerosup",
    "lagdelta:8+shuffle:8+zerosup",
    "lagdelta:4+bitshuffle:8+zerosup+zerosup",
    "lagdelta:1+lagdelta:2+range",
    "jbe2+mtf+jbe",
    "jbe+jbe+jbe+jbe+jbe+jbe+jbe",
    "range",
    "huffman",
    "bwt",
    "shuffle:4+pbpm:word+rle+wkdm",
    "bwt+mtf+range",
    "rle+zstd:3",
];

/// All codecs and pipelines; of codecs with levels only the named ones.
pub fn some_codecs(levels: &[&str]) -> Vec<&'static dyn Codec> {
    // Codecs whose forms depend on more than the block have their own tests, in `auto.rs`.
    let pure = memfold_codec::all().filter(|codec| codec.id() != memfold_codec::CodecId::AUTO);
    let single = pure.filter(|codec| match codec.name().split_once(':') {
        Some(("pbpm" | "stride" | "weft", _)) | None => true,
        Some(_) => levels.contains(&codec.name()),
    });
    single.chain(PIPELINES.map(|name| memfold_codec::codec(name).unwrap())).collect()
}

/// Lengths from one byte to the largest block, dense near the boundaries of formats.
pub fn lengths() -> Vec<usize> {
    let mut all: Vec<usize> = (1..300).collect();
    all.extend((300..5000).step_by(97));
    for edge in [512, 1024, 4096, 8192, 16384, 65536, 65547, 131072, 262144] {
        all.extend([edge - 1, edge, edge + 1]);
    }
    all.extend([100_000, memfold_codec::MAX_BLOCK - 1, memfold_codec::MAX_BLOCK]);
    all
}

const CANARY: u8 = 0xC5;
const MARGIN: usize = 64;

/// Compresses into exactly as many bytes as the contract requires, at any alignment, and checks that the
/// bytes around them stay unchanged.
pub fn compress(
    codec: &dyn Codec,
    src: &[u8],
    threshold: usize,
    scratch: &mut Scratch<'_>,
) -> Option<Vec<u8>> {
    let room = threshold.min(codec.bound(src.len()));
    let before = MARGIN + src.len() % 8;
    let mut buffer = vec![CANARY; before + room + MARGIN];
    let dst = &mut buffer[before..before + room];
    let result = codec.compress(src, dst, threshold, scratch);
    assert!(buffer[..before].iter().all(|&b| b == CANARY), "{} wrote before dst", codec.name());
    assert!(buffer[before + room..].iter().all(|&b| b == CANARY), "{} wrote after dst", codec.name());
    match result {
        Compressed::Fits(size) => {
            assert!(size <= threshold, "{} made {size} bytes, not {threshold}", codec.name());
            Some(buffer[before..before + size].to_vec())
        }
        Compressed::Incompressible => None,
    }
}

/// Decompresses at any alignment, and checks that the bytes around the block stay unchanged.
pub fn decompress(
    codec: &dyn Codec,
    src: &[u8],
    len: usize,
    scratch: &mut Scratch<'_>,
) -> Result<Vec<u8>, Malformed> {
    let before = MARGIN + len % 8;
    let mut buffer = vec![CANARY; before + len + MARGIN];
    let result = codec.decompress(src, &mut buffer[before..before + len], scratch);
    assert!(buffer[..before].iter().all(|&b| b == CANARY), "{} wrote before dst", codec.name());
    assert!(buffer[before + len..].iter().all(|&b| b == CANARY), "{} wrote after dst", codec.name());
    result.map(|()| buffer[before..before + len].to_vec())
}
