//! What the kernel says about processes, their mappings, mounts, cgroups and memory: one reader for each of
//! its text files.
//!
//! ```text
//!   process     /proc/PID/{stat,statm,status,smaps_rollup,cmdline,environ,...}, and of its threads
//!   namespace   the same process in another pid namespace; whether two processes share namespaces
//!   maps        lines of /proc/PID/{maps,smaps}
//!   mounts      /proc/self/mountinfo, /proc/swaps
//!   cgroup      /proc/PID/cgroup, and where its directories are mounted
//!   pagemap     which pages of a process are resident
//!   memory      /proc/meminfo, and limits and use in the cgroups' directories
//!   kills       processes that the kernel has killed because memory ran out
//! ```
//!
//! A process can end between any two questions, and a container may hide files, so every function returns
//! `None` or an empty list where there is no answer. Amounts of memory are the kernel's, also under `memfold run
//! --show`. The runtime has its own readers, which need no standard
//! library.

pub mod cgroup;
pub mod kills;
pub mod maps;
pub mod memory;
pub mod mounts;
pub mod namespace;
pub mod pagemap;
pub mod process;
mod real;

use std::path::Path;
use std::str::FromStr;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The value of a line that begins with this name, as in `status`: `TracerPid:  0`.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The value, in bytes, of a line like `Anonymous:    120 kB`.
pub fn field_kib(text: &str, name: &str) -> Option<u64> {
    let number = field(text, name)?.split_ascii_whitespace().next()?;
    number.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The number in a file that contains nothing else.
pub fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    real::read_to_string(path).ok()?.trim().parse().ok()
}
