//! Ratio against speed: panels with axes, marks, and names where there is room for them, in a separate file.
//!
//! ```text
//!  +------------------------------+
//!  | all files                    |   every mark named
//!  +------------------------------+
//!  | file a    | file b  | file c |   the marks that no other beats in both
//!  | ...                          |
//!  +------------------------------+
//! ```
//!
//! All panels have the same speed axis, so that they can be compared. Ratios differ too much between files
//! for a common axis. Every mark shows its numbers when the pointer rests on it.

use svg::node::element::{Circle, Group, Path, Rectangle, Style, Text, Title};
use svg::{Document, Node};

use super::axes::{decades, round_step};
use super::labels::{Box, place};
use super::paint;

const WIDTH: f64 = 1000.0;
const TITLE: f64 = 56.0;
const LARGE: f64 = 540.0;
const SMALL: f64 = 250.0;
const ACROSS: usize = 3;

/// A codec in a panel.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: &'static str,
    /// MB/s.
    pub speed: f64,
    /// Original bytes per compressed byte.
    pub ratio: f64,
    /// The text when the pointer rests on the mark.
    pub words: String,
}

/// Draws a document: the overall panel and, if there are several files, a panel for each.
pub fn draw(title: &str, subtitle: &str, whole: &Panel, files: &[Panel]) -> String {
    let speeds = files.iter().chain([whole]).flat_map(|panel| &panel.marks).map(|mark| mark.speed);
    let (slowest, fastest) = speeds.fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    let speeds = if fastest > 0.0 { (slowest, fastest) } else { (1.0, 1000.0) };

    // One file is its own overall panel.
    let files = if files.len() > 1 { files } else { &[] };
    let across = files.len().clamp(1, ACROSS);
    let height = TITLE + LARGE + files.len().div_ceil(across) as f64 * SMALL;
    let mut document = Document::new()
        .set("width", WIDTH)
        .set("height", height)
        .set("viewBox", (0, 0, WIDTH, height))
        .set("role", "img")
        .set("font-family", paint::FONTS)
        .set("font-size", 11)
        .add(Style::new(paint::dark()))
        .add(Title::new(title))
        .add(painted(Rectangle::new().set("width", WIDTH).set("height", height), "paper"))
        .add(text(16.0, 28.0, "title", title))
        .add(text(16.0, 46.0, "", subtitle));
    document = whole.draw(document, Frame { x: 0.0, y: TITLE, width: WIDTH, height: LARGE }, speeds);
    let width = WIDTH / across as f64;
    for (i, panel) in files.iter().enumerate() {
        let (x, y) = ((i % across) as f64 * width, TITLE + LARGE + (i / across) as f64 * SMALL);
        document = panel.draw(document, Frame { x, y, width, height: SMALL }, speeds);
    }
    document.to_string() + "\n"
}

/// The position of a panel.
#[derive(Debug, Clone, Copy)]
struct Frame {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// The contents of a panel.
#[derive(Debug, Clone)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// Its marks.
    pub marks: Vec<Mark>,
    /// The ratio of the virtual best.
    pub best: Option<f64>,
    /// Whether it is the large panel: every mark and both axes have names.
    pub all_named: bool,
}

/// Maps numbers to positions in the drawing. Speeds are on a logarithmic axis.
struct Scale {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// The range of speeds, as logarithms.
    speeds: (f64, f64),
    most: f64,
}

impl Scale {
    fn new(frame: Frame, large: bool, speeds: (f64, f64), ratios: impl Iterator<Item = f64>) -> Self {
        let (low, high) = (speeds.0.log10(), speeds.1.log10());
        let margin = ((high - low) * 0.04).max(0.05);
        let most = ratios.fold(1.0, f64::max);
        let (left, bottom) = if large { (60.0, 52.0) } else { (40.0, 34.0) };
        Self {
            left: frame.x + left,
            right: frame.x + frame.width - 16.0,
            top: frame.y + 30.0,
            bottom: frame.y + frame.height - bottom,
            speeds: (low - margin, high + margin),
            most: 1.0 + (most - 1.0).max(0.1) * 1.08,
        }
    }

    fn x(&self, speed: f64) -> f64 {
        let share = (speed.log10() - self.speeds.0) / (self.speeds.1 - self.speeds.0);
        self.left + share * (self.right - self.left)
    }

    fn y(&self, ratio: f64) -> f64 {
        // Data that do not shrink have ratio 1. The axis begins a little lower, so that their marks are not
        // cut off.
        let lowest = 1.0 - (self.most - 1.0) * 0.05;
        self.bottom - (ratio - lowest) / (self.most - lowest) * (self.bottom - self.top)
    }

