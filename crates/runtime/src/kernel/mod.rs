//! The kernel, as the runtime calls it: without the C library, which belongs to the program.

pub mod filters;
pub mod maps;
pub mod mounts;
pub mod pagemap;
pub mod procfs;
pub mod sched;
pub mod sys;
pub mod uffd;
