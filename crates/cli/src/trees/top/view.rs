//! Draws a look: a line and a gauge for each tree, its processes below, and the history of the selected line at
//! the bottom.
//!
//! ```text
//!  memfold top  2 trees, 5 processes: 1.2 GiB in 410 MiB, 790 MiB saved        every 1 s
//!      PID  LOGICAL RESIDENT  PAYLOAD   SAVED▾  RATIO FAULTS/s   FAULT   STALL COMMAND
//!  1200 redis-server --port 6379                     ███████░░░  280 MiB of 300 MiB
//!     1201     900M     280M     270M     600M   3.30      420  8.4 µs   0.4 % redis-server
//!  RESIDENT of 1201, up to 280 MiB       STALL of 1201, up to 100 %
//!  ▆▆▆▇▇▆                                ▁▁▂▁▁▃▁▁▁
//!  q quit  ? help  ↑↓ choose  ←→ sort  l limit  +- 5 %  space pause
//! ```
//!
//! Colours come from the terminal's own palette. Coloured text is used only where both its colour and its
//! background are set, so it stays readable on any background.

use crate::output::text::width;
use memfold::size::Human;
use memfold_args::top::columns::{COLUMNS, Is};
use memfold_escape::shown;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Sparkline, Widget};

use super::look::{Group, Row};
use super::paint::put;
use super::state::{Shown, State};
use super::{cells, help, words};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Lines of a history, including its title.
const HISTORY: u16 = 5;
/// Screens with fewer lines show no history.
const HAS_HISTORY: u16 = 16;
/// A process that stalls for a larger share of the time is marked.
const STALLS: f64 = 0.1;

/// How a look is drawn.
pub struct View {
    /// Whether colours are used.
    pub colours: bool,
    /// The time between two looks.
    pub interval: f64,
}

