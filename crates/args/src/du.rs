//! The command line of `memfold du`. Where ncdu has an option, its name is used.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};

/// Behind the options.
pub const HELP: &str = "\
Without an option for output, the tree is browsed on the whole screen; '?' there
shows the keys. The whole tree is kept compressed: about 18 bytes of memory for
each file (23 with -e).

-f reads files that 'ncdu -o', 'memfold du -o' or 'memfold du --save' wrote; a
file of --save is browsed without being loaded. FILE may be '-' for standard input
or output, but a file of --save cannot be read from standard input.

Sizes in the tree count files with several names (hard links) once in each
directory. Patterns of --exclude are names, or paths of names: '*.o' and
'build/*.o' anywhere, '/var/cache' in one place, 'target/' directories only. '*'
matches no slash.

Options that always apply go into /etc/memfold/du.conf and ~/.config/memfold/du,
one per line. Others undo them, as --no-extended undoes -e: see memfold-du(1).

Examples: memfold du -x /
          memfold du --top 20 --depth 2 /var
          memfold du -x --save root.mfdu / ; memfold du -f root.mfdu";

/// `memfold du`.
#[derive(Debug, Args)]
pub struct DuArgs {
    /// The directory [default: the current one]; --depth, --top and --json accept several, one after the other
    #[arg(value_name = "DIR", conflicts_with = "import")]
    pub paths: Vec<PathBuf>,
    /// Ignore configuration files
    #[arg(long)]
    pub ignore_config: bool,
    /// The most memory that the tree may use: compressed entries, frames and tables [default: what it needs]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub limit: Option<String>,
    /// Threads that read directories
    #[arg(long, short, value_name = "N", value_parser = count, allow_negative_numbers = true, help_heading = "Scan")]
    pub threads: Option<usize>,
    /// Also keep owners, permissions and times
    #[arg(long, short, help_heading = "Scan")]
    pub extended: bool,
    /// Stay on one file system
    #[arg(long, short = 'x', help_heading = "Scan")]
    pub one_file_system: bool,
    /// Exclude entries that match PATTERN; may be given several times
    #[arg(long, value_name = "PATTERN", help_heading = "Scan")]
    pub exclude: Vec<OsString>,
    /// Exclude entries that match a line of FILE
    #[arg(long, short = 'X', value_name = "FILE", help_heading = "Scan")]
    pub exclude_from: Vec<PathBuf>,
    /// Exclude the contents of directories with a CACHEDIR.TAG
    #[arg(long, help_heading = "Scan")]
    pub exclude_caches: bool,
    /// Exclude kernel file systems: proc, sysfs, cgroups and the like
    #[arg(long, help_heading = "Scan")]
    pub exclude_kernfs: bool,
    /// Count a symbolic link to a file as that file
    #[arg(long, short = 'L', help_heading = "Scan")]
    pub follow_symlinks: bool,
    /// Read the tree from a file instead
    #[arg(long = "import", short = 'f', value_name = "FILE", help_heading = "Files")]
    pub import: Option<PathBuf>,
    /// Write the tree to FILE as ncdu's JSON, and don't browse
    #[arg(long = "export", short = 'o', value_name = "FILE", conflicts_with_all = ["json", "top", "depth"], help_heading = "Files")]
    pub export: Option<PathBuf>,
    /// Compress the output of -o with zstd
    #[arg(long, short = 'c', help_heading = "Files")]
    pub compress: bool,
    /// The level of compression of -c and --save
    #[arg(long, value_name = "LEVEL", default_value = "4", value_parser = clap::value_parser!(i32).range(1..=19), help_heading = "Files")]
    pub compress_level: i32,
    /// Write the tree to FILE in a compressed form that is browsed without being loaded, and don't browse
    #[arg(long, short = 'O', value_name = "FILE", conflicts_with_all = ["export", "json", "top", "depth"], help_heading = "Files")]
    pub save: Option<PathBuf>,
    /// Print one JSON object, and don't browse
    #[arg(long, help_heading = "Summaries")]
    pub json: bool,
    /// Print the N largest files, each once, and don't browse
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, help_heading = "Summaries")]
    pub top: Option<usize>,
    /// Print directories down to N levels, and don't browse
    #[arg(long, short = 'd', value_name = "N", value_parser = levels, allow_negative_numbers = true, help_heading = "Summaries")]
    pub depth: Option<u32>,
    /// Show apparent sizes instead of disk usage
    #[arg(long, overrides_with = "disk_usage", help_heading = "Looks")]
    pub apparent_size: bool,
    /// Show disk usage (the default)
    #[arg(long, overrides_with = "apparent_size", help_heading = "Looks")]
    pub disk_usage: bool,
    /// Use powers of 1000 instead of 1024
    #[arg(long, help_heading = "Looks")]
    pub si: bool,
    /// The order: disk-usage, name, apparent-size, itemcount or mtime, followed by -asc or -desc if need be; also
    /// that of --depth [default: disk-usage]
    #[arg(long, value_name = "COLUMN", value_parser = sort, help_heading = "Looks")]
    pub sort: Option<Sort>,
    /// Sort directories before files
    #[arg(long, help_heading = "Looks")]
    pub group_directories_first: bool,
    /// Sort names by their bytes: a10 before a9
    #[arg(long, help_heading = "Looks")]
    pub disable_natsort: bool,
    /// Hide hidden and excluded files (key e)
    #[arg(long, help_heading = "Looks")]
    pub hide_hidden: bool,
    /// Show counts of items (key c)
    #[arg(long, help_heading = "Looks")]
    pub show_itemcount: bool,
    /// Show times, with -e (key m)
    #[arg(long, help_heading = "Looks")]
    pub show_mtime: bool,
    /// Hide the bars (key g)
    #[arg(long, help_heading = "Looks")]
    pub hide_graph: bool,
    /// Show percentages (key g)
    #[arg(long, help_heading = "Looks")]
    pub show_percent: bool,
    /// Show what hard links share (key u)
    #[arg(long, value_name = "WHICH", value_enum, default_value = "off", help_heading = "Looks")]
    pub shared_column: SharedColumn,
    /// Colours [default: dark-bg, or off if NO_COLOR is set or the terminal has none]
    #[arg(long, value_name = "SCHEME", value_enum, help_heading = "Looks")]
    pub color: Option<Color>,
    /// Ask before quitting
    #[arg(long, help_heading = "Keys")]
    pub confirm_quit: bool,
    /// Delete without asking
    #[arg(long, help_heading = "Keys")]
    pub no_confirm_delete: bool,
    /// Deleting, and shells
    #[command(flatten)]
    pub may: May,
    /// Disable refreshing
    #[arg(long, help_heading = "Keys")]
    pub disable_refresh: bool,
    /// Show progress only every two seconds
    #[arg(long = "slow-ui-updates", short = 'q', help_heading = "Looks")]
    pub slow: bool,
    /// Show no progress
    #[arg(short = '0', overrides_with_all = ["line", "screen"], help_heading = "Looks")]
    pub quiet: bool,
    /// Show progress in one line (the default if nothing is browsed)
    #[arg(short = '1', overrides_with_all = ["quiet", "screen"], help_heading = "Looks")]
    pub line: bool,
    /// Show progress on the whole screen (the default if the tree is browsed)
    #[arg(short = '2', overrides_with_all = ["quiet", "line"], help_heading = "Looks")]
    pub screen: bool,
    /// Print the version
    #[arg(long, short = 'v', short_alias = 'V', action = ArgAction::Version, value_parser = clap::value_parser!(bool))]
    pub version: Option<bool>,
    /// What undoes others
    #[command(flatten)]
    pub undo: Undo,
}

