//! The initial settings of the browser; keys change most of them.

use super::terminal::terminfo;
use super::view::Sort;

/// What is shown beside sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Graph {
    /// Nothing.
    None,
    /// The share of the directory.
    Percent,
    /// The ratio to the largest entry.
    #[default]
    Bar,
    /// Both.
    Both,
}

impl Graph {
    /// The value after this one, when the key is pressed.
    pub(super) fn next(self) -> Self {
        match self {
            Graph::Bar => Graph::Percent,
            Graph::Percent => Graph::Both,
            Graph::Both => Graph::None,
            Graph::None => Graph::Bar,
        }
    }
}

/// What is shown of sizes that hard links share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// Nothing.
    #[default]
    None,
    /// The part that has names elsewhere.
    Shared,
    /// The part that has no names elsewhere.
    Unique,
}

impl Links {
    /// The value after this one, when the key is pressed.
    pub(super) fn next(self) -> Self {
        match self {
            Links::None => Links::Shared,
            Links::Shared => Links::Unique,
            Links::Unique => Links::None,
        }
    }
}

/// The colour scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// None.
    Off,
    /// For terminals with a dark background.
    Dark,
    /// The same, with a background of its own.
    DarkBackground,
}

impl Default for Colours {
    /// No colours if `NO_COLOR` is set to anything (<https://no-color.org>), or if the terminal has fewer
    /// than eight colours; the selection is then shown in reverse. `COLORTERM` may announce more colours than
    /// the entry of TERM has.
    fn default() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_plain = || !is_set("COLORTERM") && terminfo::colours().is_some_and(|count| count < 8);
        if is_set("NO_COLOR") || is_plain() { Colours::Off } else { Colours::DarkBackground }
    }
}

/// The settings; see the module.
#[derive(Debug, Clone)]
pub struct Options {
    /// The order, and which entries are left out.
    pub sort: Sort,
    /// Shows apparent sizes instead of disk usage.
    pub apparent: bool,
    /// What is shown beside sizes.
    pub graph: Graph,
    /// What is shown of hard links.
    pub links: Links,
    /// Shows counts of names.
    pub items: bool,
    /// Shows times, if they are known.
    pub modified: bool,
    /// Units are powers of 1000.
    pub si: bool,
    /// The colour scheme.
    pub colours: Colours,
    /// Asks before quitting.
    pub confirm_quit: bool,
    /// Asks before deleting.
    pub confirm_delete: bool,
    /// A remark about the tree at the right of the first line, such as "imported".
    pub note: String,
    /// Redraws only every two seconds during a long operation.
    pub slow: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sort: Sort::default(),
            apparent: false,
            graph: Graph::default(),
            links: Links::default(),
            items: false,
            modified: false,
            si: false,
            colours: Colours::default(),
            confirm_quit: false,
            confirm_delete: true,
            note: String::new(),
            slow: false,
        }
    }
}
