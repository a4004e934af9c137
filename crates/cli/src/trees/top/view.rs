//! Draws a look: a line for each tree, its processes below, and the history of the selected line at the bottom.
//!
//! ```text
//!  memfold top  2 trees, 5 processes: 1.2 GiB in 410 MiB, 790 MiB saved            every 1 s
//!      PID  LOGICAL RESIDENT  PAYLOAD   SAVED▾  RATIO FAULTS/s   FAULT   STALL COMMAND  LIMIT
//!     1200     900M     280M     270M     600M   3.30      420  8.4 µs   0.4 % redis-…   300M
//!     1201     900M     280M     270M     600M   3.30      420  8.4 µs   0.4 %   redis-server
//!  RESIDENT of 1201, up to 280 MiB       STALL of 1201, up to 100 %
//!  ▆▆▆▇▇▆                                ▁▁▂▁▁▃▁▁▁
//!  q quit  ? help  ↑↓ choose  ←→ sort  l limit  +- 5 %  space pause
//! ```
//!
//! Colours come from the terminal's own palette. Coloured text is used only where both its colour and its
//! background are set, so it stays readable on any background.

use crate::output::text::width;
use memfold::size::Human;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Sparkline, Widget};

use super::paint::put;
use super::state::State;
use super::{help, table, words};

pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Lines of a history, including its title.
const HISTORY: u16 = 5;
/// Screens with fewer lines show no history.
const HAS_HISTORY: u16 = 16;

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
                table::draw_titles(self, buffer, Rect { y: area.y + head, height: 1, ..area }, state);
            }
            table::draw(self, buffer, table, state);
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

    /// Black on a colour, or without colours another style.
    pub fn style(&self, colour: Color, plain: Modifier) -> Style {
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
