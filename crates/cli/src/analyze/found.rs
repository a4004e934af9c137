//! The result of an analysis: the JSON object of `--json`. New names may be added, existing ones never change.

use memfold_analyze::advice::Outlook;
use memfold_analyze::depend::Dependence;
use memfold_analyze::idle::WorkingSet;
use memfold_analyze::odds::Chance;
use serde::Serialize;

/// The whole result.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// Version of memfold.
    pub version: &'static str,
    /// `process`, `core` or `pages`.
    pub kind: &'static str,
    /// What was examined, in words.
    pub what: String,
    /// Private pages that are resident or, in a file, present.
    pub pages: u64,
    #[allow(missing_docs)]
    pub bytes: u64,
    /// The pages that were sampled.
    pub sampled_pages: u64,
    /// How long sampling took, and how long everything took.
    pub sampling_seconds: f64,
    #[allow(missing_docs)]
    pub seconds: f64,
    /// The share of pages that are zeros, and of those that are another repeated word.
    pub zero_share: f64,
    #[allow(missing_docs)]
    pub same_filled_share: f64,
    /// Patterns of words (CRAMES, figure 2), and the codes of its table I.
    pub patterns: Vec<Pattern>,
    #[allow(missing_docs)]
    pub pbpm_codes: Vec<Pattern>,
    /// By codec and block size. The first is the requested codec, on single pages.
    pub ratios: Vec<Ratio>,
    /// The mappings with the most pages.
    pub mappings: Vec<Part>,
    /// The total number of mappings.
    pub mappings_in_all: usize,
    /// The percentage of pages that compress to each 64th of a page: 64 numbers.
    pub size_histogram: Vec<f64>,
    /// How much pages depend on their neighbours.
    pub dependence: Dependence,
    /// How likely pages like these are to take more than planned for.
    pub odds: Vec<OddsRow>,
    /// The memory of a process that was in use.
    pub working_set: Option<WorkingSet>,
    /// Limits and their consequences, lowest first.
    pub limits: Vec<Outlook>,
    /// The recommended limit.
    pub recommended: Option<Outlook>,
    /// The limit that the user asked about.
    pub asked: Option<Outlook>,
    /// If the working set is unknown: pairs of an assumed share in use and the total bytes needed in that
    /// case.
    pub needs: Vec<(f64, u64)>,
}

/// A pattern and its share of the words.
#[derive(Debug, Clone, Serialize)]
pub struct Pattern {
    /// Its letters.
    pub pattern: &'static str,
    /// Share of all words.
    pub share: f64,
}

/// A codec with blocks of one size.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// The codec.
    pub codec: &'static str,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Original bytes per compressed byte.
    pub ratio: f64,
    /// With 95 % confidence, the true ratio is within this fraction of `ratio`.
    pub relative_error: f64,
    /// Time per block.
    pub compress_us: f64,
    #[allow(missing_docs)]
    pub decompress_us: f64,
    /// The share of blocks that are stored raw.
    pub raw_share: f64,
}

/// A mapping.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// Its name.
    #[serde(serialize_with = "crate::output::text::name")]
    pub name: Vec<u8>,
    /// Its first address.
    pub start: u64,
    /// Private bytes that are resident.
    pub bytes: u64,
    /// As in [`Ratio`]; null if none of its pages was sampled.
    pub ratio: Option<f64>,
    #[allow(missing_docs)]
    pub relative_error: Option<f64>,
    /// The share of its bytes that was not used.
    pub idle_share: Option<f64>,
}

/// One of several amounts that pages like these may take.
#[derive(Debug, Clone, Serialize)]
pub struct OddsRow {
    /// The fraction by which it exceeds the expected amount.
    pub margin: f64,
    /// Compressed bytes per byte.
    pub share: f64,
    /// The decimal logarithm of the chance of exceeding it.
    pub log10_exceeds: Chance,
    /// The same if neighbours were independent and the sample had no error, as in the paper.
    pub log10_exceeds_independent: Chance,
}
