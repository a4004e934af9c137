//! The command line of `memfold top`.

pub mod columns;

use clap::Args;

/// What help says at its end.
pub const HELP: &str = "\
'?' lists the keys and explains the columns, as 'man memfold-top' does. Other
users' trees are only counted: as root, 'memfold top' shows them, and asks before
it changes their limits.

With --json, a first sample is taken but not printed, so that each line has
rates: --count 1 prints its line after one interval. With a PID, the output
ends with the tree.

Examples:
memfold top
memfold top --json --count 1 | jq '.trees[].resident_bytes'
memfold top --prometheus > /var/lib/node_exporter/memfold.prom.new";

/// `memfold top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Show only the tree of this process, or of this supervisor ('memfold run')
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Time between two updates, at least 0.1
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = interval, allow_hyphen_values = true)]
    pub interval: f64,
    /// Exit after this many updates
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Do not let keys change anything; the screen says so
    #[arg(long, short)]
    pub read_only: bool,
    /// Print a JSON object for each update, one per line
    #[arg(long)]
    pub json: bool,
    /// Print the numbers once, as text for Prometheus
    #[arg(long, conflicts_with_all = ["json", "interval", "count"])]
    pub prometheus: bool,
    /// Answer Prometheus at http://ADDRESS:PORT/metrics; without ADDRESS, only to this machine
    #[arg(long, value_name = "[ADDRESS:]PORT", conflicts_with_all = ["json", "prometheus", "interval", "count"])]
    pub listen: Option<String>,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds, from 0.1 to 86400".into()),
    }
}
