//! What the runtime's own threads work with: memory of their own, a lock, and how long to wait.

pub mod arena;
pub mod bell;
pub mod lock;
pub mod patience;
