//! Compares the RAM disk with published results about such devices: `corpora` measures the device with one codec
//! after the other, as zBeWalgo was evaluated on zram.

mod corpora;
mod effective;
mod measure;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use effective::Device;

/// Bytes of a page of the device.
const PAGE: usize = memfold_disk::PAGE;

/// The RAM disk, with one codec after the other
#[derive(Debug, Parser)]
#[command(name = "bench-disk")]
struct Arguments {
    #[command(subcommand)]
    command: Section,
}

#[derive(Debug, Subcommand)]
enum Section {
    /// Each codec on each file: ratio, speeds of the device, and the effective speeds of zBeWalgo's evaluation
    Corpora {
        /// The codecs; `auto` is added, without and with the work of the background thread
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = corpora::CODECS)]
        codecs: Vec<String>,
        /// Speed of the device that takes what does not fit into memory, in MB (10^6 bytes) a second
        #[arg(long, value_name = "WRITE,READ", default_value = "141.2,164.2", value_parser = Device::parse)]
        device_speed: Device,
        /// Writes all figures to this file, as JSON
        #[arg(long, value_name = "FILE.json")]
        out: Option<PathBuf>,
        /// The files, read as rows of pages; bytes after the last whole page are left out
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-disk: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(section: Section) -> Result<(), String> {
    match section {
        Section::Corpora { codecs, device_speed, out, files } => {
            corpora::run(&codecs, device_speed, out.as_deref(), &files)
        }
    }
}

/// The whole pages of a file.
fn pages(file: &Path) -> Result<Vec<u8>, String> {
    // Other files, such as devices, may be endless.
    if !file.is_file() {
        return Err(format!("{} is not a file", file.display()));
    }
    let mut bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    bytes.truncate(bytes.len() / PAGE * PAGE);
    if bytes.is_empty() { Err(format!("{}: not one page", file.display())) } else { Ok(bytes) }
}
