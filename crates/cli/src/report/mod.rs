//! `--report`: a record of the run in one self-contained page.
//!
//! ```text
//!  while it runs:  supervisor ──> record ( steps, latency, space, often, processes, names )
//!  at the end:     record + statistics ──> numbers ──> advice, charts, maps, tables ──> page
//! ```
//!
//! Every number on the page is also in [`numbers`], which is embedded as JSON, and every number in the text is
//! marked with its place there. So people and programs read the same numbers.

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
