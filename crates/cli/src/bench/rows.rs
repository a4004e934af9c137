//! Rows of the result: what `--json` prints and the table and the plot show.
//! Field names are a contract: they are added to, never changed.

use serde::Serialize;

use crate::bench::corpus::Counts;
use crate::bench::measure::Measured;
use crate::bench::plan::{Contender, Plan};
use crate::bench::sums::{Sums, harmonic_mean};

/// The name of the row in which each block takes its best form.
pub const VIRTUAL_BEST: &str = "virtual-best";

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of memfold.
    pub version: &'static str,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The most bytes that the compressed form of a whole block may take.
    pub threshold_bytes: usize,
    /// Of the device of the effective speed, MB/s.
    pub device_write_mb_s: f64,
    /// The same for reading.
    pub device_read_mb_s: f64,
    /// One for each file and codec.
    pub rows: Vec<Row>,
    /// One for each codec, over all files.
    pub totals: Vec<Total>,
}

/// One codec on one file. MB are 10^6 bytes; nothing stands where nothing was done.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// As given.
    pub file: String,
    /// As the registry writes it, or `virtual-best`.
    pub codec: String,
    /// The instructions used; none for the virtual best.
    pub path: Option<&'static str>,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Blocks of the file, without those that were left out.
    pub blocks: usize,
    /// Of these, blocks of one repeated word, which no codec was given.
    pub same_filled: usize,
    /// Blocks that are a copy of an earlier one and not same-filled.
    pub duplicates: usize,
    /// Blocks that were left out.
    pub dropped: usize,
    /// Bytes of the blocks that the codec was given.
    pub original_bytes: u64,
    /// Bytes that are kept of them.
    pub compressed_bytes: u64,
    /// Original by compressed bytes.
    pub ratio: Option<f64>,
    /// Speed of compression, blocks that end as stored raw included.
    pub compress_mb_s: Option<f64>,
    /// Speed of decompression of the blocks that are not stored raw.
    pub decompress_mb_s: Option<f64>,
    /// Speed into memory and device.
    pub effective_mb_s: Option<f64>,
    /// Speed out of memory and device.
    pub effective_read_mb_s: Option<f64>,
    /// Blocks that did not shrink to the threshold.
    pub stored_raw: usize,
    /// Working memory of the codec.
    pub compress_scratch_bytes: Option<usize>,
    /// The same for decompression.
    pub decompress_scratch_bytes: Option<usize>,
    /// Bytes of dictionaries, with what decompression needs of them; part of `compressed_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionary_bytes: Option<u64>,
    /// Dictionaries that were taken up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionaries: Option<usize>,
    /// Seconds to train them, which are not in the speeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training_s: Option<f64>,
    /// Passes of which the median counts.
    pub passes: Option<usize>,
    /// Bytes of the virtual best by those of this codec, if it was asked for.
    pub of_virtual_best: Option<f64>,
    /// Codecs that count for the virtual best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// Every block came back as it was: there are no other rows.
    pub round_trip: bool,
    /// What the numbers come from.
    #[serde(skip)]
    pub sums: Sums,
}

/// One codec over all files.
#[derive(Debug, Clone, Serialize)]
pub struct Total {
    /// As in the rows.
    pub codec: String,
    /// As in the rows.
    pub path: Option<&'static str>,
    /// Files in which there was something to compress.
    pub files: usize,
    /// Of all files.
    pub blocks: usize,
    /// Of all files.
    pub same_filled: usize,
    /// Of all files.
    pub stored_raw: usize,
    /// Of all files.
    pub original_bytes: u64,
    /// Of all files.
    pub compressed_bytes: u64,
    /// The harmonic mean of the files' ratios.
    pub ratio: Option<f64>,
    /// All bytes over all time.
    pub compress_mb_s: Option<f64>,
    /// All bytes over all time.
    pub decompress_mb_s: Option<f64>,
    /// All bytes over all time.
    pub effective_mb_s: Option<f64>,
    /// All bytes over all time.
    pub effective_read_mb_s: Option<f64>,
    /// As in the rows.
    pub compress_scratch_bytes: Option<usize>,
    /// As in the rows.
    pub decompress_scratch_bytes: Option<usize>,
    /// The mean over the files.
    pub of_virtual_best: Option<f64>,
    /// The worst of the files.
    pub of_virtual_best_worst: Option<f64>,
}

