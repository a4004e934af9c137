//! Measures the parts of `memfold du`; bench/du measures the whole command and its peers.
//!
//! ```text
//!   memory       what the memory of a scan is used for
//!   operations   the four operations of compll's paper
//!   large        a synthetic tree of 20 million entries: imported, browsed, and deleted in memory
//!   export       the same tree in ncdu's export format
//!   layouts      the size of entries in compressed blocks, for several layouts
//!   walkers      the cost of reading a tree without keeping it
//! ```

mod browse;
mod export;
mod large;
mod layouts;
mod memory;
#[path = "../heap/model/names.rs"]
mod names;
mod operations;
mod process;
#[path = "../random.rs"]
mod random;
mod tree;
mod walkers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The parts of memfold du, measured.
#[derive(Debug, Parser)]
#[command(name = "bench-du")]
struct Arguments {
    #[command(subcommand)]
    command: Section,
}

#[derive(Debug, Subcommand)]
enum Section {
    /// Break down the memory that a scan takes
    Memory {
        /// The directory
        path: PathBuf,
        /// Number of threads that read directories
        #[arg(short, long, default_value_t = 1)]
        threads: usize,
        /// Maximum number of resident blocks; by default, as many as memfold du allows
        #[arg(long)]
        frames: Option<u32>,
    },
    /// The four operations of compll's paper
    Operations {
        /// The directory; 'bench-heap tables --tree paper' makes one as in compll's paper
        path: PathBuf,
        /// Number of runs
        #[arg(long, default_value_t = 5)]
        repeats: usize,
        /// Makes one run, in this process, and prints only its values, one a line
        #[arg(long)]
        once: bool,
    },
    /// A large synthetic tree: imported, browsed, and deleted in memory
    Large {
        /// Approximate number of entries
        #[arg(long, default_value_t = 20_000_000)]
        entries: u64,
        /// With times, owners and permissions
        #[arg(short)]
        extended: bool,
        /// Maximum number of resident blocks; by default, as many as memfold du allows
        #[arg(long)]
        frames: Option<u32>,
    },
    /// The tree of 'large' in ncdu's export format
    Export {
        /// Approximate number of entries
        #[arg(long, default_value_t = 20_000_000)]
        entries: u64,
        /// With times, owners and permissions
        #[arg(short)]
        extended: bool,
    },
    /// The size of entries in compressed blocks, for several layouts
    Layouts {
        /// The directory
        path: PathBuf,
    },
    /// The cost of reading a tree without keeping it
    Walkers {
        /// The directory
        path: PathBuf,
        /// Number of runs of each walker, in turn
        #[arg(long, default_value_t = 5)]
        repeats: usize,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Section::Memory { path, threads, frames } => memory::run(&path, threads, frames),
        Section::Operations { path, once: true, .. } => operations::once(&path),
        Section::Operations { path, repeats, once: false } => operations::run(&path, repeats),
        Section::Large { entries, extended, frames } => large::run(entries, extended, frames),
        Section::Export { entries, extended } => {
            export::write(std::io::stdout().lock(), entries, extended).map_err(|error| error.to_string())
        }
        Section::Layouts { path } => layouts::run(&path),
        Section::Walkers { path, repeats } => walkers::run(&path, repeats),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-du: {error}");
            ExitCode::FAILURE
        }
    }
}
