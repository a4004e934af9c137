//! `--report`: what a run was like, in one page that needs no other file.
//!
//! ```text
//!  while it runs:  supervisor ──> record ( steps, latency, space, often, processes, names )
//!  at the end:     record + statistics ──> numbers ──> advice, charts, maps, tables ──> page
//! ```
//!
//! Every number on the page stands in [`numbers`] too, which is embedded as JSON, and every number in words is marked with its place there: what is
//! seen and what programs read is the same.

mod advice;
mod charts;
mod fields;
mod latency;
mod maps;
mod names;
mod numbers;
mod often;
mod page;
mod plot;
pub mod processes;
mod record;
mod space;
mod steps;
mod tables;

pub use page::page;
pub use record::Records;
pub use steps::Gauges;
