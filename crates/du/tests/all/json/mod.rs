//! ncdu's JSON export: as ncdu writes and reads it, whatever names and trees there are, and whatever is wrong
//! with it.

pub mod common;
mod damaged;
mod format;
mod large;
mod ncdu;
