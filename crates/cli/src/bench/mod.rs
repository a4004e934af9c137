//! `memfold bench`: measures codecs on files of memory.
//!
//! ```text
//! plan (options) -> corpus (a file, cut into blocks) -> measure (each codec) -> sums, rows -> table | JSON
//!                                                                                      `--> plot
//! capture: a running process -> such a file
//! ```
//!
//! Invariant: a row exists only if every block was restored correctly. Otherwise the command ends with an
//! error.

mod capture;
mod corpus;
mod measure;
mod plan;
mod plot;
mod rows;
mod subject;
mod sums;
mod table;

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use memfold_args::BenchArgs;
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use crate::output::failure::{Failure, say};
use crate::output::file::Output;
use crate::output::text::{json, print};
use corpus::Corpus;
use measure::measure;
use plan::Plan;
use rows::{Report, Row};
use sums::Sums;

/// At most this many skipped files are named.
const SAID: usize = 5;

/// Measures, or captures a process, and returns the exit status.
pub fn bench(args: &BenchArgs) -> Result<i32, Failure> {
    let plan = Plan::new(args)?;
    if let (Some(process), Some(output)) = (&args.capture, &args.output) {
        return capture::capture(process, output, &plan, args.json);
    }
    let files = fit(&args.files, plan.block)?;
    let plot = args.plot.as_deref().map(prepare_plot).transpose()?;
    pin();
    let report = measure_files(&files, &plan)?;
    if let Some(plot) = plot {
        let names = corpus::short_names(&files);
        plot.write(plot::draw(&report, &names).as_bytes())
            .map_err(|e| Failure::new(format!("the plot could not be written: {e}")))?;
    }
    let names = || corpus::short_names(&files);
    print(&if args.json { json(&report) } else { table::write(&report, &plan, &names()) })?;
    Ok(0)
}

/// The files that can be measured. `bench *` also names directories and small files: these are skipped with a
/// message, unless nothing remains.
fn fit(files: &[PathBuf], block: usize) -> Result<Vec<PathBuf>, Failure> {
    let (mut fit, mut unfit) = (Vec::new(), Vec::new());
    for file in files {
        let file = if file.as_os_str() == "-" { PathBuf::from("/dev/stdin") } else { file.clone() };
        match corpus::check(&file, block) {
            Ok(()) => fit.push(file),
            // A mistyped name. A dangling link is not a mistake, because `*` includes it.
            Err(failure) if file.symlink_metadata().is_err() => return Err(failure),
            Err(failure) => unfit.push(failure),
        }
    }
    if fit.is_empty() {
        return Err(unfit.into_iter().next().unwrap_or_else(|| Failure::new("give files to measure on")));
    }
    unfit.iter().take(SAID).for_each(|failure| say(&format!("left out: {failure}")));
    if let more @ 1.. = unfit.len().saturating_sub(SAID) {
        say(&format!("left out: {more} others"));
    }
    Ok(fit)
}

/// Never replaces an existing file that is not a plot: `--plot *.pages` and `--plot PAGES` are mistakes for
/// `--plot FILE.svg PAGES`.
fn prepare_plot(path: &Path) -> Result<Output, Failure> {
    let mut start = [0; 4];
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    if is_file
        && !File::open(path)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok_and(|()| &start == b"<svg")
    {
        return Err(Failure::new(format!(
            "the file '{}' of --plot exists and is not a plot; give another name, for example --plot chart.svg",
            memfold_escape::path(path)
        )));
    }
    Output::prepare(path, "--plot")
}

fn measure_files(files: &[PathBuf], plan: &Plan) -> Result<Report, Failure> {
    let bar = progress(files.len() * plan.contenders.len());
    let mut rows = Vec::new();
    for file in files {
        let done = measure_file(file, plan, &bar);
        if done.is_err() {
            bar.finish_and_clear();
        }
        rows.append(&mut done?);
    }
    bar.finish_and_clear();
    if plan.passes.is_none()
        && rows.iter().any(|row| row.passes.is_some_and(|passes| passes < measure::PASSES))
    {
        say(
            "some codecs were slow and got fewer than 7 passes; --passes sets their number, and 'passes' in --json reports it",
        );
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        block_bytes: plan.block,
        threshold_bytes: plan.threshold.of(plan.block),
        device_write_mb_s: plan.device.write / 1e6,
        device_read_mb_s: plan.device.read / 1e6,
        totals: rows::totals(&rows),
        rows,
    })
}

