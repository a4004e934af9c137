//! `bench-collections`: slab lists and their peers, each in a process of its own.
//!
//! Prints nanoseconds of CPU for an operation and bytes of memory for an element: the private anonymous memory by which the process grew. What happens afterwards, in
//! the second after half of all elements went, counts to their removal.

mod cold;
mod sets;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

/// Compares slab lists with their peers
#[derive(Parser)]
#[command(name = "bench-collections", max_term_width = 80)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Sets of 64-bit integers, all in memory
    Sets {
        /// How many elements
        #[arg(long, default_value_t = 10_000_000)]
        elements: u64,
        /// In which order they come
        #[arg(long, default_values_t = [Order::Random, Order::Sequential])]
        order: Vec<Order>,
        /// Only peers with one of these in their names
        #[arg(long)]
        only: Vec<String>,
        /// Runs of each, of which the medians are printed
        #[arg(long, default_value_t = 3)]
        repeats: usize,
        /// Elements of a slab
        #[arg(long, default_value_t = 0)]
        per_slab: usize,
        /// Rows are appended to this file, as JSON
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Memory of lists that are nearly all compressed
    Cold {
        /// How many elements
        #[arg(long, default_value_t = 10_000_000)]
        elements: u64,
        /// The heap's codec
        #[arg(long, default_value = "zstd:1")]
        codec: String,
    },
    /// One run, in this process
    #[command(hide = true)]
    One { peer: String, elements: u64, order: Order, universe: u64, per_slab: usize },
}

/// The order in which elements come.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    Random,
    Sequential,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Order::Random => "random",
            Order::Sequential => "sequential",
        })
    }
}

/// What one run says: times in seconds of CPU, for all operations of a kind.
#[derive(Serialize, Deserialize, Clone)]
struct Run {
    peer: String,
    len: u64,
    found: u64,
    sum: u64,
    left: u64,
    insert: f64,
    find: f64,
    scan: f64,
    remove: f64,
    bytes: u64,
    half_bytes: u64,
}

fn main() -> ExitCode {
    let result = match Args::parse().what {
        What::One { peer, elements, order, universe, per_slab } => {
            sets::one(&peer, sets::Load { elements, order, universe, per_slab })
                .map(|run| println!("{}", serde_json::to_string(&run).unwrap_or_default()))
        }
        What::Cold { elements, codec } => cold::table(elements, &codec),
        What::Sets { elements, order, only, repeats, per_slab, out } => order
            .into_iter()
            .try_for_each(|order| table(elements, order, &only, repeats, per_slab, out.as_deref())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-collections: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles the peers in C++; says why if that can't be done.
fn cpp_peers(directory: &Path) -> Result<PathBuf, String> {
    let (source, program) = (directory.join("peers.cc"), directory.join("peers"));
    std::fs::write(&source, include_str!("peers.cc")).map_err(|error| error.to_string())?;
    let libraries = ["-labsl_throw_delegate", "-labsl_raw_logging_internal"];
    let mut compiler = Command::new("g++");
    compiler.args(["-O3", "-march=native", "-std=c++17", "-o"]).arg(&program).arg(&source).args(libraries);
    match compiler.output() {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().find(|line| line.contains("error")).unwrap_or("g++ failed");
            Err(format!("{first} (Debian: apt-get install g++ libabsl-dev)"))
        }
        Err(error) => Err(format!("g++: {error}")),
    }
}

fn table(
    elements: u64,
    order: Order,
    only: &[String],
    repeats: usize,
    per_slab: usize,
    out: Option<&Path>,
) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let cpp = cpp_peers(directory.path());
    if let Err(why) = &cpp {
        println!("without peers in C++: {why}");
    }
    println!("{elements} elements, {order}: ns of CPU an operation, bytes an element");
    println!(
        "{:<18} {:>8} {:>8} {:>8} {:>8} {:>8} {:>14}",
        "", "insert", "find", "scan", "remove", "bytes", "half removed"
    );
    let mut truth: Option<(u64, u64, u64, u64)> = None;
    for peer in sets::PEERS {
        if !only.is_empty() && !only.iter().any(|part| peer.name.contains(part.as_str())) {
            continue;
        }
        let mut runs: Vec<Run> = Vec::new();
        for _ in 0..repeats.max(1) {
            let mut command = match (peer.cpp, &cpp) {
                (true, Ok(program)) => Command::new(program),
                (true, Err(_)) => break,
                (false, _) => {
                    let mut command =
                        Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
                    command.arg("one");
                    command
                }
            };
            command.args([peer.name, &elements.to_string(), &order.to_string(), "0"]);
            if !peer.cpp {
                command.arg(per_slab.to_string());
            }
            let output = command.output().map_err(|error| format!("{}: {error}", peer.name))?;
            let said = String::from_utf8_lossy(&output.stdout);
            let run: Run = serde_json::from_str(said.trim())
                .map_err(|_| format!("{}: {}{said}", peer.name, String::from_utf8_lossy(&output.stderr)))?;
            let answer = (run.len, run.found, run.sum, run.left);
            if *truth.get_or_insert(answer) != answer {
                return Err(format!("{} answers {answer:?}, others {truth:?}", peer.name));
            }
            runs.push(run);
        }
        if runs.is_empty() {
            continue;
        }
        let median = |of: fn(&Run) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let per = |seconds: f64, count: u64| seconds * 1e9 / count as f64;
        let (len, left) = (runs[0].len, runs[0].left);
        println!(
            "{:<18} {:>8.0} {:>8.0} {:>8.2} {:>8.0} {:>8.2} {:>14.2}",
            runs[0].peer,
            per(median(|run| run.insert), elements),
            per(median(|run| run.find), elements),
            per(median(|run| run.scan), len),
            per(median(|run| run.remove), len - left),
            median(|run| run.bytes as f64) / len as f64,
            median(|run| run.half_bytes as f64) / left as f64,
        );
        if let Some(out) = out {
            let mut file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(out)
                .map_err(|error| error.to_string())?;
            for run in &runs {
                let mut row = serde_json::to_value(run).map_err(|error| error.to_string())?;
                row["order"] = order.to_string().into();
                row["elements"] = elements.into();
                writeln!(file, "{row}").map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}
