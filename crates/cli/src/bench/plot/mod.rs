//! The plot of `--plot`: ratio against speed of compression, one mark a codec.
//!
//! ```text
//!  +------------------------------+
//!  | all files                    |   every mark named
//!  +------------------------------+
//!  | file a    | file b  | file c |   the marks that no other beats in both
//!  | ...                          |
//!  +------------------------------+
//! ```
//!
//! All panels have the same axis of speed, so that they can be compared across;
//! ratios differ too much between files for that. Every mark says its numbers
//! when the pointer rests on it.

mod labels;
mod panel;

use svg::Document;
use svg::node::element::{Style, Text};

use crate::bench::rows::{Report, Row, Total, VIRTUAL_BEST};
use panel::{Frame, Panel};

const WIDTH: f64 = 1000.0;
const TITLE: f64 = 56.0;
const LARGE: f64 = 540.0;
const SMALL: f64 = 250.0;
const ACROSS: usize = 3;

const STYLE: &str = "\
svg{--ink:#1c2530;--dim:#5d6878;--line:#e3e8ee;--paper:#fff}
@media(prefers-color-scheme:dark){svg{--ink:#e6ebf2;--dim:#93a0b2;--line:#2a323d;--paper:#14191f}}
.paper{fill:var(--paper)}text{font:11px system-ui,sans-serif;fill:var(--dim)}
.title{font-size:18px;font-weight:600;fill:var(--ink)}.panel{font-size:13px;font-weight:600;fill:var(--ink)}
.name{fill:var(--ink);stroke:var(--paper);stroke-width:3px;paint-order:stroke;stroke-linejoin:round}.small{font-size:10px}.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--dim);fill:none}.leader{stroke:var(--dim);stroke-width:.6}
.best{stroke:var(--dim);stroke-dasharray:5 4;fill:none}.mark{stroke:var(--paper);stroke-width:.8}";

/// A codec in a panel.
#[derive(Debug, Clone)]
struct Mark {
    name: String,
    colour: &'static str,
    /// MB/s.
    speed: f64,
    ratio: f64,
    /// What it says when the pointer rests on it.
    words: String,
}

/// Draws the plot; `names` are those of the files, in their order.
pub fn draw(report: &Report, names: &[String]) -> String {
    let several_paths = report.totals.iter().any(|total| {
        total.path.is_some() && total.path != report.totals.first().and_then(|first| first.path)
    });
    let total_marks: Vec<Mark> =
        report.totals.iter().filter_map(|total| of_total(total, several_paths)).collect();
    let rows = || report.rows.chunks(report.totals.len().max(1)).zip(names);
    let files: Vec<Panel> = rows()
        .map(|(rows, name)| Panel {
            title: name.clone(),
            marks: rows.iter().filter_map(|row| of_row(row, several_paths)).collect(),
            best: rows.iter().find(|row| row.codec == VIRTUAL_BEST).and_then(|row| row.ratio),
            all_named: false,
        })
        .collect();
    let whole = Panel {
        title: match names {
            [one] => one.clone(),
            _ => format!("all {} files (harmonic mean of ratios, all bytes over all time)", names.len()),
        },
        marks: total_marks,
        best: report.totals.iter().find(|total| total.codec == VIRTUAL_BEST).and_then(|total| total.ratio),
        all_named: true,
    };
    let speeds = files.iter().chain([&whole]).flat_map(|panel| &panel.marks).map(|mark| mark.speed);
    let (slowest, fastest) = speeds.fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    let speeds = if fastest > 0.0 { (slowest, fastest) } else { (1.0, 1000.0) };

    // One file is its own overall panel.
    let files = if files.len() > 1 { files } else { Vec::new() };
    let across = files.len().clamp(1, ACROSS);
    let height = TITLE + LARGE + files.len().div_ceil(across) as f64 * SMALL;
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("role", "img")
        .add(Style::new(STYLE))
        .add(svg::node::element::Title::new("Compression ratio against speed of compression"))
        .add(
            svg::node::element::Rectangle::new()
                .set("class", "paper")
                .set("width", WIDTH)
                .set("height", height),
        )
        .add(text(16.0, 28.0, "title", "Compression ratio against speed of compression"))
        .add(text(16.0, 46.0, "", &subtitle(report)));
    document = whole.draw(document, Frame { x: 0.0, y: TITLE, width: WIDTH, height: LARGE }, speeds);
    let width = WIDTH / across as f64;
    for (i, panel) in files.iter().enumerate() {
        let (x, y) = ((i % across) as f64 * width, TITLE + LARGE + (i / across) as f64 * SMALL);
        document = panel.draw(document, Frame { x, y, width, height: SMALL }, speeds);
    }
    document.to_string() + "\n"
}

fn subtitle(report: &Report) -> String {
    let best = if report.rows.iter().any(|row| row.codec == VIRTUAL_BEST) {
        "; dashed: each block in the best of its forms"
    } else {
        ""
    };
    format!(
        "blocks of {} bytes, compressed one by one; one thread; up and to the right is better{best}",
        report.block_bytes
    )
}

fn of_row(row: &Row, several_paths: bool) -> Option<Mark> {
    mark(&row.codec, row.path, (row.ratio, row.compress_mb_s, row.decompress_mb_s), several_paths)
}

fn of_total(total: &Total, several_paths: bool) -> Option<Mark> {
    mark(&total.codec, total.path, (total.ratio, total.compress_mb_s, total.decompress_mb_s), several_paths)
}

fn mark(
    codec: &str,
    path: Option<&str>,
    (ratio, speed, decompress): (Option<f64>, Option<f64>, Option<f64>),
    several_paths: bool,
) -> Option<Mark> {
    // Whoever compressed no block has a speed of refusing, which is another matter and would stretch the axis.
    let (ratio, speed, decompress) = (ratio?, speed?, decompress?);
    let name = match path {
        Some(path) if several_paths => format!("{codec} {path}"),
        _ => codec.to_owned(),
    };
    let words = format!(
        "{name}: ratio {ratio:.3}, compresses at {speed:.0} and decompresses at {decompress:.0} MB/s"
    );
    Some(Mark { colour: colour(codec), name, speed, ratio, words })
}

/// One colour for a family; the rest share the last.
fn colour(codec: &str) -> &'static str {
    let family = codec.split([':', '(']).next().unwrap_or(codec);
    match family {
        _ if codec.contains('+') && !codec.starts_with("auto") => "#8a63d2",
        "auto" => "#d2452f",
        "stride" => "#0f8b62",
        "lz4" | "lz4hc" => "#2f6fde",
        "zstd" => "#b9770e",
        "pbpm" | "wkdm" => "#c2478f",
        "bewalgo" | "bewalgo2" => "#2a94a8",
        _ => "#7b8794",
    }
}

/// A text, without what no XML may hold.
fn text(x: f64, y: f64, class: &str, words: &str) -> Text {
    let made = Text::new(memfold_escape::line(words)).set("x", round(x)).set("y", round(y));
    if class.is_empty() { made } else { made.set("class", class) }
}

/// A tenth of a pixel is enough.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
