//! Tools for the runtime's own threads: memory of their own, a lock, and limits on waiting.

pub mod arena;
pub mod bell;
pub mod lock;
pub mod patience;
pub mod range_set;
