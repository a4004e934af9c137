//! `memfold du`: connects the sources of a tree with its uses.
//!
//! ```text
//!   configuration files ── config ──> args
//!
//!   directories ── scan ──┐                        ┌── browser
//!   ncdu's JSON ── read ──┼─> tree in the heap ────┼── ncdu's JSON, a file of our own
//!   our own file ─────────┴─> (looked at there) ───┴── summary
//! ```

mod config;
mod input;
mod limit;
mod live;
mod progress;
mod summary;

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use memfold::heap::{Heap, Options};
use memfold_args::du::{Color, Column, DuArgs, SharedColumn};
use memfold_du::browse::{self, Colours, End, Graph, Links, ReadOnly};
use memfold_du::json::{self, Export};
use memfold_du::source::Source;
use memfold_du::{Error, file};

use crate::output::failure::{Failure, say};
use crate::output::file::Output;
use crate::sys;
use input::Input;
use live::Live;
use progress::Shown;

/// Bytes that are compressed together. Longer blocks compress better but take longer to restore.
const BLOCK: usize = 64 << 10;
/// The codec for the tree.
const CODEC: &str = "zstd:3";

/// Runs the command and returns the exit status. `args` were parsed from `words`.
pub fn du(args: DuArgs, words: &[OsString]) -> Result<i32, Failure> {
    // Otherwise an opened file would become a standard descriptor.
    if !sys::provide_standard_descriptors().map_err(|error| Failure::new(format!("/dev/null: {error}")))? {
        return Err(Failure::new("standard output is closed: redirect it to a file, or to /dev/null"));
    }
    // Patterns are matched in the user's locale.
    sys::heed_locale();
    if args.compress && args.export.is_none() {
        return Err(Failure::new(
            "-c compresses what -o writes, but -o is missing; give, for example, -c -o FILE",
        ));
    }
    let mut args = config::apply(args, words)?;
    if args.paths.len() < 2 {
        // Check paths before examining the terminal.
        args.paths.iter().filter(|_| args.import.is_none()).try_for_each(|path| input::is_directory(path))?;
        return one(&args);
    }
    if !args.json && args.top.is_none() && args.depth.is_none() {
        return Err(Failure::new(
            "only one directory at a time can be browsed or written to a file: give the one that contains them, or add --depth N, --top N or --json",
        ));
    }
    let mut status = 0;
    for path in std::mem::take(&mut args.paths) {
        args.paths = vec![path];
        // If one tree cannot be read, continue with the others.
        match one(&args) {
            Ok(0) => {}
            Ok(ended) => return Ok(ended),
            Err(failure) => {
                say(&failure.text);
                status = failure.status;
            }
        }
    }
    Ok(status)
}

/// Handles one tree.
fn one(args: &DuArgs) -> Result<i32, Failure> {
    // Check the output before the work, not after it.
    let output = match (&args.export, &args.save) {
        (Some(path), _) => Some((path, "-o")),
        (None, Some(path)) => Some((path, "--save")),
        (None, None) => None,
    };
    let output = output.map(|(path, option)| Target::prepare(path, option)).transpose()?;
    let browses = output.is_none() && !args.json && args.top.is_none() && args.depth.is_none();
    let heap = heap(args)?;
    let session = heap.session().map_err(|error| Failure::new(error.to_string()))?;
    let look = look(args);
    let mut shown = Shown::new(args, &look, browses)?;
    let input = input::get(args, &heap, &session, &mut shown);
    if let Some(signal) = shown.signal() {
        return Ok(128 + signal);
    }
    let mut input = input?;
    match output {
        Some(mut target) => {
            drop(shown);
            write(args, input.source(), target.to())?;
            target.finish()?;
            if args.line {
                summary::say_failures(input.source())?;
            }
        }
        None if browses => return browse(args, &mut input, &heap, shown, look),
        None => {
            drop(shown);
            summary::print(args, &input, &heap)?;
        }
    }
    Ok(0)
}

