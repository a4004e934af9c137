//! Bringing pages back: who hears of a fault, how it is served, and how long the program waits.

pub mod fault;
pub mod follow;
pub mod stall;
