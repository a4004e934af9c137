//! The pages of help: the keys, and the definitions of the columns.

use memfold_args::top::columns::{BELOW, CHANGES, COLUMNS, KEYS};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::paint::put;
use super::state::Page;
use super::words::wrapped;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws a page from a line on. Returns the line at which it really began, because fewer lines may be left.
pub fn draw(buffer: &mut Buffer, area: Rect, page: Page, from: usize) -> usize {
    let lines = lines(page, area.width.into());
    let height = usize::from(area.height.saturating_sub(1));
    let from = from.min(lines.len().saturating_sub(height));
    for (y, (thing, meaning)) in (area.y..area.bottom().saturating_sub(1)).zip(&lines[from..]) {
        put(buffer, area, area.x + 1, y, thing, BOLD);
        put(buffer, area, area.x + indent(area.width.into()) as u16, y, meaning, Style::new());
    }
    let more = if from + height < lines.len() {
        "↑↓ more   "
    } else if from > 0 {
        "↑↓ back   "
    } else {
        ""
    };
    let other = if page == Page::Keys { "? columns   " } else { "" };
    let foot = format!(" {more}{other}any other key goes back");
    put(buffer, area, area.x, area.bottom().saturating_sub(1), &foot, REVERSED);
    from
}

/// The column at which meanings begin.
fn indent(columns: usize) -> usize {
    if columns < 50 { 4 } else { 17 }
}

/// The lines of a page: what is explained, and its meaning.
fn lines(page: Page, columns: usize) -> Vec<(String, String)> {
    let (heading, list) = match page {
        Page::Keys => ("Keys", [&KEYS[..], &CHANGES].concat()),
        Page::Columns => {
            let columns = COLUMNS.iter().map(|column| (column.title, column.definition));
            ("Columns", columns.chain(BELOW).collect())
        }
    };
    let mut lines = vec![(heading.to_owned(), String::new())];
    for (thing, meaning) in list {
        let mut thing = thing.to_owned();
        if thing.len() + 1 > indent(columns) {
            lines.push((std::mem::take(&mut thing), String::new()));
        }
        for line in wrapped(meaning, columns.saturating_sub(indent(columns) + 1)) {
            lines.push((std::mem::take(&mut thing), line));
        }
    }
    lines
}
