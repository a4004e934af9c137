//! Makes tables of Huffman codes of the dense effort: `train OUT FILE...`, where each file has pages of one
//! program; or estimates how good tables are for programs that they were not made from: `train --folds
//! FILE...`.
//!
//! The first tables of each family stay as they are, since forms refer to them; the others are made anew, for
//! what the first ones do not suit.
//!
//! Every program counts the same, however many pages it gave. For each family of symbols, pages are divided
//! into as many clusters as there are tables (k-means, with the bits of a page under a cluster's code as the
//! distance), and each cluster's code is the best one of at most ten bits (package-merge: Larmore and
//! Hirschberg, *A fast algorithm for optimal length-limited Huffman codes*, 1990). A part that hardly shrinks
//! is stored plain, so it does not count for the tables of its page.
//!
//! A file's name begins with the kind of its program, up to a hyphen. Files of one kind are in one fold, since
//! programs with the same runtime have similar heaps.

use std::collections::BTreeSet;

use memfold_weft::{Effort, Scratch, reference};

const PAGE: usize = 4096;
const FAMILIES: usize = 9;
const NAMES: [&str; FAMILIES] = ["R0", "R1", "R2", "W", "flags", "codes", "masks", "tokens", "highs"];
/// Families whose parts may be stored plain, and the part of it that a code must save.
const LEAST_SAVED: [f32; 4] = [1.0 / 8.0, 1.0 / 8.0, 1.0 / 8.0, 1.0 / 16.0];
/// Tables of a family: those that stay, and the others.
const KEPT: usize = 8;
const MADE: usize = 7;
const MOST_BITS: usize = 10;
const FOLDS: usize = 5;
/// Kinds that the tables that stay were made from.
const KNOWN: [&str; 7] = ["cc1plus", "chromium", "jvm", "node", "python", "redis", "sqlite"];
const ROUNDS: usize = 12;
const STARTS: u64 = 3;

type Counts = [f32; 256];
type Lengths = [u8; 256];

/// A page of a program: how often each symbol occurs, and the bytes of its form beside them.
struct Page {
    program: usize,
    counts: Box<[Counts; FAMILIES]>,
    /// The size of the form with the present tables.
    size: usize,
}

/// The present tables, family by family.
fn present() -> Vec<Vec<Lengths>> {
    let lines: Vec<Lengths> = include_str!("../src/dense/tables.txt")
        .lines()
        .map(|line| std::array::from_fn(|symbol| line.as_bytes()[symbol] - b'a'))
        .collect();
    lines.chunks(lines.len() / FAMILIES).map(<[_]>::to_vec).collect()
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    assert!(arguments.len() > 1, "usage: train OUT FILE... or train --folds FILE...");
    let to = arguments.remove(0);
    let (pages, names) = read(&arguments);
    if to == "--folds" {
        folds(&pages, &names);
    } else {
        let tables: Vec<_> = std::thread::scope(|scope| {
            let of: Vec<_> = (0..FAMILIES)
                .map(|family| {
                    let pages = &pages;
                    scope.spawn(move || train(&pages.iter().collect::<Vec<_>>(), family))
                })
                .collect();
            of.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
        });
        let lines = tables.iter().flatten();
        let text: String = lines
            .map(|lengths| {
                lengths.iter().map(|&length| char::from(b'a' + length)).chain(['\n']).collect::<String>()
            })
            .collect();
        std::fs::write(&to, text).expect("a file that can be written");
    }
}

/// The pages of all files with their symbols, and the names of the programs.
fn read(files: &[String]) -> (Vec<Page>, Vec<String>) {
    let mut scratch = Box::new(Scratch::new());
    let mut to = vec![0; PAGE + 16];
    let (mut pages, mut names) = (vec![], vec![]);
    for (program, file) in files.iter().enumerate() {
        let bytes = std::fs::read(file).expect("a file that can be read");
        for page in bytes.chunks_exact(PAGE) {
            scratch.take_counts();
            let size =
                reference::compress(page, &mut to, Effort::Dense, &mut scratch).unwrap_or(PAGE).min(PAGE);
            let counts = scratch.take_counts().map(|family| family.map(|count| count as f32));
            pages.push(Page { program, counts: Box::new(counts), size });
        }
        names.push(file.rsplit('/').next().unwrap_or(file).to_owned());
    }
    (pages, names)
}

