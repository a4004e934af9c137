//! Draws the screen: the [`list`], the [`boxes`] in front of it, and the [`theme`] of both.

pub(crate) mod boxes;
mod list;
pub(crate) mod theme;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Writes a text at a position, as far as it fits into the area; returns where it ends.
fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let area = area.intersection(buffer.area);
    if y < area.y || y >= area.bottom() || x < area.x || x >= area.right() {
        return x;
    }
    buffer.set_stringn(x, y, text, (area.right() - x).into(), style).0
}
