//! `memfold du`: where the tree comes from, and where it goes.
//!
//! ```text
//!   directories ── scan ──┐                        ┌── browser
//!   ncdu's JSON ── read ──┼─> tree in the heap ────┼── ncdu's JSON, a file of our own
//!   our own file ─────────┴─> (looked at there) ───┴── summary
//! ```

pub mod args;
mod input;
mod progress;
mod summary;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use memfold::heap::{Heap, Limit, Options};
use memfold_du::file;
use memfold_du::json::{self, Export};
use memfold_du::source::Source;

use crate::cgroup;
use crate::failure::Failure;
use crate::output::Output;
use crate::size::{self, Size};
use args::DuArgs;
use progress::Line;

/// Bytes that are compressed together: longer blocks are denser, and take longer to bring back.
const BLOCK: usize = 64 << 10;
/// What compresses the tree.
const CODEC: &str = "zstd:3";

/// Runs it; the result is the exit status.
pub fn du(args: DuArgs) -> Result<i32, Failure> {
    // Before the work, not behind it.
    let output = match (&args.export, &args.save) {
        (Some(path), _) => Some((path, "-o")),
        (None, Some(path)) => Some((path, "--save")),
        (None, None) => None,
    };
    let output = output.map(|(path, option)| Target::prepare(path, option)).transpose()?;
    let browses = output.is_none() && !args.json && args.top.is_none() && args.depth.is_none();
    if browses {
        return Err(Failure::new("the browser is not there yet"));
    }
    let heap = heap(&args)?;
    let session = heap.session().map_err(|error| Failure::new(error.to_string()))?;
    let mut line = Line::new(!args.quiet);
    let input = input::get(&args, &heap, &session, &mut line)?;
    line.end();
    match output {
        Some(mut target) => {
            write(&args, input.source(), target.to())?;
            target.finish()?;
        }
        None => summary::print(&args, &input, &heap)?,
    }
    Ok(0)
}

/// The heap, with the limit that was asked for.
fn heap(args: &DuArgs) -> Result<Heap, Failure> {
    let limit = match &args.limit {
        None => Limit::Share,
        Some(text) => {
            const HOW: &str = "give one like --limit 64M, --limit 1.5G, or --limit 10%";
            let bad = |why: &dyn std::fmt::Display| Failure::new(format!("the limit '{text}' {why}; {HOW}"));
            let size = size::parse(text).map_err(|why| bad(&why))?;
            let memory = match size {
                Size::Bytes(_) => u64::MAX,
                Size::Percent(_) => cgroup::memory_that_counts()
                    .ok_or_else(|| bad(&"is a share of the machine's memory, which is not known here"))?,
            };
            Limit::Bytes(size.of(memory))
        }
    };
    let options = Options::new().block_size(BLOCK).codec(CODEC).limit(limit);
    Heap::new(options).map_err(|error| Failure::new(error.to_string()))
}

fn write(args: &DuArgs, source: &dyn Source, to: &mut dyn Write) -> Result<(), Failure> {
    let mut to = BufWriter::new(to);
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("the tree can't be written: {error}"));
    if args.save.is_some() {
        let codec = format!("zstd:{}", args.compress_level);
        file::write(source, &codec, &mut to, &mut |_| true).map_err(|error| failed(&error))?;
    } else {
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // Whatever the tree has.
        let export = Export { timestamp, extended: true };
        let written = match args.compress {
            true => json::write_zstd(source, &mut to, args.compress_level, &export, |_| true),
            false => json::write(source, &mut to, &export, |_| true),
        };
        written.map_err(|error| failed(&error))?;
    }
    to.flush().map_err(|error| failed(&error))
}

/// Where a file goes.
enum Target {
    Stdout(std::io::Stdout),
    File(Box<Output>),
}

impl Target {
    fn prepare(path: &Path, option: &str) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Target::Stdout(std::io::stdout()));
        }
        Output::prepare(path, option).map(|output| Target::File(Box::new(output)))
    }

    fn to(&mut self) -> &mut dyn Write {
        match self {
            Target::Stdout(stdout) => stdout,
            Target::File(output) => output.file(),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Target::Stdout(mut stdout) => stdout.flush(),
            Target::File(output) => output.finish(),
        }
        .map_err(|error| Failure::new(format!("the tree can't be written: {error}")))
    }
}
