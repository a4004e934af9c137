//! Draws a look: a line for each tree, its processes below, and the history of the selected line in charts.
//!
//! ```text
//!  memfold top  2 trees, 5 processes: 1.2 GiB in 410 MiB, 790 MiB saved            every 1 s
//!      PID  LOGICAL RESIDENT  PAYLOAD   SAVED▾  RATIO FAULTS/s   FAULT   STALL COMMAND  LIMIT
//!     1200     900M     280M     270M     600M   3.30      420  8.4 µs   0.4 % redis-…   300M
//!     1201     900M     280M     270M     600M   3.30      420  8.4 µs   0.4 %   redis-server
//!
//!  tree 1200: redis-server --port 6379
//!  ⠒ RESIDENT 280M  ⣿ PAYLOAD 270M  ⠤ LIMIT 300M       ⣿ STALL 0.4 %
//!  384M│                                                1 %│
//!      │⠤⠤⠤ ⠤⠤⠤⢀⠤⠒⠒⠒⠒                                   │
//!     0│⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿                                  0│⣀⣀⡀ ⢀⣀
//!      └────────────                                       └────────────
//!    -60s     -30s     now                               -60s     -30s     now
//!  q quit  ? help  ↑↓ choose  ←→ sort  r reverse  l limit  +- limit by 5 %
//! ```
//!
//! The table gets the lines that it needs, and the charts get the rest, but never less than [`least`].
//!
//! Colours come from the terminal's own palette. Coloured text is used only where both its colour and its
//! background are set, so it stays readable on any background.

use memfold::size::Human;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::charts::Charts;
use super::paint::{put, shortened};
use super::state::{Line, State};
use super::{help, table, words};
use crate::output::text::width;

pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// How a look is drawn.
pub struct View {
    /// Whether colours are used.
    pub colours: bool,
    /// The time between two looks.
    pub interval: f64,
}

/// The least height of the charts on a screen of this height; a low screen has none.
fn least(height: u16) -> u16 {
    match height {
        ..16 => 0,
        16..32 => 8,
        _ => 14,
    }
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
        let is_empty = state.look.trees.is_empty();
        let between = area.height.saturating_sub(head + titles + foot_height);
        let lines = u16::try_from(state.lines().len()).unwrap_or(u16::MAX);
        let table = Rect {
            y: area.y + head + titles,
            height: match least(area.height) {
                0 => between,
                _ if is_empty => between,
                least => lines.min(between.saturating_sub(least)).max(1),
            },
            ..area
        };
        state.visible = table.height.max(1).into();
        if head > 0 {
            self.draw_head(buffer, Rect { height: 1, ..area }, state);
        }
        if is_empty {
            let lines = words::nothing(&state.look, area.width.into());
            for (y, line) in (table.y..table.bottom()).zip(lines) {
                put(buffer, area, area.x, y, &line, Style::new());
            }
        } else {
            if titles > 0 {
                table::draw_titles(self, buffer, Rect { y: area.y + head, height: 1, ..area }, state);
            }
            table::draw(self, buffer, table, state);
            let rest = Rect { y: table.bottom(), height: between.saturating_sub(table.height), ..area };
            self.draw_history(buffer, rest, state);
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
        let right = words::mode(state, self.interval);
        let x = put(buffer, area, area.x, area.y, " memfold top", BOLD) + 2;
        let from = area.right().saturating_sub(width(&right) as u16 + 1);
        let left = Rect { width: from.saturating_sub(area.x + 1), ..area };
        let room = usize::from(left.right().saturating_sub(x));
        put(buffer, left, x, area.y, &words::summary(&state.look, room), Style::new());
        let is_calm = !state.has_ended && !state.is_paused && !state.is_read_only;
        let style = if is_calm { DIM } else { self.style(Color::Yellow, Modifier::REVERSED) };
        if from > x || !is_calm {
            put(buffer, area, from.max(area.x), area.y, &right, style);
        }
    }

    fn draw_history(&self, buffer: &mut Buffer, area: Rect, state: &State) {
        let Some((history, chosen)) = state.history().zip(state.chosen) else { return };
        if area.height < 2 {
            return;
        }
        let heading = shortened(&words::chosen(state), usize::from(area.width).saturating_sub(2));
        put(buffer, area, area.x + 1, area.y, &heading, BOLD);
        let charts = Charts {
            history,
            // Processes have no limits of their own.
            has_limit: matches!(chosen, Line::Tree(_)),
            interval: self.interval,
            colours: self.colours,
        };
        charts.draw(buffer, Rect { y: area.y + 1, height: area.height - 1, ..area });
    }

    /// The last lines: the available keys, the pending input, or a message.
    fn foot(&self, state: &State, columns: usize) -> Vec<(String, Style)> {
        let wrapped = |text: &str, style: Style| -> Vec<_> {
            words::wrapped(text, columns.saturating_sub(2)).map(|line| (format!(" {line}"), style)).collect()
        };
        let urgent = self.style(Color::Yellow, Modifier::BOLD);
        if let Some(prompt) = &state.prompt {
            let mut lines = prompt.error.as_ref().map_or(Vec::new(), |error| wrapped(error, urgent));
            let limit = state.look.trees.iter().find(|tree| tree.supervisor == prompt.supervisor);
            let now = limit.map_or(String::new(), |tree| format!(", now {}", Human(tree.limit_bytes)));
            let text = format!(" limit of {}{now}: {}▏", prompt.supervisor, prompt.text);
            lines.push((text, BOLD));
            return lines;
        }
        if let Some(question) = &state.question {
            return wrapped(&words::question(question), urgent);
        }
        let mut lines = match (&state.message, words::hidden(&state.look)) {
            (Some(message), _) => wrapped(message, BOLD),
            (None, Some(hint)) if !state.look.trees.is_empty() => wrapped(&hint, DIM),
            _ => Vec::new(),
        };
        lines.push((words::keys(columns, state.is_read_only), DIM));
        lines
    }
}
