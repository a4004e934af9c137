//! The full-screen browser, which shows a tree directory by directory, as ncdu does.
//!
//! ```text
//!   keys ──> Browser ── acts ──> Actions: delete, refresh, shell
//!               |
//!               ├── View: the opened directory in its order, in the heap
//!               └── draw: what is on the screen, and nothing else
//! ```
//!
//! The rooms: `view` (what is listed, in which order), `draw` (the list, windows, colours), `text` (names,
//! numbers and times as shown), `terminal` (screen, keys, signals). Beside them is what the browser does: its
//! state, windows, keys and actions.
//!
//! [`run`] owns the terminal ([`Screen`], which `memfold top` uses, too); [`Browser`] knows nothing about it: it
//! takes keys, and draws to any frame. Of a browsed tree, plain memory holds only what is on the screen.

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
