//! Pictures of an analysis, as SVG of fixed proportions. Colours are classes of [`paint`](super::paint).

use std::fmt::Write;

use super::axes::round_step;
use super::paint::{self, paint};
use crate::output::web::escape;

const WIDTH: f64 = 960.0;

/// Opens a picture. On a narrow screen it scrolls in its own box, because its letters would be too small.
fn open(height: f64, label: &str) -> String {
    let more = format!("role=\"img\" aria-label=\"{}\"", escape(label));
    format!(
        "<div class=\"picture\">{}\n<rect {} x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n",
        paint::open(WIDTH, height, &more),
        paint("paper")
    )
}

/// Closes it.
fn close(svg: String) -> String {
    svg + "</svg></div>\n"
}

/// Words at a place; the classes say how they are aligned.
fn text(x: f64, y: f64, classes: &str, words: &str) -> String {
    let classes = match classes {
        "" => "words".to_owned(),
        _ if classes.contains("strong") => classes.to_owned(),
        _ => format!("words {classes}"),
    };
    format!("<text {} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", paint(&classes), escape(words))
}

/// A path with classes.
fn path(classes: &str, d: &str) -> String {
    format!("<path {} d=\"{d}\"/>\n", paint(classes))
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
        svg += &text(LEFT - 10.0, y + 15.0, "y strong", &name);
        let mut x = LEFT;
        for (length, colour) in &bar.parts {
            let width = length / longest * (WIDTH - LEFT - RIGHT);
            let _ = writeln!(
                svg,
                "<rect {} x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\"/>",
                paint(&format!("f{colour}")),
                ROW - 6.0
            );
            x += width;
        }
        svg += &text(x + 8.0, y + 15.0, "", &bar.text);
    }
    close(svg)
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
        svg += &path("grid", &format!("M{LEFT},{:.1}H{:.1}", y(value), x(1.0)));
        svg += &text(LEFT - 6.0, y(value) + 4.0, "y", &format!("{value:.0} %"));
    }
    let step = 1.0 / histogram.len() as f64;
    for (at, percent) in histogram.iter().enumerate() {
        let left = x(at as f64 * step);
        let _ = writeln!(
            svg,
            "<rect {} x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            paint("fa"),
            left + 0.5,
            y(*percent),
            x(step) - x(0.0) - 1.0,
            (HEIGHT - BOTTOM - y(*percent)).max(0.0)
        );
    }
    for eighth in 0..=8 {
        let share = f64::from(eighth) / 8.0;
        svg += &text(x(share), HEIGHT - BOTTOM + 18.0, "x", &(eighth * 512).to_string());
    }
    svg += &path("ld dash", &format!("M{:.1},{TOP}V{:.1}", x(mean), HEIGHT - BOTTOM));
    svg += &text(x(mean), TOP - 8.0, "middle", &format!("mean {:.0}", mean * 4096.0));
    close(svg)
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
        svg += &path("grid", &format!("M{:.1},0V{:.0}", x(at), height - BOTTOM));
        svg += &text(x(at), height - BOTTOM + 18.0, "x", &format!("{at:.digits$}"));
        at += step;
    }
    for (row, (name, marks)) in rows.iter().enumerate() {
        let y = row as f64 * ROW + ROW / 2.0;
        svg += &text(LEFT - 10.0, y + 4.0, "y strong", name);
        for (colour, ratio, error) in marks {
            let (low, high) = (x(ratio * (1.0 - error)), x(ratio * (1.0 + error)));
            svg += &path(&format!("l{colour}"), &format!("M{low:.1},{y:.1}H{high:.1}"));
            let fill = paint(&format!("f{colour}"));
            let _ = writeln!(svg, "<circle {fill} cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>", x(*ratio));
        }
    }
    close(svg)
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
            svg += &path("grid", &format!("M{LEFT},{:.1}H{:.1}", y(up), WIDTH - 24.0));
            svg += &text(LEFT - 8.0, y(up) + 4.0, "y", &(self.y_text)(up));
            svg += &text(x(across), HEIGHT - BOTTOM + 20.0, "x", &(self.x_text)(across));
        }
        for (colour, points) in &self.lines {
            let mut line = String::new();
            for (at, point) in points.iter().enumerate() {
                let _ =
                    write!(line, "{}{:.1},{:.1}", if at == 0 { 'M' } else { 'L' }, x(point.0), y(point.1));
            }
            svg += &path(&format!("l{colour}"), &line);
        }
        for (at, words) in &self.marks {
            let anchor = if place(*at, self.x) > 0.8 { "end" } else { "" };
            svg += &path("ld dash", &format!("M{:.1},{TOP}V{:.1}", x(*at), HEIGHT - BOTTOM));
            svg += &text(x(*at), TOP - 8.0, anchor, words);
        }
        close(svg)
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
            let svg =
                &picture[picture.find("<svg").unwrap()..picture.find("</svg>").unwrap() + "</svg>".len()];
            let document = paint::check_alone(svg);
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
