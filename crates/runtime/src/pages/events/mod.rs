//! What the program does to its mappings, and what that does to its pages.
//!
//! ```text
//!   kernel ── message ──> reading ── event ──> changes: the page table follows
//!                            │  │                 late: events that arrive in the wrong order
//!                  inbox <───┘  └──> journal      what happens during a fork, to be applied after it
//! ```
//!
//! All of it happens under one lock, the order lock: see `order.rs`.

pub mod changes;
pub mod inbox;
pub mod journal;
pub mod late;
pub mod order;
pub mod reading;
pub mod settle;
