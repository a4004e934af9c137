//! `memfold analyze`: estimates whether compressed memory would help, and how low the limit could be.
//!
//! The crate `memfold-analyze` does the work; this module calls it, paces it, and shows and prints the results.

mod estimate;
mod found;
mod page;
mod subject;
mod text;

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use memfold::size::{self, Human};
use memfold_analyze::advice::{self, Outlooks};
use memfold_analyze::idle::WorkingSet;
use memfold_analyze::index::{self, Index};
use memfold_analyze::measure::Measure;
use memfold_analyze::odds::Odds;
use memfold_analyze::sample::{self, Order};
use memfold_analyze::source::{Source, several};
use memfold_analyze::{PAGE, depend};
use memfold_args::AnalyzeArgs;
use memfold_codec::{Codec, codec};
use memfold_proc::memory;

use crate::output::failure::{Failure, say};
use crate::output::file::Output;
use crate::output::text::{json, print};
use crate::trees;
use found::{Analysis, OddsRow, Part, Pattern, Ratio};
use subject::{Opened, Subject};

/// Codecs that are compared on single pages, and codecs that are compared on larger blocks.
const BY_PAGE: [&str; 7] = ["lz4", "zstd:1", "zstd:3", "pbpm", "wkdm", "auto", "auto:dense"];
const BY_BLOCK: [&str; 3] = ["lz4", "zstd:1", "auto:dense"];
const BLOCK_PAGES: [usize; 3] = [4, 8, 16];
/// Sampling continues until the error of the first ratio is below ERROR, and for at least CLUSTERS clusters.
const ERROR: f64 = 0.005;
const CLUSTERS: u64 = 256;
/// The number of mappings that are listed.
const MAPPINGS: usize = 20;
/// The recommended limit leaves room for compressed data to exceed the expected size by this fraction.
const MARGIN: f64 = 0.05;
/// Fractions by which compressed data may exceed the expected size. The chance of each is listed.
const MARGINS: [f64; 6] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25];
/// Limits that are listed, as fractions of the resident memory.
const LIMITS: [f64; 8] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Assumed shares of memory in use, if the working set is unknown.
const IN_USE: [f64; 4] = [0.1, 0.25, 0.5, 0.75];

/// The exit status if some of several subjects could not be analysed, as with `ls` and `du`.
const SOME_FAILED: i32 = 1;

/// Runs the analysis and returns the exit status.
pub fn analyze(args: &AnalyzeArgs) -> Result<i32, Failure> {
    let subject = Subject::named(&args.what)?;
    let main = codec(&args.codec).map_err(|error| {
        Failure::new(format!(
            "--codec '{}': {error}; 'memfold bench --codec all' lists all codecs",
            args.codec
        ))
    })?;
    let limit = args.limit.as_deref().map(limit).transpose()?;
    for (option, value) in [("--idle", args.idle), ("--time", args.time), ("--slowdown", args.slowdown)] {
        if !(0.0..=86_400.0).contains(&value) {
            return Err(Failure::new(format!("{option} {value}: give a number from 0 to 86400")));
        }
    }
    if let Subject::Processes(pids) = &subject {
        pids.iter().filter(|pid| trees::is_member(**pid)).for_each(|pid| {
            say(&format!(
                "process {pid} runs under memfold: only what is resident is analysed, memfold's own memory included; for a recommendation, analyse it in a plain run"
            ));
        });
    }
    let report = args.report.as_deref().map(|path| Output::prepare(path, "--report")).transpose()?;
    let begin = Instant::now();
    let bar = bar(args.quiet);

    let opened = subject.open(args.idle, &bar)?;
    let index = Index::new(opened.source.mappings());
    let sampling = Instant::now();
    bar.set_message("compressing");
    let (measure, order) = measure(&*opened.source, &index, main, args.time, &bar)?;
    bar.finish_and_clear();
    if measure.pages.is_empty() {
        return Err(subject.vanished(&opened));
    }
    let failed = !opened.failed.is_empty();
    let mut analysis = found(opened, &index, &measure, order.clusters(), sampling.elapsed());
    foretell(&mut analysis, &measure, order.clusters(), limit, args.slowdown / 100.0);
    analysis.seconds = begin.elapsed().as_secs_f64();

    print(&if args.json { json(&analysis) } else { text::write(&analysis) })?;
    if let Some(report) = report {
        report
            .write(page::write(&analysis).as_bytes())
            .map_err(|error| Failure::new(format!("the report could not be written: {error}")))?;
    }
    Ok(if failed { SOME_FAILED } else { 0 })
}

