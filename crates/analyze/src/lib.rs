//! Estimates whether compressed memory would help, and how low the limit could be.
//!
//! ```text
//!  source (process, core, file) -> index (pages by number) -> sample (clusters, spread evenly)
//!                                                                |
//!     patterns  <- words --------------------------------------- +
//!     ratios    <- blocks of 4 to 64 KiB, by codec, intervals -- +
//!     depend    <- how much neighbouring pages are alike ------- +
//!     odds      <- distribution of pages' sizes, N of them: the chance of more than so much
//!  idle (a process's working set over some seconds) -> advice: a limit, and what it costs
//! ```
//!
//! Rules: nothing is written to the subject, and a process is never stopped. All figures except counts of
//! pages come from a sample, and state their possible error.

pub mod advice;
pub mod depend;
mod error;
pub mod idle;
pub mod index;
pub mod measure;
pub mod odds;
pub mod sample;
pub mod source;

pub use error::Error;

/// Bytes of a page.
pub const PAGE: usize = 4096;
