//! Functions of the C library that the runtime must know about.
//!
//! The preload library defines them under the same names. Each calls the C library's function and behaves
//! like it; in addition, it tells the runtime about things for which the kernel has no event. Three rules
//! hold for all of them:
//!
//! - In a process that is not managed, or is not paging yet, they cost a few loads and comparisons. Requests of
//!   128 KiB or more are added up.
//! - They run in threads of the program: on stacks that may be evicted, possibly in a signal handler,
//!   possibly in a child of `vfork`, where the memory is the parent's but everything else is the child's own.
//! - So they hold no lock that a fault handler waits for, and they hold locks only with signals blocked.
//!
//! | file | functions |
//! | --- | --- |
//! | `bare` | `_Fork`, `clone`, `syscall`: children for which the C library runs no handlers |
//! | `futex` | `syscall`: operations that fail on evicted pages |
//! | `starting` | `fork`, `posix_spawn`: where the kernel refuses, threads of memfold end |
//! | `mappings/growth` | `mmap`, `malloc` and their relatives: much memory at once near the limit |
//! | `mappings/advice` | `madvise` and `munmap`: what a forked child gets; `mprotect`: memory that becomes usable |
//! | `mappings/locked` | `mlock` and its relatives: such memory stays resident |
//! | `mappings/remap` | `mremap`: the program must not see registrations |
//! | `mappings/pins` | functions that make the kernel hold on to pages |
//! | `opening` | `open`, `fopen` and their relatives: I/O may pin pages, and `--show` replaces some files |
//! | `mappings/own_uffd` | `ioctl`: the runtime ends before the program registers memory with a userfaultfd |
//! | `rights/identity` | `setuid` and its relatives: the runtime's threads follow |
//! | `rights/limits` | `setrlimit`, `prlimit`: memory that is only reserved is freed first |
//! | `rights/namespaces` | `unshare`, `setns`: only for processes with one thread |
//! | `rights/seccomp` | `prctl`, `syscall`: the runtime ends before a filter takes effect |
//! | `shown/numbers` | `sysinfo`, `sysconf`: what `--show` shows of the machine's memory |
//! | `../preload/threads` | `pthread_create`, `thrd_create`: the new thread's control block stays resident |
//!
//! **To add one**: a `static Next` and an entry of the family's `ALL` (for a new family also in `bind.rs`),
//! its symbol in `DEFINED` of `tests/symbols.rs`, and its row here and in docs/internals.md.
//!
//! The runtime's side is in `desk`, `mappings/leaving`, `mappings/ranges` and `rights/credentials`.

pub mod desk;
pub mod mappings;
pub mod rights;
pub mod shown;

#[cfg(feature = "preload")]
mod bare;
#[cfg(feature = "preload")]
mod bind;
#[cfg(feature = "preload")]
mod futex;
#[cfg(feature = "preload")]
mod next;
#[cfg(feature = "preload")]
mod opening;
#[cfg(feature = "preload")]
mod starting;

/// In a forked child, before its keeper is started: no other thread is running.
///
/// # Safety
/// Only the forking thread may exist, and it must not be inside a function of this module.
pub unsafe fn after_fork() {
    // SAFETY: the caller upholds the contract.
    unsafe {
        rights::credentials::after_fork();
        desk::after_fork();
        for set in mappings::ranges::ALL {
            set.reset_in_child();
        }
        mappings::ranges::MOVING.reset_in_child();
    }
}
