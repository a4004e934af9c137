//! Maps of counts: latencies over time and as a density, addresses over time, compressed sizes.

use std::fmt::Write;

use super::fields::{Block, Numbers};
use crate::output::plot::axes::{count_axis, log_ticks, short, time_axis, us_text};
use crate::output::plot::frame::{Cells, Key, Line, Note, Plot, SIDE, path};
use crate::output::text::grouped;
use crate::report::record::latency::{class_of, class_start};

/// Height, in rows, of a gap between blocks that are not adjacent.
const GAP: f64 = 0.5;
/// Height, in rows, of a gap between processes.
const WIDE_GAP: f64 = 1.5;

/// Faults by time and latency.
pub fn latency(numbers: &Numbers) -> String {
    let map = &numbers.latency;
    let classes = || map.columns.iter().flatten().map(|(class, _)| *class);
    let (Some(first), Some(last)) = (classes().min(), classes().max()) else { return String::new() };
    let rows = last - first + 1;
    let largest = map.columns.iter().flatten().map(|(_, count)| *count).max().unwrap_or(0);
    let width = numbers.seconds() / map.column_seconds;
    let mut cells = Cells::new(largest, width);
    for class in (first..=last).rev() {
        for (column, counts) in map.columns.iter().enumerate() {
            if let Some((_, count)) = counts.iter().find(|(own, _)| *own == class) {
                cells.add(column, (last - class) as f64, *count);
            }
        }
    }
    let mut plot = Plot {
        id: "latency",
        label: "Faults by time and latency; darker is more".into(),
        height: (rows as f64 * 0.62).clamp(6.0, 16.0),
        x: time_axis(numbers.seconds()),
        y: latency_words(first, last),
        view: Some((width, rows as f64)),
        svg: cells.draw(),
        ..Plot::default()
    };
    plot.outline();
    plot.draw() + &Cells::scale(largest, "faults in a cell")
}

/// Labels at bounds of classes, which are 1, 1.5, 2, 3, 4, ... times the first bound.
fn latency_words(first: usize, last: usize) -> Vec<(f64, String)> {
    let (low, high) = (class_start(first) as f64 / 1e3, class_start(last + 1) as f64 / 1e3);
    let place = |us: f64| {
        let class = class_of((us * 1e3) as u64);
        let (from, to) = (class_start(class) as f64 / 1e3, class_start(class + 1) as f64 / 1e3);
        let within = ((us - from) / (to - from)).clamp(0.0, 1.0);
        (class as f64 + within - first as f64) / (last - first + 1) as f64
    };
    log_ticks(low, high).into_iter().map(|us| (place(us), us_text(us))).collect()
}

/// The distribution of fault times, with quantiles.
pub fn density(numbers: &Numbers) -> String {
    let faults = &numbers.faults;
    let (Some(first), Some(last)) = (faults.density.first(), faults.density.last()) else {
        return String::new();
    };
    let most = faults.density.iter().map(|it| it.faults).max().unwrap_or(1);
    let low = first.from_us.max(first.to_us / 2.0);
    let (from, to) = (low.ln(), last.to_us.ln());
    let x = |us: f64| ((us.max(low).ln() - from) / (to - from)).clamp(0.0, 1.0);
    let share = |count: f64| count / faults.timed.max(1) as f64 * 100.0;
    let percent = |value: f64| if value < 1.0 { format!("{value:.1} %") } else { format!("{value:.0} %") };
    let (end, y) = count_axis(share(most as f64), percent);
    let mut stairs = format!("M0 {SIDE}");
    for class in &faults.density {
        let height = (1.0 - share(class.faults as f64) / end) * SIDE;
        let _ = write!(stairs, "V{height:.1}H{:.1}", x(class.to_us) * SIDE);
    }
    let mut plot = Plot {
        id: "density",
        label: "Distribution of the latency of faults".into(),
        height: 9.0,
        x: log_ticks(low, last.to_us).into_iter().map(|us| (x(us), us_text(us))).collect(),
        y,
        svg: path("area fa", &format!("{stairs}V{SIDE}Z")),
        ..Plot::default()
    };
    let quantiles = [
        ("half", faults.p50_us),
        ("90 %", faults.p90_us),
        ("99 %", faults.p99_us),
        ("99.9 %", faults.p99_9_us),
        ("max", faults.max_us),
    ];
    for (words, us) in quantiles {
        let Some(at) = us.map(x) else { continue };
        plot.lines.push(Line { classes: "thin", points: vec![(at, 0.0), (at, 1.0)] });
        plot.notes.push(Note { at, words });
    }
    plot.grid();
    plot.draw()
}

