//! The result of a run: the JSON object of `--stats`, and the closing line.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memfold_shared::page::{self, Shared};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use crate::held::Held;
use crate::limit::tolerance;
use crate::settings::Settings;
use crate::size::Human;
use crate::spill::Figures;
use crate::stdout;
use crate::supervisor::Seen;
use crate::sys::Ending;

/// Everything that memfold reports about a run. The names are a contract: new ones may be added, existing ones
/// never change.
#[derive(Debug, Clone, Serialize)]
pub struct Stats {
    /// Version of memfold.
    pub version: &'static str,
    /// Exit status of the command.
    pub exit_status: i32,
    /// Wall time of the program.
    pub wall_seconds: f64,
    /// The limit.
    pub limit_bytes: u64,
    /// Peak memory of the tree, stores and supervisor included, each page counted once.
    pub peak_resident_bytes: u64,
    /// Peak logical size of the programs.
    pub peak_logical_bytes: u64,
    /// Peak of the compressed bytes in the stores.
    pub peak_payload_bytes: u64,
    /// Peak of the rest of memfold's memory.
    pub peak_overhead_bytes: u64,
    /// Evicted bytes per compressed byte at the moment when most was evicted; null if nothing was.
    pub compression_ratio: Option<f64>,
    /// Pages compressed on eviction.
    pub pages_compressed: u64,
    /// Faults on pages that were compressed.
    pub pages_faulted: u64,
    /// How long such faults took; null if there were none.
    pub fault_us: FaultTimes,
    /// Processes of the tree.
    pub processes: u64,

    /// The program and its arguments.
    pub command: Vec<String>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// CPU time of those processes of the tree that have ended.
    pub user_seconds: f64,
    /// The same in kernel mode.
    pub system_seconds: f64,
    /// CPU time of memfold's threads in the programs.
    pub runtime_cpu_seconds: f64,
    /// CPU time of the supervisor.
    pub supervisor_cpu_seconds: f64,
    /// Time during which the programs' threads waited for room.
    pub throttled_seconds: f64,
    /// Time during which at least one thread of a process waited for memfold, over all processes.
    pub stalled_seconds: f64,
    /// Mean resident memory of the tree over the run.
    pub mean_resident_bytes: u64,
    /// Mean logical size of the programs.
    pub mean_logical_bytes: u64,
    /// The share of time for which a thread may wait for memory that was evicted although there was room; null if
    /// none is.
    pub stall_target: Option<f64>,
    /// After how long untouched memory is compressed although there is room; null if this does not depend on
    /// time.
    pub idle_seconds: Option<f64>,
    /// How `peak_resident_bytes` was measured.
    pub peak_resident_source: &'static str,
    /// By how much the peak exceeded the limit.
    pub over_limit_bytes: u64,
    /// Peak of the evicted bytes, uncompressed.
    pub peak_evicted_bytes: u64,
    /// Memory of the supervisor.
    pub supervisor_resident_bytes: u64,
    /// Processes of the tree that could not be managed.
    pub processes_unmanaged: u64,
    /// The codec for data that were just evicted.
    pub codec_fast: String,
    /// The codec for data that stay cold.
    pub codec_dense: Option<String>,
    /// Compressed pages that consist of one repeated word.
    pub pages_same_filled: u64,
    /// Pages recompressed by the dense codec.
    pub pages_densified: u64,
    /// Pages restored before they were needed.
    pub pages_prefetched: u64,
    /// Faults on pages that were not yet compressed.
    pub pages_rescued: u64,
    /// Pages evicted without being compressed, because their compressed copy was still valid.
    pub pages_clean: u64,
    /// Blocks evicted.
    pub blocks_evicted: u64,
    /// Pages written to the tier of --spill.
    pub pages_spilled: u64,
    /// Pages fetched from that tier.
    pub pages_fetched: u64,
    /// How often a page stayed resident because no codec makes it smaller.
    pub pages_incompressible: u64,
    /// What the tier did; null without one.
    pub spill: Option<Figures>,
    /// The limit was exceeded, and nothing was left to compress.
    pub is_full: bool,
    /// A part of the tree was not managed, or not until its end.
    #[serde(skip)]
    pub is_partly_managed: bool,
    /// Memory that is never managed and kept the tree over the limit.
    #[serde(skip)]
    pub held: Option<Held>,
}

