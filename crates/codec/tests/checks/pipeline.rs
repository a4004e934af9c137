//! Any block through any pipeline and back: the same on any two paths, with an exact answer to the threshold.
//! Then the form with some bytes changed, which must be refused or decoded.
//!
//! ```text
//! | steps n | n x step | growth | paths | damages m | m x (place, 2 bytes, and value) | block ... |
//! ```

use memfold_codec::{Codec, CodecId, Compressed, MOST_STEPS, Pipeline};

use super::{Against, SHORT, codec, damage, grown, paths, take, with_memory};

/// The steps by the numbers of docs/formats/pipeline.md. The highest bit chooses between two levels of a
/// codec.
fn step(byte: u8) -> String {
    /// The steps from 48 on.
    const OTHERS: [&str; 19] = [
        "shuffle:2",
        "shuffle:4",
        "shuffle:8",
        "bitshuffle:1",
        "bitshuffle:2",
        "bitshuffle:4",
        "bitshuffle:8",
        "lagdelta:1",
        "lagdelta:2",
        "lagdelta:4",
        "lagdelta:8",
        "zerosup",
        "bwt",
        "mtf",
        "jbe",
        "jbe2",
        "rle",
        "huffman",
        "range",
    ];
    let number = usize::from(byte & 0x7F);
    // `zstd-dict` is not a step.
    let of_number = codec(byte & 31, byte & 0x80).filter(|codec| codec.id() != CodecId::ZSTD_DICT);
    if let (96.., Some(codec)) = (number, of_number) {
        return codec.name().into();
    }
    match number % 68 {
        0 => "copy".into(),
        n @ 1..=48 => {
            let (kind, n) = if n <= 24 { ("delta", n - 1) } else { ("xor", n - 25) };
            format!("{kind}:{}x{}", 1 << (n / 6), n % 6 + 1)
        }
        n => OTHERS[n - 49].into(),
    }
}

pub fn check(data: &[u8]) {
    let [count, rest @ ..] = data else { return };
    let Some((steps, rest)) = rest.split_at_checked(1 + usize::from(*count) % MOST_STEPS) else { return };
    let [growth, path, damages, rest @ ..] = rest else { return };
    let Some((damages, block)) = rest.split_at_checked(3 * usize::from(damages % 8)) else { return };
    let Some(block) = grown(block, *growth, SHORT) else { return };
    let names: Vec<String> = steps.iter().map(|&byte| step(byte)).collect();
    let pipeline: Pipeline = names.join("+").parse().expect("steps that there are");
    let paths = paths(*path);
    with_memory(|memory| {
        take(paths[0]);
        let mut form = memory.form(&pipeline, &block);
        let size = form.len();
        assert!(
            memory.block(&pipeline, &form, block.len(), paths).as_deref() == Some(&block),
            "{pipeline:?} changed the block"
        );

        take(paths[1]);
        let src = memory.src.copy(&block, Against::Start);
        for threshold in [size, size.saturating_sub(1)] {
            let dst = memory.dst.slice(threshold, Against::End);
            match pipeline.compress(src, dst, threshold, &mut memory.compress) {
                Compressed::Fits(fits) => assert!(fits == size && threshold == size && dst == form),
                Compressed::Incompressible => assert!(size > threshold, "{pipeline:?}: {size} fits"),
            }
        }

        if !damages.is_empty() {
            damage(&mut form, damages);
            memory.block(&pipeline, &form, block.len(), paths);
        }
    });
}
