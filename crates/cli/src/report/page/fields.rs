//! The JSON of a report. The names are a contract (docs/report.md): new ones may be added, existing ones never
//! change.

use serde::Serialize;

use crate::report::stats::Stats;

/// All numbers of a report.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Numbers<'a> {
    pub format: u32,
    pub stats: &'a Stats,
    /// The peak of the difference between the programs' logical size and their resident memory.
    pub peak_saved_bytes: u64,
    /// Stalled time divided by wall time.
    pub stall_share: f64,
    pub faults: Faults,
    pub sizes: Sizes,
    pub time: Time,
    pub latency: Latencies,
    pub space: Map,
    pub processes: Vec<Row>,
    pub processes_left_out: LeftOut,
    pub pages: Pages,
    pub advice: Vec<Advice>,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Its subject: a word that stays the same in all versions.
    pub about: &'static str,
    /// The text; commands to type are in backticks.
    pub text: String,
    /// The limit that it recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// Faults on compressed pages.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Faults {
    /// Faults whose time was measured: the basis of the quantiles and the density.
    pub timed: u64,
    /// The faults among them that were seen individually: the basis of the maps and the list of pages.
    pub seen: u64,
    /// Events of all kinds that came too fast to be recorded.
    pub events_lost: u64,
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p99_9_us: Option<f64>,
    pub max_us: Option<f64>,
    /// The distribution, in classes of half a doubling.
    pub density: Vec<Density>,
}

#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Density {
    pub from_us: f64,
    pub to_us: f64,
    pub faults: u64,
}

/// The sizes that pages were compressed to on eviction.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Sizes {
    /// Pages of zeros.
    pub zeros: u64,
    /// Pages of one other repeated word.
    pub repeated: u64,
    /// The width of a size class: the first class holds pages of up to `step_bytes`.
    pub step_bytes: u64,
    pub pages: Vec<u64>,
    /// The pages of the last class, which did not become smaller.
    pub incompressible: u64,
}

/// Columns of equal length, one value for each step.
#[allow(missing_docs)]
#[derive(Debug, Default, Serialize)]
pub struct Time {
    pub step_seconds: f64,
    pub program_bytes: Vec<u64>,
    pub standby_bytes: Vec<u64>,
    pub payload_bytes: Vec<u64>,
    pub overhead_bytes: Vec<u64>,
    pub unmanaged_bytes: Vec<u64>,
    pub resident_bytes: Vec<u64>,
    pub logical_bytes: Vec<u64>,
    pub limit_bytes: Vec<u64>,
    pub pages_faulted: Vec<u64>,
    pub pages_rescued: Vec<u64>,
    pub pages_compressed: Vec<u64>,
    pub stalled_ns: Vec<u64>,
    pub throttled_ns: Vec<u64>,
}

/// Faults by time and latency.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Latencies {
    pub column_seconds: f64,
    pub classes_from_us: Vec<f64>,
    /// For each column, pairs of class and count; counts of zero are omitted.
    pub columns: Vec<Vec<(usize, u32)>>,
}

/// Faults and pages compressed, by time and address.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Map {
    pub column_seconds: f64,
    pub block_bytes: u64,
    pub rows: Vec<Block>,
    pub faults_left_out: u64,
    pub pages_compressed_left_out: u64,
}

#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Block {
    /// Null if the process had no room in the list.
    pub pid: Option<i32>,
    pub address: u64,
    pub mapping: Option<String>,
    pub faults: u64,
    pub pages_compressed: u64,
    /// Column, faults and pages compressed; empty cells are omitted.
    pub cells: Vec<(usize, u32, u32)>,
}

#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Row {
    pub pid: i32,
    pub parent: i32,
    pub command: String,
    pub from_seconds: f64,
    /// Null if it still ran when the program ended.
    pub to_seconds: Option<f64>,
    /// managed, stopped, or not managed.
    pub state: &'static str,
    /// Why it is not managed.
    pub why: Option<String>,
    pub peak_resident_bytes: u64,
    pub peak_saved_bytes: u64,
    pub compression_ratio: Option<f64>,
    pub pages_compressed: u64,
    pub pages_faulted: u64,
    pub pages_rescued: u64,
    pub stalled_seconds: f64,
    pub throttled_seconds: f64,
    pub runtime_cpu_seconds: f64,
}

/// Processes without room in the list.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct LeftOut {
    pub count: u64,
    pub pages_compressed: u64,
    pub pages_faulted: u64,
}

/// The pages with the most faults.
#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Pages {
    /// A count may be too small by at most this much.
    pub error: u64,
    pub list: Vec<Page>,
}

#[allow(missing_docs)]
#[derive(Debug, Serialize)]
pub struct Page {
    pub pid: Option<i32>,
    pub address: u64,
    pub mapping: Option<String>,
    /// At least this many, of those that were seen.
    pub faults: u64,
    /// And at most this many.
    pub faults_at_most: u64,
}
