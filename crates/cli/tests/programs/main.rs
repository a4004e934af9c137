//! Programs that do what needs care: with their memory, their children, their limits and their surroundings.

mod bare;
#[path = "../common/mod.rs"]
mod common;
mod elsewhere;
mod foreign;
mod memory;
mod rlimits;
mod surroundings;
