//! Pictures of an analysis, as SVG. Colours are classes of the page's style (`output/web.rs`).

use std::fmt::Write;

use super::axes::round_step;
use crate::output::web::escape;

const WIDTH: f64 = 960.0;

/// Opens a picture.
fn open(height: f64, label: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n", escape(label))
}

/// One row's bar: its name, its coloured parts, and the text after it.
pub struct Bar {
    /// Shown to the left of the bar.
    pub name: String,
    /// Lengths with colours, one after the other.
    pub parts: Vec<(f64, char)>,
    /// Shown to the right of the bar.
    pub text: String,
}

/// Bars one below the other; the longest takes the full width.
pub fn bars(label: &str, rows: &[Bar]) -> String {
    const ROW: f64 = 24.0;
    const LEFT: f64 = 250.0;
    const RIGHT: f64 = 190.0;
    let sum = |bar: &Bar| bar.parts.iter().map(|it| it.0).sum::<f64>();
    let longest = rows.iter().map(sum).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = open(rows.len() as f64 * ROW + 8.0, label);
    for (at, bar) in rows.iter().enumerate() {
        let y = at as f64 * ROW + 4.0;
        let name = shorten(&bar.name, 36);
        let _ = writeln!(
            svg,
            "<text class=\"y ink\" x=\"{}\" y=\"{:.0}\">{}</text>",
            LEFT - 10.0,
            y + 15.0,
            escape(&name)
        );
        let mut x = LEFT;
        for (length, colour) in &bar.parts {
            let width = length / longest * (WIDTH - LEFT - RIGHT);
            let _ = writeln!(
                svg,
                "<rect class=\"f{colour}\" x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\"/>",
                ROW - 6.0
            );
            x += width;
        }
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{:.0}\">{}</text>", x + 8.0, y + 15.0, escape(&bar.text));
    }
    svg + "</svg>\n"
}

/// Shortens a long name at its beginning, because its end says more.
fn shorten(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(count - most + 1).collect::<String>())
    }
}

/// How pages compress: a bar for each 64th of a page, and the mean.
pub fn sizes(histogram: &[f64], mean: f64) -> String {
    const HEIGHT: f64 = 240.0;
    const LEFT: f64 = 48.0;
    const BOTTOM: f64 = 36.0;
    const TOP: f64 = 24.0;
    let top = histogram.iter().copied().fold(1.0, f64::max);
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP);
    let x = |share: f64| LEFT + share * (WIDTH - LEFT - 16.0);
    let mut svg = open(HEIGHT, "Compressed sizes of pages");
    for part in 0..=2 {
        let value = top * f64::from(part) / 2.0;
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT},{0:.1}H{1:.1}\"/><text class=\"y\" x=\"{2}\" y=\"{3:.1}\">{value:.0} %</text>",
            y(value),
            x(1.0),
            LEFT - 6.0,
            y(value) + 4.0
        );
    }
    let step = 1.0 / histogram.len() as f64;
    for (at, percent) in histogram.iter().enumerate() {
        let left = x(at as f64 * step);
        let _ = writeln!(
            svg,
            "<rect class=\"fa\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            left + 0.5,
            y(*percent),
            x(step) - x(0.0) - 1.0,
            (HEIGHT - BOTTOM - y(*percent)).max(0.0)
        );
    }
    for eighth in 0..=8 {
        let share = f64::from(eighth) / 8.0;
        let _ = writeln!(
            svg,
            "<text class=\"x\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            x(share),
            HEIGHT - BOTTOM + 18.0,
            eighth * 512
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"ld dash\" d=\"M{0:.1},{TOP}V{1:.1}\"/><text class=\"middle\" x=\"{0:.1}\" y=\"{2}\">mean {3:.0}</text>",
        x(mean),
        HEIGHT - BOTTOM,
        TOP - 8.0,
        mean * 4096.0
    );
    svg + "</svg>\n"
}

/// A ratio: its colour, its value, and its relative error.
pub type Mark = (char, f64, f64);

/// Ratios: a row for each codec, a mark with its interval for each block size.
pub fn ratios(rows: &[(String, Vec<Mark>)]) -> String {
    const ROW: f64 = 26.0;
    const LEFT: f64 = 120.0;
    const BOTTOM: f64 = 30.0;
    let marks = || rows.iter().flat_map(|(_, marks)| marks);
    let most = marks().map(|(_, ratio, error)| ratio * (1.0 + error)).fold(1.5, f64::max);
    let height = rows.len() as f64 * ROW + BOTTOM;
    let x = |ratio: f64| LEFT + (ratio - 1.0).max(0.0) / (most - 1.0) * (WIDTH - LEFT - 24.0);
    let mut svg = open(height, "Compression ratio by codec");
    let step = round_step(most - 1.0, 10.0).max(0.1);
    let digits = usize::from(step < 1.0);
    let mut at = 1.0;
    while at <= most {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{0:.1},0V{1:.0}\"/><text class=\"x\" x=\"{0:.1}\" y=\"{2:.0}\">{at:.digits$}</text>",
            x(at),
            height - BOTTOM,
            height - BOTTOM + 18.0
        );
        at += step;
    }
    for (row, (name, marks)) in rows.iter().enumerate() {
        let y = row as f64 * ROW + ROW / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"y ink\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 10.0,
            y + 4.0,
            escape(name)
        );
        for (colour, ratio, error) in marks {
            let (low, high) = (x(ratio * (1.0 - error)), x(ratio * (1.0 + error)));
            let _ = writeln!(
                svg,
                "<path class=\"l{colour}\" d=\"M{low:.1},{y:.1}H{high:.1}\"/><circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>",
                x(*ratio)
            );
        }
    }
    svg + "</svg>\n"
}

