//! The command line of `memfold disk`.

pub mod columns;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Behind the options.
pub const HELP: &str = "\
SIZE is 8G, 1.5T (powers of 1024) or a bare number of bytes; a limit may be 25%
of the machine's memory or of the cgroup's limit.

--socket starts nbdkit, which must be installed, with memfold's plugin. Arguments
after -- are passed to it: --tls=..., --readonly, -e NAME, and filters with their
parameters, as in '-- --filter=rate rate=10M'.
--mount needs FUSE, and root or fusermount3.

Examples:
  memfold disk --size 8G --socket /run/disk.sock
  nbdcopy image.qcow2 'nbd+unix:///?socket=/run/disk.sock'

  memfold disk --size 8G --limit 2G --mount /mnt/memfold &
  losetup --find --show /mnt/memfold/disk

The data are only in memory: they are lost when the command ends.";

/// `memfold disk`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DiskArgs {
    /// To show the devices instead of being one.
    #[command(subcommand)]
    pub command: Option<DiskCommand>,
    /// Size of the device
    #[arg(long, short, value_name = "SIZE", allow_hyphen_values = true)]
    pub size: Option<String>,
    /// Memory that it may use [default: half of all memory]
    #[arg(long, short, value_name = "SIZE", allow_hyphen_values = true)]
    pub limit: Option<String>,
    /// Serve NBD clients at the Unix socket PATH, until SIGTERM or Ctrl-C
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Provide the device as the file DIR/disk, until DIR is unmounted, SIGTERM or Ctrl-C
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Codec for written data and, after a comma, for data that stay cold ('none': those are left as they are) [default: auto:fast,auto:dense]
    #[arg(long, value_name = "FAST[,DENSE]")]
    pub codec: Option<String>,
    /// Bytes that the dense codec compresses together: 8K, 16K or 32K [default: 32K]
    #[arg(long, value_name = "SIZE")]
    pub block: Option<String>,
    /// Data unused for this long are cold [default: 5]
    #[arg(long, value_name = "SECONDS")]
    pub cold: Option<String>,
    /// Memory for uncompressed copies of pages that are read often [default: a 32nd of the limit]
    #[arg(long, value_name = "SIZE")]
    pub resident: Option<String>,
    /// Store pages with the same content only once
    #[arg(long)]
    pub share: bool,
    /// A directory, a new file, an unused block device, nbd://HOST/EXPORT or redis://HOST, for data that do not compress and, at the limit, for data that were used least
    #[arg(long, value_name = "TARGET")]
    pub backing: Option<OsString>,
    /// Bytes of it that may be used [default: all of a block device or server; of a file, a little more than the size of the device]
    #[arg(long, value_name = "SIZE", requires = "backing")]
    pub backing_size: Option<String>,
    /// Make the device fit for swap: lock all memory, allocate it in advance, and never wait for memory to be freed
    #[arg(long)]
    pub swap: bool,
    /// Its name in 'memfold disk status' [default: disk-PID]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Additional nbdkit arguments: options, and parameters of filters
    #[arg(last = true, value_name = "NBDKIT-OPTIONS")]
    pub nbdkit: Vec<OsString>,
}

/// What else there is.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Show running devices
    #[command(after_help = columns::help())]
    Status(StatusArgs),
}

/// `memfold disk status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Show only the devices with these names
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Print a JSON array with all counters
    #[arg(long, conflicts_with_all = ["bytes", "noheadings", "output", "output_all", "raw"])]
    pub json: bool,
    /// Print sizes in bytes
    #[arg(long, short)]
    pub bytes: bool,
    /// Do not print the line of column names
    #[arg(long, short)]
    pub noheadings: bool,
    /// Columns to print, separated by commas
    #[arg(long, short, value_name = "LIST", conflicts_with = "output_all")]
    pub output: Option<String>,
    /// Print all columns
    #[arg(long)]
    pub output_all: bool,
    /// Print for programs: one blank between columns and none within them, '-' for missing values
    #[arg(long)]
    pub raw: bool,
}
