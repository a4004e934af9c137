//! Prepares a process that serves swap: it must never wait for memory that only it can free.
//!
//! CRAMES (section 5, figure 4) shows how a device and the programs that swap to it come to wait for each other.
//! So everything that is needed is allocated beforehand (the index, working memory, a **ballast** that is given
//! up when the system has no more) and locked, and the kernel is told that this process frees memory: when the
//! process itself allocates memory, the kernel then never makes it write to swap or wait for that.

use std::io;

/// Must run before any thread is started, because threads inherit some of it. An error says why it is impossible;
/// otherwise the result lists what is not as it should be.
pub fn prepare_process() -> Result<Vec<String>, String> {
    // SAFETY: changes only how the kernel treats this process.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0 {
        return Err(format!(
            "memory cannot be locked, which swap needs: {}; run as root, or raise 'ulimit -l'",
            io::Error::last_os_error()
        ));
    }
    let mut missing = Vec::new();
    // SAFETY: takes a number.
    if unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } != 0 {
        missing.push(format!(
            "the kernel does not treat this process as one that frees memory (PR_SET_IO_FLUSHER): {}; that needs Linux 5.6 and \
             CAP_SYS_RESOURCE. If the whole machine is out of memory, it may have to wait for its own swap",
            io::Error::last_os_error()
        ));
    }
    // Without this process, all others would lose the memory that they have swapped out.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        missing.push(format!(
            "this process, and the swapped-out memory with it, may be killed when memory runs out (oom_score_adj): {error}; to prevent it needs CAP_SYS_RESOURCE"
        ));
    }
    Ok(missing)
}

const PR_SET_IO_FLUSHER: libc::c_int = 57;
