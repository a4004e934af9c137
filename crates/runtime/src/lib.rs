//! Pages whole processes into compressed memory, with userfaultfd.
//!
//! This crate is two things: the layout of the shared counters page
//! ([`shared`]), for the supervisor; and, with the feature `preload`, the
//! library that `memfold run` preloads into programs. That library lives in
//! processes of strangers. It therefore allocates nothing from them, takes no
//! lock of theirs, touches no memory of theirs, and calls nothing of the C
//! library but `memcpy` and its like: its threads come from raw clones, its
//! memory from its own mappings, and it makes its own system calls.
//!
//! Where to look: `preload` (how it gets in), `watch` (when to do something), `turns` (who waits for others to
//! end), `evict` (taking blocks away), `compress` (standby to store), `clean` (pages that need not be
//! compressed again), `fault` (bringing pages back), `order` (what the kernel's events do), `fork`, `here` (is
//! this process ours?), `gate`, `children` and `forker` (children that nobody prepares), `spill` (what goes
//! beyond this machine's memory), and below them `table`, `standby`, `keep`, `arena`, `thread`, `lock`, `uffd`,
//! `maps`, `procfs`, `sys`.
#![no_std]
#![cfg_attr(not(feature = "preload"), allow(dead_code))]

#[cfg(test)]
extern crate std;

#[cfg(target_os = "linux")]
pub mod calls;
pub mod door;
#[cfg(target_os = "linux")]
pub mod filters;
pub mod near;
#[cfg(target_os = "linux")]
pub mod sched;
pub mod shared;
#[cfg(target_os = "linux")]
pub mod spill;
pub mod trail;

#[cfg(target_os = "linux")]
mod arena;
#[cfg(target_os = "linux")]
mod begin;
#[cfg(target_os = "linux")]
mod children;
#[cfg(target_os = "linux")]
mod clean;
#[cfg(target_os = "linux")]
mod compress;
#[cfg(target_os = "linux")]
mod copies;
#[cfg(target_os = "linux")]
mod dense;
#[cfg(target_os = "linux")]
mod evict;
#[cfg(target_os = "linux")]
mod fault;
#[cfg(target_os = "linux")]
mod follow;
#[cfg(target_os = "linux")]
mod fork;
#[cfg(target_os = "linux")]
mod forker;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod here;
#[cfg(target_os = "linux")]
mod hope;
#[cfg(target_os = "linux")]
mod inbox;
#[cfg(target_os = "linux")]
mod incompressible;
#[cfg(target_os = "linux")]
mod interpose;
#[cfg(target_os = "linux")]
mod journal;
#[cfg(target_os = "linux")]
mod keep;
#[cfg(target_os = "linux")]
mod late;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod lock;
#[cfg(target_os = "linux")]
mod maps;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod pagemap;
#[cfg(target_os = "linux")]
mod patience;
#[cfg(target_os = "linux")]
mod pins;
#[cfg(all(target_os = "linux", feature = "preload"))]
mod preload;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod reach;
#[cfg(target_os = "linux")]
mod runtime;
#[cfg(target_os = "linux")]
mod stall;
#[cfg(target_os = "linux")]
mod standby;
#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod statics;
#[cfg(target_os = "linux")]
mod stop;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod thread;
#[cfg(target_os = "linux")]
mod turns;
#[cfg(target_os = "linux")]
mod uffd;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod worker;
