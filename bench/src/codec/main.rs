//! Compares codecs with their peers on pages of real memory.
//!
//! ```text
//! bench-codec [--block SIZE] [--codec LIST] [--rounds N] [--json] [FILE...]
//! ```
//!
//! Each FILE is cut into blocks; without one, the files in the directory `MEMFOLD_CORPUS` are taken. Same-filled
//! blocks are left out, because they never reach a codec. In each of several rounds, every contender in turn
//! compresses all blocks and decompresses all of them; the fastest round counts. Time is CPU time of the thread,
//! so that other work on the machine disturbs little. The result is compared with the original in every round.
//!
//! The ratio is that of all blocks together, and a block that grows counts with its size; beside it is the
//! harmonic mean of the files' ratios.

mod contender;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use contender::{Contender, contenders};

/// The command line.
struct Arguments {
    block: usize,
    codecs: Vec<String>,
    rounds: usize,
    json: bool,
    files: Vec<PathBuf>,
}

const CODECS: &str = "copy,lz4,zstd:-50,zstd:-20,zstd:-10,zstd:-5,zstd:-3,zstd:-1,zstd:1,zstd:3";

/// The blocks of one file that are not same-filled, one after the other.
struct Pages {
    file: PathBuf,
    bytes: Vec<u8>,
    same_filled: usize,
}

/// A contender's result for one file, from the fastest round.
#[derive(Clone, Copy)]
struct Outcome {
    compressed: usize,
    compress_ns: u64,
    decompress_ns: u64,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-codec: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments = arguments()?;
    let pages = load(&arguments)?;
    let mut all = contenders(&arguments.codecs, arguments.block)?;
    let blank = Outcome { compressed: 0, compress_ns: u64::MAX, decompress_ns: u64::MAX };
    let mut results = vec![vec![blank; pages.len()]; all.len()];
    let mut bench = Bench::new(arguments.block);
    for _ in 0..arguments.rounds {
        for (file, pages) in pages.iter().enumerate() {
            for (contender, results) in all.iter_mut().zip(&mut results) {
                let now = bench.round(contender.as_mut(), &pages.bytes);
                let best = &mut results[file];
                best.compressed = now.compressed;
                best.compress_ns = best.compress_ns.min(now.compress_ns);
                best.decompress_ns = best.decompress_ns.min(now.decompress_ns);
            }
        }
    }
    if arguments.json {
        print_json(&arguments, &pages, &all, &results);
    } else {
        print_table(&arguments, &pages, &all, &results);
    }
    Ok(())
}

/// Buffers for one contender at a time.
struct Bench {
    block: usize,
    packed: Vec<u8>,
    ends: Vec<usize>,
    again: Vec<u8>,
}

impl Bench {
    fn new(block: usize) -> Self {
        Bench { block, packed: Vec::new(), ends: Vec::new(), again: Vec::new() }
    }

    fn round(&mut self, contender: &mut dyn Contender, bytes: &[u8]) -> Outcome {
        // More than any contender needs; lz4_flex asks for a tenth.
        let worst = self.block + self.block / 8 + 256;
        let blocks = bytes.len() / self.block;
        self.packed.resize(blocks * worst, 0);
        self.again.resize(bytes.len(), 0);
        self.again.fill(0xA5);
        self.ends.clear();

        let start = cpu_time_ns();
        let mut at = 0;
        for block in bytes.chunks_exact(self.block) {
            at += contender.compress(block, &mut self.packed[at..at + worst]);
            self.ends.push(at);
        }
        let middle = cpu_time_ns();
        let mut at = 0;
        for (&end, block) in self.ends.iter().zip(self.again.chunks_exact_mut(self.block)) {
            contender.decompress(&self.packed[at..end], block);
            at = end;
        }
        let end = cpu_time_ns();

        assert!(self.again == bytes, "{} changed the data", contender.name());
        let starts = [0].iter().chain(&self.ends);
        let compressed = starts.zip(&self.ends).map(|(start, end)| (end - start).min(self.block)).sum();
        Outcome { compressed, compress_ns: middle - start, decompress_ns: end - middle }
    }
}

/// CPU time that this thread has used.
fn cpu_time_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time to the place given.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(done, 0, "the clock works");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments =
        Arguments { block: 4096, codecs: Vec::new(), rounds: 5, json: false, files: Vec::new() };
    let mut codecs = CODECS.to_owned();
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        match word.as_str() {
            "--block" => arguments.block = size(&value()?)?,
            "--codec" => codecs = value()?,
            "--rounds" => arguments.rounds = value()?.parse().map_err(|_| "--rounds wants a number")?,
            "--json" => arguments.json = true,
            _ if word.starts_with('-') => return Err(format!("there is no option {word}")),
            _ => arguments.files.push(word.into()),
        }
    }
    arguments.codecs = codecs.split(',').map(str::to_owned).collect();
    if arguments.files.is_empty() {
        let dir = env::var_os("MEMFOLD_CORPUS").ok_or("name files, or a directory in MEMFOLD_CORPUS")?;
        let dir = PathBuf::from(dir);
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        for entry in fs::read_dir(&dir).map_err(failed)? {
            arguments.files.push(entry.map_err(failed)?.path());
        }
        arguments.files.retain(|path| path.is_file());
        arguments.files.retain(|path| path.extension().is_none_or(|extension| extension != "md"));
        arguments.files.sort();
    }
    Ok(arguments)
}