/// The bits of symbols under a code.
fn bits(counts: &Counts, lengths: &[f32; 256]) -> f32 {
    counts.iter().zip(lengths).map(|(count, length)| count * length).sum()
}

/// The least bits of symbols under these codes, and which code that is; none if the part is stored plain.
fn best(counts: &Counts, codes: &[[f32; 256]], family: usize) -> (f32, Option<usize>) {
    let all: f32 = counts.iter().sum();
    let each = codes.iter().map(|code| bits(counts, code)).enumerate();
    let (code, least) = each.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f32::MAX));
    match LEAST_SAVED.get(family) {
        Some(saved) if least > all * 8.0 * (1.0 - saved) => (all * 8.0, None),
        _ => (least, Some(code)),
    }
}

/// The tables of a family; those that do not stay are made from these pages.
fn train(pages: &[&Page], family: usize) -> Vec<Lengths> {
    let programs = 1 + pages.iter().map(|page| page.program).max().unwrap_or(0);
    let mut of_program = vec![0_f32; programs];
    pages.iter().for_each(|page| of_program[page.program] += 1.0);
    let used: Vec<(&Counts, f32)> = pages
        .iter()
        .map(|page| (&page.counts[family], 1024.0 / of_program[page.program]))
        .filter(|(counts, _)| counts.iter().any(|&count| count > 0.0))
        .collect();
    let kept = &present()[family][..KEPT];
    let trained = (0..STARTS).map(|start| cluster(&used, family, kept, start));
    let made = trained.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(tables, _)| tables).expect("a start");
    [kept, &made].concat()
}

/// Divides pages into clusters, beside those of the tables that stay, from random ones on; returns a code for
/// each and the bits of all pages.
fn cluster(pages: &[(&Counts, f32)], family: usize, kept: &[Lengths], start: u64) -> (Vec<Lengths>, f64) {
    let mut common = [0_f32; 256];
    for (counts, weight) in pages {
        common.iter_mut().zip(counts.iter()).for_each(|(sum, count)| *sum += count * weight);
    }
    let all: f32 = common.iter().sum();
    // Symbols that did not occur get a code, too.
    let common = common.map(|count| (count + all * 1e-5 + 0.5) / all);
    let mut seed = start;
    let mut random = |below: usize| {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    };
    let mut centers: Vec<Counts> = (0..MADE).map(|_| *pages[random(pages.len())].0).collect();
    let mut lengths = vec![[0; 256]; MADE];
    let mut sum = 0.0;
    for round in 0..=ROUNDS {
        for (lengths, center) in lengths.iter_mut().zip(&centers) {
            let many = center.iter().sum::<f32>();
            let mixed: Vec<f32> = center
                .iter()
                .zip(&common)
                .map(|(count, common)| count + common * (many * 0.004).max(20.0))
                .collect();
            *lengths = code(&mixed);
        }
        let codes: Vec<[f32; 256]> =
            kept.iter().chain(&lengths).map(|lengths| lengths.map(f32::from)).collect();
        centers = vec![[0.0; 256]; MADE];
        sum = 0.0;
        for (counts, weight) in pages {
            let (bits, code) = best(counts, &codes, family);
            sum += f64::from(bits * weight);
            if let Some(code) = code.and_then(|code| code.checked_sub(KEPT)) {
                centers[code].iter_mut().zip(counts.iter()).for_each(|(sum, count)| *sum += count * weight);
            }
        }
        if round < ROUNDS {
            for center in &mut centers {
                if center.iter().all(|&count| count == 0.0) {
                    *center = *pages[random(pages.len())].0;
                }
            }
        }
    }
    (lengths, sum)
}

