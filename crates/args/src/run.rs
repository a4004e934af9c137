//! The command line of `memfold run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Behind the options.
pub const HELP: &str = "\
SIZE is 512M, 1.5G (powers of 1024), a bare number of bytes, or 50% of the
memory that memfold may use: the machine's or, if that is less, the cgroup's.

Exit status: the program's own; 128+n if signal n ended it; 125 if memfold
failed before starting it, 126 if it cannot be executed, 127 if it was not
found. memfold writes nothing to standard output unless FILE is '-'; its own
lines on standard error begin with 'memfold: '.

Examples:
memfold run -- python3 report.py
memfold run --limit 512M --report run.html -- make -j2
memfold run --limit 512M --spill /var/tmp -- ./job";

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "not a number of seconds; give one like --proactive=30".to_owned())
}

/// `memfold run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The most memory that the program, its children and memfold may use together; auto, the default: less than
    /// is free at any time, and as little as possible without waiting longer than --stall allows
    #[arg(long, short, value_name = "SIZE|auto", allow_hyphen_values = true)]
    pub limit: Option<String>,
    /// Compress memory that has not been touched for this long, even if there is room (30 seconds if not given)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "30", value_parser = seconds)]
    pub proactive: Option<f64>,
    /// With --limit auto or --proactive: the share of the time in which a thread may wait for memory
    #[arg(long, value_name = "SHARE", default_value = "1%", allow_hyphen_values = true)]
    pub stall: String,
    /// How much memory programs are told that there is: auto (the default in a limited cgroup, with --limit auto)
    /// for what is likely to fit in compressed, at most three times the limit; off for what the kernel says
    #[arg(long, value_name = "SIZE|auto|off", allow_hyphen_values = true)]
    pub show: Option<String>,
    /// Write statistics to FILE as one JSON object at the end
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// Write a page with charts of the run, and advice, to FILE at the end
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Codec for data that were just evicted and, after a comma, for data that stay cold
    #[arg(long, value_name = "FAST[,DENSE]", default_value = "auto:fast,auto")]
    pub codec: String,
    /// What to do when the data does not compress enough to hold the limit
    #[arg(long, value_enum, default_value = "grow")]
    pub on_full: OnFull,
    /// Where to put compressed memory that does not fit into the limit: a directory, nbd://HOST/EXPORT, redis://HOST
    #[arg(long, value_name = "TARGET")]
    pub spill: Option<OsString>,
    /// The most that may be spilled
    #[arg(long, value_name = "SIZE")]
    pub spill_limit: Option<String>,
    /// How long a thread waits for a target that does not answer, before its process is terminated (60 seconds if
    /// not given)
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub spill_patience: Option<f64>,
    /// Do not encrypt spilled data
    #[arg(long)]
    pub spill_unencrypted: bool,
    /// How full a chunk of the store is when the next one is requested
    #[arg(long, value_name = "N/64", default_value = "56/64", allow_hyphen_values = true)]
    pub fill_ratio: String,
    /// Measure the tree with a memory cgroup of its own, where one can be made (costs 10-25 ms at start)
    #[arg(long)]
    pub cgroup: bool,
    /// Print only warnings
    #[arg(long, short)]
    pub quiet: bool,
    /// Evict all the time, whatever the limit
    #[arg(long, hide = true)]
    pub paranoid: bool,
    /// Keep no reserve for the store
    #[arg(long, hide = true)]
    pub no_reserve: bool,
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// `--on-full`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnFull {
    /// Print a warning and let the program grow
    Grow,
    /// Print a message and terminate the program
    Kill,
}