/// Measures all codecs on one file.
fn measure_file(file: &Path, plan: &Plan, bar: &ProgressBar) -> Result<Vec<Row>, Failure> {
    let corpus = Corpus::read(file, plan)?;
    let blocks = corpus.blocks();
    let name = memfold_escape::text(file.as_os_str().as_encoded_bytes()).into_owned();
    let longest = plan.block;
    let (mut rows, mut sizes) = (Vec::new(), Vec::new());
    for &contender in &plan.contenders {
        bar.set_message(format!("{}: {}", memfold_escape::line(&name), contender.codec.name()));
        crate::settings::cpu::force(contender.path, "--cpu")?;
        let measured = measure(contender.codec, &blocks, longest, plan.threshold, plan.passes);
        let measured = measured.map_err(|mismatch| {
            Failure::new(format!(
                "{} on '{name}': {mismatch}. This is a bug of memfold or a fault of this machine; please report it, with the file if you can",
                contender.codec.name()
            ))
        })?;
        let mut row = Row::new(&name, plan, corpus.counts, contender, &measured);
        row.sums = Sums::new(&blocks, &measured);
        rows.push(row);
        sizes.push(measured.sizes);
        bar.inc(1);
    }
    let room = sums::room(rows.iter().map(|row| &row.sums));
    for row in &mut rows {
        row.set_sums(row.sums.with_device(room, plan.device));
    }
    if plan.virtual_best {
        add_virtual_best(&mut rows, &sizes, &blocks, plan, corpus.counts);
    }
    Ok(rows)
}

/// Adds a row with the best form of each block among the codecs that are fast enough on this file.
fn add_virtual_best(
    rows: &mut Vec<Row>,
    sizes: &[Vec<Option<usize>>],
    blocks: &[&[u8]],
    plan: &Plan,
    counts: corpus::Counts,
) {
    let Some(file) = rows.first().map(|row| row.file.clone()) else { return };
    // The cost of dictionaries belongs to no single block.
    let is_alone = |row: &Row| row.dictionary_bytes.is_none();
    let is_fast =
        |row: &Row| is_alone(row) && row.sums.compress_speed().is_none_or(|speed| speed >= plan.floor);
    let mut best = vec![None; blocks.len()];
    let mut members: Vec<String> = Vec::new();
    for (row, sizes) in rows.iter().zip(sizes).filter(|(row, _)| is_fast(row)) {
        for (best, size) in best.iter_mut().zip(sizes) {
            *best = [*best, *size].into_iter().flatten().min();
        }
        if !members.contains(&row.codec) {
            members.push(row.codec.clone());
        }
    }
    let sums = Sums::of_sizes(blocks, &best);
    for row in rows.iter_mut().filter(|row| row.compressed_bytes > 0) {
        row.of_virtual_best = Some(sums.compressed() as f64 / row.compressed_bytes as f64);
    }
    let mut row = Row::of_virtual_best(&file, plan, counts, Some(members));
    row.set_sums(sums);
    rows.push(row);
}

/// Pins this thread to its current CPU, because migrations would distort the measurement. If pinning is
/// refused, the measurement is slightly less stable.
fn pin() {
    let pinned = sched_getcpu().and_then(|cpu| {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        sched_setaffinity(Pid::from_raw(0), &set)
    });
    if let Err(e) = pinned {
        say(&format!("cannot stay on one processor ({}): speeds may vary more", e.desc()));
    }
}

/// A progress bar, hidden if standard error is not a terminal.
fn progress(steps: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta:>4} {wide_msg}");
    ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
