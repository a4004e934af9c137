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

use crate::size::Human;
use crate::stats::grouped;
use crate::web::escape;

/// Width and height of the coordinates inside.
pub const SIDE: f64 = 1000.0;

/// A plot.
pub struct Plot<'a> {
    /// Its name for scripts.
    pub id: &'a str,
    /// What it shows, in words.
    pub label: String,
    /// Height in rem.
    pub height: f64,
    /// Labels at positions from left to right, 0 to 1.
    pub x: Vec<(f64, String)>,
    /// Labels at positions from the bottom up, 0 to 1.
    pub y: Vec<(f64, String)>,
    /// The labels at the side are names, not numbers.
    pub names: bool,
    /// Coordinates, if not those of [`SIDE`].
    pub view: Option<(f64, f64)>,
    /// SVG.
    pub svg: String,
    /// HTML over it.
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

/// Labels for an axis of bytes from zero, and its end.
pub fn bytes_axis(largest: u64) -> (u64, Vec<(f64, String)>) {
    let step = step_of_bytes(largest.max(1 << 20));
    let end = largest.max(1 << 20).div_ceil(step) * step;
    let text = |bytes: u64| if bytes == 0 { "0".to_owned() } else { Human(bytes).to_string() };
    let words = (0..=end).step_by(step as usize).map(|bytes| (bytes as f64 / end as f64, text(bytes)));
    (end, words.collect())
}

/// A round number of bytes that divides `top` into 2 to 6 parts.
fn step_of_bytes(top: u64) -> u64 {
    let mut unit = 1u64;
    while top / unit >= 1024 {
        unit *= 1024;
    }
    let steps = [1, 2, 4, 5, 10, 20, 25, 50, 100, 128, 200, 256];
    let step = steps.into_iter().find(|step| top.div_ceil(unit * step) <= 6);
    // Less than three units: fractions of one are needed.
    match top / unit {
        0..=2 if unit > 1 => unit / 2,
        _ => unit * step.unwrap_or(256),
    }
}

/// Labels for an axis of numbers from zero, and its end.
pub fn count_axis(largest: f64, text: impl Fn(f64) -> String) -> (f64, Vec<(f64, String)>) {
    let largest = largest.max(1e-6);
    let step = round_step(largest, 4.0);
    let parts = (largest / step).ceil();
    let words = (0..=parts as u32).map(|part| {
        let value = f64::from(part) * step;
        (f64::from(part) / parts, if part == 0 { "0".to_owned() } else { text(value) })
    });
    (parts * step, words.collect())
}

/// Labels for the time axis.
pub fn time_axis(seconds: f64) -> Vec<(f64, String)> {
    let (unit, name) = match seconds {
        0.0..300.0 => (1.0, "s"),
        0.0..10_800.0 => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    let step = round_step(seconds / unit, 9.0);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let count = (seconds / unit / step * (1.0 + 1e-9)) as u32;
    (0..=count)
        .map(|number| {
            let value = f64::from(number) * step;
            (value * unit / seconds, format!("{value:.digits$} {name}"))
        })
        .collect()
}

/// The smallest of 1, 2 or 5 times a power of ten that gives no more than `most` steps.
fn round_step(largest: f64, most: f64) -> f64 {
    let power = 10f64.powf((largest / most).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| largest / step <= most * (1.0 + 1e-9)).unwrap_or(largest)
}

/// Powers of ten between two numbers and, if these are few, 2 and 5 times them.
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| (low..=high).contains(value)).collect()
}

/// A time in microseconds, in words.
pub fn us_text(us: f64) -> String {
    match us {
        0.0..1.0 => format!("{us:.2}\u{a0}µs"),
        1.0..10.0 => format!("{us:.1}\u{a0}µs"),
        10.0..999.5 => format!("{us:.0}\u{a0}µs"),
        0.0..9950.0 => format!("{:.1}\u{a0}ms", us / 1e3),
        0.0..999_500.0 => format!("{:.0}\u{a0}ms", us / 1e3),
        _ => format!("{:.1}\u{a0}s", us / 1e6),
    }
}

/// A rate or a count in short form.
pub fn short(value: f64) -> String {
    match value {
        0.0..1.0 => format!("{value:.1}"),
        1.0..1e4 => grouped(value.round() as u64),
        1e4..1e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
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
    fn axes_are_of_bearable_size_and_end_beyond_the_largest() {
        for top in [0, 1 << 20, 3 << 20, 100 << 20, 999 << 20, 1 << 30, 5 << 29, 700 << 30, 1 << 42] {
            let (end, words) = bytes_axis(top);
            assert!(end >= top && (3..=7).contains(&words.len()), "{top}: {words:?}");
        }
        for seconds in [0.001, 0.05, 1.0, 7.3, 60.0, 299.0, 4000.0, 99_999.0] {
            let words = time_axis(seconds);
            assert!((3..=11).contains(&words.len()), "{seconds}: {words:?}");
            assert!(words.is_sorted_by(|a, b| a.0 < b.0) && words.iter().all(|word| word.0 <= 1.001));
        }
        assert_eq!(log_ticks(3.0, 2000.0), [10.0, 100.0, 1000.0]);
        assert_eq!(log_ticks(4.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        for largest in [0.0, 0.3, 7.0, 123_456.0] {
            let (end, words) = count_axis(largest, short);
            assert!(end >= largest && (2..=6).contains(&words.len()), "{largest}: {words:?}");
        }
    }

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
