//! Functions of the C library that the runtime must know of.
//!
//! The preload library defines them under the same names. Each behaves as the
//! C library's, which it calls; besides it tells the runtime what the kernel
//! has no event for. Three rules hold for all of them:
//!
//! - A process that is not managed, or is not paging yet, pays for one load.
//! - They run in threads of the program: on stacks that may be evicted, maybe
//!   in a signal handler, maybe in a child of `vfork`, where the memory is the
//!   parent's but everything else is the child's own.
//! - So no lock is held there that a fault handler waits for, and a lock is
//!   held only with signals blocked.
//!
//! | file | functions |
//! | --- | --- |
//! | `identity` | `setuid` and its relatives: the runtime's threads follow |
//! | `locked` | `mlock` and its relatives: such memory stays |
//! | `seccomp` | `prctl`, `syscall`: the runtime ends before a filter begins |
//! | `remap` | `mremap`: a registration must not be seen |
//! | `pins` | what makes the kernel hold on to pages |
//! | `namespaces` | `unshare`, `setns`: only for processes with one thread |
//! | `own_uffd` | `ioctl`: the runtime ends before the program registers memory with a userfaultfd |
//! | `advice` | `madvise` and `munmap`: what a forked child gets |
//! | `limits` | `setrlimit`, `prlimit`: what is only reserved goes first |
//! | `bare` | `_Fork`, `clone`, `syscall`: children that no handler of the C library prepares |
//! | `starting` | `fork`, `posix_spawn`: where the kernel refuses, threads of memfold give way |
//! | `growth` | `mmap`, `malloc` and their relatives: much memory at once near the limit |
//!
//! The runtime's own side of it is in `credentials`, `desk`, `leaving` and `ranges`.

pub mod credentials;
pub mod desk;
mod leaving;
pub mod ranges;

pub use leaving::leaves_behind;

#[cfg(feature = "preload")]
mod advice;
#[cfg(feature = "preload")]
mod bare;
#[cfg(feature = "preload")]
mod growth;
#[cfg(feature = "preload")]
mod identity;
#[cfg(feature = "preload")]
mod limits;
#[cfg(feature = "preload")]
mod locked;
#[cfg(feature = "preload")]
mod namespaces;
#[cfg(feature = "preload")]
mod next;
#[cfg(feature = "preload")]
mod own_uffd;
#[cfg(feature = "preload")]
mod pins;
#[cfg(feature = "preload")]
mod remap;
#[cfg(feature = "preload")]
mod seccomp;
#[cfg(feature = "preload")]
mod starting;

/// In a forked child, before its keeper is started: no other thread lives.
///
/// # Safety
/// Only the forking thread may exist, and it must not be inside of a function
/// of this module.
pub unsafe fn after_fork() {
    // SAFETY: passed on to the caller.
    unsafe {
        credentials::after_fork();
        desk::after_fork();
        for set in ranges::ALL {
            set.reset_in_child();
        }
        ranges::MOVING.reset_in_child();
    }
}
