//! Compares the heap with malloc.
//!
//! ```text
//!   micro        the cost of an operation on a node
//!   operations   ncdu's four operations over whole directory trees: CPU time and memory
//!   figures      the same by number of resident blocks, block size and codec: the figures 8.1 to 8.3 of
//!                compll's paper
//!   tables       size of nodes in blocks, plain and compressed: the paper's tables 4.1, 4.2, 4.4, 4.5
//!   policies     hit ratios of the eviction policies over traces of blocks
//!   overhead     space and time for nodes of one size: dalloc's figure 2
//! ```
//!
//! `bench-heap COMMAND --help` lists the options of each.

mod codecs;
mod figures;
mod measure;
mod micro;
mod model;
mod ncdu;
mod nodes;
mod once;
mod operations;
mod overhead;
mod policies;
#[path = "../random.rs"]
mod random;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use figures::Figure;
use measure::rows::Rows;
use measure::settings::Settings;
use model::trees::Trees;
use once::Kind;

/// The costs and savings of the compressed heap, compared with malloc.
#[derive(Debug, Parser)]
#[command(name = "bench-heap")]
struct Arguments {
    #[command(subcommand)]
    command: Section,
}

#[derive(Debug, Subcommand)]
enum Section {
    /// The cost of an operation on a node
    Micro,
    /// ncdu's four operations over whole trees, with malloc and with the heap
    Operations {
        /// A model (paper, million, small), or a directory; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        #[command(flatten)]
        settings: Settings,
        /// Number of measurements of each kind
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
        repeats: u8,
        /// Adds the rows to this file; rows that it already contains are not measured again
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// ncdu's four operations by number of resident blocks, block size, and codec
    Figures {
        /// A model, or a directory; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        /// Which figures to measure
        #[arg(long, value_delimiter = ',', default_values = ["resident", "blocks", "codecs"])]
        only: Vec<Figure>,
        /// Gives up on a setting after this many seconds
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Adds the rows to this file; rows that it already contains are not measured again
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// How much space nodes take in blocks, and how well the blocks compress: with whole nodes in a block,
    /// and with each field in blocks of its own
    Tables {
        /// A model, or a directory; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["/usr", "paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        /// Adds the rows to this file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Hit ratios of the eviction policies over traces of blocks
    Policies {
        /// A model or a directory; the operations on it are recorded as a trace. May be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        /// Adds the rows to this file; rows that it already contains are not measured again
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Space and time for nodes of one size, compared with malloc and dalloc
    Overhead {
        /// Adds the rows to this file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Measures the four operations once, in this process; prints partial results as JSON objects, and the
    /// complete result last
    Once {
        /// The kind of memory
        #[arg(long)]
        kind: Kind,
        /// A model, or a directory
        #[arg(long = "tree", value_name = "TREE")]
        name: String,
        #[command(flatten)]
        trees: Trees,
        #[command(flatten)]
        settings: Settings,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-heap: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(section: Section) -> Result<(), String> {
    match section {
        Section::Micro => micro::run(),
        Section::Operations { names, trees, settings, repeats, out } => {
            operations::run(
                &names,
                &trees,
                &settings,
                usize::from(repeats),
                &mut Rows::open(out.as_deref())?,
            )?;
        }
        Section::Figures { names, trees, only, seconds, out } => {
            figures::run(&names, &trees, &only, seconds, &mut Rows::open(out.as_deref())?)?;
        }
        Section::Tables { names, trees, out } => {
            tables::run(&names, &trees, &mut Rows::open(out.as_deref())?)?
        }
        Section::Policies { names, trees, out } => {
            policies::run(&names, &trees, &mut Rows::open(out.as_deref())?)?;
        }
        Section::Overhead { out } => overhead::run(&mut Rows::open(out.as_deref())?)?,
        Section::Once { kind, name, trees, settings } => {
            let tell = |name: &str, figure| println!("{}", serde_json::json!({ name: figure }));
            let outcome = once::once(kind, &trees.find(&name)?, &settings, &tell)?;
            println!("{}", serde_json::json!(outcome));
        }
    }
    Ok(())
}
