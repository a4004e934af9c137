//! Converts the drawn screen to bytes for a terminal.
//!
//! Colours are the eight of ECMA-48 (`ESC [ 31 m`), written as ncurses does for terminals with 8, 16 or 256
//! colours. crossterm writes `ESC [ 38;5;1 m`, which terminals with eight colours interpret number by number:
//! 5 is blinking, and 1 is bold. Everything except colours and attributes is crossterm's.

use std::fmt::Write as _;
use std::io::{self, Write};

use crossterm::cursor::MoveTo;
use crossterm::queue;
use crossterm::style::Print;
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

/// The backend; see the module.
pub(crate) struct Plain<W: Write>(CrosstermBackend<W>);

impl<W: Write> Plain<W> {
    pub(crate) fn new(to: W) -> Self {
        Plain(CrosstermBackend::new(to))
    }
}

/// The number of a colour among the eight. Other colours look different on different terminals, so nothing
/// here uses them.
fn number(colour: Color) -> Option<u8> {
    Some(match colour {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        other => {
            debug_assert_eq!(other, Color::Reset, "a colour that not all terminals have");
            return None;
        }
    })
}

/// The sequence that sets all attributes of a cell, whatever was set before.
fn sequence(foreground: Color, background: Color, modifier: Modifier) -> String {
    const MODIFIERS: [(Modifier, u8); 8] = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::SLOW_BLINK, 5),
        (Modifier::REVERSED, 7),
        (Modifier::HIDDEN, 8),
        (Modifier::CROSSED_OUT, 9),
    ];
    let modifiers = MODIFIERS.iter().filter(|(one, _)| modifier.contains(*one)).map(|(_, code)| *code);
    let colours = [number(foreground).map(|it| 30 + it), number(background).map(|it| 40 + it)];
    let mut text = "\x1b[0".to_owned();
    for code in modifiers.chain(colours.into_iter().flatten()) {
        // Writing to a string cannot fail.
        let _ = write!(text, ";{code}");
    }
    text + "m"
}

impl<W: Write> Backend for Plain<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        const PLAIN: (Color, Color, Modifier) = (Color::Reset, Color::Reset, Modifier::empty());
        let (mut at, mut looks) = (None, PLAIN);
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                queue!(self.0, MoveTo(x, y))?;
            }
            at = Some((x + 1, y));
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if std::mem::replace(&mut looks, wanted) != wanted {
                queue!(self.0, Print(sequence(cell.fg, cell.bg, cell.modifier)))?;
            }
            queue!(self.0, Print(cell.symbol()))?;
        }
        match looks == PLAIN {
            true => Ok(()),
            false => queue!(self.0, Print(sequence(PLAIN.0, PLAIN.1, PLAIN.2))),
        }
    }

    fn append_lines(&mut self, count: u16) -> io::Result<()> {
        self.0.append_lines(count)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;
    use crate::browse::draw::theme::Part;
    use crate::browse::options::Colours;

    fn drawn(cells: &[(u16, u16, Cell)]) -> String {
        let mut bytes = Vec::new();
        Plain::new(&mut bytes).draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell))).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn cell(symbol: &str, style: Style) -> Cell {
        let mut cell = Cell::default();
        cell.set_symbol(symbol).set_style(style);
        cell
    }

    #[test]
    fn colours_are_the_eight_that_all_terminals_have() {
        let red = Style::new().fg(Color::Red);
        let bold = red.bg(Color::Black).add_modifier(Modifier::BOLD);
        let cells =
            [(3, 1, cell("a", red)), (4, 1, cell("b", red)), (5, 1, cell("c", bold)), (0, 2, cell("d", red))];
        let wanted = "\x1b[2;4H\x1b[0;31mab\x1b[0;1;31;40mc\x1b[3;1H\x1b[0;31md\x1b[0m";
        assert_eq!(drawn(&cells), wanted);
        assert_eq!(drawn(&[(0, 0, cell("a", Style::new()))]), "\x1b[1;1Ha");
        assert_eq!(drawn(&[(0, 0, cell("a", Style::new().fg(Color::Gray)))]), "\x1b[1;1H\x1b[0;37ma\x1b[0m");
    }

    #[test]
    fn no_part_needs_more() {
        use Part::*;
        for part in [Text, Head, HeadNumber, Title, Number, Key, Directory, Flag, Bar, Trouble] {
            for colours in [Colours::Off, Colours::Dark, Colours::DarkBackground] {
                for selected in [false, true] {
                    let text = drawn(&[(0, 0, cell("x", colours.style(part, selected)))]);
                    let codes =
                        text.split("\x1b[").flat_map(|part| part.split_once('m')).map(|(codes, _)| codes);
                    let codes: Vec<u8> =
                        codes.flat_map(|codes| codes.split(';')).map(|code| code.parse().unwrap()).collect();
                    let is_colour = |code: &u8| matches!(code, 30..=37 | 40..=47);
                    assert!(
                        codes.iter().all(|code| is_colour(code) || matches!(code, 0 | 1 | 7)),
                        "{codes:?}"
                    );
                    let is_coloured = codes.iter().any(is_colour);
                    let is_plain =
                        colours == Colours::Off || (colours, part, selected) == (Colours::Dark, Text, false);
                    assert_eq!(is_coloured, !is_plain, "{part:?} {colours:?} {selected}: {text:?}");
                }
            }
        }
    }
}
