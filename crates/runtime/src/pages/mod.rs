//! What is known of the program's pages: where each of them is, and what the program does to its mappings.

pub mod clean;
pub mod inbox;
pub mod journal;
pub mod keep;
pub mod late;
pub mod order;
pub mod standby;
pub mod statics;
pub mod table;
