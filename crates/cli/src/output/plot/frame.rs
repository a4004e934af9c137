//! The frame of a plot: an SVG that is stretched, surrounded by axes with labels that keep their size at any
//! width of the window.
//!
//! ```text
//!   .y   |  .in: svg, 0..1000 by 0..1000 (or cells), and words over it
//!  words |
//!  ------+-----------------------------------------
//!           .x: words
//! ```

use std::fmt::Write;

use crate::output::text::grouped;
use crate::output::web::escape;

/// Width and height of the coordinates inside.
pub const SIDE: f64 = 1000.0;

/// A plot.
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
    /// The drawing, as SVG.
    pub svg: String,
    /// HTML over the drawing.
    pub over: String,
}

impl Plot<'_> {
    /// Draws the plot.
    pub fn draw(&self) -> String {
        let (width, height) = self.view.unwrap_or((SIDE, SIDE));
        let mut html = format!(
            "<div class=\"plot{}\" id=\"{}\" style=\"--h:{:.2}rem\"><div class=\"y\">",
            if self.names { " names" } else { "" },
            self.id,
            self.height
        );
        for (at, text) in &self.y {
            let _ = write!(html, "<span style=\"bottom:{:.2}%\">{}</span>", at * 100.0, escape(text));
        }
        let _ = write!(
            html,
            "</div><div class=\"in\"><svg viewBox=\"0 0 {width:.3} {height:.3}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{}</svg>{}</div><div class=\"x\">",
            escape(&self.label),
            self.svg,
            self.over
        );
        for (number, (at, text)) in self.x.iter().enumerate() {
            let odd = if number % 2 == 1 { " class=\"odd\"" } else { "" };
            let _ = write!(html, "<span{odd} style=\"left:{:.2}%\">{}</span>", at * 100.0, escape(text));
        }
        html + "</div></div>\n"
    }

    /// Horizontal lines at the labels on the side.
    pub fn grid(&mut self) {
        let lines: String =
            self.y.iter().map(|(at, _)| format!("M0 {:.1}H{SIDE}", (1.0 - at) * SIDE)).collect();
        self.svg.insert_str(0, &format!("<path class=\"grid\" d=\"{lines}\"/>"));
    }
}

/// The cells of a map by shade: each run of neighbours is one line.
pub struct Cells {
    paths: [String; 8],
    largest: u32,
    last: Option<(usize, usize, f64, usize)>,
}

impl Cells {
    /// Starts without cells; the darkest shade is for the largest count.
    pub fn new(largest: u32) -> Self {
        Cells { paths: Default::default(), largest, last: None }
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
            let _ = write!(self.paths[shade], "M{start} {}h{length}", trimmed(y + 0.5));
        }
    }

    /// Draws the paths.
    pub fn draw(mut self) -> String {
        self.flush();
        let paths = self.paths.iter().enumerate().filter(|(_, path)| !path.is_empty());
        let paths: String =
            paths.map(|(shade, path)| format!("<path class=\"q{shade}\" d=\"{path}\"/>")).collect();
        format!("<g class=\"cells\">{paths}</g>")
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
        let mut cells = Cells::new(1000);
        for (column, y, count) in [(0, 0.0, 1), (1, 0.0, 1), (2, 0.0, 1000), (3, 1.5, 1000), (4, 1.5, 0)] {
            cells.add(column, y, count);
        }
        let svg = cells.draw();
        assert!(svg.contains("<path class=\"q1\" d=\"M0 0.5h2\"/>"), "{svg}");
        assert!(svg.contains("<path class=\"q7\" d=\"M2 0.5h1M3 2h1\"/>"), "{svg}");
        assert!(svg.contains("<path class=\"q0\" d=\"M4 2h1\"/>"), "{svg}");
        assert_eq!(Cells::new(1).shade(1), 4);
    }
}