/// Times of faults in microseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub struct FaultTimes {
    /// Half of the faults took at most this long.
    pub p50: Option<f64>,
    /// 99 of 100 faults took at most this long.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Stats {
    /// Adds up what the page says and what the supervisor measured.
    pub fn new(
        shared: &Shared,
        settings: &Settings,
        command: &[String],
        ending: Ending,
        seen: &Seen,
    ) -> Self {
        // Processes raise the shared peaks every millisecond, but from sums that count pages twice after a fork;
        // after a fork only the supervisor's own measurement is right.
        let peak = |by_processes: u64, own: u64| if seen.forked { own } else { own.max(by_processes) };
        let peak_resident = match seen.source {
            "cgroup" => seen.peak_resident,
            _ => peak(shared.peak_resident.load(Relaxed), seen.peak_resident),
        };
        let (evicted, payload) = (shared.peak_evicted.load(Relaxed), shared.payload_at_peak.load(Relaxed));
        let counters = totals(shared);
        let count = |name: &str| counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value);
        let (user, system) = cpu_seconds(UsageWho::RUSAGE_CHILDREN);
        let own_cpu = cpu_seconds(UsageWho::RUSAGE_SELF);
        // The limit at the end: it may have been changed during the run.
        let limit = shared.limit_bytes.load(Relaxed);
        let (stall_ppm, idle_ms) = (shared.stall_ppm.load(Relaxed), shared.idle_ms.load(Relaxed));
        let mean = |byte_seconds: f64| (byte_seconds / seen.wall.as_secs_f64().max(1e-9)) as u64;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            exit_status: ending.status(),
            wall_seconds: seen.wall.as_secs_f64(),
            limit_bytes: limit,
            peak_resident_bytes: peak_resident,
            peak_logical_bytes: peak(shared.peak_logical.load(Relaxed), seen.peak_logical),
            peak_payload_bytes: shared.peak_payload.load(Relaxed),
            peak_overhead_bytes: shared.peak_overhead.load(Relaxed),
            compression_ratio: (payload > 0).then(|| evicted as f64 / payload as f64),
            pages_compressed: count("pages_compressed"),
            pages_faulted: count("pages_faulted"),
            fault_us: fault_times(&shared.fault_histogram, &shared.fault_max_ns),
            processes: shared.processes.load(Relaxed) + seen.unmanaged,
            command: command.to_vec(),
            signal: match ending {
                Ending::Exited(_) => None,
                Ending::Signalled(signal) => Some(signal),
            },
            user_seconds: user,
            system_seconds: system,
            runtime_cpu_seconds: count("runtime_cpu_ns") as f64 / 1e9,
            supervisor_cpu_seconds: own_cpu.0 + own_cpu.1,
            throttled_seconds: count("throttled_ns") as f64 / 1e9,
            stalled_seconds: count("stalled_ns") as f64 / 1e9,
            mean_resident_bytes: mean(seen.resident_seconds),
            mean_logical_bytes: mean(seen.logical_seconds),
            stall_target: (stall_ppm > 0).then(|| f64::from(stall_ppm) / 1e6),
            idle_seconds: (idle_ms > 0).then(|| f64::from(idle_ms) / 1e3),
            peak_resident_source: seen.source,
            over_limit_bytes: seen.over_changed_limit.unwrap_or(peak_resident.saturating_sub(limit)),
            peak_evicted_bytes: evicted,
            supervisor_resident_bytes: seen.own_resident,
            processes_unmanaged: seen.unmanaged,
            codec_fast: settings.codecs.fast.clone(),
            codec_dense: settings.codecs.dense.clone(),
            pages_same_filled: count("pages_same_filled"),
            pages_densified: count("pages_densified"),
            pages_prefetched: count("pages_prefetched"),
            pages_rescued: count("pages_rescued"),
            pages_clean: count("pages_clean"),
            blocks_evicted: count("blocks_evicted"),
            pages_spilled: count("pages_spilled"),
            pages_fetched: count("pages_fetched"),
            pages_incompressible: count("pages_incompressible"),
            spill: seen.spill.clone(),
            is_full: count("full_looks") > 0,
            is_partly_managed: seen.stopped || seen.unmanaged > 0,
            held: seen.held,
        }
    }

    /// The JSON object, with a line end.
    pub fn to_json(&self) -> String {
        stdout::json(self)
    }

    /// Whether anything was evicted at all.
    pub fn did_evict(&self) -> bool {
        self.pages_compressed > 0 || self.blocks_evicted > 0
    }

    /// Whether the total exceeded the limit by more than the tolerance.
    pub fn passed_limit(&self) -> bool {
        self.over_limit_bytes > tolerance(self.limit_bytes)
    }

    /// The memory that is never managed, if the limit would have been kept without it.
    fn held(&self) -> Option<Held> {
        self.held.filter(|held| held.bytes >= self.over_limit_bytes / 2)
    }

    /// The closing line.
    pub fn closing_line(&self) -> String {
        let limit = Human(self.limit_bytes);
        let peak = Human(self.peak_resident_bytes);
        if !self.did_evict() {
            return match self.passed_limit() {
                false => {
                    format!(
                        "nothing had to be compressed: at most {peak} of the limit of {limit} were in use"
                    )
                }
                true => match self.held() {
                    Some(Held { bytes, what }) => format!(
                        "memory use exceeded the limit of {limit}: {peak} were in use, of which {} {what}; such memory is never compressed",
                        Human(bytes)
                    ),
                    None => format!(
                        "memory use exceeded the limit of {limit}: {peak} were in use, and nothing could be compressed"
                    ),
                },
            };
        }
        let mut line = match self.stall_target {
            None => format!("{} were kept in {peak} (limit {limit})", Human(self.peak_logical_bytes)),
            Some(_) => format!(
                "{} were kept in {} on average ({peak} at most), for which {} waited {:.1} s",
                Human(self.mean_logical_bytes),
                Human(self.mean_resident_bytes),
                if self.processes > 1 { "processes" } else { "it" },
                self.stalled_seconds
            ),
        };
        if self.passed_limit() {
            line += &match (self.held(), self.is_full, self.is_partly_managed) {
                (Some(Held { bytes, what }), _, false) => format!(
                    ", which exceeded the limit: {} {what}, and such memory is never compressed",
                    Human(bytes)
                ),
                (_, _, true) => {
                    ", which exceeded the limit: not every process was managed all the time".into()
                }
                (_, true, _) => ", which exceeded the limit: nothing more could be compressed".into(),
                _ => String::from(
                    ", which exceeded the limit for a moment: memory grew faster than it could be compressed",
                ),
            };
        }
        line += &format!("; {} pages compressed", grouped(self.pages_compressed));
        if let Some(ratio) = self.compression_ratio {
            line += &format!(" to 1/{ratio:.1}");
        }
        line += &format!(", {} restored", grouped(self.pages_faulted));
        if let (Some(half), Some(most)) = (self.fault_us.p50, self.fault_us.p99) {
            line += &format!(" ({half:.0} µs each, 99 % within {most:.0} µs)");
        }
        line += &format!(
            "; cost: {:.1} s of CPU by memfold",
            self.runtime_cpu_seconds + self.supervisor_cpu_seconds
        );
        // The kernel does not report the CPU time of processes that nobody waited for.
        let program = self.user_seconds + self.system_seconds - self.runtime_cpu_seconds;
        if program > 0.0 {
            line += &format!(" beside {program:.1} s by the program");
        }
        if self.throttled_seconds >= 0.05 {
            line += &format!(", {:.1} s of waiting for room", self.throttled_seconds);
        }
        line + &format!(", {:.1} s in all", self.wall_seconds)
    }
}

