//! Writing to the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Writes as much of a text as fits into the area, and returns the position of its end.
pub fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let area = area.intersection(buffer.area);
    if y < area.y || y >= area.bottom() || x < area.x || x >= area.right() {
        return x;
    }
    buffer.set_stringn(x, y, text, (area.right() - x).into(), style).0
}
