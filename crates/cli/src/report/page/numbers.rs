//! Collects all numbers of a report, which its page embeds as one JSON object.

use std::sync::atomic::Ordering::Relaxed;

use memfold_proc::PAGE;
use memfold_shared::page::{Shared, bucket_start};
use memfold_shared::trail;

use super::advice;
use super::fields::{
    Block, Density, Faults, Latencies, LeftOut, Map, Numbers, Page, Pages, Row, Sizes, Time,
};
use crate::report::record::Records;
use crate::report::record::latency::{CLASSES, class_of, class_start};
use crate::report::record::processes::{self, OTHERS, Process};
use crate::report::record::steps::{COLUMN, Counts, Gauges};
use crate::report::stats::Stats;
use crate::report::times::quantile_us;

/// The number of pages that are listed.
const PAGES: usize = 20;

impl<'a> Numbers<'a> {
    /// Collects all numbers.
    pub fn new(shared: &Shared, stats: &'a Stats, records: &Records) -> Self {
        let sizes = sizes(shared);
        let list = &records.processes.list;
        let pid = |number: u32| list.get(number as usize).map(|process| process.pid);
        let rows = records.space.rows().map(|(number, address, row)| {
            let [faults, pages_compressed] = row.sums();
            let cells = row.cells.iter().enumerate().filter(|(_, cell)| **cell != [0, 0]);
            Block {
                pid: pid(number),
                address,
                mapping: row.name.text().map(str::to_owned),
                faults,
                pages_compressed,
                cells: cells.map(|(column, cell)| (column, cell[0], cell[1])).collect(),
            }
        });
        let column_seconds = records.steps.step_seconds() * COLUMN as f64;
        let space = Map {
            column_seconds,
            block_bytes: records.space.block_bytes(),
            rows: rows.collect(),
            faults_left_out: records.space.left_out[0],
            pages_compressed_left_out: records.space.left_out[1],
        };
        let top = records.often.top(PAGES);
        let pages = top.into_iter().map(|((number, page), count)| Page {
            pid: pid(number),
            address: page * PAGE,
            mapping: count.name.text().map(str::to_owned),
            faults: count.faults.into(),
            faults_at_most: u64::from(count.faults) + records.often.error,
        });
        let (more, sums) = &records.processes.more;
        let mut numbers = Numbers {
            format: 1,
            stats,
            peak_saved_bytes: records.peak_saved,
            stall_share: stats.stalled_seconds / stats.wall_seconds.max(1e-9),
            faults: faults(shared, records),
            sizes,
            time: time(records),
            latency: latency(records, column_seconds),
            space,
            processes: list.iter().map(|process| row(shared, process)).collect(),
            processes_left_out: LeftOut {
                count: *more,
                pages_compressed: processes::count(shared, sums, "pages_compressed"),
                pages_faulted: processes::count(shared, sums, "pages_faulted"),
            },
            pages: Pages { error: records.often.error, list: pages.collect() },
            advice: Vec::new(),
        };
        numbers.advice = advice::of(&numbers);
        numbers
    }

    /// The numbers as JSON that can be embedded in a page: nothing in it ends the element.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_else(|e| unreachable!("plain fields: {e}"));
        memfold_escape::json(&text).replace('<', "\\u003c")
    }

    /// The end of the time axes.
    pub fn seconds(&self) -> f64 {
        self.stats.wall_seconds.max(1e-3)
    }
}

fn sizes(shared: &Shared) -> Sizes {
    let counts = shared.trail().map(|trail| trail.sizes.each_ref().map(|count| count.load(Relaxed)));
    let counts = counts.unwrap_or([0; trail::SIZES]);
    let pages = counts[trail::size_class(1)..].to_vec();
    Sizes {
        zeros: counts[trail::ZEROS],
        repeated: counts[trail::REPEATED],
        step_bytes: trail::SIZE_STEP as u64,
        incompressible: pages.last().copied().unwrap_or(0),
        pages,
    }
}