/// Counters of all processes, ended or not.
fn totals(shared: &Shared) -> Vec<(&'static str, u64)> {
    let mut sums: Vec<_> =
        shared.ended.each().into_iter().map(|(name, value)| (name, value.load(Relaxed))).collect();
    for slot in shared.live_slots() {
        for (sum, (_, value)) in sums.iter_mut().zip(slot.counters.each()) {
            sum.1 += value.load(Relaxed);
        }
    }
    sums
}

fn cpu_seconds(who: UsageWho) -> (f64, f64) {
    getrusage(who).map_or((0.0, 0.0), |usage| {
        let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
        (seconds(usage.user_time()), seconds(usage.system_time()))
    })
}

/// From a histogram that counts by [`page::bucket_of`] and the longest time in ns.
pub fn fault_times(histogram: &[AtomicU64], longest: &AtomicU64) -> FaultTimes {
    let counts: Vec<u64> = histogram.iter().map(|bucket| bucket.load(Relaxed)).collect();
    let all: u64 = counts.iter().sum();
    let longest = longest.load(Relaxed);
    let longest_us = (all > 0).then_some(longest as f64 / 1000.0);
    FaultTimes {
        p50: quantile_us(&counts, longest, 0.5),
        p99: quantile_us(&counts, longest, 0.99),
        max: longest_us,
    }
}

