//! The table for people: the rows of each file, then the totals over all files.

use std::fmt::Write;

use memfold::size::Human;
use unicode_width::UnicodeWidthStr;

use super::plan::Plan;
use super::rows::{Report, Row, Total};

/// A column: its title, and whether its cells are left-aligned.
struct Column {
    title: &'static str,
    left: bool,
}

/// The columns to print: those without information are omitted.
struct Shape {
    paths: bool,
    best: bool,
}

/// The fields that rows and totals have in common.
struct Line<'a> {
    codec: &'a str,
    path: Option<&'static str>,
    ratio: Option<f64>,
    /// Compression, decompression, effective write and read.
    speeds: [Option<f64>; 4],
    of_best: Option<f64>,
    blocks: usize,
    same: usize,
    raw: usize,
    scratch: [Option<usize>; 2],
}

/// Writes the table; `names` are the files' names, in order.
pub fn write(report: &Report, plan: &Plan, names: &[String]) -> String {
    let shape = Shape { paths: plan.has_several_paths(), best: plan.virtual_best };
    let mut lines: Vec<Vec<String>> = Vec::new();
    // The rows of one file are adjacent, as many as there are totals.
    for (rows, name) in report.rows.chunks(report.totals.len().max(1)).zip(names) {
        lines.extend(group(name, rows.iter().map(Line::from), &shape));
    }
    if names.len() > 1 {
        lines.extend(group("all files", report.totals.iter().map(Line::from), &shape));
    }
    let columns = shape.columns();
    let mut text = lay_out(&columns, &lines);
    text.push('\n');
    text += &legend(report, plan, names.len() > 1);
    text
}

/// The lines of one file; only the first shows its name.
fn group<'a>(
    name: &str,
    lines: impl Iterator<Item = Line<'a>>,
    shape: &Shape,
) -> impl Iterator<Item = Vec<String>> {
    lines.enumerate().map(move |(i, line)| {
        let name = if i == 0 { name } else { "" };
        line.cells(name, shape)
    })
}

impl Shape {
    fn columns(&self) -> Vec<Column> {
        let column = |title| Column { title, left: false };
        let left = |title| Column { title, left: true };
        let mut columns = vec![left("file"), left("codec")];
        if self.paths {
            columns.push(left("path"));
        }
        columns.push(column("ratio"));
        if self.best {
            columns.push(column("of best"));
        }
        columns.extend(["comp MB/s", "dec MB/s", "eff. in", "eff. out"].map(column));
        columns.extend(["blocks", "same", "raw", "scratch comp", "dec"].map(column));
        columns
    }
}

impl Line<'_> {
    fn cells(&self, name: &str, shape: &Shape) -> Vec<String> {
        let mut cells = vec![name.to_owned(), self.codec.to_owned()];
        if shape.paths {
            cells.push(self.path.unwrap_or("").to_owned());
        }
        cells.push(self.ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")));
        if shape.best {
            cells.push(self.of_best.map_or("-".into(), |share| format!("{:.1} %", share * 100.0)));
        }
        cells.extend(self.speeds.map(speed));
        cells.extend([self.blocks, self.same, self.raw].map(|count| count.to_string()));
        cells.extend(self.scratch.map(|bytes| match bytes {
            None => "-".to_owned(),
            Some(0) => "0".to_owned(),
            Some(bytes) => Human(bytes as u64).to_string(),
        }));
        cells
    }
}

impl<'a> From<&'a Row> for Line<'a> {
    fn from(row: &'a Row) -> Self {
        Self {
            codec: &row.codec,
            path: row.path,
            ratio: row.ratio,
            speeds: [row.compress_mb_s, row.decompress_mb_s, row.effective_mb_s, row.effective_read_mb_s],
            of_best: row.of_virtual_best,
            blocks: row.blocks,
            same: row.same_filled,
            raw: row.stored_raw,
            scratch: [row.compress_scratch_bytes, row.decompress_scratch_bytes],
        }
    }
}

