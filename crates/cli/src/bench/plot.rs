//! The plot of `--plot`: ratio against compression speed, with one mark for each codec.

use super::rows::{Report, Row, Total, VIRTUAL_BEST};
use crate::output::plot::scatter::{self, Mark, Panel};

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
    scatter::draw("Compression ratio against speed of compression", &subtitle(report), &whole, &files)
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
    // A codec that compressed no block has only a speed of giving up, which would stretch the axis.
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

/// One colour for each known family; all others share the last.
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