/// The measurements, without the conclusions.
fn found(opened: Opened, index: &Index, measure: &Measure, clusters: u64, sampling: Duration) -> Analysis {
    let share = |count: u64| count as f64 / measure.pages.len() as f64;
    let source = &*opened.source;
    Analysis {
        version: env!("CARGO_PKG_VERSION"),
        kind: opened.kind,
        what: opened.what,
        pages: index.pages(),
        bytes: index.pages() * PAGE as u64,
        sampled_pages: measure.pages.len() as u64,
        sampling_seconds: sampling.as_secs_f64(),
        seconds: 0.0,
        zero_share: share(measure.zeros),
        same_filled_share: share(measure.same),
        patterns: shares(memfold_codec::patterns::NAMES.into_iter().zip(measure.patterns.shares())),
        pbpm_codes: shares(measure.patterns.coded()),
        ratios: ratios(measure, clusters),
        mappings: mappings(source, measure, &opened.set, clusters),
        mappings_in_all: source.mappings().len(),
        size_histogram: histogram(measure),
        dependence: depend::measure(&measure.pages, index.pages()),
        odds: Vec::new(),
        working_set: opened.set,
        limits: Vec::new(),
        recommended: None,
        asked: None,
        needs: Vec::new(),
    }
}

fn limit(text: &str) -> Result<u64, Failure> {
    let size = size::parse(text).map_err(|why| {
        Failure::new(format!(
            "the limit '{text}' {why}; give a size like 512M, 1.5G, or 50% of this machine's memory"
        ))
    })?;
    Ok(size.of(memory::usable().unwrap_or(0)))
}

fn bar(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:22} {bar:40} {percent:>3} %");
    let bar = ProgressBar::new(1000);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Compresses clusters until the error is small enough, the time is up, or no clusters are left.
fn measure(
    source: &dyn Source,
    index: &Index,
    main: &'static dyn Codec,
    seconds: f64,
    bar: &ProgressBar,
) -> Result<(Measure, Order), Failure> {
    let known = |name: &str| codec(name).ok();
    let by_page =
        BY_PAGE.iter().filter_map(|name| Some((known(name)?, 1))).filter(|(it, _)| it.name() != main.name());
    let by_block = BLOCK_PAGES
        .iter()
        .flat_map(|pages| BY_BLOCK.iter().filter_map(|name| Some((known(name)?, *pages))))
        .chain(BLOCK_PAGES.iter().map(|pages| (main, *pages)).filter(|_| !BY_BLOCK.contains(&main.name())));
    let mut measure = Measure::new(main, by_page.chain(by_block));
    let mut order = Order::new(index.pages());
    let (begin, time) = (Instant::now(), Duration::from_secs_f64(seconds));
    while let Some(number) = order.next() {
        let cluster = sample::read(source, index, number);
        // The slower codecs get most of the time, in equal parts.
        let by_all = measure.aside() <= begin.elapsed().mul_f64(0.75);
        measure.add(&cluster, by_all).map_err(|it| {
            Failure::new(format!(
                "the codec {} did not restore the bytes that it was given: please report this",
                it.0
            ))
        })?;
        let (first, spent) = (&measure.trials()[0].sums, begin.elapsed());
        let enough = first.clusters >= CLUSTERS
            && first.relative_error(order.clusters()) <= ERROR
            && measure.trials()[1..].iter().all(|trial| trial.sums.clusters >= CLUSTERS);
        if enough || spent >= time && first.clusters >= 8 {
            break;
        }
        let done =
            (spent.as_secs_f64() / seconds.max(0.001)).max(first.clusters as f64 / order.clusters() as f64);
        bar.set_position(500 + (done.min(1.0) * 500.0) as u64);
    }
    Ok((measure, order))
}