/// The time within which this share of all faults was served, from counts by [`page::bucket_of`]; None if there
/// were no faults.
pub fn quantile_us(counts: &[u64], longest_ns: u64, share: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let rank = (all as f64 * share).ceil() as u64;
    let mut sum = 0;
    let bucket = counts.iter().position(|count| {
        sum += count;
        sum >= rank
    })?;
    // The largest time that falls into the bucket, so that the share is met.
    let end = page::bucket_start(bucket + 1) - 1;
    (all > 0).then_some(end.min(longest_ns) as f64 / 1000.0)
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::OnFull;
    use crate::settings::SharedPage;

    fn settings() -> Settings {
        let codecs = crate::codecs::parse("lz4,zstd:1").unwrap();
        Settings {
            limit: 100 << 20,
            codecs,
            fill_ratio: 56,
            on_full: OnFull::Grow,
            flags: 0,
            proactive: Default::default(),
            spill: None,
            cpu: None,
        }
    }

    fn stats(page: &Shared, seen: &Seen) -> Stats {
        Stats::new(page, &settings(), &["prog".into()], Ending::Exited(3), seen)
    }

    #[test]
    fn fields_of_the_contract_come_first_and_in_order() {
        let shared = SharedPage::new(&settings()).unwrap();
        let json = stats(shared.page, &Seen::default()).to_json();
        let names: Vec<&str> = json
            .lines()
            .filter_map(|line| line.strip_prefix("  \"")?.split_once('"'))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names[..13],
            [
                "version",
                "exit_status",
                "wall_seconds",
                "limit_bytes",
                "peak_resident_bytes",
                "peak_logical_bytes",
                "peak_payload_bytes",
                "peak_overhead_bytes",
                "compression_ratio",
                "pages_compressed",
                "pages_faulted",
                "fault_us",
                "processes"
            ]
        );
    }

    #[test]
    fn counters_of_the_dead_and_the_living() {
        let shared = SharedPage::new(&settings()).unwrap();
        let page = shared.page;
        let dead = page.take_slot(10).unwrap();
        dead.counters.pages_compressed.store(5, Relaxed);
        page.free_slot(dead);
        page.take_slot(11).unwrap().counters.pages_compressed.store(7, Relaxed);
        let stats = stats(page, &Seen { unmanaged: 1, ..Seen::default() });
        assert_eq!((stats.pages_compressed, stats.processes, stats.processes_unmanaged), (12, 3, 1));
    }

    #[test]
    fn peaks_after_a_fork_are_the_supervisors() {
        let shared = SharedPage::new(&settings()).unwrap();
        shared.page.peak_resident.store(200 << 20, Relaxed);
        let seen = Seen { peak_resident: 90 << 20, ..Seen::default() };
        assert_eq!(stats(shared.page, &seen).peak_resident_bytes, 200 << 20);
        let forked = Seen { forked: true, ..seen };
        assert_eq!(stats(shared.page, &forked).peak_resident_bytes, 90 << 20);
    }

    #[test]
    fn quantiles_keep_their_promise() {
        let shared = SharedPage::new(&settings()).unwrap();
        let page = shared.page;
        assert_eq!(
            fault_times(&page.fault_histogram, &page.fault_max_ns),
            FaultTimes { p50: None, p99: None, max: None }
        );
        for ns in 1..=1000u64 {
            page.note_fault(ns * 100);
        }
        let times = fault_times(&page.fault_histogram, &page.fault_max_ns);
        let (p50, p99) = (times.p50.unwrap(), times.p99.unwrap());
        assert!((50.0..=50.0 * 1.07).contains(&p50), "{p50}");
        assert!((99.0..=100.0).contains(&p99), "{p99}");
        assert_eq!(times.max, Some(100.0));
    }

    #[test]
    fn closing_lines() {
        let shared = SharedPage::new(&settings()).unwrap();
        let page = shared.page;
        let seen = Seen { peak_resident: 12 << 20, ..Seen::default() };
        let quiet = stats(page, &seen).closing_line();
        assert!(quiet.contains("nothing had to be compressed") && quiet.contains("12 MiB"), "{quiet}");

        let slot = page.take_slot(1).unwrap();
        slot.counters.pages_compressed.store(123_456, Relaxed);
        slot.evicted.store(300 << 20, Relaxed);
        slot.payload.store(100 << 20, Relaxed);
        page.note_peaks();
        let line = stats(page, &Seen { peak_resident: 99 << 20, ..Seen::default() }).closing_line();
        assert!(line.contains("123,456 pages compressed to 1/3.0") && !line.contains("exceeded"), "{line}");
        let line = stats(page, &Seen { peak_resident: 200 << 20, ..Seen::default() }).closing_line();
        assert!(line.contains("exceeded the limit") && line.contains("for a moment"), "{line}");
        let stopped = Seen { peak_resident: 200 << 20, stopped: true, ..Seen::default() };
        let line = stats(page, &stopped).closing_line();
        assert!(line.contains("not every process was managed") && !line.contains("for a moment"), "{line}");
    }

    #[test]
    fn digits_in_groups() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
