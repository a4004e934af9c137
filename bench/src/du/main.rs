//! Measures the parts of `memfold du`; bench/du measures the whole command and its peers.
//!
//! ```text
//!   memory       where the memory is that a scan takes
//!   operations   the four operations of compll's paper
//!   large        a tree of 20 million entries that is nowhere: imported, browsed, deleted
//!   export       that tree, as ncdu would export it
//!   layouts      what entries take, written in some ways
//!   walkers      what it costs to read a tree, without keeping it
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
    /// Where the memory is that a scan takes
    Memory {
        /// The directory
        path: PathBuf,
        /// Threads that read
        #[arg(short, long, default_value_t = 1)]
        threads: usize,
        /// Resident blocks at most
        #[arg(long)]
        frames: Option<u32>,
    },
    /// The four operations of compll's paper
    Operations {
        /// The directory; 'bench-heap tables --tree paper' makes the paper's
        path: PathBuf,
        /// Runs of each, in turn
        #[arg(long, default_value_t = 5)]
        repeats: usize,
        /// One run, printed raw
        #[arg(long)]
        once: bool,
    },
    /// A large tree that is nowhere: imported, browsed, deleted in memory
    Large {
        /// Entries, about
        #[arg(long, default_value_t = 20_000_000)]
        entries: u64,
        /// Times, owners and permissions too
        #[arg(short)]
        extended: bool,
        /// Resident blocks at most
        #[arg(long)]
        frames: Option<u32>,
    },
    /// That tree, as ncdu would export it
    Export {
        /// Entries, about
        #[arg(long, default_value_t = 20_000_000)]
        entries: u64,
        /// Times, owners and permissions too
        #[arg(short)]
        extended: bool,
    },
    /// What entries take, written in some ways
    Layouts {
        /// The directory
        path: PathBuf,
    },
    /// What it costs to read a tree, without keeping it
    Walkers {
        /// The directory
        path: PathBuf,
        /// Runs of each, in turn
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
