//! Memory within the limit: the [`budget`] that counts everything, [`works`] for compression and decompression,
//! and copies that make reading faster: [`resident`] pages and [`images`] of blocks.

pub mod budget;
pub mod images;
pub mod resident;
pub mod works;