/// A size in bytes, or with `K` in KiB.
fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let size = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    size.filter(|size| (1..=memfold_codec::MAX_BLOCK).contains(size))
        .ok_or(format!("{text} is no size of a block: 1 to 512K"))
}

fn load(arguments: &Arguments) -> Result<Vec<Pages>, String> {
    let mut all = Vec::new();
    for file in &arguments.files {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut pages = Pages { file: file.clone(), bytes: Vec::with_capacity(bytes.len()), same_filled: 0 };
        for block in bytes.chunks_exact(arguments.block) {
            if memfold_codec::same_filled(block).is_some() {
                pages.same_filled += 1;
            } else {
                pages.bytes.extend(block);
            }
        }
        if !pages.bytes.is_empty() {
            all.push(pages);
        }
    }
    if all.is_empty() { Err("no blocks to compress".into()) } else { Ok(all) }
}

/// Megabytes of uncompressed data per second.
fn mb_s(bytes: usize, ns: u64) -> f64 {
    bytes as f64 * 1e3 / ns as f64
}

fn print_json(arguments: &Arguments, pages: &[Pages], all: &[Box<dyn Contender>], results: &[Vec<Outcome>]) {
    let mut rows = Vec::new();
    for (contender, results) in all.iter().zip(results) {
        for (pages, result) in pages.iter().zip(results) {
            let (original, scratch) = (pages.bytes.len(), contender.scratch());
            rows.push(serde_json::json!({
                "file": pages.file.display().to_string(),
                "codec": contender.name(),
                "block_bytes": arguments.block,
                "blocks": original / arguments.block,
                "same_filled": pages.same_filled,
                "original_bytes": original,
                "compressed_bytes": result.compressed,
                "ratio": original as f64 / result.compressed as f64,
                "compress_mb_s": mb_s(original, result.compress_ns),
                "decompress_mb_s": mb_s(original, result.decompress_ns),
                "compress_scratch_bytes": scratch.map(|(compress, _)| compress),
                "decompress_scratch_bytes": scratch.map(|(_, decompress)| decompress),
                "round_trip": true,
            }));
        }
    }
    println!("{:#}", serde_json::json!({ "version": 1, "rows": rows }));
}

/// A contender's result for all files.
struct Total {
    name: String,
    ratio: f64,
    mean_ratio: f64,
    compress_ns: u64,
    decompress_ns: u64,
}

fn print_table(arguments: &Arguments, pages: &[Pages], all: &[Box<dyn Contender>], results: &[Vec<Outcome>]) {
    let bytes: usize = pages.iter().map(|pages| pages.bytes.len()).sum();
    let same: usize = pages.iter().map(|pages| pages.same_filled).sum();
    let blocks = bytes / arguments.block;
    println!(
        "{blocks} blocks of {} bytes from {} files, {same} same-filled ones left out; the fastest of {} rounds",
        arguments.block,
        pages.len(),
        arguments.rounds
    );
    println!(
        "{:<18} {:>7} {:>7} {:>10} {:>10} {:>9} {:>9}",
        "codec", "ratio", "mean", "comp MB/s", "dec MB/s", "comp us", "dec us"
    );
    let totals: Vec<Total> =
        all.iter().zip(results).map(|(c, results)| total(c.as_ref(), pages, results)).collect();
    for total in &totals {
        println!(
            "{:<18} {:>7.3} {:>7.3} {:>10.0} {:>10.0} {:>9.3} {:>9.3}",
            total.name,
            total.ratio,
            total.mean_ratio,
            mb_s(bytes, total.compress_ns),
            mb_s(bytes, total.decompress_ns),
            total.compress_ns as f64 / 1e3 / blocks as f64,
            total.decompress_ns as f64 / 1e3 / blocks as f64,
        );
    }
    let pairs = [
        ("lz4", "peer: lz4 C 1.10"),
        ("lz4", "peer: lz4_flex"),
        ("zstd:-5", "peer: zstd C -5"),
        ("zstd:1", "peer: zstd C 1"),
    ];
    for (ours, peer) in pairs {
        let find = |name: &str| totals.iter().find(|total| total.name == name);
        if let (Some(ours), Some(peer)) = (find(ours), find(peer)) {
            println!(
                "{} against {}: ratio x{:.3}, compression speed x{:.3}, decompression speed x{:.3}",
                ours.name,
                peer.name,
                ours.ratio / peer.ratio,
                peer.compress_ns as f64 / ours.compress_ns as f64,
                peer.decompress_ns as f64 / ours.decompress_ns as f64,
            );
        }
    }
}

fn total(contender: &dyn Contender, pages: &[Pages], results: &[Outcome]) -> Total {
    let bytes: usize = pages.iter().map(|pages| pages.bytes.len()).sum();
    let compressed: usize = results.iter().map(|result| result.compressed).sum();
    let inverse: f64 =
        pages.iter().zip(results).map(|(p, r)| r.compressed as f64 / p.bytes.len() as f64).sum();
    Total {
        name: contender.name(),
        ratio: bytes as f64 / compressed as f64,
        mean_ratio: pages.len() as f64 / inverse,
        compress_ns: results.iter().map(|result| result.compress_ns).sum(),
        decompress_ns: results.iter().map(|result| result.decompress_ns).sum(),
    }
}
