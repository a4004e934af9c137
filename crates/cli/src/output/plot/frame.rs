//! The frame of a plot: an SVG that is stretched, surrounded by axes with labels that keep their size at any
//! width of the window.
//!
//! ```text
//!   .y   |  .in: svg, 0..1000 by 0..1000 (or cells), and words over it
//!  words |
//!  ------+-----------------------------------------
//!           .x: words
//! ```
//!
//! The SVG is larger than `.in` by its margins, in which it has the same labels again for when it is a file of
//! its own ([`alone`](super::alone)). The page hides those, since they would be stretched, too.

use std::fmt::Write;

use super::paint::paint;
use crate::output::text::grouped;
use crate::output::web::escape;

/// Width and height of the coordinates inside.
pub const SIDE: f64 = 1000.0;

/// A plot.
#[derive(Default)]
pub struct Plot<'a> {
    /// Its name for scripts.
    pub id: &'a str,
    /// Its contents, in words.
    pub label: String,
    /// Height in rem.
    pub height: f64,
    /// Labels at positions from left to right, 0 to 1.
    pub x: Vec<(f64, String)>,
    /// Labels at positions from the bottom up, 0 to 1.
    pub y: Vec<(f64, String)>,
    /// The labels on the side are names, not numbers.
    pub names: bool,
    /// Width and height of the coordinates, if they are not [`SIDE`].
    pub view: Option<(f64, f64)>,
    /// The drawing, as SVG, without strokes: they would be stretched, too.
    pub svg: String,
    /// Lines below the drawing, and above it.
    pub under: Vec<Line>,
    #[allow(missing_docs)]
    pub lines: Vec<Line>,
    /// Words over the drawing.
    pub notes: Vec<Note>,
    /// The legend.
    pub key: Vec<Key>,
}

/// A line. Its points have positions from left to right and from the top down, 0 to 1.
pub struct Line {
    /// Its classes.
    pub classes: &'static str,
    #[allow(missing_docs)]
    pub points: Vec<(f64, f64)>,
}

/// Words beside a vertical line, at a position from left to right, 0 to 1.
pub struct Note {
    #[allow(missing_docs)]
    pub at: f64,
    #[allow(missing_docs)]
    pub words: &'static str,
}

/// A colour of a legend.
pub struct Key {
    /// Its class.
    pub class: &'static str,
    /// Its meaning.
    pub words: &'static str,
}

impl Key {
    /// Whether it is a line, not an area.
    pub(super) fn is_line(&self) -> bool {
        self.class.starts_with("line")
    }

    fn html(&self) -> String {
        let swatch = match self.class {
            "line red" => "<i class=\"l d\"></i>".to_owned(),
            _ if self.is_line() => "<i class=\"l\"></i>".to_owned(),
            class => format!("<i style=\"background:var(--{})\"></i>", &class[class.len() - 1..]),
        };
        format!("<li>{swatch}{}</li>\n", escape(self.words))
    }
}

impl Note {
    /// In the right part, the words are on the left of the line.
    pub(super) fn is_left_of_line(&self) -> bool {
        self.at > 0.85
    }

    /// The notes are on lines of their own, so that those close together stay readable.
    fn html(&self, line: usize) -> String {
        let side = match self.is_left_of_line() {
            true => format!("right:{:.2}%", (1.0 - self.at) * 100.0),
            false => format!("left:{:.2}%", self.at * 100.0),
        };
        let top = line as f64 * 1.15;
        format!(
            "<span class=\"on\" style=\"{side};top:{top:.1}rem;margin:0 .2rem\">{}</span>",
            escape(self.words)
        )
    }
}