impl Row {
    /// The row of one codec. The effective speeds are filled in by `set_sums`.
    pub fn new(file: &str, plan: &Plan, counts: Counts, contender: Contender, measured: &Measured) -> Self {
        let codec = contender.codec;
        let trained = measured.trained;
        let tables = trained.map_or(0, |trained| trained.encoder);
        Self {
            codec: codec.name().to_owned(),
            path: Some(contender.path.name()),
            compress_scratch_bytes: Some(codec.compress_scratch(plan.block) + tables),
            decompress_scratch_bytes: Some(codec.decompress_scratch(plan.block)),
            dictionary_bytes: trained.map(|trained| trained.bytes),
            dictionaries: trained.map(|trained| trained.versions),
            training_s: trained.map(|trained| trained.time.as_secs_f64()),
            passes: Some(measured.passes),
            ..Self::of_virtual_best(file, plan, counts, None)
        }
    }

    /// The row of the virtual best, made by these codecs.
    pub fn of_virtual_best(file: &str, plan: &Plan, counts: Counts, members: Option<Vec<String>>) -> Self {
        Self {
            file: file.to_owned(),
            codec: VIRTUAL_BEST.to_owned(),
            path: None,
            block_bytes: plan.block,
            blocks: counts.blocks,
            same_filled: counts.same_filled,
            duplicates: counts.duplicates,
            dropped: counts.dropped,
            original_bytes: 0,
            compressed_bytes: 0,
            ratio: None,
            compress_mb_s: None,
            decompress_mb_s: None,
            effective_mb_s: None,
            effective_read_mb_s: None,
            stored_raw: 0,
            compress_scratch_bytes: None,
            decompress_scratch_bytes: None,
            dictionary_bytes: None,
            dictionaries: None,
            training_s: None,
            passes: None,
            of_virtual_best: None,
            members,
            round_trip: true,
            sums: Sums::default(),
        }
    }

    /// Fills in what follows from the sums.
    pub fn set_sums(&mut self, sums: Sums) {
        self.sums = sums;
        self.original_bytes = sums.original;
        self.compressed_bytes = sums.compressed();
        self.stored_raw = sums.raw_blocks;
        self.ratio = sums.ratio();
        self.compress_mb_s = megabytes(sums.compress_speed());
        self.decompress_mb_s = megabytes(sums.decompress_speed());
        self.effective_mb_s = megabytes(sums.effective_speed());
        self.effective_read_mb_s = megabytes(sums.effective_read_speed());
    }

    /// Whether this row and that are of one codec, on whatever file.
    fn is_kin(&self, other: &Row) -> bool {
        self.codec == other.codec && self.path == other.path
    }
}

impl Total {
    fn new(rows: &[&Row]) -> Self {
        let first = rows[0];
        let count = |value: fn(&Row) -> usize| rows.iter().map(|row| value(row)).sum();
        let sums: Sums = rows.iter().map(|row| row.sums).sum();
        let shares = || rows.iter().filter_map(|row| row.of_virtual_best);
        Self {
            codec: first.codec.clone(),
            path: first.path,
            files: rows.iter().filter(|row| row.ratio.is_some()).count(),
            blocks: count(|row| row.blocks),
            same_filled: count(|row| row.same_filled),
            stored_raw: count(|row| row.stored_raw),
            original_bytes: sums.original,
            compressed_bytes: sums.compressed(),
            ratio: harmonic_mean(rows.iter().filter_map(|row| row.ratio)),
            compress_mb_s: megabytes(sums.compress_speed()),
            decompress_mb_s: megabytes(sums.decompress_speed()),
            effective_mb_s: megabytes(sums.effective_speed()),
            effective_read_mb_s: megabytes(sums.effective_read_speed()),
            compress_scratch_bytes: first.compress_scratch_bytes,
            decompress_scratch_bytes: first.decompress_scratch_bytes,
            of_virtual_best: (shares().count() > 0).then(|| shares().sum::<f64>() / shares().count() as f64),
            of_virtual_best_worst: shares().min_by(f64::total_cmp),
        }
    }
}

/// One total for each codec, in the order of the first file's rows.
pub fn totals(rows: &[Row]) -> Vec<Total> {
    let firsts = rows.iter().enumerate().filter(|(i, row)| !rows[..*i].iter().any(|other| other.is_kin(row)));
    firsts
        .map(|(_, first)| Total::new(&rows.iter().filter(|row| row.is_kin(first)).collect::<Vec<_>>()))
        .collect()
}

fn megabytes(speed: Option<f64>) -> Option<f64> {
    speed.map(|speed| speed / 1e6)
}
