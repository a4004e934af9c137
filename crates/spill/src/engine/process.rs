//! The process in which an engine works belongs to another program: it forks, and its signals are its own.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Identifies this process. A child in a PID namespace of its own may have its parent's PID, so the C
/// library's fork handler counts forks.
pub fn this_process() -> (u32, u64) {
    static FORKS: AtomicU64 = AtomicU64::new(0);
    static COUNTS: Once = Once::new();
    extern "C" fn count() {
        FORKS.fetch_add(1, Relaxed);
    }
    COUNTS.call_once(|| {
        // SAFETY: what is called in the child changes one atomic number.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    (std::process::id(), FORKS.load(Relaxed))
}

/// Blocks signals during `work`: signals are for the program, not for threads that are started meanwhile. One
/// concerns the thread itself: SIGXFSZ, so a file beyond the size limit becomes an error. Faults are
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
