//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::analyze::args::{self as analyze, AnalyzeArgs};
use crate::disk::args::{self as disk, DiskArgs};
use crate::du::args::{self as du, DuArgs};
use crate::top::args::{self as top, TopArgs};

/// Run any program in less memory: cold pages are compressed, and restored
/// when they are touched.
#[derive(Debug, Parser)]
#[command(name = "memfold", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program within a limit of memory
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Estimate what compression would save for a process, a core or files of pages, and which limit to choose
    #[command(after_help = analyze::HELP)]
    Analyze(AnalyzeArgs),
    /// Show or change the limit of a running tree
    Limit(LimitArgs),
    /// Show what runs under memfold, live: a screen, JSON, or text for Prometheus
    #[command(after_help = top::HELP)]
    Top(TopArgs),
    /// Report what this machine offers, and how to fix what is missing
    Doctor(DoctorArgs),
    /// Measure codecs on files of memory, or take such a file from a process
    #[command(after_help = BENCH_HELP)]
    Bench(BenchArgs),
    /// Show what uses the space in a directory, with any number of files
    #[command(after_help = du::HELP, args_override_self = true, version, disable_version_flag = true)]
    Du(Box<DuArgs>),
    /// Serve a compressed disk in memory: to NBD clients, or as a file
    #[command(after_help = disk::HELP)]
    Disk(Box<DiskArgs>),
}

const RUN_HELP: &str = "\
SIZE is 512M, 1.5G (powers of 1024), a bare number of bytes, or 50% of the
machine's memory or of the cgroup's limit, whichever is less.

Exit status: the program's own; 128+n if signal n ended it; 125 if memfold
failed before starting it, 126 if it cannot be executed, 127 if it was not
found. memfold writes nothing to standard output; its own lines on standard
error begin with 'memfold: '.

Example: memfold run --limit 512M -- python3 report.py";

/// `memfold run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The most memory that the program, its children and memfold may use together; auto: as little as possible
    /// without waiting longer than --stall allows
    #[arg(long, short, value_name = "SIZE|auto", allow_hyphen_values = true)]
    pub limit: Option<String>,
    /// Compress memory that has not been touched for this long, even if there is room (30 seconds if not given)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "30")]
    pub proactive: Option<f64>,
    /// With --limit auto or --proactive: the share of the time in which a thread may wait for memory
    #[arg(long, value_name = "SHARE", default_value = "1%", allow_hyphen_values = true)]
    pub stall: String,
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

/// `memfold limit`.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// A process that runs under memfold, or its supervisor ('memfold run')
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// The new limit for the whole tree, or auto; without it, print the present limit
    #[arg(value_name = "SIZE|auto", allow_hyphen_values = true)]
    pub size: Option<String>,
}

/// `memfold doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const BENCH_HELP: &str = "\
Each FILE is cut into blocks, and each codec compresses and decompresses all of
them. The results are compared with the originals. 'memfold bench --capture PID
-o FILE' makes files of memory pages.

LIST is a comma-separated list of names, which may include 'default' and 'all';
a name may be a pipeline like shuffle:8+zstd:1.

Example: memfold bench --codec lz4,zstd:1,stride:2 --virtual-best --plot chart.svg pages";

