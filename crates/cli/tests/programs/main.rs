//! Programs that need special care because of their memory, their children, their limits or their
//! surroundings.

mod bare;
#[path = "../common/mod.rs"]
mod common;
mod elsewhere;
mod foreign;
mod memory;
mod rlimits;
mod surroundings;
