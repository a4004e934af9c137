//! What programs see of the machine's memory with `memfold run --show`: more or less than there is, so that they
//! choose sizes that suit what fits in compressed.
//!
//! ```text
//!   open, openat, fopen of /proc/meminfo and of a cgroup's files ──> files ──> text (new numbers)
//!   sysinfo, sysconf, get_phys_pages, get_avphys_pages ────────────> numbers
//!                                            what is shown: memfold_shared::page::Shown
//! ```
//!
//! A file is opened by the kernel first, and only then looked at: so errors, and what is no such file, are as
//! without memfold. Its contents then come from a memory file with the same descriptor. Programs that read these
//! files with system calls of their own, and files that were open before, show what the kernel says.

mod text;

#[cfg(feature = "preload")]
pub mod files;
#[cfg(feature = "preload")]
pub mod numbers;
