//! A chart of memory over time, as SVG.
//!
//! ```text
//!  y |  label
//!    |--------------------------- limit, dashed
//!    |      ____/‾‾‾\____         what the programs believe to have, a line
//!    |   __/#############\___     resident, an area
//!    +-------------------------> seconds
//! ```
//!
//! Values are drawn as steps would be too sharp: a line from sample to
//! sample. Colours come from the page's style sheet, by class.

use std::fmt::Write;

use crate::series::Point;
use crate::size::Human;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 36.0;

/// Draws the chart.
pub fn draw(points: &[Point], limit: u64, seconds: f64) -> String {
    let largest = points.iter().map(|p| p.resident.max(p.logical)).max().unwrap_or(0);
    // A limit far above everything would press the rest flat: then it is only named below the chart.
    let limit_fits = limit as f64 <= largest as f64 * 3.0;
    let top = if limit_fits { largest.max(limit) } else { largest }.max(1 << 20);
    let step = step_of_bytes(top);
    let scale = Scale { seconds: seconds.max(1e-3), bytes: top.div_ceil(step) * step };

    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Memory over time\">\n");
    draw_grid(&mut svg, &scale, step);
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let resident = line(points, &scale, |p| p.resident);
        let (from, to, ground) = (scale.x(first.at), scale.x(last.at), scale.y(0));
        let area = format!("{resident}L{to:.1},{ground:.1}L{from:.1},{ground:.1}Z");
        let _ = writeln!(svg, "<path class=\"resident\" d=\"{area}\"/>");
        let _ = writeln!(svg, "<path class=\"payload\" d=\"{}\"/>", line(points, &scale, |p| p.payload));
        let _ = writeln!(svg, "<path class=\"logical\" d=\"{}\"/>", line(points, &scale, |p| p.logical));
    }
    if limit_fits {
        let (y, end) = (scale.y(limit), WIDTH - RIGHT);
        let _ = writeln!(svg, "<path class=\"limit\" d=\"M{LEFT},{y:.1}H{end}\"/>");
        let _ = writeln!(svg, "<text class=\"limit-name\" x=\"{end}\" y=\"{:.1}\">limit</text>", y - 6.0);
    }
    svg + "</svg>\n"
}

struct Scale {
    seconds: f64,
    bytes: u64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (seconds / self.seconds).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, bytes: u64) -> f64 {
        HEIGHT - BOTTOM - bytes as f64 / self.bytes as f64 * (HEIGHT - TOP - BOTTOM)
    }
}

fn draw_grid(svg: &mut String, scale: &Scale, step: u64) {
    for bytes in (0..=scale.bytes).step_by(step as usize) {
        let y = scale.y(bytes);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT},{y:.1}H{}\"/>", WIDTH - RIGHT);
        let name = if bytes == 0 { "0".to_owned() } else { Human(bytes).to_string() };
        let _ = writeln!(svg, "<text class=\"y\" x=\"{}\" y=\"{:.1}\">{name}</text>", LEFT - 8.0, y + 4.0);
    }
    let step = step_of_seconds(scale.seconds);
    let digits = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
    let mut number = 0.0;
    while number * step <= scale.seconds {
        let x = scale.x(number * step);
        let _ = writeln!(
            svg,
            "<text class=\"x\" x=\"{x:.1}\" y=\"{:.1}\">{:.digits$} s</text>",
            HEIGHT - BOTTOM + 20.0,
            number * step
        );
        number += 1.0;
    }
}

fn line(points: &[Point], scale: &Scale, value: impl Fn(&Point) -> u64) -> String {
    let mut path = String::new();
    for point in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1},{:.1}", scale.x(point.at), scale.y(value(point)));
    }
    path
}

/// A round number of bytes that divides `top` into 3 to 6 parts.
fn step_of_bytes(top: u64) -> u64 {
    let mut unit = 1u64;
    while top / unit >= 1024 {
        unit *= 1024;
    }
    let steps = [1, 2, 4, 5, 10, 20, 25, 50, 100, 128, 200, 256];
    let step = steps.into_iter().find(|step| top.div_ceil(unit * step) <= 6);
    // Less than three units: parts of one are needed.
    match top / unit {
        0..=2 if unit > 1 => unit / 2,
        _ => unit * step.unwrap_or(256),
    }
}

/// A round number of seconds that divides the time into 4 to 10 parts.
fn step_of_seconds(seconds: f64) -> f64 {
    let power = 10f64.powf((seconds / 10.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| seconds / step <= 10.0)
        .unwrap_or(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_of_bearable_size() {
        for top in [1 << 20, 3 << 20, 100 << 20, 999 << 20, 1000 << 20, 1 << 30, 5 << 29, 700 << 30, 1 << 42]
        {
            let parts = u64::div_ceil(top, step_of_bytes(top));
            assert!((2..=6).contains(&parts), "{top}: {parts}");
        }
        for seconds in [0.004, 0.05, 1.0, 7.3, 60.0, 99_999.0] {
            let parts = seconds / step_of_seconds(seconds);
            assert!((1.9..=10.1).contains(&parts), "{seconds}: {parts}");
        }
    }

    #[test]
    fn everything_stays_inside() {
        let points: Vec<Point> = (0..50)
            .map(|i| Point {
                at: f64::from(i) * 0.1,
                resident: 90 << 20,
                logical: (i as u64) << 23,
                payload: 1 << 20,
            })
            .collect();
        let svg = draw(&points, 100 << 20, 5.0);
        assert!(svg.contains("class=\"limit\""));
        let numbers = svg.split(" d=\"").skip(1).filter_map(|part| part.split('"').next());
        for path in numbers {
            for pair in path.split(['M', 'L', 'Z']).filter(|pair| pair.contains(',') && !pair.contains('H')) {
                let (x, y) = pair.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{pair}");
            }
        }
    }

    #[test]
    fn nothing_to_draw() {
        assert!(draw(&[], 1 << 30, 0.0).ends_with("</svg>\n"));
        assert!(!draw(&[], 1 << 30, 0.0).contains("class=\"limit\""));
    }
}
