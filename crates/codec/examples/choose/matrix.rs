//! The sizes of all blocks for all candidates.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use memfold_codec::{Codec, Compressed, Pipeline, ScratchBuf, same_filled};

use crate::refuse;

/// The blocks of a file that take part.
pub struct Corpus {
    pub name: String,
    pub blocks: Vec<Vec<u8>>,
}

impl Corpus {
    pub fn new(path: &str, file: &[u8], block: usize, every: usize) -> Self {
        let blocks = file.chunks(block).step_by(every).filter(|block| same_filled(block).is_none());
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        Corpus { name, blocks: blocks.map(<[u8]>::to_vec).collect() }
    }

    fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }
}

/// One candidate.
pub struct Row {
    pub name: String,
    /// For each corpus: the time, and the size of each block; a block that does not shrink enough counts in
    /// full.
    pub corpora: Vec<(Duration, Vec<u32>)>,
}

pub struct Matrix {
    pub rows: Vec<Row>,
    /// Bytes of each corpus.
    pub bytes: Vec<usize>,
}

/// The largest form for which a block is kept compressed.
pub fn threshold(len: usize) -> usize {
    len * 3264 / 4096
}

fn compress_all(codec: &dyn Codec, corpora: &[Corpus], passes: usize) -> Vec<(Duration, Vec<u32>)> {
    let longest = corpora.iter().flat_map(|corpus| &corpus.blocks).map(Vec::len).max().unwrap_or(0);
    let (mut memory, mut other) =
        (ScratchBuf::for_codecs([codec], longest), ScratchBuf::for_codecs([codec], longest));
    let (mut scratch, mut decode) = (memory.scratch(), other.scratch());
    let (mut dst, mut again) = (vec![0; codec.bound(longest)], vec![0; longest]);
    let mut all = Vec::new();
    for corpus in corpora {
        let mut times = Vec::new();
        let mut sizes = Vec::new();
        for pass in 0..passes {
            sizes.clear();
            let mut time = Duration::ZERO;
            let start = Instant::now();
            for block in &corpus.blocks {
                let result = codec.compress(block, &mut dst, threshold(block.len()), &mut scratch);
                sizes.push(match result {
                    Compressed::Fits(size) => size as u32,
                    Compressed::Incompressible => block.len() as u32,
                });
                if pass > 0 {
                    continue;
                }
                if let Compressed::Fits(size) = result {
                    let check = Instant::now();
                    let again = &mut again[..block.len()];
                    let done = codec.decompress(&dst[..size], again, &mut decode);
                    assert!(done.is_ok() && again == block, "{} changed a block", codec.name());
                    time += check.elapsed();
                }
            }
            times.push(start.elapsed().saturating_sub(time));
        }
        times.sort();
        all.push((times[times.len() / 2], sizes));
    }
    all
}

impl Matrix {
    pub fn measure(names: &[String], corpora: &[Corpus], passes: usize) -> Self {
        let rows = names.iter().map(|name| {
            // Pipelines are parsed here, since the registry hands out only a few.
            let corpora = match name.parse::<Pipeline>() {
                Ok(pipeline) => compress_all(&pipeline, corpora, passes),
                Err(_) => match memfold_codec::codec(name) {
                    Ok(codec) => compress_all(codec, corpora, passes),
                    Err(error) => refuse(&format!("{name}: {error}")),
                },
            };
            Row { name: name.clone(), corpora }
        });
        Matrix { rows: rows.collect(), bytes: corpora.iter().map(Corpus::bytes).collect() }
    }

    /// MB/s over all corpora.
    fn speed(&self, row: &Row) -> f64 {
        let time: Duration = row.corpora.iter().map(|(time, _)| *time).sum();
        self.bytes.iter().sum::<usize>() as f64 / time.as_secs_f64() / 1e6
    }

    pub fn ratio(&self, corpus: usize, sizes: &[u32]) -> f64 {
        self.bytes[corpus] as f64 / sizes.iter().map(|&size| f64::from(size)).sum::<f64>()
    }

    /// Removes the candidates that are slower.
    pub fn at_least(mut self, speed: f64) -> Self {
        let rows = std::mem::take(&mut self.rows);
        self.rows = rows.into_iter().filter(|row| self.speed(row) >= speed).collect();
        self
    }

    /// The least size of each block of each corpus.
    pub fn virtual_best(&self) -> Vec<Vec<u32>> {
        let best = |corpus: usize| {
            let mut rows = self.rows.iter().map(|row| &row.corpora[corpus].1);
            let first = rows.next().cloned().unwrap_or_default();
            rows.fold(first, |best, sizes| best.iter().zip(sizes).map(|(a, b)| *a.min(b)).collect())
        };
        (0..self.bytes.len()).map(best).collect()
    }

