//! The terminal: its full [`screen`] or one [`line`] of it, keys, signals and colours.

mod backend;
mod input;
pub(crate) mod line;
pub(crate) mod screen;
mod signals;
pub(crate) mod terminfo;
