//! The full-screen browser, which shows a tree directory by directory, as ncdu does.
//!
//! ```text
//!   keys ──> Browser ── acts ──> Actions: delete, refresh, shell
//!               |
//!               ├── View: the opened directory in its order, in the heap
//!               └── draw: what is on the screen, and nothing else
//! ```
//!
//! [`run`] owns the terminal ([`Screen`], which `memfold top` uses, too); [`Browser`] knows nothing about it: it
//! takes keys, and draws to any frame. Of a browsed tree, plain memory holds only what is on the screen.

mod actions;
mod backend;
mod boxes;
mod draw;
mod format;
mod help;
mod input;
mod item;
mod keys;
mod line;
mod natural;
mod options;
mod paths;
mod ranked;
mod run;
mod screen;
mod signals;
mod sorter;
mod state;
mod terminfo;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod view;
mod windows;

pub use actions::{Actions, Control, Event, ReadOnly, Step};
pub use item::Item;
pub use keys::Act;
pub use line::ProgressLine;
pub use options::{Colours, Graph, Links, Options};
pub use ranked::Ranked;
pub use run::{End, run};
pub use screen::{Input, Screen};
pub use state::Browser;
pub use text::width;
pub use view::{Column, Sort, View};