/// Faults by time and address.
pub fn space(numbers: &Numbers) -> String {
    let map = &numbers.space;
    if map.rows.is_empty() {
        return String::new();
    }
    let largest = map.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.1).max().unwrap_or(0);
    let width = numbers.seconds() / map.column_seconds;
    let (mut cells, mut y, mut groups) = (Cells::new(largest, width), 0.0, Vec::<Group>::new());
    let mut before: Option<&Block> = None;
    for row in &map.rows {
        let same_process = before.is_some_and(|before| before.pid == row.pid);
        let follows =
            same_process && before.is_some_and(|before| before.address + map.block_bytes == row.address);
        y += match (before, same_process, follows) {
            (None, ..) | (_, _, true) => 0.0,
            (_, true, _) => GAP,
            _ => WIDE_GAP,
        };
        match groups.last_mut().filter(|group| same_process && group.row.mapping == row.mapping) {
            Some(group) => group.end = y + 1.0,
            None => groups.push(Group { row, start: y, end: y + 1.0 }),
        }
        row.cells.iter().for_each(|(column, faults, _)| cells.add(*column, y, *faults));
        (y, before) = (y + 1.0, Some(row));
    }
    let height = (y * 0.5).clamp(4.0, 44.0);
    let several = map.rows.iter().any(|row| row.pid != map.rows[0].pid);
    let mut plot = Plot {
        id: "space",
        label: "Faults by time and address; darker is more".into(),
        height,
        x: time_axis(numbers.seconds()),
        y: labels(&groups, y, height, several),
        names: true,
        view: Some((width, y)),
        svg: cells.draw(),
        ..Plot::default()
    };
    plot.outline();
    let mut html = plot.draw();
    if largest > 0 {
        html += &Cells::scale(largest, "faults in a cell");
    }
    html + "<p class=\"scale\"><i style=\"background:var(--q0)\"></i> pages were compressed, none was restored</p>\n"
}

/// Rows of one mapping.
struct Group<'a> {
    row: &'a Block,
    start: f64,
    end: f64,
}

/// Names on the side, larger groups first. A name without room is omitted.
fn labels(groups: &[Group], rows: f64, height: f64, several: bool) -> Vec<(f64, String)> {
    // The height of a line of text, in rows.
    let line = 1.05 / height * rows;
    let mut order: Vec<&Group> = groups.iter().collect();
    order.sort_by(|a, b| (b.end - b.start).total_cmp(&(a.end - a.start)));
    let mut taken: Vec<f64> = Vec::new();
    let mut words = Vec::new();
    for group in order {
        let middle = (group.start + group.end) / 2.0;
        if taken.iter().all(|other| (other - middle).abs() >= line) {
            taken.push(middle);
            let name = group.row.mapping.as_deref().unwrap_or("(not looked up)");
            let text = match group.row.pid.filter(|_| several) {
                Some(pid) => format!("{pid} {name}"),
                None => name.to_owned(),
            };
            words.push((1.0 - middle / rows, text));
        }
    }
    words
}

/// The sizes that pages were compressed to.
pub fn sizes(numbers: &Numbers) -> String {
    let sizes = &numbers.sizes;
    let all = sizes.zeros + sizes.repeated + sizes.pages.iter().sum::<u64>();
    if all == 0 {
        return String::new();
    }
    // Zeros, the repeated word and a gap come before the first class.
    const BEFORE: f64 = 7.0;
    let count = sizes.pages.len();
    let width = SIDE / (count as f64 + BEFORE);
    let most = sizes.pages.iter().copied().chain([sizes.zeros, sizes.repeated]).max().unwrap_or(1);
    let (end, y) = count_axis(most as f64, short);
    let bar = |at: f64, wide: f64, pages: u64, class: &str| {
        let height = pages as f64 / end * SIDE;
        path(class, &format!("M{:.1} {SIDE}v{:.1}h{:.1}V{SIDE}Z", at * width, -height, width * wide))
    };
    let mut svg = bar(0.2, 2.2, sizes.zeros, "area fs") + &bar(3.4, 2.2, sizes.repeated, "area fc");
    for (class, pages) in sizes.pages.iter().enumerate().filter(|(_, pages)| **pages > 0) {
        let colour = if class + 1 == count { "area fv" } else { "area fa" };
        svg += &bar(BEFORE + class as f64 + 0.05, 0.9, *pages, colour);
    }
    let x = (0..=4).map(|quarter| {
        let bytes = quarter as u64 * count as u64 * sizes.step_bytes / 4;
        ((BEFORE + f64::from(quarter) * count as f64 / 4.0) * width / SIDE, grouped(bytes))
    });
    let mut plot = Plot {
        id: "sizes",
        label: "Pages by compressed size, bytes".into(),
        height: 11.0,
        x: x.collect(),
        y,
        svg,
        key: vec![
            Key { class: "area fs", words: "zeros, at the left" },
            Key { class: "area fc", words: "another repeated word" },
            Key { class: "area fa", words: "compressed size in bytes" },
            Key { class: "area fv", words: "did not become smaller: 4096" },
        ],
        ..Plot::default()
    };
    plot.grid();
    plot.draw()
}
