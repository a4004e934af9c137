//! `bench-collections`: slab lists and their peers, each in a process of its own.
//!
//! Prints nanoseconds of CPU time per operation and bytes of memory per element. Memory is the growth of the
//! process's private anonymous memory. Half of the elements are removed; CPU time used within one second
//! afterwards counts as removal time.

mod cold;
mod compare;
mod limits;
mod load;
mod maps;
mod plots;
mod rand_ops;
#[path = "../random.rs"]
mod random;
mod sets;
mod strings;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand, ValueEnum};
use cold::Cold;
use compare::{Comparison, Peer, Run};
use load::{Finds, Load, Order};

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
        /// The order in which they are inserted
        #[arg(long, default_values_t = [Order::Random, Order::Sequential])]
        order: Vec<Order>,
        /// How the elements to look up are chosen
        #[arg(long, default_value_t = Finds::Uniform)]
        finds: Finds,
        /// Random elements are below this; 0: the full range of 64 bits
        #[arg(long, default_value_t = 0)]
        universe: u64,
        /// Elements per slab; 0: the default
        #[arg(long, default_value_t = 0)]
        per_slab: usize,
        #[command(flatten)]
        choice: Choice,
    },
    /// Sets of strings of 8 to 40 bytes, all in memory
    Strings(Texts),
    /// Maps of strings of 8 to 40 bytes to numbers, all in memory
    Maps(Texts),
    /// Lists that are almost entirely compressed: their memory, or the time to find elements
    Cold {
        /// How many elements
        #[arg(long, default_value_t = 10_000_000)]
        elements: u64,
        #[command(flatten)]
        cold: Cold,
        /// Measures the time of such lookups instead, and compares it with that of a fully resident list
        #[arg(long)]
        finds: Option<Finds>,
        /// Number of runs with --finds; medians are printed
        #[arg(long, default_value_t = 3)]
        repeats: usize,
    },
    /// Folds by one and by several threads, over resident lists and over lists that are almost entirely
    /// compressed
    Folds {
        /// How many elements
        #[arg(long, default_value_t = 10_000_000)]
        elements: u64,
        #[command(flatten)]
        cold: Cold,
        /// Number of runs; medians are printed
        #[arg(long, default_value_t = 5)]
        repeats: usize,
    },
    /// Random insertions under each kind of heap limit, compared with redb under a cache of the same size
    Limits {
        /// How many elements
        #[arg(long, default_value_t = 2_000_000)]
        elements: u64,
        /// Sizes of the heap's byte limits and of redb's caches, in MiB
        #[arg(long, value_delimiter = ',', default_values_t = [16, 32, 64])]
        mib: Vec<u64>,
        /// Number of runs of each, in turn; medians are printed
        #[arg(long, default_value_t = 5)]
        repeats: usize,
    },
    /// Random operations on many lists at a time
    RandOps(rand_ops::Args),
    /// The time of every insertion, for plots
    Plots {
        /// The directory for plots.json
        #[arg(long)]
        out: PathBuf,
        /// How many elements
        #[arg(long, default_value_t = 1_400_000)]
        elements: u64,
        /// Number of frames for the list that does not fit into its frames; 0: enough for 1/16 of the
        /// elements
        #[arg(long, default_value_t = 0)]
        frames: u32,
        /// Only peers whose names contain one of these
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// One run, in this process
    #[command(hide = true)]
    One {
        peer: String,
        kind: Kind,
        elements: u64,
        order: Order,
        finds: Finds,
        universe: u64,
        per_slab: usize,
    },
    /// One run of `limits`, in this process
    #[command(hide = true)]
    LimitsOne { number: usize, elements: u64, sizes: Vec<u64> },
    /// One trace, in this process
    #[command(hide = true)]
    Trace { peer: String, elements: u64, order: Order, frames: u32, samples: u64, to: PathBuf },
}