    /// Round speeds on the axis.
    fn speed_ticks(&self, most: usize) -> Vec<f64> {
        let steps: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let (low, high) = (10f64.powf(self.speeds.0), 10f64.powf(self.speeds.1));
        let all = |steps: &[f64]| decades(low, high, steps);
        steps.map(all).into_iter().find(|ticks| ticks.len() <= most).unwrap_or_else(|| all(&[1.0]))
    }

    /// Round ratios on the axis.
    fn ratio_ticks(&self, most: usize) -> Vec<f64> {
        let step = round_step(self.most - 1.0, most as f64);
        let first = (1.0 / step).ceil() as u64;
        (first..).map(|i| i as f64 * step).take_while(|ratio| *ratio <= self.most).collect()
    }
}

impl Panel {
    /// Adds the panel to a document. `speeds` are the lowest and the highest of all panels.
    fn draw(&self, document: Document, frame: Frame, speeds: (f64, f64)) -> Document {
        let ratios = self.marks.iter().map(|mark| mark.ratio).chain(self.best);
        let scale = Scale::new(frame, self.all_named, speeds, ratios);
        let mut group =
            Group::new().add(text(scale.left, frame.y + 20.0, "panel", &self.fitting_title(frame)));
        group = self.draw_axes(group, &scale);
        if let Some(best) = self.best {
            let line = format!("M{},{}H{}", round(scale.left), round(scale.y(best)), round(scale.right));
            group = group.add(painted(Path::new(), "best").set("d", line));
        }
        if self.marks.is_empty() {
            let (x, y) = ((scale.left + scale.right) / 2.0, (scale.top + scale.bottom) / 2.0);
            group = group.add(text(x, y, "middle", "no block was compressed"));
        }
        document.add(self.draw_marks(group, &scale))
    }

    fn fitting_title(&self, frame: Frame) -> String {
        let most = (frame.width / 7.5) as usize;
        if self.title.chars().count() <= most {
            return self.title.clone();
        }
        let tail: Vec<char> = self.title.chars().rev().take(most - 1).collect();
        std::iter::once('…').chain(tail.into_iter().rev()).collect()
    }

    fn draw_axes(&self, mut group: Group, scale: &Scale) -> Group {
        let (left, right, top, bottom) =
            (round(scale.left), round(scale.right), round(scale.top), round(scale.bottom));
        let (across, up) = if self.all_named { (14, 9) } else { (5, 5) };
        let ratios = scale.ratio_ticks(up);
        let digits = match ratios.as_slice() {
            [a, b, ..] if b - a < 0.095 => 2,
            [a, b, ..] if b - a < 0.95 => 1,
            _ => 0,
        };
        for ratio in ratios {
            let y = round(scale.y(ratio));
            group = group.add(painted(Path::new(), "grid").set("d", format!("M{left},{y}H{right}")));
            group = group.add(text(left - 6.0, y + 4.0, "end", &format!("{ratio:.digits$}")));
        }
        for speed in scale.speed_ticks(across) {
            let x = round(scale.x(speed));
            group = group.add(painted(Path::new(), "grid").set("d", format!("M{x},{top}V{bottom}")));
            group = group.add(text(x, bottom + 15.0, "middle", &number(speed)));
        }
        group = group.add(painted(Path::new(), "axis").set("d", format!("M{left},{top}V{bottom}H{right}")));
        let middle = (scale.left + scale.right) / 2.0;
        if self.all_named {
            group = group.add(text(
                middle,
                bottom + 36.0,
                "middle",
                "speed of compression, MB/s (10⁶ bytes, logarithmic)",
            ));
            let (x, y) = (left - 42.0, (scale.top + scale.bottom) / 2.0);
            let turned = text(x, y, "middle", "ratio, original : compressed");
            group = group.add(turned.set("transform", format!("rotate(-90 {} {})", round(x), round(y))));
        } else {
            group = group.add(text(right, bottom + 28.0, "end small", "MB/s"));
            group = group.add(text(left - 6.0, top - 4.0, "end small", "ratio"));
        }
        group
    }

