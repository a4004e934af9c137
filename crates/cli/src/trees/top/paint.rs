//! Writing to the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;

use crate::output::text::width;

/// Writes as much of a text as fits into the area, and returns the position of its end.
pub fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let area = area.intersection(buffer.area);
    if y < area.y || y >= area.bottom() || x < area.x || x >= area.right() {
        return x;
    }
    buffer.set_stringn(x, y, text, (area.right() - x).into(), style).0
}

/// A text in at most this many columns. An ellipsis stands for what is left out, after a whole word if
/// enough of them fit.
pub fn shortened(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.into();
    }
    let mut end = 0;
    let mut left = columns.saturating_sub(1);
    for (at, letter) in text.grapheme_indices(true) {
        match left.checked_sub(width(letter)) {
            Some(less) => (left, end) = (less, at + letter.len()),
            None => break,
        }
    }
    if let Some(space) = text[..end].rfind(' ')
        && !text[end..].starts_with(' ')
        && 2 * width(&text[..space]) >= columns
    {
        end = space + 1;
    }
    format!("{}{}", &text[..end], if columns > 0 { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_after_a_word() {
        let at = |columns| shortened("python3 load.py 640", columns);
        assert_eq!(at(19), "python3 load.py 640");
        assert_eq!([at(18), at(17), at(16)], ["python3 load.py …", "python3 load.py …", "python3 load.py…"]);
        // The first word is all that fits, or less than that.
        assert_eq!([at(12), at(8), at(4), at(1), at(0)], ["python3 …", "python3…", "pyt…", "…", ""]);
        // A wide letter does not fit into half of its columns.
        assert_eq!([shortened("文件文件", 8), shortened("文件文件", 6)], ["文件文件", "文件…"]);
        let long = "word ".repeat(40);
        (0..250).for_each(|columns| assert!(width(&shortened(&long, columns)) <= columns, "{columns}"));
    }
}
