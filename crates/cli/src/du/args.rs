//! The command line of `memfold du`: where ncdu has an option, its name.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub const HELP: &str = "\
Without an option for output, the tree is browsed on the whole screen; '?' there
shows the keys. All of the tree is kept compressed: some 15 bytes of memory for
a file (25 with -e).

-f reads what 'ncdu -o', 'memfold du -o' or 'memfold du --save' wrote; a file of
--save is browsed without being loaded. FILE may be '-' for standard input or
output, but not for files of --save that are read.

Sizes in the tree count files with several names (hard links) once in each
directory. Patterns of --exclude are compared with whole paths and with what is
behind each '/'; '*' matches slashes, too.

Examples: memfold du -x /
          memfold du --top 20 --depth 2 /var
          memfold du -x --save root.mfdu / ; memfold du -f root.mfdu";

/// `memfold du`.
#[derive(Debug, Args)]
pub struct DuArgs {
    /// The directory [default: the current one]
    #[arg(value_name = "DIR", conflicts_with = "import")]
    pub path: Option<PathBuf>,
    /// The most memory that the tree may take: compressed entries, frames and tables [default: what it needs]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub limit: Option<String>,
    /// Threads that read directories
    #[arg(long, short, value_name = "N", help_heading = "Scan")]
    pub threads: Option<usize>,
    /// Keep owners, permissions and times, too
    #[arg(long, short, help_heading = "Scan")]
    pub extended: bool,
    /// Stay on one file system
    #[arg(long, short = 'x', help_heading = "Scan")]
    pub one_file_system: bool,
    /// Leave out what matches PATTERN; may be given several times
    #[arg(long, value_name = "PATTERN", help_heading = "Scan")]
    pub exclude: Vec<String>,
    /// Leave out what matches a line of FILE
    #[arg(long, short = 'X', value_name = "FILE", help_heading = "Scan")]
    pub exclude_from: Vec<PathBuf>,
    /// Leave out what is in directories with a CACHEDIR.TAG
    #[arg(long, help_heading = "Scan")]
    pub exclude_caches: bool,
    /// Leave out file systems that the kernel makes up: proc, sysfs, cgroups and the like
    #[arg(long, help_heading = "Scan")]
    pub exclude_kernfs: bool,
    /// Count a symbolic link to a file as that file
    #[arg(long, short = 'L', help_heading = "Scan")]
    pub follow_symlinks: bool,
    /// Take the tree from a file instead
    #[arg(long = "import", short = 'f', value_name = "FILE", help_heading = "Files")]
    pub import: Option<PathBuf>,
    /// Write the tree to FILE as ncdu's JSON, and don't browse
    #[arg(long = "export", short = 'o', value_name = "FILE", help_heading = "Files")]
    pub export: Option<PathBuf>,
    /// Compress what -o writes, with zstd
    #[arg(long, short = 'c', requires = "export", help_heading = "Files")]
    pub compress: bool,
    /// How hard -c and --save try
    #[arg(long, value_name = "LEVEL", default_value = "4", value_parser = clap::value_parser!(i32).range(1..=19), help_heading = "Files")]
    pub compress_level: i32,
    /// Write the tree to FILE in a compressed form that is browsed without being loaded, and don't browse
    #[arg(long, short = 'O', value_name = "FILE", conflicts_with = "export", help_heading = "Files")]
    pub save: Option<PathBuf>,
    /// Print one JSON object, and don't browse
    #[arg(long, help_heading = "Summaries")]
    pub json: bool,
    /// Print the N largest files, and don't browse
    #[arg(long, value_name = "N", help_heading = "Summaries")]
    pub top: Option<usize>,
    /// Print directories down to N levels, and don't browse
    #[arg(long, short = 'd', value_name = "N", help_heading = "Summaries")]
    pub depth: Option<u32>,
    /// Apparent sizes, not what files take on the disk
    #[arg(long, overrides_with = "disk_usage", help_heading = "Looks")]
    pub apparent_size: bool,
    /// What files take on the disk (the default)
    #[arg(long, help_heading = "Looks")]
    pub disk_usage: bool,
    /// Powers of 1000, not of 1024
    #[arg(long, help_heading = "Looks")]
    pub si: bool,
    /// No progress
    #[arg(short = '0', group = "progress", help_heading = "Looks")]
    pub quiet: bool,
    /// Progress in one line (the default if nothing is browsed)
    #[arg(short = '1', group = "progress", help_heading = "Looks")]
    pub line: bool,
    /// Progress on the whole screen (the default if the tree is browsed)
    #[arg(short = '2', group = "progress", help_heading = "Looks")]
    pub screen: bool,
}

/// What is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// None
    Off,
    /// For dark backgrounds
    Dark,
    /// For any, with a background of its own
    DarkBg,
}