/// Lines over an axis. The points must lie within the given ranges.
pub struct Lines<'a> {
    /// What the picture shows, in words.
    pub label: &'a str,
    /// The ranges of the axes.
    pub x: (f64, f64),
    #[allow(missing_docs)]
    pub y: (f64, f64),
    /// The text at a position on the axis.
    pub x_text: &'a dyn Fn(f64) -> String,
    #[allow(missing_docs)]
    pub y_text: &'a dyn Fn(f64) -> String,
    /// Lines: a colour and the points.
    pub lines: Vec<(char, Vec<(f64, f64)>)>,
    /// Vertical marks with text.
    pub marks: Vec<(f64, String)>,
}

impl Lines<'_> {
    /// Draws the picture.
    pub fn draw(&self) -> String {
        const HEIGHT: f64 = 260.0;
        const LEFT: f64 = 84.0;
        const BOTTOM: f64 = 34.0;
        const TOP: f64 = 24.0;
        let place = |value: f64, (low, high): (f64, f64)| {
            ((value - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        };
        let x = |value: f64| LEFT + place(value, self.x) * (WIDTH - LEFT - 24.0);
        let y = |value: f64| HEIGHT - BOTTOM - place(value, self.y) * (HEIGHT - BOTTOM - TOP);
        let mut svg = open(HEIGHT, self.label);
        for part in 0..=4 {
            let at = |(low, high): (f64, f64)| low + (high - low) * f64::from(part) / 4.0;
            let (across, up) = (at(self.x), at(self.y));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT},{0:.1}H{1:.1}\"/><text class=\"y\" x=\"{2}\" y=\"{3:.1}\">{4}</text>",
                y(up),
                WIDTH - 24.0,
                LEFT - 8.0,
                y(up) + 4.0,
                escape(&(self.y_text)(up))
            );
            let _ = writeln!(
                svg,
                "<text class=\"x\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                x(across),
                HEIGHT - BOTTOM + 20.0,
                escape(&(self.x_text)(across))
            );
        }
        for (colour, points) in &self.lines {
            let mut path = String::new();
            for (at, point) in points.iter().enumerate() {
                let _ =
                    write!(path, "{}{:.1},{:.1}", if at == 0 { 'M' } else { 'L' }, x(point.0), y(point.1));
            }
            let _ = writeln!(svg, "<path class=\"l{colour}\" d=\"{path}\"/>");
        }
        for (at, words) in &self.marks {
            let anchor = if place(*at, self.x) > 0.8 { "end" } else { "" };
            let _ = writeln!(
                svg,
                "<path class=\"ld dash\" d=\"M{0:.1},{TOP}V{1:.1}\"/><text class=\"{anchor}\" x=\"{0:.1}\" y=\"{2}\">{3}</text>",
                x(*at),
                HEIGHT - BOTTOM,
                TOP - 8.0,
                escape(words)
            );
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_well_formed_and_within_their_frames() {
        let bar = |length| Bar {
            name: "<a & b>".repeat(12),
            parts: vec![(length, 'a'), (1.0, 'b')],
            text: "\"".into(),
        };
        let pictures = [
            bars("bars", &[bar(3.0), bar(0.0)]),
            bars("none", &[]),
            sizes(&[1.0; 64], 0.4),
            ratios(&[("lz4".into(), vec![('a', 2.0, 0.1), ('b', 3.0, 0.0)]), ("x".into(), vec![])]),
            Lines {
                label: "lines",
                x: (0.0, 1.0),
                y: (0.0, 0.0),
                x_text: &|it| it.to_string(),
                y_text: &|it| it.to_string(),
                lines: vec![('a', vec![(0.5, 0.0), (7.0, 1e9)])],
                marks: vec![(0.9, "here".into())],
            }
            .draw(),
        ];
        for picture in pictures {
            let document = roxmltree::Document::parse(&picture).unwrap();
            for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
                let number = |name| node.attribute(name).unwrap().parse::<f64>().unwrap();
                assert!(
                    number("x") + number("width") <= WIDTH
                        && number("width") >= 0.0
                        && number("height") >= 0.0
                );
            }
        }
    }
}
