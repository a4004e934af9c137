//! How the browser begins; keys change most of it.

use super::terminfo;
use super::view::Sort;

/// What stands beside sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Graph {
    /// Nothing.
    None,
    /// The part of the directory that it is.
    Percent,
    /// How it is to the largest one.
    #[default]
    Bar,
    /// Both.
    Both,
}

impl Graph {
    /// The next one that the key shows.
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
    /// What has names elsewhere.
    Shared,
    /// What has not.
    Unique,
}

impl Links {
    /// The next one that the key shows.
    pub(super) fn next(self) -> Self {
        match self {
            Links::None => Links::Shared,
            Links::Shared => Links::Unique,
            Links::Unique => Links::None,
        }
    }
}

/// Which colours there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// None.
    Off,
    /// For terminals with a dark background.
    Dark,
    /// The same, with the background.
    DarkBackground,
}

impl Default for Colours {
    /// None if `NO_COLOR` is set to anything (<https://no-color.org>), or the terminal has fewer than eight:
    /// without them, what is selected is shown in reverse. `COLORTERM` knows more of a terminal than what TERM
    /// names.
    fn default() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_plain = || !is_set("COLORTERM") && terminfo::colours().is_some_and(|count| count < 8);
        if is_set("NO_COLOR") || is_plain() { Colours::Off } else { Colours::DarkBackground }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Options {
    /// The order, and what is left out.
    pub sort: Sort,
    /// What files say to be is shown, not what they take.
    pub apparent: bool,
    /// Beside sizes.
    pub graph: Graph,
    /// Of hard links.
    pub links: Links,
    /// Counts of names are shown.
    pub items: bool,
    /// Times are shown, if they are known.
    pub modified: bool,
    /// Units are powers of 1000.
    pub si: bool,
    /// Which there are.
    pub colours: Colours,
    /// It asks before it ends.
    pub confirm_quit: bool,
    /// It asks before it deletes.
    pub confirm_delete: bool,
    /// What is said about the tree at the right of the first line, as "imported".
    pub note: String,
    /// The screen is drawn every two seconds only, while something takes long.
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
