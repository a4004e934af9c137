//! What a process does that serves swap: it must not wait for memory that only it can make free.
//!
//! CRAMES (section 5, figure 4) shows how a device and the programs that swap to it come to wait for each other. So all that is needed is taken
//! beforehand (the index, memory to work in, a **ballast** that is given up when the system has no more), it is locked, and
//! the kernel is told that this process makes memory free: it then never makes it write to swap, or wait for that, when it wants memory itself.

use std::io;

/// Before any thread is started, since they inherit some of it. An error says why it can't be; what is returned else, what is not as
/// it should be.
pub fn prepare_process() -> Result<Vec<String>, String> {
    // SAFETY: changes nothing but how the kernel treats this process.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0 {
        return Err(format!(
            "memory cannot be locked, which swap needs: {}; be root, or raise 'ulimit -l'",
            io::Error::last_os_error()
        ));
    }
    let mut missing = Vec::new();
    // SAFETY: a number.
    if unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } != 0 {
        missing.push(format!(
            "the kernel does not take this process for one that makes memory free (PR_SET_IO_FLUSHER): {}; that needs Linux 5.6 and \
             CAP_SYS_RESOURCE. If the whole machine is out of memory, it may have to wait for its own swap",
            io::Error::last_os_error()
        ));
    }
    // Without it all others would lose what they have swapped out.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        missing.push(format!(
            "this process may be killed when memory ends, and what was swapped out with it (oom_score_adj): {error}; that needs CAP_SYS_RESOURCE"
        ));
    }
    Ok(missing)
}

const PR_SET_IO_FLUSHER: libc::c_int = 57;
