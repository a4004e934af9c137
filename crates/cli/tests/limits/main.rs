//! Limits: held while programs grow, exceeded only if nothing else is possible, and never worse than without
//! memfold.
//!
//! Most of these tests depend on timing and run one at a time (`common::alone`).

mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod container;
mod growth;
mod relatives;
mod shown;