    fn draw_marks(&self, mut group: Group, scale: &Scale) -> Group {
        let (radius, letter, high) = if self.all_named { (5.0, 6.3, 13.0) } else { (3.5, 5.6, 11.0) };
        let places: Vec<(f64, f64)> =
            self.marks.iter().map(|mark| (scale.x(mark.speed), scale.y(mark.ratio))).collect();
        let named: Vec<bool> =
            self.marks.iter().map(|mark| self.all_named || self.is_unbeaten(mark)).collect();
        let wanted: Vec<Option<(f64, f64)>> = self
            .marks
            .iter()
            .zip(&named)
            .map(|(mark, named)| named.then(|| (shortened(&mark.name).chars().count() as f64 * letter, high)))
            .collect();
        let inside =
            Box { left: scale.left, top: scale.top - 6.0, right: scale.right + 12.0, bottom: scale.bottom };
        let labels = place(&places, radius, &wanted, inside);
        for ((mark, (x, y)), label) in self.marks.iter().zip(&places).zip(&labels) {
            if let Some(label) = label
                && let Some((from, to)) = label.leader((*x, *y), radius)
            {
                let line = format!("M{},{}L{},{}", round(from.0), round(from.1), round(to.0), round(to.1));
                group = group.add(painted(Path::new(), "leader").set("d", line));
            }
            let circle = painted(Circle::new(), "mark").set("fill", mark.colour);
            let circle = circle.set("cx", round(*x)).set("cy", round(*y)).set("r", radius);
            group = group.add(circle.add(Title::new(mark.words.as_str())));
        }
        for (mark, label) in self.marks.iter().zip(&labels) {
            if let Some(label) = label {
                let class = if self.all_named { "name" } else { "name small" };
                group = group.add(text(label.left, label.bottom - 3.0, class, &shortened(&mark.name)));
            }
        }
        group
    }

    /// Whether no other mark is at least as good in ratio and speed, and better in one of them.
    fn is_unbeaten(&self, mark: &Mark) -> bool {
        !self.marks.iter().any(|other| {
            other.ratio >= mark.ratio
                && other.speed >= mark.speed
                && (other.ratio > mark.ratio || other.speed > mark.speed)
        })
    }
}

/// Shortens the name of a long pipeline, which would not fit. The pointer shows the full name.
fn shortened(name: &str) -> String {
    const MOST: usize = 30;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

/// A round number, with as few digits as it has.
fn number(value: f64) -> String {
    if value >= 1000.0 {
        crate::output::text::grouped(value as u64)
    } else {
        format!("{}", (value * 1e4).round() / 1e4)
    }
}

/// A text element, without characters that XML forbids.
fn text(x: f64, y: f64, class: &str, words: &str) -> Text {
    let made = Text::new(memfold_escape::line(words)).set("x", round(x)).set("y", round(y));
    painted(made, format!("words {class}").trim_end())
}

/// An element with classes, for dark screens, and what they mean on others.
fn painted<T: Node>(mut node: T, classes: &str) -> T {
    node.assign("class", classes);
    paint::attributes(classes).into_iter().for_each(|(name, value)| node.assign(name, value));
    node
}

/// A tenth of a pixel is enough.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, speed: f64, ratio: f64) -> Mark {
        Mark { name: name.into(), colour: "#000", speed, ratio, words: name.into() }
    }

    fn panel(marks: Vec<Mark>) -> Panel {
        Panel { title: "a".into(), marks, best: None, all_named: true }
    }

    #[test]
    fn unbeaten_marks() {
        let panel =
            panel(vec![mark("a", 1.0, 3.0), mark("b", 2.0, 2.0), mark("c", 1.5, 2.0), mark("d", 2.0, 2.0)]);
        let unbeaten = panel.marks.iter().filter(|mark| panel.is_unbeaten(mark));
        assert_eq!(unbeaten.map(|mark| mark.name.as_str()).collect::<Vec<_>>(), ["a", "b", "d"]);
    }

    #[test]
    fn a_plot_is_a_file_of_its_own() {
        let small = Panel { all_named: false, best: Some(2.5), ..panel(vec![mark("b & <c>", 9.0, 2.0)]) };
        let empty = panel(Vec::new());
        let svg =
            draw("a < b", "&", &panel(vec![mark("a", 1.0, 3.0), mark("b", 20.0, 1.2)]), &[small, empty]);
        paint::check_alone(&svg);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let frame = Frame { x: 0.0, y: 0.0, width: 400.0, height: 300.0 };
        for (low, high, most) in
            [(0.5, 12_000.0, 9.0), (100.0, 100.0, 1.0), (1e-3, 1e5, 400.0), (80.0, 300.0, 1.3)]
        {
            let scale = Scale::new(frame, false, (low, high), [most].into_iter());
            let (speeds, ratios) = (scale.speed_ticks(9), scale.ratio_ticks(6));
            assert!(
                speeds.len() <= 11 && (1..=7).contains(&ratios.len()),
                "{low} {high} {most}: {speeds:?} {ratios:?}"
            );
            for mark in [(low, 1.0), (high, most)] {
                let (x, y) = (scale.x(mark.0), scale.y(mark.1));
                assert!((scale.left..=scale.right).contains(&x) && (scale.top..=scale.bottom).contains(&y));
            }
        }
        assert_eq!([0.5, 20.0, 5000.0].map(number), ["0.5", "20", "5,000"]);
    }
}
