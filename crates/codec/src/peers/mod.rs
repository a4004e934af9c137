//! Small codecs of others, reimplemented for comparison: the source documents and the Linux kernel measure
//! against them, and no library offers them.

pub(crate) mod lzrw;
pub(crate) mod p842;
