//! Coders: the steps of zBeWalgo and of compll's chapter on coding, designed for small blocks. None has a
//! larger table than necessary, all handle incompressible data, and none stores what the caller knows.

pub(crate) mod bwt;
pub(crate) mod huffman;
pub(crate) mod jbe;
pub(crate) mod mtf;
pub(crate) mod range;
pub(crate) mod rle;
