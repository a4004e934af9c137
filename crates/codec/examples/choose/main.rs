//! Measures how good a choice of codec can be, and how good `auto` is.
//!
//! ```text
//! cargo run --release -p memfold-codec --features peers --example choose -- \
//!     [--block BYTES] [--every N] [--passes N] [--candidate NAME,NAME...] [--at-least MB/S]
//!     [--matrix FILE] [--greedy N] [--from NAME,NAME...] [--auto NAME,NAME...] FILE...
//! ```
//!
//! Every candidate compresses every block (or each N-th). The **virtual best** is the result of an oracle
//! that always knows which candidate makes a block smallest. It leaves out candidates slower than
//! `--at-least` over all files. `--greedy` starts with the candidates of `--from` and repeatedly adds the one
//! that most reduces the mean loss against the virtual best; this yields a list for `auto`. `--auto` measures
//! codecs, and how far they fall behind the virtual best. `--matrix` stores the sizes in a file, from which
//! the next run takes them.

mod candidates;
mod greedy;
mod matrix;

use std::process::exit;
use std::{env, fs};

use matrix::{Corpus, Matrix};

/// The options of the command line.
struct Options {
    block: usize,
    every: usize,
    passes: usize,
    candidates: Vec<String>,
    at_least: f64,
    kept: Option<String>,
    greedy: usize,
    from: Vec<String>,
    autos: Vec<String>,
    files: Vec<String>,
}

/// Prints the reason and exits.
pub fn refuse(why: &str) -> ! {
    eprintln!("choose: {why}");
    exit(2)
}

/// Splits names at commas that are not in parentheses.
fn list(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match (c, names.last_mut()) {
            (',', _) if depth == 0 => names.push(String::new()),
            (_, Some(last)) => last.push(c),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn options() -> Options {
    let mut options = Options {
        block: 4096,
        every: 1,
        passes: 1,
        candidates: candidates::all(),
        at_least: 0.0,
        kept: None,
        greedy: 0,
        from: Vec::new(),
        autos: Vec::new(),
        files: Vec::new(),
    };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            options.files.push(argument);
            continue;
        }
        let value = arguments.next().unwrap_or_else(|| refuse(&format!("{argument} needs a value")));
        let number = || value.parse::<usize>().unwrap_or_else(|_| refuse(&format!("{argument} {value}")));
        match argument.as_str() {
            "--block" => options.block = number().max(1),
            "--every" => options.every = number().max(1),
            "--passes" => options.passes = number().max(1),
            "--candidate" => options.candidates = list(&value),
            "--at-least" => options.at_least = number() as f64,
            "--matrix" => options.kept = Some(value),
            "--greedy" => options.greedy = number(),
            "--from" => options.from = list(&value),
            "--auto" => options.autos = list(&value),
            _ => refuse(&format!("{argument} is not an option")),
        }
    }
    if options.files.is_empty() {
        refuse("no files");
    }
    options
}

fn main() {
    let options = options();
    let corpora: Vec<Corpus> = options
        .files
        .iter()
        .map(|name| {
            let file = fs::read(name).unwrap_or_else(|error| refuse(&format!("{name}: {error}")));
            Corpus::new(name, &file, options.block, options.every)
        })
        .collect();
    let matrix = match &options.kept {
        Some(path) if fs::exists(path).unwrap_or(false) => Matrix::load(path, &corpora),
        _ => Matrix::measure(&options.candidates, &corpora, options.passes),
    };
    if let Some(path) = &options.kept {
        matrix.save(path);
    }
    let matrix = matrix.at_least(options.at_least);
    let best = matrix.virtual_best();
    if options.greedy > 0 {
        greedy::cover(&matrix, &best, &options.from, options.greedy);
    } else if options.autos.is_empty() {
        matrix.print(&corpora);
    }
    if !options.autos.is_empty() {
        let autos = Matrix::measure(&options.autos, &corpora, options.passes.max(3));
        autos.compare(&best, &corpora);
    }
}
