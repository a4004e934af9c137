//! Prepares a process that serves swap: it must never wait for memory that only it can free.
//!
//! CRAMES (section 5, figure 4) shows how a device and the programs that swap to it can deadlock. So
//! everything that is needed is allocated in advance and locked: the index, working memory, and a **ballast**
//! that is given up when the system has no memory left. In addition, the process tells the kernel that it
//! frees memory; then its own allocations never write to swap or wait for that.

use std::io;

/// Must run before any thread is started, because threads inherit some of these settings. An error says why
/// the process cannot serve swap; otherwise the result lists the settings that failed.
pub fn prepare_process() -> Result<Vec<String>, String> {
    // SAFETY: the call changes only how the kernel treats this process.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0 {
        return Err(format!(
            "memory cannot be locked, which swap needs: {}; run as root, or raise 'ulimit -l'",
            io::Error::last_os_error()
        ));
    }
    let mut missing = Vec::new();
    // SAFETY: the call takes only numbers.
    if unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } != 0 {
        missing.push(format!(
            "the kernel does not treat this process as one that frees memory (PR_SET_IO_FLUSHER): {}; that needs Linux 5.6 and \
             CAP_SYS_RESOURCE. If the whole machine is out of memory, it may have to wait for its own swap",
            io::Error::last_os_error()
        ));
    }
    // If this process were killed, all others would lose the memory that they have swapped out.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        missing.push(format!(
            "this process, and the swapped-out memory with it, may be killed when memory runs out (oom_score_adj): {error}; to prevent it needs CAP_SYS_RESOURCE"
        ));
    }
    Ok(missing)
}

const PR_SET_IO_FLUSHER: libc::c_int = 57;
