//! Small codecs that papers and the Linux kernel describe, reimplemented because no library offers them.
//!
//! | codec | whence |
//! | --- | --- |
//! | [`pbpm`] | CRAMES: L. Yang and others, ACM TECS 9, 2010; with the [`patterns`](pbpm::patterns) of its words |
//! | [`wkdm`] | P. Wilson and S. Kaplan, 1999 |
//! | [`bewalgo`], [`bewalgo2`] | B. Warnke, 2017 and 2018: steps of zBeWalgo |
//! | [`p842`] | IBM, as in Linux' `lib/842` |
//! | [`lzrw`] | R. Williams, 1991 |
//!
//! [`pack`] packs small values for the first two.

pub(crate) mod bewalgo;
pub(crate) mod bewalgo2;
pub(crate) mod lzrw;
pub(crate) mod p842;
mod pack;
pub(crate) mod pbpm;
pub(crate) mod wkdm;