impl<'a> From<&'a Total> for Line<'a> {
    fn from(total: &'a Total) -> Self {
        Self {
            codec: &total.codec,
            path: total.path,
            ratio: total.ratio,
            speeds: [
                total.compress_mb_s,
                total.decompress_mb_s,
                total.effective_mb_s,
                total.effective_read_mb_s,
            ],
            of_best: total.of_virtual_best,
            blocks: total.blocks,
            same: total.same_filled,
            raw: total.stored_raw,
            scratch: [total.compress_scratch_bytes, total.decompress_scratch_bytes],
        }
    }
}

/// A speed with at least three digits.
fn speed(speed: Option<f64>) -> String {
    match speed {
        None => "-".to_owned(),
        Some(speed) if speed < 9.995 => format!("{speed:.2}"),
        Some(speed) if speed < 99.95 => format!("{speed:.1}"),
        Some(speed) => format!("{speed:.0}"),
    }
}

fn lay_out(columns: &[Column], lines: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = lines.iter().map(|line| line[i].width());
        cells.chain([columns[i].title.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    let mut text = String::new();
    for line in [&titles].into_iter().chain(lines) {
        // A blank line precedes a new file that has several lines.
        if !line[0].is_empty() && !text.is_empty() && lines.len() > 1 {
            text.push('\n');
        }
        let mut out = String::new();
        for ((cell, column), width) in line.iter().zip(columns).zip(&widths) {
            // A cell's width on a terminal may differ from its number of characters.
            let blanks = " ".repeat(width - cell.width());
            let _ =
                if column.left { write!(out, "{cell}{blanks}  ") } else { write!(out, "{blanks}{cell}  ") };
        }
        text += out.trim_end();
        text.push('\n');
    }
    text
}

fn legend(report: &Report, plan: &Plan, several: bool) -> String {
    let mut text = format!(
        "Blocks of {}. MB are 10^6 bytes. same: one repeated word, not given to codecs. raw: larger than {} bytes when\n\
         compressed, counted in full. eff.: into and out of a memory just large enough for the best ratio here, and a\n\
         device of {:.0} and {:.0} MB/s for the rest.\n",
        Human(report.block_bytes as u64),
        report.threshold_bytes,
        report.device_write_mb_s,
        report.device_read_mb_s
    );
    let dictionaries: Vec<&Row> = report.rows.iter().filter(|row| row.dictionaries.is_some()).collect();
    if !dictionaries.is_empty() {
        text += "zstd-dict: begins each file without dictionary and trains on the blocks before; dictionaries count in the ratio.\n";
    }
    for row in dictionaries {
        let count = row.dictionaries.unwrap_or(0);
        let _ = writeln!(
            text,
            "  {}, {}: {count} {}, {}, trained and judged in {:.0} ms",
            row.file,
            row.codec,
            if count == 1 { "dictionary" } else { "dictionaries" },
            Human(row.dictionary_bytes.unwrap_or(0)),
            row.training_s.unwrap_or(0.0) * 1e3
        );
    }
    if several {
        text += "all files: harmonic mean of the ratios; all bytes over all time.\n";
    }
    if plan.virtual_best {
        text += "virtual-best: each block in the best of its forms";
        if plan.floor > 0.0 {
            let _ =
                write!(text, ", over codecs that compress the file at {:.0} MB/s or more", plan.floor / 1e6);
        }
        text += "; of best: its bytes by the codec's own.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let columns = [Column { title: "file", left: true }, Column { title: "ratio", left: false }];
        let lines = [vec!["ä".to_owned(), "1.5".to_owned()], vec!["".to_owned(), "12.345".to_owned()]];
        assert_eq!(lay_out(&columns, &lines), "file   ratio\n\nä        1.5\n      12.345\n");
    }

    #[test]
    fn speeds_have_three_digits() {
        let shown = [0.5, 9.999, 50.0, 99.96, 12345.6].map(|value| speed(Some(value)));
        assert_eq!(shown, ["0.50", "10.0", "50.0", "100", "12346"]);
        assert_eq!(speed(None), "-");
    }
}
