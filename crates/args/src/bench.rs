//! The command line of `memfold bench`.

use std::path::PathBuf;

use clap::Args;

/// Behind the options.
pub const HELP: &str = "\
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
    /// Instructions to use: scalar, sse4, avx2, avx512, or a comma-separated list for a row each [default: the
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
