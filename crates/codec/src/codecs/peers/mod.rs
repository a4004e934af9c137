//! Small codecs of others, reimplemented for comparison: the source documents and the Linux kernel measure
//! against them, and no library offers them.

pub(crate) mod bewalgo;
pub(crate) mod bewalgo2;
pub(crate) mod libs;
pub(crate) mod lz4hc;
pub(crate) mod lzrw;
pub(crate) mod p842;
mod pack;
pub(crate) mod pbpm;
mod staged;
pub(crate) mod wkdm;
