//! The SVG of a [`Plot`], such that it can also be a file of its own, outside of a browser.
//!
//! ```text
//!  +--------------------------------------+
//!  | title                                |   class "alone": shown only in a file of its own
//!  |  y  +------------------------------+ |
//!  |     | the drawing                  | |   all that the page shows
//!  |     +------------------------------+ |
//!  |         x                            |
//!  | colours                              |
//!  +--------------------------------------+
//! ```
//!
//! The page stretches the whole, and places it so that the drawing fills its frame.

use std::fmt::Write;

use super::frame::{Key, Line, Plot, SIDE, path};
use super::paint::{self, paint};
use crate::output::web::escape;

/// Sizes of the file, in pixels.
const WIDTH: f64 = 960.0;
const TOP: f64 = 36.0;
const RIGHT: f64 = 28.0;
const LEFT: f64 = 78.0;
const LEFT_OF_NAMES: f64 = 220.0;
const BOTTOM: f64 = 32.0;
const LINE: f64 = 20.0;
/// Pixels of a rem, and about those of a letter.
const REM: f64 = 16.0;
const LETTER: f64 = 6.6;

/// The place of the drawing in the file.
struct Place {
    left: f64,
    width: f64,
    height: f64,
    /// The height of the file.
    all: f64,
}

impl Place {
    /// Lines, in pixels of the file. On a page they keep their width.
    fn lines(&self, lines: &[Line]) -> String {
        let mut svg = String::new();
        for line in lines {
            let mut d = String::new();
            for (at, (x, y)) in line.points.iter().enumerate() {
                let (x, y) = (self.left + x * self.width, TOP + y * self.height);
                let _ = write!(d, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
            }
            svg += &path(&format!("{} even", line.classes), &d);
        }
        svg
    }
}

impl Plot<'_> {
    /// The SVG, in a box that makes the drawing fill the frame.
    pub(super) fn file(&self) -> String {
        let left = if self.names { LEFT_OF_NAMES } else { LEFT };
        let (width, height) = (WIDTH - left - RIGHT, self.height * REM);
        let key = self.key(TOP + height + BOTTOM + 14.0);
        let all = TOP + height + BOTTOM + key.1;
        let place = Place { left, width, height, all };
        let label = escape(&self.label);
        let open = paint::open(
            WIDTH,
            all,
            &format!("preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\""),
        );
        let (across, down) = self.view.unwrap_or((SIDE, SIDE));
        let percent = |part: f64, whole: f64| part / whole * 100.0;
        format!(
            "<div class=\"file\" style=\"left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%\">{open}<g class=\"alone\"><rect {} width=\"{WIDTH}\" height=\"{all:.0}\"/>{}{}</g>{}<g transform=\"translate({left} {TOP}) scale({:.6} {:.6})\">{}</g>{}<g class=\"alone\">{}</g></svg></div>",
            -percent(left, width),
            -percent(TOP, height),
            percent(WIDTH, width),
            percent(place.all, height),
            paint("paper"),
            self.labels(&place),
            key.0,
            place.lines(&self.under),
            width / across,
            height / down,
            self.svg,
            place.lines(&self.lines),
            self.words_over(&place)
        )
    }

    fn labels(&self, place: &Place) -> String {
        let mut svg = text("strong", 12.0, 22.0, &self.label);
        for (at, words) in &self.y {
            let most = ((place.left - 20.0) / LETTER) as usize;
            let words = match words.chars().count() > most {
                true => words.chars().take(most - 1).chain(['…']).collect(),
                false => words.clone(),
            };
            svg += &text("words end", place.left - 8.0, TOP + (1.0 - at) * place.height + 4.0, &words);
        }
        for (at, words) in &self.x {
            svg += &text("words middle", place.left + at * place.width, TOP + place.height + 18.0, words);
        }
        svg
    }

    fn words_over(&self, place: &Place) -> String {
        let mut svg = String::new();
        for (line, note) in self.notes.iter().enumerate() {
            let x = place.left + note.at * place.width;
            let y = TOP + 12.0 + line as f64 * 18.0;
            svg += &match note.is_left_of_line() {
                true => text("strong end", x - 4.0, y, note.words),
                false => text("strong", x + 4.0, y, note.words),
            };
        }
        svg
    }

    /// The legend from `y` on, and its height.
    fn key(&self, mut y: f64) -> (String, f64) {
        let (mut svg, mut x, begin) = (String::new(), 12.0, y);
        for key in &self.key {
            let width = 44.0 + key.words.chars().count() as f64 * LETTER;
            if x + width > WIDTH && x > 12.0 {
                (x, y) = (12.0, y + LINE);
            }
            svg += &swatch(key, x, y);
            svg += &text("words", x + 24.0, y, key.words);
            x += width;
        }
        let height = if self.key.is_empty() { 0.0 } else { y - begin + LINE };
        (svg, height)
    }
}

fn swatch(key: &Key, x: f64, y: f64) -> String {
    if key.is_line() {
        return format!("<path {} d=\"M{x:.1} {:.1}h18\"/>", paint(key.class), y - 4.0);
    }
    format!("<rect {} x=\"{x:.1}\" y=\"{:.1}\" width=\"18\" height=\"10\"/>", paint(key.class), y - 9.0)
}

fn text(classes: &str, x: f64, y: f64, words: &str) -> String {
    let mut svg = String::new();
    let _ = write!(svg, "<text {} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", paint(classes), escape(words));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::plot::frame::Note;

    #[test]
    fn a_plot_is_a_file_of_its_own() {
        let plot = Plot {
            id: "a",
            label: "a < b & \"c\"".into(),
            height: 10.0,
            x: vec![(0.0, "0 s".into()), (1.0, "1 s".into())],
            y: vec![(0.5, "<long name of a mapping>".repeat(9))],
            names: true,
            view: Some((3.0, 7.0)),
            svg: path("cell q3", "M0 1h2"),
            under: vec![Line { classes: "grid", points: vec![(0.0, 0.5), (1.0, 0.5)] }],
            lines: vec![Line { classes: "line ink", points: vec![(0.0, 0.0), (1.0, 1.0)] }],
            notes: vec![Note { at: 0.2, words: "half" }, Note { at: 0.9, words: "max" }],
            key: vec![
                Key { class: "area fa", words: "one" },
                Key { class: "line red", words: "limit" },
                Key { class: "line ink", words: "a text that is too long for the first line of the legend" },
                Key { class: "area fb", words: "and another one that has no room on the same line as that" },
            ],
        };
        let html = plot.draw();
        let svg = &html[html.find("<svg").unwrap()..html.find("</svg>").unwrap() + "</svg>".len()];
        let document = paint::check_alone(svg);
        let height: f64 = document.root_element().attribute("height").unwrap().parse().unwrap();
        for text in document.descendants().filter(|node| node.has_tag_name("text")) {
            let number = |name| text.attribute(name).unwrap().parse::<f64>().unwrap();
            assert!((0.0..=WIDTH).contains(&number("x")) && (0.0..height).contains(&number("y")));
        }
        // Lines are in pixels of the file, so that they are as wide as they say.
        assert!(
            svg.contains("d=\"M220.0 116.0L932.0 116.0\"") && svg.contains("d=\"M220.0 36.0L932.0 196.0\"")
        );
        let words: String = document.descendants().filter_map(|node| node.text()).collect();
        for expected in ["a < b & \"c\"", "1 s", "half", "max", "limit", "…"] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
    }
}
