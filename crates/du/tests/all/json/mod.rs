//! ncdu's JSON export: compatible with ncdu, with all kinds of names and trees, and with all kinds of damage.

pub mod common;
mod damaged;
mod format;
mod large;
mod ncdu;
