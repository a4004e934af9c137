//! Prints ratio and speed of codecs over files of memory pages.
//!
//! ```text
//! cargo run --release -p memfold-codec --example measure -- \
//!     [--block BYTES] [--codec NAME,NAME...] [--cpu scalar,avx2,avx512] [--passes N] [--totals] FILE...
//! ```
//!
//! The last row of a codec is over all files: the harmonic mean of the ratios
//! (that is original over compressed size, were all files equally long), and all
//! bytes over all time.

mod measurement;

use std::process::exit;
use std::{env, fs};

use measurement::{Plan, Row, measure};
use memfold_codec::cpu::{self, Path};
use memfold_codec::{Codec, codec};

struct Options {
    block: usize,
    passes: usize,
    /// Whether to print only the rows over all files.
    totals: bool,
    codecs: Vec<&'static dyn Codec>,
    paths: Vec<Path>,
    files: Vec<String>,
}

fn refuse(why: &str) -> ! {
    eprintln!("measure: {why}");
    exit(2)
}

fn options() -> Options {
    let mut options = Options {
        block: 4096,
        passes: 7,
        totals: false,
        codecs: Vec::new(),
        paths: Path::ALL.into_iter().filter(|&path| path <= cpu::best()).rev().collect(),
        files: Vec::new(),
    };
    let mut names = "lz4,zstd:1,stride:1,stride:2,stride:3".to_owned();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| refuse(&format!("{argument} needs a value")));
        match argument.as_str() {
            "--block" => options.block = value().parse().unwrap_or_else(|_| refuse("not a block size")),
            "--passes" => {
                options.passes = value().parse().unwrap_or_else(|_| refuse("not a number of passes"))
            }
            "--codec" => names = value(),
            "--totals" => options.totals = true,
            "--cpu" => {
                let path = |name| Path::from_name(name).unwrap_or_else(|| refuse("no such path"));
                options.paths = value().split(',').map(path).collect();
            }
            _ => options.files.push(argument),
        }
    }
    let find = |name| codec(name).unwrap_or_else(|error| refuse(&format!("{name}: {error}")));
    options.codecs = names.split(',').map(find).collect();
    if options.block == 0 || options.passes == 0 || options.files.is_empty() {
        refuse("nothing to measure");
    }
    options
}

/// Keeps this thread on the processor where it is.
fn pin() {
    // SAFETY: the set is a plain bit field that these calls fill and read.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn print(file: &str, codec: &str, path: &str, ratio: f64, rows: &[Row]) {
    let sum = |value: fn(&Row) -> f64| rows.iter().map(value).sum::<f64>();
    println!(
        "{file:<24} {codec:<10} {path:<7} {ratio:7.3} {:9.0} {:9.0} {:7} {:6} {:6}",
        sum(|row| row.original_bytes as f64) / sum(|row| row.compress.as_secs_f64()) / 1e6,
        sum(|row| row.decompressed_bytes as f64) / sum(|row| row.decompress.as_secs_f64()) / 1e6,
        sum(|row| row.blocks as f64),
        sum(|row| row.same_filled as f64),
        sum(|row| row.stored_raw as f64),
    );
}

fn main() {
    let options = options();
    pin();
    let plan = Plan { block: options.block, threshold: options.block * 3264 / 4096, passes: options.passes };
    let read = |name: &String| fs::read(name).unwrap_or_else(|error| refuse(&format!("{name}: {error}")));
    let files: Vec<Vec<u8>> = options.files.iter().map(read).collect();
    println!(
        "{:<24} {:<10} {:<7} {:>7} {:>9} {:>9} {:>7} {:>6} {:>6}",
        "file", "codec", "path", "ratio", "comp MB/s", "dec MB/s", "blocks", "same", "raw"
    );
    for codec in &options.codecs {
        // Only our own codecs have paths.
        let paths: Vec<Path> =
            if codec.name().starts_with("stride") { options.paths.clone() } else { vec![cpu::best()] };
        for path in paths {
            if cpu::force(Some(path)).is_err() {
                refuse(&format!("this processor has no {}", path.name()));
            }
            let mut rows = Vec::new();
            for (name, file) in options.files.iter().zip(&files) {
                let row = measure(*codec, file, plan);
                let name = name.rsplit('/').next().unwrap_or(name);
                if !options.totals || files.len() == 1 {
                    print(name, codec.name(), path.name(), row.ratio(), std::slice::from_ref(&row));
                }
                rows.push(row);
            }
            if rows.len() > 1 {
                let inverse: f64 = rows.iter().map(|row| 1.0 / row.ratio()).sum();
                print("all", codec.name(), path.name(), rows.len() as f64 / inverse, &rows);
            }
        }
    }
}
