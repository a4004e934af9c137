//! An engine works in a process of another program, which forks and uses signals for its own purposes.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Identifies this process. A child in another PID namespace may have the same PID as its parent, so a fork
/// handler of the C library counts forks.
pub fn this_process() -> (u32, u64) {
    static FORKS: AtomicU64 = AtomicU64::new(0);
    static COUNTS: Once = Once::new();
    extern "C" fn count() {
        FORKS.fetch_add(1, Relaxed);
    }
    COUNTS.call_once(|| {
        // SAFETY: the handler that is called in the child only changes one atomic number.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    (std::process::id(), FORKS.load(Relaxed))
}

/// Blocks signals during `work`: they are meant for the program, not for this thread or for threads started
/// meanwhile. With SIGXFSZ blocked, too, a write beyond the file size limit becomes an error. Faults are
/// delivered as before.
pub fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    struct Before(libc::sigset_t);
    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: the set was filled when it was made.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
    let mut all = std::mem::MaybeUninit::uninit();
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: the first call fills one set, and the last the other.
    let _before = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        Before(before.assume_init())
    };
    work()
}
