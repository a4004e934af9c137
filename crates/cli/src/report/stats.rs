//! The result of a run as the JSON object of `--stats`.

use std::sync::atomic::Ordering::Relaxed;

use memfold_proc::process::Ending;
use memfold_shared::page::{Shared, flags};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use super::seen::{Held, Seen, Spilling};
use super::times::{FaultTimes, fault_times};
use crate::output::text;
use crate::settings::Settings;

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
    /// Peak memory of the tree, including stores and supervisor, each page counted once.
    pub peak_resident_bytes: u64,
    /// Peak logical size of the programs.
    pub peak_logical_bytes: u64,
    /// Peak of the compressed bytes in the stores.
    pub peak_payload_bytes: u64,
    /// Peak of the rest of memfold's memory.
    pub peak_overhead_bytes: u64,
    /// Evicted bytes per compressed byte at the peak of evicted bytes; null if nothing was evicted.
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
    /// CPU time, in user mode, of the processes of the tree that have ended.
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
    /// The share of time for which a thread may wait for memory that was evicted although there was room.
    /// Null if no memory is evicted while there is room.
    pub stall_target: Option<f64>,
    /// The time after which untouched memory is compressed although there is room. Null if this does not
    /// depend on time.
    pub idle_seconds: Option<f64>,
    /// How much memory programs were shown at the end (`--show`). Null if that was what the kernel says.
    pub shown_bytes: Option<u64>,
    /// How `peak_resident_bytes` was measured.
    pub peak_resident_source: &'static str,
    /// The bytes by which the peak exceeded the limit.
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
    /// The figures of the tier; null without one.
    pub spill: Option<Spilling>,
    /// The limit was exceeded, and nothing was left to compress.
    pub is_full: bool,
    /// A part of the tree was not managed, or not until its end.
    #[serde(skip)]
    pub is_partly_managed: bool,
    /// The limit was changed during the run.
    #[serde(skip)]
    pub is_limit_changed: bool,
    /// A process could not map the memory that its compressed pages need.
    #[serde(skip)]
    pub lacks_store: bool,
    /// Memory that is never managed and kept the tree over the limit.
    #[serde(skip)]
    pub held: Option<Held>,
    /// See `Seen`.
    #[serde(skip)]
    pub most_of_others: u64,
}

impl Stats {
    /// Combines the shared page's figures with the supervisor's measurements.
    pub fn new(
        shared: &Shared,
        settings: &Settings,
        command: &[String],
        ending: Ending,
        seen: &Seen,
    ) -> Self {
        // Processes raise the shared peaks every millisecond, but after a fork their sums count pages twice.
        // Then only the supervisor's own measurement is right.
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
            shown_bytes: shared.shown().map(|shown| shown.total),
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
            is_limit_changed: seen.over_changed_limit.is_some(),
            lacks_store: shared.flags.load(Relaxed) & flags::NO_STORE != 0,
            held: seen.held,
            most_of_others: seen.most_of_others,
        }
    }

    /// The JSON object, with a line end.
    pub fn to_json(&self) -> String {
        text::json(self)
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

#[cfg(test)]
pub mod tests {

    use super::*;
    use crate::settings::shared_page::SharedPage;

    pub fn stats(page: &Shared, seen: &Seen) -> Stats {
        Stats::new(page, &Settings::example(), &["prog".into()], Ending::Exited(3), seen)
    }

    #[test]
    fn fields_of_the_contract_come_first_and_in_order() {
        let shared = SharedPage::new(&Settings::example()).unwrap();
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
        let shared = SharedPage::new(&Settings::example()).unwrap();
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
        let shared = SharedPage::new(&Settings::example()).unwrap();
        shared.page.peak_resident.store(200 << 20, Relaxed);
        let seen = Seen { peak_resident: 90 << 20, ..Seen::default() };
        assert_eq!(stats(shared.page, &seen).peak_resident_bytes, 200 << 20);
        let forked = Seen { forked: true, ..seen };
        assert_eq!(stats(shared.page, &forked).peak_resident_bytes, 90 << 20);
    }
}