    /// Harmonic mean of the ratios of heaps.
    fn heaps(&self, row: &Row, corpora: &[Corpus]) -> f64 {
        let heaps = (0..corpora.len()).filter(|&i| corpora[i].name.starts_with("proc-"));
        let inverse: Vec<f64> = heaps.map(|i| 1.0 / self.ratio(i, &row.corpora[i].1)).collect();
        inverse.len() as f64 / inverse.iter().sum::<f64>()
    }

    /// Prints all candidates over all corpora, and the best three for each corpus.
    pub fn print(&self, corpora: &[Corpus]) {
        println!("{:<44} {:>8} {:>8}", "candidate", "MB/s", "heaps");
        for row in &self.rows {
            println!("{:<44} {:8.0} {:8.3}", row.name, self.speed(row), self.heaps(row, corpora));
        }
        for (i, corpus) in corpora.iter().enumerate() {
            let best = self.ratio(i, &self.virtual_best()[i]);
            let mut rows: Vec<&Row> = self.rows.iter().collect();
            rows.sort_by_key(|row| row.corpora[i].1.iter().map(|&size| u64::from(size)).sum::<u64>());
            print!("{:<22} virtual best {best:7.3}", corpus.name);
            for row in &rows[..rows.len().min(3)] {
                print!("  {} {:.3}", row.name, self.ratio(i, &row.corpora[i].1));
            }
            println!();
        }
    }

    /// Prints ratio, speed and loss against the virtual best, for each corpus.
    pub fn compare(&self, best: &[Vec<u32>], corpora: &[Corpus]) {
        print!("{:<22} {:>8}", "", "best");
        for row in &self.rows {
            print!(" | {:>24}", row.name.chars().take(24).collect::<String>());
        }
        println!();
        let mut losses = vec![Vec::new(); self.rows.len()];
        for (i, corpus) in corpora.iter().enumerate() {
            let most = self.ratio(i, &best[i]);
            print!("{:<22} {most:8.3}", corpus.name);
            for (row, losses) in self.rows.iter().zip(&mut losses) {
                let (time, sizes) = &row.corpora[i];
                let ratio = self.ratio(i, sizes);
                let loss = 100.0 * (1.0 - ratio / most);
                losses.push(loss);
                let speed = self.bytes[i] as f64 / time.as_secs_f64() / 1e6;
                print!(" | {ratio:8.3} {loss:7.2}% {speed:6.0}");
            }
            println!();
        }
        print!("{:<31}", "heaps; mean, worst loss; MB/s");
        for (row, losses) in self.rows.iter().zip(&losses) {
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            let worst = losses.iter().copied().fold(0.0, f64::max);
            print!(" | {:.3} {mean:5.2}% {worst:5.2}% {:5.0}", self.heaps(row, corpora), self.speed(row));
        }
        println!();
        let heaps: Vec<usize> =
            (0..corpora.len()).filter(|&i| corpora[i].name.starts_with("proc-")).collect();
        print!("{:<31}", "heaps, MB/s");
        for row in &self.rows {
            let time: f64 = heaps.iter().map(|&i| row.corpora[i].0.as_secs_f64()).sum();
            let bytes: usize = heaps.iter().map(|&i| self.bytes[i]).sum();
            print!(" | {:24.0}", bytes as f64 / time / 1e6);
        }
        println!();
    }

    /// Saves the sizes: a line for each candidate and corpus.
    pub fn save(&self, path: &str) {
        let mut text = String::new();
        for row in &self.rows {
            for (time, sizes) in &row.corpora {
                let _ = write!(text, "{} {}", row.name, time.as_nanos());
                for size in sizes {
                    let _ = write!(text, " {size}");
                }
                text.push('\n');
            }
        }
        fs::write(path, text).unwrap_or_else(|error| refuse(&format!("{path}: {error}")));
    }

    /// Loads what [`Matrix::save`] wrote for the same files.
    pub fn load(path: &str, corpora: &[Corpus]) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| refuse(&format!("{path}: {error}")));
        let mut rows: Vec<Row> = Vec::new();
        for line in text.lines() {
            let mut fields = line.split(' ');
            let name = fields.next().unwrap_or_default();
            let mut numbers =
                fields.map(|field| field.parse::<u64>().unwrap_or_else(|_| refuse("no matrix")));
            let time = Duration::from_nanos(numbers.next().unwrap_or(0));
            let sizes = numbers.map(|size| size as u32).collect();
            match rows.last_mut() {
                Some(row) if row.name == name && row.corpora.len() < corpora.len() => {
                    row.corpora.push((time, sizes))
                }
                _ => rows.push(Row { name: name.to_owned(), corpora: vec![(time, sizes)] }),
            }
        }
        let fits = |row: &Row| {
            row.corpora.len() == corpora.len()
                && row
                    .corpora
                    .iter()
                    .zip(corpora)
                    .all(|((_, sizes), corpus)| sizes.len() == corpus.blocks.len())
        };
        if !rows.iter().all(fits) {
            refuse(&format!("{path} was made from other files"));
        }
        Matrix { rows, bytes: corpora.iter().map(Corpus::bytes).collect() }
    }
}