/// What may be done in the browser. Of -r, --disable-X and --enable-X the last one counts, for they may stand in several configuration files
/// and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct May {
    /// Entries can be deleted.
    pub delete: bool,
    /// A shell can be started.
    pub shell: bool,
}

/// What says so.
#[derive(Args)]
struct Switches {
    /// Disable deleting; given twice, also the shell
    #[arg(short = 'r', action = ArgAction::Count, help_heading = "Keys")]
    read_only: u8,
    /// Disable deleting
    #[arg(long, help_heading = "Keys")]
    disable_delete: bool,
    /// Enable deleting despite an earlier -r
    #[arg(long, overrides_with = "disable_delete", help_heading = "Keys")]
    enable_delete: bool,
    /// Disable the shell
    #[arg(long, help_heading = "Keys")]
    disable_shell: bool,
    /// Enable the shell despite an earlier -rr
    #[arg(long, overrides_with = "disable_shell", help_heading = "Keys")]
    enable_shell: bool,
}

impl Args for May {
    fn augment_args(command: Command) -> Command {
        Switches::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Switches::augment_args_for_update(command)
    }
}

impl FromArgMatches for May {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let read_only = (matches.get_count("read_only"), matches.index_of("read_only"));
        let may = |disable: &str, enable: &str, times: u8| {
            let is_enabled_behind = matches.get_flag(enable) && matches.index_of(enable) > read_only.1;
            is_enabled_behind || !(matches.get_flag(disable) || read_only.0 >= times)
        };
        Ok(May {
            delete: may("disable_delete", "enable_delete", 1),
            shell: may("disable_shell", "enable_shell", 2),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Options that undo others, which a configuration file may have: their names, what they undo, and what is so then.
const UNDO: [(&str, &str, &str); 18] = [
    ("no-extended", "extended", "Don't keep owners, permissions and times"),
    ("cross-file-system", "one_file_system", "Also read other file systems"),
    ("include-caches", "exclude_caches", "Also read directories with a CACHEDIR.TAG"),
    ("include-kernfs", "exclude_kernfs", "Also read kernel file systems"),
    ("no-follow-symlinks", "follow_symlinks", "Count a symbolic link as itself"),
    ("no-compress", "compress", "Don't compress the output of -o"),
    ("no-si", "si", "Use powers of 1024"),
    ("no-group-directories-first", "group_directories_first", "Sort directories among files"),
    ("enable-natsort", "disable_natsort", "Sort names by the numbers in them: a9 before a10"),
    ("show-hidden", "hide_hidden", "Show hidden and excluded files"),
    ("hide-itemcount", "show_itemcount", "Hide counts of items"),
    ("hide-mtime", "show_mtime", "Hide times"),
    ("show-graph", "hide_graph", "Show bars"),
    ("hide-percent", "show_percent", "Hide percentages"),
    ("no-confirm-quit", "confirm_quit", "Quit without asking"),
    ("confirm-delete", "no_confirm_delete", "Ask before deleting"),
    ("enable-refresh", "disable_refresh", "Enable refreshing"),
    ("fast-ui-updates", "slow", "Show progress ten times a second"),
];

/// See [`UNDO`]. `--help` does not show them.
#[derive(Debug)]
pub struct Undo;

impl Args for Undo {
    fn augment_args(command: Command) -> Command {
        // One by one: they are large, and the stack is memory, too.
        UNDO.iter().fold(command, |command, &(name, undone, help)| {
            let arg = Arg::new(name).long(name).help(help).help_heading("Undoing options");
            command.arg(arg.hide(true).action(ArgAction::SetTrue).overrides_with(undone))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Undo {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, Error> {
        Ok(Undo)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
        Ok(())
    }
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
    /// Files that have names elsewhere
    Shared,
    /// Files that have none
    Unique,
}

/// What the order is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// What the entries take on the disk.
    DiskUsage,
    /// Names.
    Name,
    /// Sizes as files report them.
    ApparentSize,
    /// How many entries are below.
    Items,
    /// Times of modification.
    Modified,
}

/// Their names.
pub const COLUMNS: [(&str, Column); 5] = [
    ("disk-usage", Column::DiskUsage),
    ("name", Column::Name),
    ("apparent-size", Column::ApparentSize),
    ("itemcount", Column::Items),
    ("mtime", Column::Modified),
];

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// The column.
    pub column: Column,
    /// The largest comes first, or the last name.
    pub descending: bool,
}

impl Default for Sort {
    /// The largest first.
    fn default() -> Self {
        Sort { column: Column::DiskUsage, descending: true }
    }
}

fn sort(text: &str) -> Result<Sort, String> {
    let (name, descending) = match text.rsplit_once('-') {
        Some((name, "asc")) => (name, Some(false)),
        Some((name, "desc")) => (name, Some(true)),
        _ => (text, None),
    };
    let Some((_, column)) = COLUMNS.into_iter().find(|(known, _)| *known == name) else {
        return Err(String::from(
            "give disk-usage, name, apparent-size, itemcount or mtime, followed by -asc or -desc if need be",
        ));
    };
    Ok(Sort { column, descending: descending.unwrap_or(column != Column::Name) })
}

/// A number, or what to give instead.
fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "give a whole number from 0 on".into())
}

fn levels(text: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        // No tree is deeper than this.
        Err(_) if digits => Ok(u32::MAX),
        levels => levels.map_err(|_| "give a whole number from 0 on; 0 prints the directory itself".into()),
    }
}
