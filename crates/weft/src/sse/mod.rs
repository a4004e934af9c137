//! The kernels with SSE4.1: a pair of registers where AVX2 has one.

use memfold_weft_attributes::sse as kernel;

#[path = "../kernels/decode.rs"]
mod decode;
#[path = "../kernels/dense/mod.rs"]
mod dense;
#[path = "../kernels/encode.rs"]
mod encode;
#[path = "../kernels/half_x86.rs"]
mod half;
#[path = "../kernels/half_x86_more.rs"]
mod half_more;
#[path = "../kernels/pack.rs"]
mod pack;
#[path = "../kernels/steps.rs"]
mod steps;
#[path = "../kernels/wide_pair.rs"]
mod wide;

pub(crate) use decode::decompress;
pub(crate) use encode::compress;

/// Which path these are, for tests of a part of them.
#[cfg(test)]
const PATH: crate::Path = crate::Path(crate::Kind::Sse);
