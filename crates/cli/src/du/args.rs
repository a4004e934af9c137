//! The command line of `memfold du`: where ncdu has an option, its name.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use memfold_du::browse::Column;

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
    #[arg(long, overrides_with = "apparent_size", help_heading = "Looks")]
    pub disk_usage: bool,
    /// Powers of 1000, not of 1024
    #[arg(long, help_heading = "Looks")]
    pub si: bool,
    /// The order: disk-usage, name, apparent-size, itemcount or mtime; with -asc or -desc behind it
    #[arg(long, value_name = "COLUMN", default_value = "disk-usage", value_parser = sort, help_heading = "Looks")]
    pub sort: Sort,
    /// Directories before files
    #[arg(long, help_heading = "Looks")]
    pub group_directories_first: bool,
    /// Names by their bytes: a10 before a9
    #[arg(long, help_heading = "Looks")]
    pub disable_natsort: bool,
    /// Leave out hidden and excluded files (key e)
    #[arg(long, help_heading = "Looks")]
    pub hide_hidden: bool,
    /// Show counts of items (key c)
    #[arg(long, help_heading = "Looks")]
    pub show_itemcount: bool,
    /// Show times, with -e (key m)
    #[arg(long, help_heading = "Looks")]
    pub show_mtime: bool,
    /// No bars (key g)
    #[arg(long, help_heading = "Looks")]
    pub hide_graph: bool,
    /// Percentages (key g)
    #[arg(long, help_heading = "Looks")]
    pub show_percent: bool,
    /// What hard links share (key u)
    #[arg(long, value_name = "WHICH", value_enum, default_value = "off", help_heading = "Looks")]
    pub shared_column: SharedColumn,
    /// Colours [default: dark-bg, or off if NO_COLOR is set]
    #[arg(long, value_name = "SCHEME", value_enum, help_heading = "Looks")]
    pub color: Option<Color>,
    /// Ask before it ends
    #[arg(long, help_heading = "Keys")]
    pub confirm_quit: bool,
    /// Delete without asking
    #[arg(long, help_heading = "Keys")]
    pub no_confirm_delete: bool,
    /// Nothing can be deleted; twice: and no shell started
    #[arg(short = 'r', action = clap::ArgAction::Count, help_heading = "Keys")]
    pub read_only: u8,
    /// Nothing can be deleted
    #[arg(long, help_heading = "Keys")]
    pub disable_delete: bool,
    /// Deleting is possible in spite of -r
    #[arg(long, overrides_with = "disable_delete", help_heading = "Keys")]
    pub enable_delete: bool,
    /// No shell can be started
    #[arg(long, help_heading = "Keys")]
    pub disable_shell: bool,
    /// A shell is possible in spite of -rr
    #[arg(long, overrides_with = "disable_shell", help_heading = "Keys")]
    pub enable_shell: bool,
    /// Nothing can be read again
    #[arg(long, help_heading = "Keys")]
    pub disable_refresh: bool,
    /// Show progress every two seconds only
    #[arg(long = "slow-ui-updates", short = 'q', help_heading = "Looks")]
    pub slow: bool,
    /// No progress
    #[arg(short = '0', overrides_with_all = ["line", "screen"], help_heading = "Looks")]
    pub quiet: bool,
    /// Progress in one line (the default if nothing is browsed)
    #[arg(short = '1', overrides_with_all = ["quiet", "screen"], help_heading = "Looks")]
    pub line: bool,
    /// Progress on the whole screen (the default if the tree is browsed)
    #[arg(short = '2', overrides_with_all = ["quiet", "line"], help_heading = "Looks")]
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

/// What is shown of hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SharedColumn {
    /// Nothing
    Off,
    /// What has names elsewhere
    Shared,
    /// What has not
    Unique,
}

/// A column, and whether the largest comes first, or the last name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub descending: bool,
}

fn sort(text: &str) -> Result<Sort, String> {
    let (name, descending) = match text.rsplit_once('-') {
        Some((name, "asc")) => (name, Some(false)),
        Some((name, "desc")) => (name, Some(true)),
        _ => (text, None),
    };
    let column = match name {
        "disk-usage" => Column::DiskUsage,
        "name" => Column::Name,
        "apparent-size" => Column::ApparentSize,
        "itemcount" => Column::Items,
        "mtime" => Column::Modified,
        _ => {
            return Err(String::from(
                "give disk-usage, name, apparent-size, itemcount or mtime, with -asc or -desc behind it if need be",
            ));
        }
    };
    Ok(Sort { column, descending: descending.unwrap_or(column != Column::Name) })
}
