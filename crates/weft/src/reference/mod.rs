//! The codec in plain Rust: what every other implementation must compute.
//!
//! Nothing here is written for speed. An encoder works piece by piece: it looks for each line's distance
//! (`search`), chooses the codes of its words, and writes the parts (`encode`, `dense`). The decoder reads
//! the same parts in the same order (`decode`).

mod decode;
mod dense;
mod encode;
mod literals;
mod search;

pub use decode::decompress;
pub use encode::compress;
pub(crate) use literals::is_worth;
pub(crate) use search::hash_bits;
