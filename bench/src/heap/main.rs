//! Compares the heap with malloc.
//!
//! ```text
//!   micro        what an operation on a node costs
//!   operations   ncdu's four operations over whole directory trees: CPU time and memory
//!   figures      the same for numbers of resident blocks, sizes of blocks and codecs: the paper's figures 8.1 to 8.3
//!   tables       what nodes take in blocks, and to what blocks compress: its tables 4.1, 4.2, 4.4, 4.5
//!   policies     hit ratios of the policies over traces of blocks
//!   overhead     what nodes of one size take and cost: dalloc's figure 2
//! ```
//!
//! `bench-heap COMMAND --help` lists what each takes.

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

/// The compressed heap against malloc: what it costs, and what it saves.
#[derive(Debug, Parser)]
#[command(name = "bench-heap")]
struct Arguments {
    #[command(subcommand)]
    command: Section,
}

#[derive(Debug, Subcommand)]
enum Section {
    /// What an operation on a node costs
    Micro,
    /// ncdu's four operations over whole trees, malloc against the heap
    Operations {
        /// A model (paper, million, small), or a directory; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        #[command(flatten)]
        settings: Settings,
        /// Measurements of each kind
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
        repeats: u8,
        /// Keeps the rows; those that are there are not measured again
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// The four operations for resident blocks, sizes of blocks, and codecs
    Figures {
        /// A model, or a directory; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        /// Which; all if none is given
        #[arg(long, value_delimiter = ',', default_values = ["resident", "blocks", "codecs"])]
        only: Vec<Figure>,
        /// After so many seconds a setting is given up
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Keeps the rows; those that are there are not measured again
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// What nodes take in blocks, and to what these compress, by node and by element
    Tables {
        /// A model, or a directory; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["/usr", "paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        /// Keeps the rows
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Hit ratios of the policies over traces of blocks
    Policies {
        /// A model, or a directory, whose operations are recorded; may be given several times
        #[arg(long = "tree", value_name = "TREE", default_values = ["paper", "million"])]
        names: Vec<String>,
        #[command(flatten)]
        trees: Trees,
        /// Keeps the rows; those that are there are not measured again
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// What nodes of one size take and cost, beside malloc and dalloc
    Overhead {
        /// Keeps the rows
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// One measurement of the four operations in this process, printed as objects of JSON: the last says all
    Once {
        /// Which memory
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