fn faults(shared: &Shared, records: &Records) -> Faults {
    let counts: Vec<u64> = shared.fault_histogram.iter().map(|bucket| bucket.load(Relaxed)).collect();
    let longest = shared.fault_max_ns.load(Relaxed);
    let quantile = |share| quantile_us(&counts, longest, share);
    let timed: u64 = counts.iter().sum();
    let mut classes = [0; CLASSES];
    for (bucket, count) in counts.iter().enumerate() {
        classes[class_of(bucket_start(bucket))] += count;
    }
    let used = classes
        .iter()
        .position(|count| *count > 0)
        .map_or(0..0, |first| first..classes.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
    let density = used.map(|class| Density {
        from_us: from_us(class),
        to_us: class_start(class + 1) as f64 / 1e3,
        faults: classes[class],
    });
    Faults {
        timed,
        seen: records.faults_seen,
        events_lost: records.lost(),
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        p99_9_us: quantile(0.999),
        max_us: (timed > 0).then_some(longest as f64 / 1e3),
        density: density.collect(),
    }
}

fn from_us(class: usize) -> f64 {
    if class == 0 { 0.0 } else { class_start(class) as f64 / 1e3 }
}

fn time(records: &Records) -> Time {
    let steps = records.steps.steps();
    let gauge = |of: fn(&Gauges) -> u64| steps.iter().map(|(gauges, _)| of(gauges)).collect();
    let count = |of: fn(&Counts) -> u64| steps.iter().map(|(_, counts)| of(counts)).collect();
    Time {
        step_seconds: records.steps.step_seconds(),
        program_bytes: gauge(|it| it.program),
        standby_bytes: gauge(|it| it.standby),
        payload_bytes: gauge(|it| it.payload),
        overhead_bytes: gauge(|it| it.overhead),
        unmanaged_bytes: gauge(|it| it.others),
        resident_bytes: gauge(|it| it.resident),
        logical_bytes: gauge(|it| it.logical),
        limit_bytes: gauge(|it| it.limit),
        pages_faulted: count(|it| it.faults),
        pages_rescued: count(|it| it.rescued),
        pages_compressed: count(|it| it.compressed),
        stalled_ns: count(|it| it.stalled_ns),
        throttled_ns: count(|it| it.throttled_ns),
    }
}

fn latency(records: &Records, column_seconds: f64) -> Latencies {
    let columns = records.latency.columns().iter().map(|column| {
        let counts = column.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0).collect()
    });
    let classes_from_us = (0..CLASSES).map(from_us).collect();
    Latencies { column_seconds, classes_from_us, columns: columns.collect() }
}

fn row(shared: &Shared, process: &Process) -> Row {
    let count = |name| processes::count(shared, &process.sums, name);
    let (evicted, payload) = process.peak_evicted;
    Row {
        pid: process.pid,
        parent: process.parent,
        command: process.command.clone(),
        from_seconds: process.from,
        to_seconds: process.to,
        state: match process {
            Process { why: Some(_), .. } | Process { managed: false, .. } => "not managed",
            Process { stopped: true, .. } => "stopped",
            _ => "managed",
        },
        why: process.why.clone(),
        peak_resident_bytes: process.peak_resident,
        peak_saved_bytes: process.peak_saved,
        compression_ratio: (payload > 0).then(|| evicted as f64 / payload as f64),
        pages_compressed: count("pages_compressed"),
        pages_faulted: count("pages_faulted"),
        pages_rescued: count("pages_rescued"),
        stalled_seconds: count("stalled_ns") as f64 / 1e9,
        throttled_seconds: count("throttled_ns") as f64 / 1e9,
        runtime_cpu_seconds: count("runtime_cpu_ns") as f64 / 1e9,
    }
}

const _: () = assert!(OTHERS as usize > processes::PROCESSES);
