//! The history of the chosen line in two charts: its memory, and the share of the time that it waited.
//!
//! The curves also differ without colours: RESIDENT is a line, PAYLOAD, a part of it, is filled, and a limit
//! is dashed.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};

use super::cells;
use super::paint::put;
use super::state::{History, Sample};
use super::view::DIM;
use crate::output::text::width;

/// If there are as many lines, one chart is above the other, so that their times are, too.
const STACKED: u16 = 16;
/// The least width for two charts beside each other.
const BESIDE: u16 = 60;
/// The least width and height of a chart: its legend, its x axis with labels, and two lines between.
const LEAST: (u16, u16) = (20, 5);
/// A limit that is more than so many times the memory in use is not shown: nothing else would be seen.
const FAR: u64 = 3;

/// The charts of a line.
pub struct Charts<'a> {
    /// The history.
    pub history: &'a History,
    /// Whether the limit is shown.
    pub has_limit: bool,
    /// The time between two looks.
    pub interval: f64,
    /// Whether colours are used.
    pub colours: bool,
}

/// A curve: its samples without gaps, and how it is drawn.
struct Curve {
    name: String,
    mark: &'static str,
    colour: Color,
    kind: GraphType,
    pieces: Vec<Vec<(f64, f64)>>,
}

/// A y axis: its upper end, and the labels at equal distances from 0 on.
struct Scale {
    top: f64,
    labels: Vec<String>,
}

