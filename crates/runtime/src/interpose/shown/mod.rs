//! What programs see of the machine's memory with `memfold run --show`: more or less than there is, so that they
//! choose sizes that suit what fits in compressed.
//!
//! ```text
//!   open, openat, fopen of /proc/meminfo and of a cgroup's files ──> files ──> text (new numbers)
//!   sysinfo, sysconf, get_phys_pages, get_avphys_pages ────────────> numbers
//!                                            what is shown: memfold_shared::page::Shown
//! ```
//!
//! The kernel opens a file first, and only then memfold looks at it: so errors and other files are as without
//! memfold. The contents of a shown file then come from a memory file with the same descriptor. Programs that
//! read these files with system calls of their own, and files that were open before, show what the kernel
//! says.

mod text;

#[cfg(feature = "preload")]
pub mod files;
#[cfg(feature = "preload")]
pub mod numbers;
