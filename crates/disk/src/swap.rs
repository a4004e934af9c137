//! What a process does that serves swap: it must not wait for memory that only it can make free.
//!
//! CRAMES (section 5, figure 4) shows how a device and the programs that swap to it come to wait for each other. So all that is needed is taken
//! beforehand (the index, memory to work in, a **ballast** that is given up when the system has no more), it is locked, and
//! the kernel is told that this process makes memory free: it then never makes it write to swap, or wait for that, when it wants memory itself.

use std::io;

/// Before any thread is started, since they inherit some of it. The error says what is missing and what to do.
pub fn prepare_process() -> Result<(), String> {
    // SAFETY: changes nothing but how the kernel treats this process.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0 {
        return Err(format!(
            "memory cannot be locked, which swap needs: {}; be root, or raise 'ulimit -l'",
            io::Error::last_os_error()
        ));
    }
    // SAFETY: a number.
    if unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } != 0 {
        return Err(format!(
            "the kernel does not let this process serve swap (PR_SET_IO_FLUSHER): {}; that needs Linux 5.6 and CAP_SYS_RESOURCE: be root",
            io::Error::last_os_error()
        ));
    }
    // Without it all others would lose what they have swapped out.
    std::fs::write("/proc/self/oom_score_adj", "-1000").map_err(|error| {
        format!(
            "this process cannot be kept from being killed when memory ends (oom_score_adj): {error}; be root"
        )
    })
}

const PR_SET_IO_FLUSHER: libc::c_int = 57;
