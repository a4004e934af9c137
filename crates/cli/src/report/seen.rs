//! Observations of a run that only the supervisor can make.

use std::time::Duration;

use serde::Serialize;

use super::times::FaultTimes;

/// Observations of the supervisor; see the module.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Peak memory of the tree, each page counted once.
    pub peak_resident: u64,
    /// Peak logical size of the programs.
    pub peak_logical: u64,
    /// The source of `peak_resident`.
    pub source: &'static str,
    /// If the limit was changed: the largest excess over the limit in force at the time. After the limit was
    /// lowered, excess does not count until memory has come below it, or some seconds have passed.
    pub over_changed_limit: Option<u64>,
    /// With a limit that follows what is free: the most that others held at once, in bytes.
    pub most_of_others: u64,
    /// Integrals over time of resident and logical memory: bytes times seconds.
    pub resident_seconds: f64,
    /// See `resident_seconds`.
    pub logical_seconds: f64,
    /// Number of processes that could not be managed.
    pub unmanaged: u64,
    /// The runtime of a process of the tree has stopped, or never began.
    pub stopped: bool,
    /// Number of samples taken.
    pub samples: u64,
    /// Processes may have been related by fork, so that sums of gauges count pages twice.
    pub forked: bool,
    /// The supervisor's own resident memory at the end.
    pub own_resident: u64,
    /// Wall time of the program.
    pub wall: Duration,
    /// The spilling figures, if there is a tier.
    pub spill: Option<Spilling>,
    /// The unmanaged memory of the largest process while the limit was exceeded.
    pub held: Option<Held>,
}

/// Memory that is not managed, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Bytes.
    pub bytes: u64,
    /// The kind of this memory.
    pub what: &'static str,
}

/// Spilling figures, for statistics.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Spilling {
    /// The tier's name, for people.
    pub target: String,
    /// Number of batches written.
    pub batches_put: u64,
    /// Bytes of those.
    pub bytes_put: u64,
    /// Number of reads of parts of batches.
    pub reads: u64,
    /// Number of bytes read.
    pub bytes_read: u64,
    /// The part of `reads` that processes made themselves, from a file.
    pub direct_reads: u64,
    /// Duration of faults whose page was spilled.
    pub fault_us: FaultTimes,
    /// Number of batches deleted so far.
    pub batches_deleted: u64,
    /// Peak of the bytes found on the tier.
    pub bytes_peak: u64,
    /// Number of failed calls of the tier, including retries.
    pub troubles: u64,
    /// The state of the tier: open, full, away, unfit.
    pub health: &'static str,
    /// Maximum number of bytes on the tier, if known.
    pub room_bytes: Option<u64>,
}
