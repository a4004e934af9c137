//! Rows of the result, which `--json` prints and the table and the plot show. The names are a contract: new
//! fields may be added, existing ones never change.

use serde::Serialize;

use super::corpus::Counts;
use super::measure::Measured;
use super::plan::{Contender, Plan};
use super::sums::{Sums, harmonic_mean};

/// The name of the row in which each block takes its best form.
pub const VIRTUAL_BEST: &str = "virtual-best";

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of memfold.
    pub version: &'static str,
    /// Block size in bytes.
    pub block_bytes: usize,
    /// The maximum compressed size of a whole block.
    pub threshold_bytes: usize,
    /// Write speed of the device for the effective speed, MB/s.
    pub device_write_mb_s: f64,
    /// Its read speed.
    pub device_read_mb_s: f64,
    /// One for each file and codec.
    pub rows: Vec<Row>,
    /// One for each codec, over all files.
    pub totals: Vec<Total>,
}

/// One codec on one file. A MB is 10^6 bytes. A field is empty if it was not measured.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// As given.
    pub file: String,
    /// As the registry writes it, or `virtual-best`.
    pub codec: String,
    /// The instruction set used; none for the virtual best.
    pub path: Option<&'static str>,
    /// Block size in bytes.
    pub block_bytes: usize,
    /// Blocks of the file, except omitted ones.
    pub blocks: usize,
    /// Blocks among them of one repeated word, which never reached a codec.
    pub same_filled: usize,
    /// Blocks that are copies of an earlier one and not same-filled.
    pub duplicates: usize,
    /// Blocks that were omitted.
    pub dropped: usize,
    /// Bytes of the blocks given to the codec.
    pub original_bytes: u64,
    /// Bytes that are stored for them.
    pub compressed_bytes: u64,
    /// Original bytes per compressed byte.
    pub ratio: Option<f64>,
    /// Compression speed, including blocks that end as stored raw.
    pub compress_mb_s: Option<f64>,
    /// Decompression speed of the blocks that are not stored raw.
    pub decompress_mb_s: Option<f64>,
    /// Speed of writing to memory and device.
    pub effective_mb_s: Option<f64>,
    /// Speed of reading from memory and device.
    pub effective_read_mb_s: Option<f64>,
    /// Blocks that did not shrink to the threshold.
    pub stored_raw: usize,
    /// Scratch memory of the codec.
    pub compress_scratch_bytes: Option<usize>,
    /// The same for decompression.
    pub decompress_scratch_bytes: Option<usize>,
    /// Bytes of dictionaries and their decompression tables; part of `compressed_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionary_bytes: Option<u64>,
    /// The number of dictionaries that were adopted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionaries: Option<usize>,
    /// Training time in seconds, which the speeds do not include.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training_s: Option<f64>,
    /// The number of passes behind the median.
    pub passes: Option<usize>,
    /// Bytes of the virtual best divided by those of this codec, if the user asked for it.
    pub of_virtual_best: Option<f64>,
    /// Codecs that count for the virtual best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// Every block was restored correctly; this is true in every row.
    pub round_trip: bool,
    /// The sums from which the other fields follow.
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
    /// Files that had something to compress.
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
    /// The worst value of all files.
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

    /// The row of the virtual best of these codecs.
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

    /// Fills in the fields that follow from the sums.
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

    /// Whether both rows belong to the same codec, on any file.
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