fn shares(patterns: impl IntoIterator<Item = (&'static str, f64)>) -> Vec<Pattern> {
    patterns.into_iter().map(|(pattern, share)| Pattern { pattern, share }).collect()
}

fn ratios(measure: &Measure, clusters: u64) -> Vec<Ratio> {
    let ratio = |(number, trial): (usize, &memfold_analyze::measure::Trial)| {
        let (share, relative_error) = measure.share(number, clusters)?;
        let (compress_us, decompress_us) = trial.sums.microseconds();
        Some(Ratio {
            codec: trial.codec.name(),
            block_bytes: trial.pages * PAGE,
            ratio: 1.0 / share,
            relative_error: relative_error.min(1.0),
            compress_us,
            decompress_us,
            raw_share: trial.sums.raw as f64 / trial.sums.blocks.max(1) as f64,
        })
    };
    measure.trials().iter().enumerate().filter_map(ratio).collect()
}

fn mappings(source: &dyn Source, measure: &Measure, set: &Option<WorkingSet>, clusters: u64) -> Vec<Part> {
    let all = source.mappings();
    let pages: u64 = all.iter().map(|mapping| mapping.pages()).sum();
    let part = |place: usize| {
        let mapping = &all[place];
        let sums = measure.by_mapping.get(&place);
        // A mapping's share of the clusters equals its share of the pages.
        let own = (clusters as f64 * mapping.pages() as f64 / pages.max(1) as f64).ceil() as u64;
        let idle = set.as_ref().and_then(|set| set.by_mapping.get(&mapping.start));
        Part {
            name: mapping.name.clone(),
            start: several::within(mapping.start),
            bytes: mapping.pages() * PAGE as u64,
            ratio: sums.and_then(|it| it.ratio()),
            relative_error: sums.map(|it| it.relative_error(own.max(it.clusters)).min(1.0)),
            idle_share: idle.map(|(resident, used)| 1.0 - *used as f64 / (*resident).max(1) as f64),
        }
    };
    index::largest(all, MAPPINGS).into_iter().map(part).collect()
}

/// The percentage of pages for each 64th of a page.
fn histogram(measure: &Measure) -> Vec<f64> {
    let mut bins = vec![0.0; 64];
    for page in &measure.pages {
        bins[(usize::from(page.bytes).saturating_sub(1) / (PAGE / 64)).min(63)] +=
            100.0 / measure.pages.len() as f64;
    }
    bins
}

/// Computes chances, limits and the recommended limit.
fn foretell(analysis: &mut Analysis, measure: &Measure, clusters: u64, limit: Option<u64>, slowdown: f64) {
    let Some((share, relative)) = measure.share(0, clusters) else { return };
    // The interval is 1.96 standard deviations.
    let error = share * relative / 1.96;
    let inflation = analysis.dependence.inflation;
    let odds = |pages: f64| Odds::new(&measure.pages, pages, inflation, error);
    let all = analysis.pages as f64;
    if let (Some(real), Some(naive)) = (odds(all), Odds::new(&measure.pages, all, 1.0, 0.0)) {
        let row = |margin: f64| OddsRow {
            margin,
            share: share * (1.0 + margin),
            log10_exceeds: real.exceeds(real.mean() * (1.0 + margin)),
            log10_exceeds_independent: naive.exceeds(naive.mean() * (1.0 + margin)),
        };
        analysis.odds = MARGINS.into_iter().map(row).collect();
    }
    analysis.needs = IN_USE.map(|part| (part, advice::needs(analysis.bytes, share, part))).to_vec();
    let Some(set) = &analysis.working_set else { return };
    let decompress_us = analysis.ratios.first().map_or(0.0, |it| it.decompress_us);
    let outlooks = Outlooks { set, share, decompress_us, odds: &odds };
    let resident = set.resident_bytes as f64;
    analysis.limits = LIMITS.iter().map(|part| outlooks.of((resident * part) as u64)).collect();
    analysis.asked = limit.map(|limit| outlooks.of(limit));
    analysis.recommended = outlooks.recommended(slowdown, MARGIN + relative.min(1.0));
}

/// A ratio and half of its confidence interval.
fn ratio_words(ratio: &Ratio) -> String {
    format!("{:.2} ± {:.2}", ratio.ratio, ratio.ratio * ratio.relative_error)
}

/// Like `Human`, for tables.
fn human(bytes: u64) -> String {
    Human(bytes).to_string()
}
