//! What a run leaves behind: its statistics, the closing line, and `--report`, a record of the run in one
//! self-contained page.
//!
//! ```text
//!  while it runs:  supervisor ──> record ( steps, latency, space, often, processes, names )
//!  at the end:     shared page + what the supervisor has seen ──> stats ──> JSON, closing line
//!                  record + stats ──> page ( numbers ──> advice, charts, maps, tables )
//! ```
//!
//! Every number on the page is also in `page::fields`, which is embedded as JSON, and every number in the text
//! is marked with its place there. So people and programs read the same numbers.

mod closing;
pub mod page;
pub mod record;
pub mod seen;
pub mod stats;
pub mod times;
