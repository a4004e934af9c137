//! What an analysis comes to: the JSON object of `--json`. Names are added to, never changed.

use memfold_analyze::advice::Outlook;
use memfold_analyze::depend::Dependence;
use memfold_analyze::idle::WorkingSet;
use memfold_analyze::odds::Chance;
use serde::Serialize;

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// Version of memfold.
    pub version: &'static str,
    /// `process`, `core` or `pages`.
    pub kind: &'static str,
    /// What was looked at, as people say it.
    pub what: String,
    /// Private pages that are resident, or that are there.
    pub pages: u64,
    #[allow(missing_docs)]
    pub bytes: u64,
    /// Those that were looked at.
    pub sampled_pages: u64,
    /// How long that took, and all of it.
    pub sampling_seconds: f64,
    #[allow(missing_docs)]
    pub seconds: f64,
    /// The part of the pages that is zeros, and that is another repeated word.
    pub zero_share: f64,
    #[allow(missing_docs)]
    pub same_filled_share: f64,
    /// Patterns of words (CRAMES, figure 2), and the codes of its table I.
    pub patterns: Vec<Pattern>,
    #[allow(missing_docs)]
    pub pbpm_codes: Vec<Pattern>,
    /// By codec and block size; the first is the codec that was asked for, page by page.
    pub ratios: Vec<Ratio>,
    /// Mappings, those with most pages.
    pub mappings: Vec<Part>,
    /// Of how many there are.
    pub mappings_in_all: usize,
    /// How many pages of a hundred compress to less than each 64th of a page: 64 numbers.
    pub size_histogram: Vec<f64>,
    /// How much pages depend on their neighbours.
    pub dependence: Dependence,
    /// How likely pages like these take more than is counted on.
    pub odds: Vec<OddsRow>,
    /// What of a process was in use.
    pub working_set: Option<WorkingSet>,
    /// Limits and what they mean, lowest first.
    pub limits: Vec<Outlook>,
    /// The limit that is recommended.
    pub recommended: Option<Outlook>,
    /// The limit that was asked for.
    pub asked: Option<Outlook>,
    /// For memory of which nobody knows what is in use: the part that is, and what all of it takes then, bytes.
    pub needs: Vec<(f64, u64)>,
}

/// A pattern and its share of the words.
#[derive(Debug, Clone, Serialize)]
pub struct Pattern {
    /// Its letters.
    pub pattern: &'static str,
    /// Of all words.
    pub share: f64,
}

/// A codec with blocks of a size.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// The codec.
    pub codec: &'static str,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Original bytes for each compressed one.
    pub ratio: f64,
    /// In 95 of 100 cases it is within this part of itself.
    pub relative_error: f64,
    /// For a block.
    pub compress_us: f64,
    #[allow(missing_docs)]
    pub decompress_us: f64,
    /// The part of the blocks that are kept as they are.
    pub raw_share: f64,
}

/// A mapping.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// Its name.
    #[serde(serialize_with = "crate::stdout::name")]
    pub name: Vec<u8>,
    /// Its first address.
    pub start: u64,
    /// Private bytes that are resident.
    pub bytes: u64,
    /// As for [`Ratio`]; null if no page of it was looked at.
    pub ratio: Option<f64>,
    #[allow(missing_docs)]
    pub relative_error: Option<f64>,
    /// The part of it that was not used.
    pub idle_share: Option<f64>,
}

/// One of several amounts that pages like these may come to take.
#[derive(Debug, Clone, Serialize)]
pub struct OddsRow {
    /// More than expected by this part.
    pub margin: f64,
    /// Compressed bytes for each byte.
    pub share: f64,
    /// The decimal logarithm of the chance of more.
    pub log10_exceeds: Chance,
    /// The same if neighbours had nothing in common and the sample had no error, as the paper computes it.
    pub log10_exceeds_independent: Chance,
}