impl View {
    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>, state: &mut State) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        if let Some((page, from)) = state.help {
            state.visible = area.height.saturating_sub(2).max(1).into();
            state.help = Some((page, help::draw(buffer, area, page, from)));
            return;
        }
        let foot = self.foot(state, area.width.into());
        let [head, titles] = [u16::from(area.height > 2), u16::from(area.height > 4)];
        let foot_height = (foot.len() as u16).min(area.height.saturating_sub(head + titles + 1));
        let history = if area.height >= HAS_HISTORY && !state.look.trees.is_empty() { HISTORY } else { 0 };
        let table = Rect {
            y: area.y + head + titles,
            height: area.height.saturating_sub(head + titles + foot_height + history),
            ..area
        };
        state.visible = table.height.max(1).into();
        if head > 0 {
            self.draw_head(buffer, Rect { height: 1, ..area }, state);
        }
        if state.look.trees.is_empty() {
            let lines = words::nothing(&state.look, area.width.into());
            for (y, line) in (table.y..table.bottom()).zip(lines) {
                put(buffer, area, area.x, y, &line, Style::new());
            }
        } else {
            if titles > 0 {
                self.draw_titles(buffer, Rect { y: area.y + head, height: 1, ..area }, state);
            }
            self.draw_table(buffer, table, state);
        }
        if history > 0 {
            self.draw_history(buffer, Rect { y: table.bottom(), height: history, ..area }, state);
        }
        let first = foot.len() - usize::from(foot_height);
        let from = area.bottom() - foot_height;
        for (y, (text, style)) in (from..).zip(&foot[first..]) {
            put(buffer, area, area.x, y, text, *style);
        }
    }

    fn style(&self, colour: Color, plain: Modifier) -> Style {
        if self.colours { Style::new().fg(Color::Black).bg(colour) } else { Style::new().add_modifier(plain) }
    }

    fn draw_head(&self, buffer: &mut Buffer, area: Rect, state: &State) {
        let right = match () {
            () if state.has_ended => "ended: last numbers".to_owned(),
            () if state.is_paused => "paused".to_owned(),
            () => format!("every {} s", self.interval),
        };
        let x = put(buffer, area, area.x, area.y, " memfold top", BOLD) + 2;
        let from = area.right().saturating_sub(width(&right) as u16 + 1);
        let left = Rect { width: from.saturating_sub(area.x + 1), ..area };
        let room = usize::from(left.right().saturating_sub(x));
        put(buffer, left, x, area.y, &words::summary(&state.look, room), Style::new());
        let is_calm = !state.has_ended && !state.is_paused;
        let style = if is_calm { DIM } else { self.style(Color::Yellow, Modifier::REVERSED) };
        if from > x || !is_calm {
            put(buffer, area, from.max(area.x), area.y, &right, style);
        }
    }

    fn draw_titles(&self, buffer: &mut Buffer, area: Rect, state: &State) {
        let style = self.style(Color::Green, Modifier::REVERSED);
        buffer.set_style(area, style);
        let mut x = area.x;
        for column in cells::fitting(area.width.into(), state.sort) {
            let columns = cells::width(column.is);
            let sorts = column.is == COLUMNS[state.sort].is;
            let mark = if state.is_reversed { "▴" } else { "▾" };
            let title = if sorts { format!("{}{mark}", column.title) } else { column.title.into() };
            let style = if sorts { style.add_modifier(Modifier::BOLD) } else { style };
            // The sort mark is between columns.
            let from = match cells::is_left(column.is) {
                true => x + 1,
                false => x + 1 + columns.saturating_sub(column.title.len()) as u16,
            };
            put(buffer, area, from, area.y, &title, style);
            x += columns as u16 + 1;
        }
    }

    fn draw_table(&self, buffer: &mut Buffer, area: Rect, state: &State) {
        let lines = state.lines();
        let chosen = state.chosen_at().unwrap_or(0);
        let height = usize::from(area.height);
        // The selected line stays visible, and so does its tree if there is room.
        let first = (chosen + 1).saturating_sub(height).min(lines.len().saturating_sub(height));
        for (y, (at, (_, line))) in (area.y..area.bottom()).zip(lines.iter().enumerate().skip(first)) {
            let row = Rect { y, height: 1, ..area };
            match line {
                Shown::Tree(tree) => self.draw_tree(buffer, row, tree),
                Shown::Process(process) => self.draw_process(buffer, row, process, state.sort),
            }
            if at == chosen {
                buffer.set_style(row, self.style(Color::Cyan, Modifier::REVERSED));
            }
        }
    }

    fn draw_tree(&self, buffer: &mut Buffer, area: Rect, tree: &Group) {
        let (resident, limit) = (tree.memory.resident_bytes, tree.limit_bytes);
        let auto = if tree.stall_target.is_some() && tree.idle_seconds.is_none() { ", auto" } else { "" };
        let numbers = format!("{} of {}{auto}", Human(resident), Human(limit));
        let from = area.right().saturating_sub(numbers.len().max(18) as u16 + 1);
        // On a narrow screen the command matters more than the gauge.
        let bar = (area.width / 4).min(24) * u16::from(area.width >= 60);
        let left = from.saturating_sub(if bar > 0 { bar + 2 } else { 1 });
        let name = format!(" {} {}", tree.supervisor, shown(&tree.command));
        put(buffer, Rect { width: left.saturating_sub(area.x), ..area }, area.x, area.y, &name, BOLD);
        let share = resident as f64 / limit.max(1) as f64;
        let filled = (share * f64::from(bar)).round().clamp(0.0, f64::from(bar)) as usize;
        let gauge = "█".repeat(filled) + &"░".repeat(usize::from(bar) - filled);
        let colour = match resident {
            resident if resident <= limit => Color::Green,
            // The total is within the tolerance of the limit.
            resident if resident <= limit.saturating_add(limit / 20 + (8 << 20)) => Color::Yellow,
            _ => Color::Red,
        };
        let style = if self.colours { Style::new().fg(colour) } else { Style::new() };
        put(buffer, area, left + 1, area.y, &gauge, style);
        put(buffer, area, from, area.y, &numbers, BOLD);
    }

    fn draw_process(&self, buffer: &mut Buffer, area: Rect, row: &Row, sort: usize) {
        let mut x = area.x;
        for column in cells::fitting(area.width.into(), sort) {
            let (text, columns) = (cells::text(row, column.is), cells::width(column.is));
            let indent = if cells::is_left(column.is) { 0 } else { columns.saturating_sub(width(&text)) };
            let stalls = column.is == Is::Stall && row.rates.stall_share.is_some_and(|share| share > STALLS);
            let style = match stalls {
                true if self.colours => BOLD.fg(Color::Red),
                true => BOLD,
                false => Style::new(),
            };
            put(buffer, area, x + 1 + indent as u16, area.y, &text, style);
            x += columns as u16 + 1;
        }
    }

    fn draw_history(&self, buffer: &mut Buffer, area: Rect, state: &State) {
        let Some((name, history)) = state.history() else { return };
        let most = history.resident.iter().copied().max().unwrap_or(0).max(1);
        let half = (area.width.saturating_sub(3)) / 2;
        for (x, title, values, top) in [
            (area.x + 1, format!("RESIDENT of {name}, up to {}", Human(most)), &history.resident, most),
            (area.x + 2 + half, format!("STALL of {name}, up to 100 %"), &history.stall, 1000),
        ] {
            let part = Rect { x, width: half, ..area };
            put(buffer, part, x, area.y, &title, DIM);
            // The newest value is at the right end.
            let from = values.len().saturating_sub(half.into());
            let values: Vec<u64> = values.iter().skip(from).copied().collect();
            let drawn = part.width.min(values.len() as u16);
            let part = Rect {
                x: x + half - drawn,
                y: area.y + 1,
                width: drawn,
                height: area.height.saturating_sub(1),
            };
            let style = if self.colours { Style::new().fg(Color::Blue) } else { Style::new() };
            Sparkline::default().data(&values).max(top).style(style).render(part, buffer);
        }
    }

    /// The last lines: the available keys, the pending input, or a message.
    fn foot(&self, state: &State, columns: usize) -> Vec<(String, Style)> {
        if let Some(prompt) = &state.prompt {
            let mut lines: Vec<_> = prompt
                .error
                .iter()
                .flat_map(|error| words::wrapped(error, columns.saturating_sub(2)))
                .map(|line| (format!(" {line}"), self.style(Color::Yellow, Modifier::BOLD)))
                .collect();
            let limit = state.look.trees.iter().find(|tree| tree.supervisor == prompt.supervisor);
            let now = limit.map_or(String::new(), |tree| format!(", now {}", Human(tree.limit_bytes)));
            let text = format!(" limit of {}{now}: {}▏", prompt.supervisor, prompt.text);
            lines.push((text, BOLD));
            return lines;
        }
        if let Some(question) = &state.question {
            let text = words::question(question);
            let style = self.style(Color::Yellow, Modifier::BOLD);
            return words::wrapped(&text, columns.saturating_sub(2))
                .map(|line| (format!(" {line}"), style))
                .collect();
        }
        let mut lines = Vec::new();
        if let Some(message) = &state.message {
            lines.extend(
                words::wrapped(message, columns.saturating_sub(2)).map(|line| (format!(" {line}"), BOLD)),
            );
        } else if let Some(hint) = words::hidden(&state.look).filter(|_| !state.look.trees.is_empty()) {
            lines.extend(
                words::wrapped(&hint, columns.saturating_sub(2)).map(|line| (format!(" {line}"), DIM)),
            );
        }
        lines.push((words::keys(columns), DIM));
        lines
    }
}
