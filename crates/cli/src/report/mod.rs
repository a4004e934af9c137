//! The results of a run: statistics, the closing line, and the self-contained page of `--report`.
//!
//! ```text
//!  while it runs:  supervisor ──> record ( steps, latency, space, often, processes, names )
//!  at the end:     shared page + what the supervisor has seen ──> stats ──> JSON, closing line
//!                  record + stats ──> page ( numbers ──> advice, charts, maps, tables )
//! ```
//!
//! Every number on the page is also in `page::fields`, which the page embeds as JSON. Every number in the
//! text is marked with its place there. So people and programs read the same numbers.

mod closing;
pub mod page;
pub mod record;
pub mod seen;
pub mod stats;
pub mod times;
