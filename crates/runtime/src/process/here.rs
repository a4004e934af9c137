//! Whether this process is the one that the runtime serves, or a copy of its memory that was made without the
//! runtime's knowledge.
//!
//! A child made by `fork` is prepared (`fork`), and so is one made by the C library's functions for bare
//! clones (`interpose/bare.rs`). A child made by an instruction of the program's own is not: it finds the
//! state of a runtime whose threads do not exist, and locks that will never be released. So there is one word
//! in a page that the kernel wipes in every child (`MADV_WIPEONFORK`), and everything that the program's
//! threads do for the runtime begins with a check of that word:
//!
//! | word | the process is |
//! | --- | --- |
//! | 1 | the runtime's own: its threads serve it |
//! | 0 | an unprepared child: the library does nothing in it, as if it had never been loaded |
//!
//! A prepared child writes the word itself, before its runtime begins. A child of `vfork`, or another process
//! that shares the memory, reads its parent's word.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};

use crate::kernel::sys::{self, PAGE, advice};
use crate::memory::arena::Arena;

/// The word that is read until there is such a page.
static ALWAYS: AtomicU32 = AtomicU32::new(1);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const ALWAYS).cast_mut());
/// The fork that is under way was prepared. Set by the forking thread, which holds `Process::life`.
static PREPARED: AtomicBool = AtomicBool::new(false);

/// From here on this process and copies of it can be told apart. Without the memory or the advice (Linux
/// 4.14), every process counts as the runtime's own.
pub fn begin(arena: &Arena) {
    let Some(page) = arena.reserve(PAGE, PAGE) else { return };
    // SAFETY: memory of our own that is not used yet; it is meant to be empty in a child.
    if unsafe { sys::madvise(page as usize, PAGE, advice::WIPEONFORK) }.is_err() {
        return;
    }
    let word = page.cast::<AtomicU32>();
    // SAFETY: zeroed exclusive memory, large enough and aligned, never freed.
    unsafe { &*word }.store(1, Relaxed);
    WORD.store(word, Release);
}

/// Whether this process is the runtime's own.
#[inline(always)]
pub fn is_own() -> bool {
    // SAFETY: it points to a word that is never freed.
    unsafe { &*WORD.load(Acquire) }.load(Relaxed) != 0
}

/// Whether the runtime works in this process's memory, or has begun to.
#[inline(always)]
pub fn is_managed() -> bool {
    crate::runtime::RUNTIME.process.pid.load(Relaxed) != 0 && is_own()
}

/// Records whether the fork that is about to be made is a prepared one.
pub fn set_prepared(prepared: bool) {
    PREPARED.store(prepared, Relaxed);
}

/// Called in the forking thread, after the fork, in the parent or the child.
pub fn was_prepared() -> bool {
    PREPARED.load(Relaxed)
}

/// Called in a prepared child: it has a runtime of its own.
pub fn adopt_child() {
    // SAFETY: as in `is_own`.
    unsafe { &*WORD.load(Acquire) }.store(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_a_bare_clone_is_recognised() {
        const SIGCHLD: usize = 17;
        #[cfg(target_arch = "x86_64")]
        const WAIT4: usize = 61;
        #[cfg(target_arch = "aarch64")]
        const WAIT4: usize = 260;
        let arena = Arena::new();
        assert!(is_own());
        begin(&arena);
        assert!(is_own());
        // SAFETY: the child does nothing but end.
        let child = unsafe { sys::syscall(sys::nr::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) }.unwrap();
        if child == 0 {
            let before = is_own();
            adopt_child();
            let status = usize::from(before || !is_own());
            // SAFETY: ends the child.
            let _ = unsafe { sys::syscall(sys::nr::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
        }
        let mut status = -1i32;
        // SAFETY: waits for the child; the kernel writes the status.
        unsafe { sys::syscall(WAIT4, [child, &raw mut status as usize, 0, 0, 0, 0]) }.unwrap();
        assert_eq!(status, 0);
        assert!(is_own());
    }
}
