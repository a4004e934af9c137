//! The process: how the runtime begins and ends in it, its threads, and its children.

pub mod begin;
pub mod children;
pub mod door;
pub mod fork;
pub mod forker;
pub mod gate;
pub mod here;
pub mod limits;
pub mod reach;
pub mod start;
pub mod stop;
pub mod thread;
