//! The command line of `memfold`: its commands and options, what help says about them, and the columns of its
//! tables.
//!
//! The command parses with it, and `crates/pages` makes man pages and completions from it. So it depends on
//! nothing but clap.

pub mod analyze;
pub mod bench;
pub mod disk;
pub mod du;
pub mod run;
pub mod top;

use clap::{Args, Parser, Subcommand};

pub use analyze::AnalyzeArgs;
pub use bench::BenchArgs;
pub use disk::{DiskArgs, DiskCommand, StatusArgs};
pub use du::DuArgs;
pub use run::{OnFull, RunArgs};
pub use top::TopArgs;

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
    #[command(after_help = run::HELP)]
    Run(RunArgs),
    /// Estimate what compression would save for a process, a core or files of pages, and which limit to choose
    #[command(after_help = analyze::HELP)]
    Analyze(AnalyzeArgs),
    /// Show or change the limit of a running tree
    #[command(after_help = LIMIT_HELP)]
    Limit(LimitArgs),
    /// Show what runs under memfold, live: a screen, JSON, or text for Prometheus
    #[command(after_help = top::HELP)]
    Top(TopArgs),
    /// Report what this machine offers, and how to fix what is missing
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Measure codecs on files of memory, or take such a file from a process
    #[command(after_help = bench::HELP)]
    Bench(BenchArgs),
    /// Show what uses the space in a directory, with any number of files
    #[command(after_help = du::HELP, args_override_self = true, version, disable_version_flag = true)]
    Du(Box<DuArgs>),
    /// Serve a compressed disk in memory: to NBD clients, or as a file
    #[command(after_help = disk::HELP)]
    Disk(Box<DiskArgs>),
}

const LIMIT_HELP: &str = "\
Examples:
memfold limit 4711
memfold limit 4711 300M
memfold limit $(pidof redis-server) auto";

const DOCTOR_HELP: &str = "\
Exit status: 0 if 'memfold run' works here, 1 if not, 125 if that is not known.

Examples:
memfold doctor
memfold doctor --json | jq .problems";

/// `memfold limit`.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// A process that runs under memfold, or its supervisor ('memfold run')
    #[arg(value_name = "PID", value_parser = process_id, allow_hyphen_values = true)]
    pub pid: i32,
    /// The new limit for the whole tree, or auto; without it, print the present limit
    #[arg(value_name = "SIZE|auto", allow_hyphen_values = true)]
    pub size: Option<String>,
}

fn process_id(text: &str) -> Result<i32, String> {
    let wrong = "not the number of a process, which comes before the size: memfold limit PID SIZE";
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| wrong.to_owned())
}

/// `memfold doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::*;

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
    fn arguments_after_the_program_belong_to_the_program() {
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
    fn bench_needs_files_or_a_process() {
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