impl Plot<'_> {
    /// Draws the plot.
    pub fn draw(&self) -> String {
        let mut html = format!(
            "<div class=\"plot{}\" id=\"{}\" style=\"--h:{:.2}rem\"><div class=\"y\">",
            if self.names { " names" } else { "" },
            self.id,
            self.height
        );
        for (at, text) in &self.y {
            let _ = write!(html, "<span style=\"bottom:{:.2}%\">{}</span>", at * 100.0, escape(text));
        }
        html += "</div><div class=\"in\">";
        html += &self.file();
        for (line, note) in self.notes.iter().enumerate() {
            html += &note.html(line);
        }
        html += "</div><div class=\"x\">";
        for (number, (at, text)) in self.x.iter().enumerate() {
            let odd = if number % 2 == 1 { " class=\"odd\"" } else { "" };
            let _ = write!(html, "<span{odd} style=\"left:{:.2}%\">{}</span>", at * 100.0, escape(text));
        }
        html += "</div></div>\n";
        if !self.key.is_empty() {
            let items: String = self.key.iter().map(Key::html).collect();
            html += &format!("<ul class=\"key\">\n{items}</ul>\n");
        }
        html
    }

    /// Horizontal lines at the labels on the side.
    pub fn grid(&mut self) {
        let line = |(at, _): &(f64, String)| Line {
            classes: "grid",
            points: vec![(0.0, 1.0 - at), (1.0, 1.0 - at)],
        };
        self.under.extend(self.y.iter().map(line));
    }

    /// A line around the drawing.
    pub fn outline(&mut self) {
        let points = vec![(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)];
        self.under.push(Line { classes: "grid", points });
    }
}

/// A path with classes.
pub fn path(classes: &str, d: &str) -> String {
    format!("<path {} d=\"{d}\"/>", paint(classes))
}

/// The cells of a map by shade: each run of neighbours is one line.
pub struct Cells {
    paths: [String; 8],
    largest: u32,
    width: f64,
    last: Option<(usize, usize, f64, usize)>,
}

impl Cells {
    /// Starts without cells; the darkest shade is for the largest count. No cell goes beyond `width` columns.
    pub fn new(largest: u32, width: f64) -> Self {
        Cells { paths: Default::default(), largest, width, last: None }
    }

    /// Adds a cell with a count; shade 0 means none. Cells come row by row, and by column within a row.
    pub fn add(&mut self, column: usize, y: f64, count: u32) {
        let shade = self.shade(count);
        match &mut self.last {
            Some((known, start, row, length))
                if *known == shade && *row == y && *start + *length == column =>
            {
                *length += 1
            }
            _ => {
                self.flush();
                self.last = Some((shade, column, y, 1));
            }
        }
    }

    fn shade(&self, count: u32) -> usize {
        match count {
            0 => 0,
            _ if self.largest <= 1 => 4,
            _ => (1.0 + f64::from(count).ln() / f64::from(self.largest).ln() * 6.999) as usize,
        }
    }

    fn flush(&mut self) {
        if let Some((shade, start, y, length)) = self.last.take() {
            let length = (length as f64).min(self.width - start as f64).max(0.0);
            let _ = write!(self.paths[shade], "M{start} {}h{}", trimmed(y + 0.5), trimmed(length));
        }
    }

    /// Draws the paths.
    pub fn draw(mut self) -> String {
        self.flush();
        let paths = self.paths.iter().enumerate().filter(|(_, path)| !path.is_empty());
        paths.map(|(shade, d)| path(&format!("cell q{shade}"), d)).collect()
    }

    /// The legend of the shades.
    pub fn scale(largest: u32, what: &str) -> String {
        let shades: String =
            (1..=7).map(|shade| format!("<i style=\"background:var(--q{shade})\"></i>")).collect();
        format!(
            "<p class=\"scale\">1 <span>{shades}</span> {} {what} (logarithmic)</p>\n",
            grouped(largest.into())
        )
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_line() {
        let mut cells = Cells::new(1000, 4.5);
        for (column, y, count) in [(0, 0.0, 1), (1, 0.0, 1), (2, 0.0, 1000), (3, 1.5, 1000), (4, 1.5, 0)] {
            cells.add(column, y, count);
        }
        let svg = cells.draw();
        assert!(svg.contains(&path("cell q1", "M0 0.5h2")), "{svg}");
        assert!(svg.contains(&path("cell q7", "M2 0.5h1M3 2h1")), "{svg}");
        assert!(svg.contains(&path("cell q0", "M4 2h0.5")), "{svg}");
        assert_eq!(Cells::new(1, 9.0).shade(1), 4);
    }
}
