//! Draws the table: its titles, and a line for each tree with the sums over its processes, which follow it.

use memfold_args::top::columns::{COLUMNS, Column, Is};
use memfold_escape::shown;
use memfold_shared::near;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::look::Group;
use super::order::Values;
use super::paint::{put, shortened};
use super::state::{Shown, State};
use super::view::{BOLD, View};
use super::{cells, words};
use crate::output::text::width;

/// A process that stalls for a larger share of the time is marked.
const STALLS: f64 = 0.1;
/// The title above the limits of trees.
const LIMIT: &str = "LIMIT";

/// The columns on the screen, and where they begin.
fn columns(area: Rect, sort: usize) -> impl Iterator<Item = (u16, &'static Column)> {
    cells::fitting(area.width.into(), sort).into_iter().scan(area.x, move |x, column| {
        let from = *x + 1;
        *x += cells::room(column.is, sort) as u16;
        Some((from, column))
    })
}

/// Draws the titles; the one of the sort column is marked.
pub fn draw_titles(view: &View, buffer: &mut Buffer, area: Rect, state: &State) {
    let style = view.style(Color::Green, Modifier::REVERSED);
    buffer.set_style(area, style);
    for (from, column) in columns(area, state.sort) {
        let indent = match cells::is_left(column.is) {
            true => 0,
            false => cells::width(column.is).saturating_sub(column.title.len()) as u16,
        };
        if column.is == Is::Command && cells::rest(area.right().saturating_sub(from))[2] > 0 {
            put(buffer, area, area.right() - LIMIT.len() as u16, area.y, LIMIT, style);
        }
        if column.is != COLUMNS[state.sort].is {
            put(buffer, area, from + indent, area.y, column.title, style);
            continue;
        }
        // The mark stands behind the column.
        let title = format!("{}{}", column.title, if state.is_reversed { "▴" } else { "▾" });
        let style = view.style(Color::Cyan, Modifier::REVERSED | Modifier::UNDERLINED);
        put(buffer, area, from + indent, area.y, &title, style.add_modifier(Modifier::BOLD));
    }
}

/// Draws the lines around the chosen one.
pub fn draw(view: &View, buffer: &mut Buffer, area: Rect, state: &State) {
    let lines = state.lines();
    let chosen = state.chosen_at().unwrap_or(0);
    let height = usize::from(area.height);
    // The selected line stays visible, and so does its tree if there is room.
    let first = (chosen + 1).saturating_sub(height).min(lines.len().saturating_sub(height));
    for (y, (at, (_, line))) in (area.y..area.bottom()).zip(lines.iter().enumerate().skip(first)) {
        let row = Rect { y, height: 1, ..area };
        let (values, tree) = match line {
            Shown::Tree(tree) => (Values::of_tree(tree), Some(*tree)),
            Shown::Process(process) => (Values::of_process(process), None),
        };
        draw_line(view, buffer, row, &values, tree, state.sort);
        if at == chosen {
            buffer.set_style(row, view.style(Color::Cyan, Modifier::REVERSED));
        }
    }
}

fn draw_line(
    view: &View,
    buffer: &mut Buffer,
    area: Rect,
    values: &Values<'_>,
    tree: Option<&Group>,
    sort: usize,
) {
    let plain = if tree.is_some() { BOLD } else { Style::new() };
    for (from, column) in columns(area, sort) {
        if column.is == Is::Command {
            let rest = Rect { x: from, width: area.right().saturating_sub(from), ..area };
            match tree {
                Some(tree) => draw_rest(view, buffer, rest, tree),
                None => {
                    let name = shortened(&shown(values.command), usize::from(rest.width).saturating_sub(2));
                    put(buffer, area, from + 2, area.y, &name, plain);
                }
            }
            continue;
        }
        let (text, columns) = (cells::text(values, column.is), cells::width(column.is));
        let indent = if cells::is_left(column.is) { 0 } else { columns.saturating_sub(width(&text)) };
        let style = match column.is {
            Is::Stall if values.rates.stall_share.is_some_and(|share| share > STALLS) => match view.colours {
                true => BOLD.fg(Color::Red),
                false => BOLD,
            },
            Is::Resident => match tree.map(colour).filter(|colour| *colour != Color::Green) {
                Some(colour) => view.style(colour, Modifier::BOLD),
                None => plain,
            },
            _ => plain,
        };
        put(buffer, area, from + indent as u16, area.y, &text, style);
    }
}

/// The rest of a tree's line: its command, and how much of its limit is in use.
fn draw_rest(view: &View, buffer: &mut Buffer, area: Rect, tree: &Group) {
    let [command, gauge, limit] = cells::rest(area.width);
    put(buffer, area, area.x, area.y, &shortened(&shown(&tree.command), command.into()), BOLD);
    if gauge > 0 {
        let share = tree.memory.resident_bytes as f64 / tree.limit_bytes.max(1) as f64;
        let filled = (share * f64::from(gauge)).round().clamp(0.0, f64::from(gauge)) as usize;
        let bar = "█".repeat(filled) + &"░".repeat(usize::from(gauge) - filled);
        let style = if view.colours { Style::new().fg(colour(tree)) } else { Style::new() };
        put(buffer, area, area.x + command + 1, area.y, &bar, style);
    }
    if limit > 0 {
        let text = cells::limit(tree.limit_bytes, words::is_auto(tree));
        put(buffer, area, area.right().saturating_sub(text.len() as u16), area.y, &text, BOLD);
    }
}

/// The colour of a tree: whether it keeps to its limit.
fn colour(tree: &Group) -> Color {
    let (resident, limit) = (tree.memory.resident_bytes, tree.limit_bytes);
    match resident {
        resident if resident <= limit => Color::Green,
        // The total is within the tolerance of the limit.
        resident if resident <= limit.saturating_add(near::tolerance(limit)) => Color::Yellow,
        _ => Color::Red,
    }
}