impl Charts<'_> {
    /// Draws them.
    pub fn draw(&self, buffer: &mut Buffer, area: Rect) {
        let Some(newest) = self.history.newest() else { return };
        let (memory, stall) = divided(area);
        self.draw_memory(buffer, memory, newest);
        if let Some(stall) = stall {
            self.draw_stall(buffer, stall, newest);
        }
    }

    fn draw_memory(&self, buffer: &mut Buffer, area: Rect, newest: &Sample) {
        let most = self.history.samples().map(|sample| sample.resident.max(sample.payload)).max();
        let most = most.unwrap_or(0);
        let limit = self.history.samples().map(|sample| sample.limit).max().unwrap_or(0);
        let is_near = self.has_limit && limit <= most.saturating_mul(FAR);
        let named = |name: &str, bytes: u64| format!("{name} {}", cells::bytes(bytes));
        let mut curves = vec![
            Curve {
                name: named("PAYLOAD", newest.payload),
                mark: "⣿",
                colour: Color::Magenta,
                kind: GraphType::Area,
                pieces: self.pieces(|sample| Some(sample.payload as f64)),
            },
            Curve {
                name: named("RESIDENT", newest.resident),
                mark: "⠒",
                colour: Color::Blue,
                kind: GraphType::Line,
                pieces: self.pieces(|sample| Some(sample.resident as f64)),
            },
        ];
        if self.has_limit {
            let pieces = self.pieces(|sample| Some(sample.limit as f64));
            let dashes = pieces.iter().flat_map(|piece| dashes(piece, self.span() / f64::from(area.width)));
            curves.push(Curve {
                name: named("LIMIT", newest.limit) + if is_near { "" } else { " (above)" },
                mark: "⠤",
                colour: Color::Red,
                kind: GraphType::Line,
                pieces: if is_near { dashes.collect() } else { Vec::new() },
            });
        }
        let scale = Scale::of_bytes(if is_near { most.max(limit) } else { most }, area.height);
        self.draw_chart(buffer, area, &curves, &scale);
    }

    fn draw_stall(&self, buffer: &mut Buffer, area: Rect, newest: &Sample) {
        let most = self.history.samples().filter_map(|sample| sample.stall).fold(0.0, f64::max);
        let now = newest.stall.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
        let stall = Curve {
            name: format!("STALL {now}"),
            mark: "⣿",
            colour: Color::Cyan,
            kind: GraphType::Area,
            pieces: self.pieces(|sample| sample.stall.map(|share| share * 100.0)),
        };
        self.draw_chart(buffer, area, &[stall], &Scale::of_percent(most * 100.0));
    }

    fn draw_chart(&self, buffer: &mut Buffer, area: Rect, curves: &[Curve], scale: &Scale) {
        if area.width < LEAST.0 || area.height < LEAST.1 {
            return;
        }
        let style = |colour| if self.colours { Style::new().fg(colour) } else { Style::new() };
        let mut x = area.x + 1;
        for curve in curves {
            if usize::from(area.right().saturating_sub(x)) < 2 + width(&curve.name) {
                break;
            }
            put(buffer, area, x, area.y, curve.mark, style(curve.colour));
            x = put(buffer, area, x + 2, area.y, &curve.name, Style::new()) + 2;
        }
        let datasets = curves.iter().flat_map(|curve| {
            let dataset =
                Dataset::default().marker(Marker::Braille).graph_type(curve.kind).style(style(curve.colour));
            curve.pieces.iter().map(move |piece| dataset.clone().data(piece))
        });
        let span = self.span();
        let times = [ago(span, span), ago(span / 2.0, span), "now".into()];
        let x_axis = Axis::default().style(DIM).bounds([-span, 0.0]).labels(times);
        let labels = scale.labels.iter().map(String::as_str);
        let y_axis = Axis::default().style(DIM).bounds([0.0, scale.top]);
        let y_axis = y_axis.labels(labels).labels_alignment(Alignment::Right);
        let chart = Chart::new(datasets.collect()).x_axis(x_axis).y_axis(y_axis).legend_position(None);
        let graph = Rect {
            x: area.x + 1,
            y: area.y + 1,
            width: area.width.saturating_sub(2),
            height: area.height - 1,
        };
        chart.render(graph, buffer);
    }

    /// The time that the charts show.
    fn span(&self) -> f64 {
        span(self.history.samples().len().saturating_sub(1) as f64 * self.interval)
    }

    /// A curve in pieces: there are gaps where a value is unknown, or where no looks were taken. The newest
    /// sample is at 0.
    fn pieces(&self, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Vec<(f64, f64)>> {
        let now = self.history.newest().map_or(0.0, |newest| newest.at);
        let longest = 2.5 * self.interval + 1.0;
        let mut pieces = vec![Vec::<(f64, f64)>::new()];
        for sample in self.history.samples() {
            let at = sample.at - now;
            let last = pieces.last().and_then(|piece| piece.last());
            if last.is_some_and(|(before, _)| at - before > longest) {
                pieces.push(Vec::new());
            }
            match (value(sample), pieces.last_mut()) {
                (Some(value), Some(piece)) => piece.push((at, value)),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// The areas of the charts: one above the other, beside each other, or only the first.
fn divided(area: Rect) -> (Rect, Option<Rect>) {
    if area.height >= STACKED {
        let height = area.height.div_ceil(2) + area.height / 10;
        let below = Rect { y: area.y + height, height: area.height - height, ..area };
        (Rect { height, ..area }, Some(below))
    } else if area.width >= BESIDE {
        let width = area.width / 5 * 3;
        let beside = Rect { x: area.x + width, width: area.width - width, ..area };
        (Rect { width, ..area }, Some(beside))
    } else {
        (area, None)
    }
}

/// A line in dashes. Each dash, and each gap between two, is as long as two cells.
fn dashes(piece: &[(f64, f64)], cell: f64) -> Vec<Vec<(f64, f64)>> {
    let long = 2.0 * cell;
    let Some((first, last)) = piece.first().zip(piece.last()) else { return Vec::new() };
    // Dashes count from the newest sample, at which the line has to be seen.
    let count = ((last.0 - first.0) / (2.0 * long)).ceil() as usize;
    (0..count.max(1))
        .map(|number| {
            let to = last.0 - number as f64 * 2.0 * long;
            let from = (to - long).max(first.0);
            let at = |x: f64| {
                let next = piece.partition_point(|point| point.0 <= x);
                piece[next.saturating_sub(1)].1
            };
            vec![(from, at(from)), (to, at(to))]
        })
        .collect()
}

/// The time that is shown for a history this long: half of it is a round time, too.
fn span(seconds: f64) -> f64 {
    const MINUTES: [f64; 10] = [1.0, 2.0, 4.0, 10.0, 20.0, 60.0, 120.0, 240.0, 720.0, 1440.0];
    let round = MINUTES.iter().map(|minutes| minutes * 60.0).find(|span| *span >= seconds);
    let day = 86_400.0;
    round.unwrap_or_else(|| 2.0 * day * 2_f64.powf((seconds / day / 2.0).log2().ceil().max(0.0)))
}

/// A label of a time axis: how long ago this was, in a unit that suits the whole axis.
fn ago(seconds: f64, span: f64) -> String {
    let (unit, name) = match span {
        ..=120.0 => (1.0, "s"),
        ..=3600.0 => (60.0, "m"),
        ..=86_400.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    };
    format!("-{}{name}", (seconds / unit).round())
}

impl Scale {
    /// An axis for up to this many bytes: it ends at a power of two, or at three quarters of one, and has a
    /// label at each quarter of the power if the chart is high enough.
    fn of_bytes(most: u64, height: u16) -> Self {
        let power = most.clamp(1 << 20, 1 << 62).next_power_of_two();
        let steps = if most <= power / 4 * 3 { 3 } else { 4 };
        let top = power / 4 * steps;
        // A label on every other line at most. Three quarters have no middle that is round.
        let fits = |labels: u64| u64::from(height.saturating_sub(3)) > 2 * (labels - 1);
        let labels = match steps {
            _ if fits(steps + 1) => steps,
            4 if fits(3) => 2,
            _ => 1,
        };
        Scale { top: top as f64, labels: (0..=labels).map(|at| cells::bytes(top / labels * at)).collect() }
    }

    /// An axis for up to this many percent.
    fn of_percent(most: f64) -> Self {
        let top = [1.0, 2.0, 4.0, 10.0, 20.0, 40.0].into_iter().find(|top| *top >= most).unwrap_or(100.0);
        Scale { top, labels: vec!["0".into(), format!("{} %", top / 2.0), format!("{top} %")] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let labels = |most, height| Scale::of_bytes(most, height).labels;
        assert_eq!(labels(0, 20), ["0", "256K", "512K", "768K"]);
        assert_eq!(labels(31 << 20, 20), ["0", "8M", "16M", "24M", "32M"]);
        assert_eq!(labels(32 << 20, 10), ["0", "16M", "32M"]);
        assert_eq!(labels(33 << 20, 20), ["0", "16M", "32M", "48M"]);
        assert_eq!(labels(33 << 20, 8), ["0", "48M"]);
        assert_eq!(labels(u64::MAX, 5), ["0", "4E"]);
        assert_eq!(Scale::of_percent(0.0).labels, ["0", "0.5 %", "1 %"]);
        assert_eq!(Scale::of_percent(2.5).labels, ["0", "2 %", "4 %"]);
        assert_eq!(Scale::of_percent(100.0).labels, ["0", "50 %", "100 %"]);
        // Labels are what they say.
        for most in (0..62).map(|shift| (1 << shift) + 1) {
            let scale = Scale::of_bytes(most, 40);
            assert!(scale.top >= most as f64 && (most < 1 << 20 || scale.top <= 2.0 * most as f64), "{most}");
        }
    }

    #[test]
    fn times_are_round() {
        let times = |seconds: f64| [1.0, 0.5].map(|share| ago(span(seconds) * share, span(seconds)));
        assert_eq!(times(0.0), ["-60s", "-30s"]);
        assert_eq!(times(61.0), ["-120s", "-60s"]);
        assert_eq!(times(511.0), ["-10m", "-5m"]);
        assert_eq!(times(5110.0), ["-2h", "-1h"]);
        assert_eq!(times(86_400.0), ["-24h", "-12h"]);
        assert_eq!(times(100_000.0), ["-2d", "-1d"]);
        for seconds in (0..40).map(|power| 2_f64.powi(power) + 0.5) {
            assert!(span(seconds) >= seconds, "{seconds}");
        }
    }

    #[test]
    fn a_limit_is_dashed_to_the_newest_sample() {
        let piece: Vec<(f64, f64)> = (-30..=0).map(|at| (f64::from(at), f64::from(at / 10))).collect();
        let dashes = dashes(&piece, 1.0);
        assert_eq!(dashes.len(), 8);
        assert_eq!(dashes[0], [(-2.0, 0.0), (0.0, 0.0)]);
        assert_eq!(dashes[3], [(-14.0, -1.0), (-12.0, -1.0)]);
        assert!(dashes.iter().all(|dash| dash[0].0 >= -30.0));
        assert_eq!(super::dashes(&piece[..1], 1.0), [[(-30.0, -3.0), (-30.0, -3.0)]]);
        assert!(super::dashes(&[], 1.0).is_empty());
    }
}
