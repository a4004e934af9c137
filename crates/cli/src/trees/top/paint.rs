//! Writing to the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Writes a text at a position, as far as the area has room; returns where it ends.
pub fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let area = area.intersection(buffer.area);
    if y < area.y || y >= area.bottom() || x < area.x || x >= area.right() {
        return x;
    }
    buffer.set_stringn(x, y, text, (area.right() - x).into(), style).0
}
