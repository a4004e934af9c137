//! Small codecs of others, written anew to compare with: what the source documents
//! and the Linux kernel measure against and no library offers.

pub(crate) mod lzrw;
pub(crate) mod p842;
