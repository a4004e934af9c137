//! Output of the command: text and JSON on standard output, messages on standard error, files that are
//! written at the end, and pages with plots.

pub mod failure;
pub mod file;
pub mod plot;
pub mod text;
pub mod web;
