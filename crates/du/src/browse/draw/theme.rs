//! The colours: the basic ones that every colour terminal has, and their bright versions where bold is
//! bright.

use ratatui::style::{Color, Modifier, Style};

use crate::browse::options::Colours;

/// A kind of text on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Anything else.
    Text,
    /// The first and the last line.
    Head,
    /// A number in the first or the last line.
    HeadNumber,
    /// A window's title.
    Title,
    /// A number.
    Number,
    /// A key that can be pressed.
    Key,
    /// A directory's name.
    Directory,
    /// A mark for something special about an entry.
    Flag,
    /// The bar.
    Bar,
    /// An error.
    Trouble,
}

impl Colours {
    /// The style of a part, selected or not.
    pub(crate) fn style(self, part: Part, selected: bool) -> Style {
        if self == Colours::Off {
            return Style::new().add_modifier(match part {
                Part::Head | Part::HeadNumber => Modifier::REVERSED,
                _ if selected => Modifier::REVERSED,
                Part::Title | Part::Key => Modifier::BOLD,
                _ => Modifier::empty(),
            });
        }
        let style = match part {
            Part::Text if selected => Style::new().fg(Color::Gray).add_modifier(Modifier::BOLD),
            Part::Text => match self {
                Colours::DarkBackground => Style::new().fg(Color::Gray),
                _ => Style::new(),
            },
            Part::Head => return Style::new().fg(Color::Black).bg(Color::Cyan),
            Part::HeadNumber => {
                return Style::new().fg(Color::Yellow).bg(Color::Cyan).add_modifier(Modifier::BOLD);
            }
            Part::Title | Part::Directory => Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD),
            Part::Number | Part::Key => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
            Part::Flag => Style::new().fg(Color::Red),
            Part::Bar => Style::new().fg(Color::Magenta),
            Part::Trouble => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        };
        match self {
            _ if selected => style.bg(Color::Green),
            Colours::DarkBackground => style.bg(Color::Black),
            _ => style,
        }
    }
}