/// Strings, alone or as keys.
#[derive(clap::Args)]
struct Texts {
    /// How many elements
    #[arg(long, default_value_t = 2_000_000)]
    elements: u64,
    /// The order of insertion
    #[arg(long, default_values_t = [Order::Random])]
    order: Vec<Order>,
    /// How the elements to look up are chosen
    #[arg(long, default_value_t = Finds::Uniform)]
    finds: Finds,
    #[command(flatten)]
    choice: Choice,
}

impl Texts {
    fn tables(self, kind: Kind) -> Result<(), String> {
        let Texts { elements, order, finds, choice } = self;
        let load = Load { elements, order: Order::Random, finds, universe: 0, per_slab: 0 };
        tables(kind, order, load, &choice)
    }
}

#[derive(clap::Args)]
struct Choice {
    /// Only peers whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Number of runs of each, one peer after the other; medians are printed
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Appends rows to this file, as JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The kind of elements.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Integers,
    Strings,
    Maps,
}

impl Kind {
    fn peers(self) -> &'static [Peer] {
        match self {
            Kind::Integers => sets::PEERS,
            Kind::Strings => strings::PEERS,
            Kind::Maps => maps::PEERS,
        }
    }

    /// The peers for which ratios are printed: those that docs/collections.md compares with memfold's
    /// structures, and for maps also the slab list, to show the cost of values.
    fn bases(self) -> &'static [&'static str] {
        match self {
            Kind::Integers => &["absl"],
            Kind::Strings => &["btreeset", "absl"],
            Kind::Maps => &["btreemap", "slablist"],
        }
    }

    fn one(self, peer: &str, load: Load) -> Result<Run, String> {
        match self {
            Kind::Integers => sets::one(peer, load),
            Kind::Strings => strings::one(peer, load),
            Kind::Maps => maps::one(peer, load),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Integers => "integers",
            Kind::Strings => "strings",
            Kind::Maps => "maps",
        })
    }
}

/// A table for each order.
fn tables(kind: Kind, orders: Vec<Order>, load: Load, choice: &Choice) -> Result<(), String> {
    let Choice { only, repeats, out } = choice;
    orders.into_iter().try_for_each(|order| {
        let load = Load { order, ..load };
        Comparison { kind, load, only, repeats: *repeats, out: out.as_deref() }.table()
    })
}

fn json(value: impl serde::Serialize) -> Result<(), String> {
    println!("{}", serde_json::to_string(&value).map_err(|error| error.to_string())?);
    Ok(())
}

fn run(what: What) -> Result<(), String> {
    match what {
        What::Sets { elements, order, finds, universe, per_slab, choice } => {
            let load = Load { elements, order: Order::Random, finds, universe, per_slab };
            tables(Kind::Integers, order, load, &choice)
        }
        What::Strings(texts) => texts.tables(Kind::Strings),
        What::Maps(texts) => texts.tables(Kind::Maps),
        What::Cold { elements, cold, finds: None, .. } => cold::table(elements, &cold),
        What::Cold { elements, cold, finds: Some(finds), repeats } => {
            cold::finds(elements, &cold, finds, repeats)
        }
        What::Folds { elements, cold, repeats } => cold::folds(elements, &cold, repeats),
        What::Limits { elements, mib, repeats } => {
            let sizes: Vec<u64> = mib.iter().map(|mib| mib << 20).collect();
            limits::table(elements, &sizes, repeats)
        }
        What::LimitsOne { number, elements, sizes } => limits::one(number, elements, &sizes).and_then(json),
        What::RandOps(args) => rand_ops::run(&args),
        What::Plots { out, elements, frames, only } => {
            plots::Plots { out: &out, elements, frames, only: &only }.make()
        }
        What::One { peer, kind, elements, order, finds, universe, per_slab } => {
            kind.one(&peer, Load { elements, order, finds, universe, per_slab }).and_then(json)
        }
        What::Trace { peer, elements, order, frames, samples, to } => {
            let load = Load { elements, order, finds: Finds::Uniform, universe: 0, per_slab: 0 };
            plots::trace::one(&peer, load, frames, samples, &to).and_then(json)
        }
    }
}

fn main() -> ExitCode {
    match run(Args::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-collections: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles the C++ peers. The error is the reason why that failed.
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
