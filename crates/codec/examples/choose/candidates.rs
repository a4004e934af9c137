//! The candidates that are tried by default: all codecs that could be useful, and transforms for numbers of
//! every width before coders of every kind.

/// Single codecs, and sequences of coders that need no transform.
const PLAIN: &str = "lz4 lz4hc:4 lz4hc:9 stride:1 stride:2 stride:3 zstd:-7 zstd:-3 zstd:-1 zstd:1 zstd:2 zstd:3 \
    zstd:4 zstd:5 zstd:6 zstd:7 zstd:9 zstd:12 zstd:15 zstd:19 zstd:22 deflate:1 deflate:6 deflate:9 deflate:12 \
    snappy lzo bzip2 xz:6 pbpm wkdm bewalgo bewalgo2 842 huffman range zerosup zerosup+huffman stride:1+huffman \
    stride:2+huffman stride:3+huffman stride:1+zstd:-1 stride:1+zstd:1 stride:2+zstd:1 stride:3+zstd:1 \
    stride:3+zstd:19 stride:2+range stride:3+range lz4+huffman lz4hc:9+huffman lz4hc:9+range \
    bwt+mtf+range bwt+mtf+huffman bwt+mtf+rle+huffman bwt+mtf+zerosup+huffman bwt+mtf+zerosup+range \
    bwt+range bwt+mtf+zstd:1";

/// Fast coders, tried after every transform.
const CODERS: [&str; 7] = ["lz4", "zstd:1", "zstd:3", "zstd:6", "huffman", "zerosup", "stride:3"];

/// Slow coders, tried after some transforms.
const SLOW: [&str; 4] = ["zstd:19", "range", "zerosup+range", "bwt+mtf+range"];

const SOME: [&str; 18] = [
    "shuffle:2",
    "shuffle:4",
    "shuffle:8",
    "bitshuffle:1",
    "bitshuffle:2",
    "bitshuffle:4",
    "bitshuffle:8",
    "delta:2x1+shuffle:2",
    "delta:2x2+shuffle:2",
    "delta:4x1+shuffle:4",
    "delta:4x2+bitshuffle:4",
    "delta:8x1+shuffle:8",
    "delta:8x6+shuffle:8",
    "xor:4x1+shuffle:4",
    "xor:8x1+shuffle:8",
    "lagdelta:4+shuffle:4",
    "lagdelta:8+shuffle:8",
    "lagdelta:8+bitshuffle:8",
];

fn transforms() -> Vec<String> {
    let mut all: Vec<String> =
        ["bitshuffle:1", "delta:1x1", "delta:1x2", "xor:1x1", "lagdelta:1"].map(String::from).into();
    for width in [2, 4, 8] {
        let (delta, lag) = (format!("delta:{width}x1"), format!("lagdelta:{width}"));
        let mut differences: Vec<String> = (1..=6).map(|order| format!("delta:{width}x{order}")).collect();
        differences.extend([1, 2].map(|order| format!("xor:{width}x{order}")));
        differences.extend([format!("{lag}+{delta}"), format!("{delta}+{lag}"), format!("{lag}+{lag}"), lag]);
        for shuffle in ["shuffle", "bitshuffle"] {
            all.push(format!("{shuffle}:{width}"));
            all.extend(differences.iter().map(|difference| format!("{difference}+{shuffle}:{width}")));
        }
        all.extend(differences);
    }
    // Differences of one width shuffled by another, and differences of shuffled bytes.
    for (difference, width) in
        [("delta:2x1", 8), ("delta:4x1", 8), ("lagdelta:4", 8), ("delta:8x1", 4), ("lagdelta:2", 4)]
    {
        all.extend(["shuffle", "bitshuffle"].map(|shuffle| format!("{difference}+{shuffle}:{width}")));
    }
    all.extend([2, 4, 8].map(|width| format!("shuffle:{width}+delta:1x1")));
    all
}

pub fn all() -> Vec<String> {
    let mut names: Vec<String> = PLAIN.split_whitespace().map(String::from).collect();
    for transform in transforms() {
        names.extend(CODERS.map(|coder| format!("{transform}+{coder}")));
    }
    for transform in SOME {
        names.extend(SLOW.map(|coder| format!("{transform}+{coder}")));
    }
    names
}