/// `memfold bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Files of memory to measure on; '-' is standard input
    #[arg(value_name = "FILE", required_unless_present = "capture", conflicts_with = "capture")]
    pub files: Vec<PathBuf>,
    /// Bytes that are compressed as a whole, from 64 to 512K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub block: String,
    /// Codecs to measure
    #[arg(long, value_name = "LIST", default_value = "default")]
    pub codec: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The largest compressed form of a block, in 4096ths of the block; a larger one counts as stored raw
    #[arg(long, value_name = "N", default_value = "3264")]
    pub threshold: String,
    /// Passes over all blocks, of which the median counts [default: 7, fewer for slow codecs]
    #[arg(long, value_name = "N")]
    pub passes: Option<String>,
    /// Draw ratio against speed into FILE
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Speed of the device that takes what does not fit into memory, for the effective speed; the default is
    /// that of the hard disk in zBeWalgo's evaluation
    #[arg(long, value_name = "WRITE[,READ]", default_value = "141.2,164.2")]
    pub device_speed: String,
    /// Leave out blocks of zeros
    #[arg(long)]
    pub drop_zero: bool,
    /// Leave out blocks that are copies of an earlier block in the file
    #[arg(long)]
    pub drop_duplicates: bool,
    /// Add a row in which each block takes the best form that any of the codecs makes of it
    #[arg(long)]
    pub virtual_best: bool,
    /// The least speed of compression with which a codec counts for a file's virtual best
    #[arg(long, value_name = "MB/s", requires = "virtual_best")]
    pub floor: Option<String>,
    /// Instructions to use: scalar, avx2, avx512, or a comma-separated list for a row each [default: the
    /// fastest, or what MEMFOLD_CPU names]
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Write the resident private anonymous pages of a running process to a file, instead of measuring
    #[arg(long, value_name = "PID", requires = "output")]
    pub capture: Option<String>,
    /// The file for --capture
    #[arg(long, short, value_name = "FILE", requires = "capture", conflicts_with = "files")]
    pub output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(words: &[&str]) -> Result<RunArgs, clap::Error> {
        let all = ["memfold", "run"].iter().chain(words);
        Cli::try_parse_from(all).map(|cli| match cli.command {
            Command::Run(args) => args,
            _ => unreachable!(),
        })
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let words = ["--limit", "1G", "ls", "-l", "--limit", "2G", "--", "--help", "-q"];
        let args = run(&words).unwrap();
        assert_eq!(args.command, words[2..].iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(args.limit.as_deref(), Some("1G"));
        assert!(!args.quiet);
    }

    #[test]
    fn after_two_dashes_anything_is_the_program() {
        let args = run(&["--limit=1G", "--", "--odd", "-l"]).unwrap();
        assert_eq!(args.command, ["--odd", "-l"]);
        let args = run(&["--limit=1G", "--", "ls", "--", "-l"]).unwrap();
        assert_eq!(args.command, ["ls", "--", "-l"]);
    }

    #[test]
    fn paths_have_any_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let odd = std::ffi::OsStr::from_bytes(b"/tmp/\xff");
        let parse = |words: &[&str], last: &[&str]| {
            let words = ["memfold"].iter().chain(words).map(OsString::from);
            Cli::try_parse_from(words.chain([odd.into()]).chain(last.iter().map(OsString::from)))
        };
        for (words, last) in [
            (&["run", "--limit=1G", "--spill"][..], &["--", "true"][..]),
            (&["run", "--limit=1G", "--stats"], &["--", "true"]),
            (&["run", "--limit=1G", "--report"], &["--", "true"]),
            (&["disk", "--size=1G", "--socket"], &[]),
            (&["disk", "--size=1G", "--mount"], &[]),
            (&["disk", "--size=1G", "--mount=/mnt", "--backing"], &[]),
            (&["disk", "--size=1G", "--socket=/s", "--"], &[]),
            (&["du"], &[]),
            (&["du", "-f"], &[]),
            (&["du", "/", "-o"], &[]),
            (&["du", "/", "-O"], &[]),
            (&["du", "/", "--save"], &[]),
            (&["du", "/", "--exclude"], &[]),
            (&["du", "/", "--exclude-from"], &[]),
            (&["analyze"], &[]),
            (&["analyze", "1", "--report"], &[]),
            (&["bench"], &[]),
            (&["bench", "file", "--plot"], &[]),
            (&["bench", "--capture=1", "-o"], &[]),
        ] {
            let parsed = parse(words, last);
            let is_no_text =
                parsed.as_ref().is_err_and(|error| error.kind() == clap::error::ErrorKind::InvalidUtf8);
            assert!(!is_no_text, "{words:?}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn bench_wants_files_or_a_process() {
        let parse = |words: &[&str]| Cli::try_parse_from(["memfold", "bench"].iter().chain(words));
        for good in [&["a", "b"][..], &["--capture", "1", "-o", "a"], &["--virtual-best", "--floor=50", "a"]]
        {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            &[][..],
            &["--capture", "1"],
            &["-o", "a"],
            &["-o", "a", "b"],
            &["--capture", "1", "-o", "a", "b"],
            &["--floor=50", "a"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn mistakes_before_the_program_are_noticed() {
        assert!(run(&["--limti", "1G", "ls"]).is_err());
        assert!(run(&["--limit", "1G"]).is_err());
        assert!(run(&["--on-full", "explode", "ls"]).is_err());
    }
}
