//! The full-screen browser, which shows a tree directory by directory, as ncdu does.
//!
//! ```text
//!   keys ──> Browser ── acts ──> Actions: delete, refresh, shell
//!               |
//!               ├── View: the opened directory in its order, in the heap
//!               └── draw: what is on the screen, and nothing else
//! ```
//!
//! The folders: `view` (what is listed, and in which order), `draw` (list, windows, colours), `text`
//! (formatting names, numbers and times), `terminal` (screen, keys, signals). The files beside them are the
//! browser itself: its state, windows, keys and actions.
//!
//! [`run`] owns the terminal ([`Screen`], which `memfold top` also uses). [`Browser`] is independent of it:
//! it takes keys, and draws to any frame. Plain memory holds only the part of the tree that is on the screen.

mod actions;
mod draw;
mod help;
mod keys;
mod options;
mod run;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod view;
mod windows;

pub use actions::{Actions, Control, Event, ReadOnly, Step};
pub use keys::Act;
pub use options::{Colours, Graph, Links, Options};
pub use run::{End, run};
pub use state::Browser;
pub use terminal::line::ProgressLine;
pub use terminal::screen::{Input, Screen};
pub use text::width;
pub use view::item::Item;
pub use view::ranked::Ranked;
pub use view::{Column, Sort, View};
