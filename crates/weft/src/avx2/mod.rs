//! The codec with AVX2: the same forms as [`reference`](crate::reference) makes and reads, byte for byte.
//!
//! Everything is done in passes over a piece. Within a pass no word waits for the one before it, except where
//! a line's distance depends on the last line's. Bytes are packed and spread by `pshufb`, whose controls come
//! from two tables with an entry for each mask; `pext` and `pdep` would be no faster, and are slow on older
//! AMD processors.
//!
//! Rows are read and written 8 or 32 bytes at a time, and so up to `SLACK` bytes beyond what belongs to them.

mod decode;
mod dense;
mod encode;
mod pack;
mod vector;

pub(crate) use decode::decompress;
pub(crate) use encode::compress;