fn browse(
    args: &DuArgs,
    input: &mut Input<'_>,
    heap: &Heap,
    shown: Shown,
    look: browse::Options,
) -> Result<i32, Failure> {
    let failed = |error: Error| Failure::new(error.to_string());
    let options = input::options(args)?;
    limit::browse(args, heap)?;
    let mut screen = shown.into_screen(&look).map_err(failed)?;
    let order = heap.session().map_err(|error| failed(error.into()))?;
    let end = match input {
        Input::Scanned(tree) => browse::run(&mut screen, &mut Live::new(tree, options, args), &order, look),
        Input::Imported(tree) => browse::run(&mut screen, &mut ReadOnly(&**tree), &order, look),
        Input::Opened(file) => browse::run(&mut screen, &mut ReadOnly(&**file), &order, look),
    };
    drop(screen);
    match end.map_err(failed)? {
        End::Quit => Ok(0),
        End::Signal(signal) => Ok(128 + signal),
    }
}

/// The order of the entries.
fn order(args: &DuArgs) -> browse::Sort {
    let sort = args.sort.unwrap_or_default();
    browse::Sort {
        column: match sort.column {
            Column::DiskUsage => browse::Column::DiskUsage,
            Column::Name => browse::Column::Name,
            Column::ApparentSize => browse::Column::ApparentSize,
            Column::Items => browse::Column::Items,
            Column::Modified => browse::Column::Modified,
        },
        descending: sort.descending,
        directories_first: args.group_directories_first,
        natural: !args.disable_natsort,
        hidden: !args.hide_hidden,
    }
}

/// The look of the browser.
fn look(args: &DuArgs) -> browse::Options {
    let colours = match args.color {
        None => Colours::default(),
        Some(Color::Off) => Colours::Off,
        Some(Color::Dark) => Colours::Dark,
        Some(Color::DarkBg) => Colours::DarkBackground,
    };
    browse::Options {
        sort: order(args),
        apparent: args.apparent_size,
        graph: match (args.hide_graph, args.show_percent) {
            (true, false) => Graph::None,
            (true, true) => Graph::Percent,
            (false, false) => Graph::Bar,
            (false, true) => Graph::Both,
        },
        links: match args.shared_column {
            SharedColumn::Off => Links::None,
            SharedColumn::Shared => Links::Shared,
            SharedColumn::Unique => Links::Unique,
        },
        items: args.show_itemcount,
        modified: args.show_mtime,
        si: args.si,
        colours,
        confirm_quit: args.confirm_quit,
        confirm_delete: !args.no_confirm_delete,
        note: String::from(if args.import.is_some() { "imported" } else { "" }),
        slow: args.slow,
    }
}

/// The heap, with the user's limit or the default.
fn heap(args: &DuArgs) -> Result<Heap, Failure> {
    let options = Options::new().block_size(BLOCK).codec(CODEC).limit(limit::at_first(args)?);
    Heap::new(options).map_err(|error| match &args.limit {
        Some(limit) => Failure::new(format!(
            "--limit {limit}: {error}, and the tree about 18 for each file, or 23 with -e"
        )),
        None => Failure::new(error.to_string()),
    })
}

fn write(args: &DuArgs, source: &dyn Source, to: &mut dyn Write) -> Result<(), Failure> {
    let mut to = BufWriter::new(to);
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("the tree can't be written: {error}"));
    if args.save.is_some() {
        let codec = format!("zstd:{}", args.compress_level);
        file::write(source, &codec, &mut to, &mut |_| true).map_err(|error| failed(&error))?;
    } else {
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // Write all fields that the tree has.
        let export = Export { timestamp, extended: true };
        let written = match args.compress {
            true => json::write_zstd(source, &mut to, args.compress_level, &export, |_| true),
            false => json::write(source, &mut to, &export, |_| true),
        };
        written.map_err(|error| failed(&error))?;
    }
    to.flush().map_err(|error| failed(&error))
}

/// A file to write to.
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
