//! Charts over time: memory by state, waiting, faults.

use std::fmt::Write;

use super::fields::Numbers;
use crate::output::plot::axes::{bytes_axis, count_axis, short, time_axis};
use crate::output::plot::frame::{Key, Line, Plot, SIDE, path};

/// The parts of the memory, from the bottom up: class, name.
const PARTS: [(&str, &str); 5] = [
    ("area fa", "in place"),
    ("area fs", "standby: evicted, not yet compressed"),
    ("area fc", "compressed"),
    ("area fk", "overhead of memfold"),
    ("area fm", "processes that are not, or not yet, managed"),
];

/// Memory by state.
pub fn memory(numbers: &Numbers) -> String {
    let time = &numbers.time;
    let parts = [
        &time.program_bytes,
        &time.standby_bytes,
        &time.payload_bytes,
        &time.overhead_bytes,
        &time.unmanaged_bytes,
    ];
    let largest = time.resident_bytes.iter().chain(&time.logical_bytes).copied().max().unwrap_or(0);
    let limits = time.limit_bytes.iter().copied().max().unwrap_or(0);
    // A limit far above everything else would flatten the chart, so it is only mentioned.
    let limit_fits = limits as f64 <= largest as f64 * 3.0;
    let (end, y) = bytes_axis(if limit_fits { largest.max(limits) } else { largest });
    let place = |bytes: u64| (1.0 - bytes as f64 / end as f64) * SIDE;
    let scale = Steps::of(numbers);
    let mut plot = Plot {
        id: "memory",
        label: "Memory by state over time, stacked; the limit; the programs' logical size".into(),
        height: 20.0,
        x: time_axis(numbers.seconds()),
        y,
        key: memory_key(numbers, limit_fits),
        ..Plot::default()
    };
    let mut below = vec![0u64; time.resident_bytes.len()];
    for ((class, _), part) in PARTS.iter().zip(parts) {
        let above: Vec<u64> = below.iter().zip(part).map(|(below, part)| below + part).collect();
        if part.iter().any(|bytes| *bytes > 0) {
            let upper = scale.path(&above.iter().map(|bytes| place(*bytes)).collect::<Vec<_>>());
            let lower = scale.backwards(&below.iter().map(|bytes| place(*bytes)).collect::<Vec<_>>());
            plot.svg += &path(class, &format!("{upper}{lower}Z"));
        }
        below = above;
    }
    let line =
        |bytes: &[u64]| scale.points(&bytes.iter().map(|bytes| place(*bytes) / SIDE).collect::<Vec<_>>());
    plot.lines.push(Line { classes: "line ink", points: line(&time.logical_bytes) });
    if limit_fits && !time.limit_bytes.is_empty() {
        plot.lines.push(Line { classes: "line red", points: line(&time.limit_bytes) });
    }
    plot.grid();
    plot.draw()
}

fn memory_key(numbers: &Numbers, limit_fits: bool) -> Vec<Key> {
    let unmanaged = numbers.time.unmanaged_bytes.iter().any(|bytes| *bytes > 0);
    let parts = PARTS.iter().filter(|(class, _)| unmanaged || *class != "area fm");
    let mut key: Vec<Key> = parts.map(|(class, words)| Key { class, words }).collect();
    key.push(Key { class: "line ink", words: "the programs' logical size" });
    if limit_fits {
        key.push(Key { class: "line red", words: "limit" });
    }
    key
}

/// The share of time in which a thread waited, and faults per second.
pub fn waiting(numbers: &Numbers) -> String {
    let time = &numbers.time;
    let by = 1e9 * time.step_seconds;
    let stalled: Vec<f64> = time.stalled_ns.iter().map(|ns| *ns as f64 / by * 100.0).collect();
    let faults: Vec<f64> = time.pages_faulted.iter().map(|count| *count as f64 / time.step_seconds).collect();
    let percent = |value: f64| if value < 1.0 { format!("{value:.1} %") } else { format!("{value:.0} %") };
    let several = if numbers.stats.processes > 1 { ", summed over all processes" } else { "" };
    let first = rate(
        numbers,
        "stall",
        &format!("Share of the time in which a thread waited for memfold{several}"),
        &stalled,
        "area fv",
        &percent,
    );
    let second = rate(numbers, "rate", "Faults on compressed pages by second", &faults, "area fa", &short);
    format!(
        "<h3>Waiting for memfold, share of the time{several}</h3>\n{first}<h3>Faults on compressed pages, by second</h3>\n{second}"
    )
}

fn rate(
    numbers: &Numbers,
    id: &str,
    label: &str,
    values: &[f64],
    class: &str,
    text: &dyn Fn(f64) -> String,
) -> String {
    let (end, y) = count_axis(values.iter().copied().fold(0.0, f64::max), text);
    let heights: Vec<f64> = values.iter().map(|value| (1.0 - value / end) * SIDE).collect();
    let stairs = Steps::of(numbers).stairs(&heights);
    let mut plot = Plot {
        id,
        label: label.into(),
        height: 7.0,
        x: time_axis(numbers.seconds()),
        y,
        svg: path(class, &stairs),
        ..Plot::default()
    };
    plot.grid();
    plot.draw()
}

/// Positions of steps on the time axis.
struct Steps {
    width: f64,
}

impl Steps {
    fn of(numbers: &Numbers) -> Self {
        Steps { width: numbers.time.step_seconds / numbers.seconds() * SIDE }
    }

    /// The middle of a step.
    fn x(&self, step: usize) -> f64 {
        ((step as f64 + 0.5) * self.width).min(SIDE)
    }

    /// A line through the middles of the steps, from edge to edge.
    fn path(&self, heights: &[f64]) -> String {
        let (Some(first), Some(last)) = (heights.first(), heights.last()) else { return String::new() };
        let mut path = format!("M0 {first:.1}");
        for (step, height) in heights.iter().enumerate() {
            let _ = write!(path, "L{:.1} {height:.1}", self.x(step));
        }
        let _ = write!(path, "L{SIDE} {last:.1}");
        path
    }

    /// The same as positions from 0 to 1.
    fn points(&self, heights: &[f64]) -> Vec<(f64, f64)> {
        let (Some(first), Some(last)) = (heights.first(), heights.last()) else { return Vec::new() };
        let middles = heights.iter().enumerate().map(|(step, height)| (self.x(step) / SIDE, *height));
        std::iter::once((0.0, *first)).chain(middles).chain([(1.0, *last)]).collect()
    }

    /// The path from right to left, to close an area.
    fn backwards(&self, heights: &[f64]) -> String {
        let (Some(first), Some(last)) = (heights.first(), heights.last()) else { return String::new() };
        let mut path = format!("L{SIDE} {last:.1}");
        for (step, height) in heights.iter().enumerate().rev() {
            let _ = write!(path, "L{:.1} {height:.1}", self.x(step));
        }
        let _ = write!(path, "L0 {first:.1}");
        path
    }

    /// A bar for each step, without gaps.
    fn stairs(&self, heights: &[f64]) -> String {
        let mut path = format!("M0 {SIDE}");
        for (step, height) in heights.iter().enumerate() {
            let end = ((step + 1) as f64 * self.width).min(SIDE);
            let _ = write!(path, "V{height:.1}H{end:.1}");
        }
        let _ = write!(path, "V{SIDE}Z");
        path
    }
}
