//! Transforms for typed data. All but [`lag`] keep the length: they only help the next step.

pub(crate) mod bit_shuffle;
pub(crate) mod difference;
pub(crate) mod lag;
pub(crate) mod shuffle;
pub(crate) mod zero;
