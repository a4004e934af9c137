//! Ratio and speed of codecs over files of pages, for choosing and tuning:
//! `cargo run --release -p memfold-codec --example measure -- [--block N] [--threshold N] CODEC,... FILE...`
//!
//! Same-filled blocks are skipped; a block that does not shrink to the threshold,
//! 3264/4096 of its size by default, counts as stored raw. Speeds are of all blocks together, the median of
//! some rounds.

use std::time::Instant;

use memfold_codec::{Codec, Compressed, Pipeline, ScratchBuf, same_filled};

const ROUNDS: usize = 5;

struct Measured {
    original: usize,
    compressed: usize,
    compress_seconds: f64,
    decompress_seconds: f64,
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn measure(codec: &dyn Codec, blocks: &[&[u8]], len: usize, threshold: usize) -> Measured {
    let (mut to, mut back) = (ScratchBuf::for_codecs([codec], len), ScratchBuf::for_codecs([codec], len));
    let (mut to, mut back) = (to.scratch(), back.scratch());
    let mut dst = vec![0; threshold.min(codec.bound(len))];
    let mut forms = Vec::with_capacity(blocks.len());
    let mut seconds = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        for block in blocks {
            let result = codec.compress(block, &mut dst, threshold, &mut to);
            if round == 0 {
                forms.push(match result {
                    Compressed::Fits(size) => Some(dst[..size].to_vec()),
                    Compressed::Incompressible => None,
                });
            }
        }
        if round > 0 {
            seconds.0.push(start.elapsed().as_secs_f64());
        }
    }
    let mut again = vec![0; len];
    for (block, form) in blocks.iter().zip(&forms) {
        if let Some(form) = form {
            codec.decompress(form, &mut again, &mut back).expect("its own work");
            assert!(again == *block, "{} changed a block", codec.name());
        }
    }
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for (block, form) in blocks.iter().zip(&forms) {
            match form {
                Some(form) => codec.decompress(form, &mut again, &mut back).expect("its own work"),
                None => again.copy_from_slice(block),
            }
            std::hint::black_box(&mut again);
        }
        seconds.1.push(start.elapsed().as_secs_f64());
    }
    Measured {
        original: blocks.len() * len,
        compressed: forms.iter().map(|form| form.as_ref().map_or(len, Vec::len)).sum(),
        compress_seconds: median(seconds.0),
        decompress_seconds: median(seconds.1),
    }
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let given = args.first().is_some_and(|arg| arg == name);
        given.then(|| args.drain(..2).nth(1).and_then(|n| n.parse::<usize>().ok()).expect("a number"))
    };
    let len = option("--block").unwrap_or(4096);
    let threshold = option("--threshold").unwrap_or(len * 3264 / 4096);
    let (codecs, files) = args.split_first().expect("CODEC,... FILE...");
    let data: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).expect("a file")).collect();
    println!("{:<44} {:>7} {:>9} {:>9}   by file", "codec", "ratio", "comp", "decomp");
    for name in codecs.split(',') {
        let codec: Pipeline = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut ratios = Vec::new();
        let (mut original, mut compress, mut decompress) = (0, 0.0, 0.0);
        for data in &data {
            let blocks: Vec<&[u8]> = data.chunks_exact(len).filter(|b| same_filled(b).is_none()).collect();
            let m = measure(&codec, &blocks, len, threshold);
            ratios.push(m.original as f64 / m.compressed as f64);
            original += m.original;
            compress += m.compress_seconds;
            decompress += m.decompress_seconds;
        }
        let mean = ratios.len() as f64 / ratios.iter().map(|ratio| 1.0 / ratio).sum::<f64>();
        let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let speed = |seconds: f64| original as f64 / 1e6 / seconds;
        let (compress, decompress) = (speed(compress), speed(decompress));
        println!("{name:<44} {mean:>7.3} {compress:>9.0} {decompress:>9.0}   {}", each.join(" "));
    }
}
