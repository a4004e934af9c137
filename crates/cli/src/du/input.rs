//! Sources of a tree.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memfold::heap::{Heap, Session};
use memfold_args::DuArgs;
use memfold_du::Error;
use memfold_du::file::{self, File};
use memfold_du::json::{self, ReadError};
use memfold_du::scan::exclude::Exclude;
use memfold_du::scan::{self, Progress};
use memfold_du::source::Source;
use memfold_du::tree::Tree;

use super::limit;
use super::progress::Shown;
use crate::output::failure::Failure;

/// A tree, by where it is kept.
pub enum Input<'s> {
    /// In the heap, from a scan; the files that it shows can be deleted.
    Scanned(Box<Tree<'s>>),
    /// In the heap, from a file.
    Imported(Box<Tree<'s>>),
    /// In a file.
    Opened(Box<File>),
}

impl Input<'_> {
    /// The tree, to read it.
    pub fn source(&self) -> &dyn Source {
        match self {
            Input::Scanned(tree) | Input::Imported(tree) => &**tree,
            Input::Opened(file) => &**file,
        }
    }
}

/// Gets the tree that the user asked for.
pub fn get<'s>(
    args: &DuArgs,
    heap: &'s Heap,
    session: &'s Session<'_>,
    shown: &mut Shown,
) -> Result<Input<'s>, Failure> {
    match &args.import {
        Some(path) => import(args, path, heap, session, shown),
        None => scanned(args, heap, session, shown),
    }
}

fn scanned<'s>(
    args: &DuArgs,
    heap: &'s Heap,
    session: &'s Session<'_>,
    shown: &mut Shown,
) -> Result<Input<'s>, Failure> {
    let given = args.paths.first().map_or(Path::new("."), PathBuf::as_path);
    let path = given.canonicalize().map_err(|error| cannot_read(given, &error))?;
    is_directory(given)?;
    let options = options(args)?;
    let progress = Progress::default();
    let tick = |progress: &Progress| {
        limit::follow(args, heap, progress);
        shown.show("Scanning...", progress)
    };
    let tree = scan::scan(&path, &options, heap, session, &progress, tick).map_err(|error| match error {
        Error::Root(error) => cannot_read(given, &error),
        error => Failure::new(error.to_string()),
    })?;
    Ok(Input::Scanned(Box::new(tree)))
}

fn cannot_read(given: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot read the directory '{}': {error}", memfold_escape::path(given)))
}

/// Fails if the path is no directory; the error says what to do.
pub fn is_directory(given: &Path) -> Result<(), Failure> {
    match fs::metadata(given) {
        Ok(found) if !found.is_dir() => Err(Failure::new(format!(
            "'{}' is not a directory: give the directory that it is in, or, if -o or --save wrote a tree to it, put -f before it",
            memfold_escape::path(given)
        ))),
        Ok(_) => Ok(()),
        Err(error) => Err(cannot_read(given, &error)),
    }
}

/// How directories are read.
pub fn options(args: &DuArgs) -> Result<scan::Options, Failure> {
    let mut patterns: Vec<_> = args.exclude.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
    for path in &args.exclude_from {
        let text = fs::read(path).map_err(|error| {
            Failure::new(format!("cannot read the patterns in '{}': {error}", memfold_escape::path(path)))
        })?;
        let lines = text.split(|byte| *byte == b'\n').map(|line| {
            // Files from other systems end lines with CR LF.
            let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
            &line[..end]
        });
        patterns.extend(lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
    }
    let exclude = Exclude::new(&patterns);
    Ok(scan::Options {
        threads: limit::threads(args),
        one_file_system: args.one_file_system,
        exclude,
        exclude_caches: args.exclude_caches,
        exclude_kernel: args.exclude_kernfs,
        follow_links: args.follow_symlinks,
        extended: args.extended,
    })
}

fn import<'s>(
    args: &DuArgs,
    path: &Path,
    heap: &'s Heap,
    session: &'s Session<'_>,
    shown: &mut Shown,
) -> Result<Input<'s>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read the tree in '{}': {error}", memfold_escape::path(path)))
    };
    let from: Box<dyn Read> = if path.as_os_str() == "-" {
        let mut begins = Vec::new();
        io::stdin().take(8).read_to_end(&mut begins).map_err(|error| failed(&error))?;
        if file::is_ours(&begins) {
            return Err(Failure::new(
                "a file that --save (-O) wrote is browsed in place, and can't be read from standard input: give its name to -f, or pass the tree on with -o -",
            ));
        }
        Box::new(io::Cursor::new(begins).chain(io::stdin()))
    } else {
        let file = fs::File::open(path).map_err(|error| failed(&error))?;
        let mut begins = [0; 8];
        if std::os::unix::fs::FileExt::read_exact_at(&file, &mut begins, 0).is_ok() && file::is_ours(&begins)
        {
            let file = File::of(file).map_err(|error| failed(&error))?;
            return Ok(Input::Opened(Box::new(file)));
        }
        Box::new(file)
    };
    let (options, progress) = (json::Import { extended: args.extended }, Progress::default());
    let tick = |progress: &Progress| {
        limit::follow(args, heap, progress);
        shown.show("Importing...", progress)
    };
    let tree = json::read(from, &options, heap, session, &progress, tick).map_err(|error| match error {
        ReadError::Tree(Error::Stopped) => Failure::new("stopped"),
        error => failed(&error),
    })?;
    Ok(Input::Imported(Box::new(tree)))
}