/// The lengths of the best code of at most [`MOST_BITS`] bits for symbols of these weights.
fn code(weights: &[f32]) -> Lengths {
    let mut singles: Vec<(f64, Vec<u8>)> =
        weights.iter().zip(0..=255).map(|(&weight, symbol)| (f64::from(weight), vec![symbol])).collect();
    singles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut packages: Vec<(f64, Vec<u8>)> = vec![];
    for level in 0..MOST_BITS {
        let mut all: Vec<_> = singles.iter().cloned().chain(packages).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        if level + 1 == MOST_BITS {
            packages = all;
            break;
        }
        packages = all
            .chunks_exact(2)
            .map(|pair| (pair[0].0 + pair[1].0, [&pair[0].1[..], &pair[1].1[..]].concat()))
            .collect();
    }
    let mut lengths = [0; 256];
    for (_, symbols) in &packages[..2 * weights.len() - 2] {
        symbols.iter().for_each(|&symbol| lengths[usize::from(symbol)] += 1);
    }
    lengths
}

/// The kind of a program.
fn kind(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// For each program: its ratio with the tables that stay alone, with the present tables, with tables made from
/// all programs, and with tables made from the programs of the other folds.
fn folds(pages: &[Page], names: &[String]) {
    let every: Vec<&Page> = pages.iter().collect();
    let kinds: BTreeSet<&str> = names.iter().map(|name| kind(name)).collect();
    let fold_of = |program: usize| kinds.range(..kind(&names[program])).count() % FOLDS;
    // A fold's tables; the last are those of all.
    let codes: Vec<Vec<Vec<[f32; 256]>>> = std::thread::scope(|scope| {
        let each = (0..=FOLDS).map(|fold| {
            let others: Vec<&Page> =
                every.iter().copied().filter(|page| fold_of(page.program) != fold).collect();
            scope.spawn(move || {
                let tables = (0..FAMILIES).map(|family| train(&others, family));
                tables.map(|tables| tables.iter().map(|lengths| lengths.map(f32::from)).collect()).collect()
            })
        });
        let each: Vec<_> = each.collect();
        each.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
    });
    let present = present();
    let present: Vec<Vec<[f32; 256]>> =
        present.iter().map(|tables| tables.iter().map(|lengths| lengths.map(f32::from)).collect()).collect();
    let kept: Vec<Vec<[f32; 256]>> = present.iter().map(|tables| tables[..KEPT].to_vec()).collect();
    let bytes = |page: &Page, codes: &[Vec<[f32; 256]>], family: usize| {
        best(&page.counts[family], &codes[family], family).0 / 8.0
    };
    let (mut fractions, mut of_unknown, mut unknown) = ([0.0; 4], [0.0; 4], 0.0);
    let mut of_family = [[0.0; 4]; FAMILIES];
    let row = |name: &str, cells: [f64; 4], digits: usize| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:8.digits$}")).collect();
        println!("{name:20}{cells}");
    };
    println!("{:20} {:>8} {:>8} {:>8} {:>8}", "program", "kept", "present", "all", "others");
    for (program, name) in names.iter().enumerate() {
        let own: Vec<&Page> = pages.iter().filter(|page| page.program == program).collect();
        let mut stored = [0.0; 4];
        for page in &own {
            let is_coded = page.counts.iter().flatten().any(|&count| count > 0.0) && page.size < PAGE;
            for (which, codes) in
                [&kept, &present, &codes[FOLDS], &codes[fold_of(program)]].into_iter().enumerate()
            {
                let mut size = page.size as f32;
                for family in (0..FAMILIES).filter(|_| is_coded) {
                    let now = bytes(page, codes, family);
                    of_family[family][which] += f64::from(now) / own.len() as f64 / names.len() as f64;
                    size += now - bytes(page, &present, family);
                }
                stored[which] += f64::from(size.min(PAGE as f32)) / (own.len() * PAGE) as f64;
            }
        }
        row(name, stored.map(|stored| 1.0 / stored), 3);
        fractions.iter_mut().zip(stored).for_each(|(sum, stored)| *sum += stored);
        if !KNOWN.contains(&kind(name)) {
            of_unknown.iter_mut().zip(stored).for_each(|(sum, stored)| *sum += stored);
            unknown += 1.0;
        }
    }
    row("harmonic mean", fractions.map(|sum| names.len() as f64 / sum), 3);
    row("of kinds not kept", of_unknown.map(|sum| unknown / sum), 3);
    println!("\nbytes a page");
    for (name, bytes) in NAMES.iter().zip(of_family) {
        row(name, bytes, 1);
    }
}
