//! The command line of `memfold analyze`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// What help says at its end.
pub const HELP: &str = "\
A number is a process (./123 is a file). Several processes are analysed as one;
memory that they share since a fork counts in each, and processes that cannot be
analysed are left out, with exit status 1. A file that begins like an ELF core is
read as one; all other files are read as pages, as 'memfold bench --capture' or a
hypervisor writes them.

A process is not stopped, and nothing in it changes except the kernel's marks of
recently used pages. Its private resident pages are sampled.

Example: memfold analyze $(pidof redis-server) --report redis.html";

/// `memfold analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// Processes, a core, or files of pages
    #[arg(value_name = "PID|CORE|FILE", required = true)]
    pub what: Vec<OsString>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// The codec that memory would be compressed with, page by page
    #[arg(long, value_name = "NAME", default_value = "auto:fast")]
    pub codec: String,
    /// How long to observe what a process uses; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0)]
    pub idle: f64,
    /// The most time to spend on compressing pages
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub time: f64,
    /// Also report the effect of this limit
    #[arg(long, short, value_name = "SIZE", allow_hyphen_values = true)]
    pub limit: Option<String>,
    /// The largest slowdown that the recommended limit may cause
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub slowdown: f64,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}
