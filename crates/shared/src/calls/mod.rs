//! The system calls that the runtime makes in programs.
//!
//! A seccomp filter may end a process for a call that its author did not foresee, and the program itself
//! never makes most of these calls. So under a filter none is made before it is known to be harmless: the
//! supervisor tries all of them under its own filters, in a child that may die of it, and filters that a
//! program installs are interpreted (see `filters.rs` of the runtime).
//!
//! One test compares this list with `nr.rs`; another compares it with the calls of a traced program.

pub mod nr;

/// A call, with arguments for which it changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The name that filters use.
    pub name: &'static str,
    /// Its number.
    pub number: usize,
    /// Arguments with which it changes nothing.
    pub arguments: [usize; 6],
}

const NO: usize = -1isize as usize;

const fn call(name: &'static str, number: usize, a: [usize; 6]) -> Call {
    Call { name, number, arguments: a }
}

/// The flags with which a thread of the runtime is made (`thread.rs`), apart from those that say what it
/// shares.
#[cfg(target_arch = "x86_64")]
const THREAD: usize = 0x8d_0900;
/// A thread that does not share its signals, which the kernel refuses.
#[cfg(target_arch = "aarch64")]
const THREAD: usize = 0x8d_0100;
/// A control block at an impossible address, which the kernel refuses.
const NOWHERE: usize = 0xffff_8000_0000_0000;

/// There is another way to get a userfaultfd: the device.
pub const USERFAULTFD: Call = call("userfaultfd", nr::USERFAULTFD, [NO, 0, 0, 0, 0, 0]);

/// Calls that are made only if there is no filter.
#[cfg(test)]
const WITHOUT_FILTERS: [usize; 5] = [nr::SOCKET, nr::CONNECT, nr::RECVMSG, nr::SHMAT, nr::SHMCTL];

/// Calls that are made only for the program, at its request.
#[cfg(test)]
const OF_PROGRAMS: [usize; 2] = [nr::CLONE3, nr::SYSINFO];

/// Calls for what programs are shown of the machine's memory. The supervisor tries them, too; in a program with
/// filters of its own they are not made.
pub static TO_SHOW: [Call; 3] = [
    call("fstatfs", nr::FSTATFS, [NO, 0, 0, 0, 0, 0]),
    call("memfd_create", nr::MEMFD_CREATE, [0; 6]),
    call("dup3", nr::DUP3, [NO, NO, 0, 0, 0, 0]),
];

/// All but [`USERFAULTFD`].
pub static CALLS: [Call; 59] = [
    call("read", nr::READ, [NO, 0, 0, 0, 0, 0]),
    call("write", nr::WRITE, [NO, 0, 0, 0, 0, 0]),
    call("close", nr::CLOSE, [NO, 0, 0, 0, 0, 0]),
    call("ppoll", nr::POLL, [NO, NO, 0, 0, 0, 0]),
    call("mmap", nr::MMAP, [0, 0, 0, 0x22, NO, 0]),
    call("mprotect", nr::MPROTECT, [0, 0, 0, 0, 0, 0]),
    call("munmap", nr::MUNMAP, [0, 0, 0, 0, 0, 0]),
    call("rt_sigprocmask", nr::SIGPROCMASK, [0, 0, 0, 8, 0, 0]),
    call("ioctl", nr::IOCTL, [NO, 0, 0, 0, 0, 0]),
    call("mincore", nr::MINCORE, [0, 0, 0, 0, 0, 0]),
    call("pread64", nr::PREAD, [NO, 0, 0, 0, 0, 0]),
    call("pwrite64", nr::PWRITE, [NO, 0, 0, 0, 0, 0]),
    call("mremap", nr::MREMAP, [0, 0, 0, 0, 0, 0]),
    call("madvise", nr::MADVISE, [0, 0, 0, 0, 0, 0]),
    call("process_vm_readv", nr::PROCESS_VM_READV, [NO, 0, 0, 0, 0, 0]),
    call("getpid", nr::GETPID, [0; 6]),
    call("getppid", nr::GETPPID, [0; 6]),
    call("clone", nr::CLONE, [THREAD, 0, 0, 0, NOWHERE, 0]),
    call("fcntl", nr::FCNTL, [NO, 1, 0, 0, 0, 0]),
    call("gettid", nr::GETTID, [0; 6]),
    call("pipe2", nr::PIPE2, [0; 6]),
    call("nanosleep", nr::NANOSLEEP, [0; 6]),
    call("set_tid_address", nr::SET_TID_ADDRESS, [0; 6]),
    call("futex", nr::FUTEX, [0, 129, 0, 0, 0, 0]),
    call("sched_setaffinity", nr::SCHED_SETAFFINITY, [0, 0, 0, 0, 0, 0]),
    call("sched_getaffinity", nr::SCHED_GETAFFINITY, [0, 0, 0, 0, 0, 0]),
    call("getcpu", nr::GETCPU, [0; 6]),
    call("sched_setattr", nr::SCHED_SETATTR, [0, 0, 0, 0, 0, 0]),
    call("sched_getattr", nr::SCHED_GETATTR, [0, 0, 0, 0, 0, 0]),
    call("clock_gettime", nr::CLOCK_GETTIME, [NO, 0, 0, 0, 0, 0]),
    call("tgkill", nr::TGKILL, [NO, NO, 0, 0, 0, 0]),
    call("openat", nr::OPENAT, [NO, 0, 0, 0, 0, 0]),
    call("fstat", nr::FSTAT, [NO, 0, 0, 0, 0, 0]),
    call("readlinkat", nr::READLINKAT, [NO, 0, 0, 0, 0, 0]),
    call("eventfd2", nr::EVENTFD2, [0, NO, 0, 0, 0, 0]),
    call("pkey_mprotect", nr::PKEY_MPROTECT, [0, 0, 0, NO, 0, 0]),
    call("close_range", nr::CLOSE_RANGE, [1, 0, 0, 0, 0, 0]),
    call("getdents64", nr::GETDENTS64, [NO, 0, 0, 0, 0, 0]),
    call("setresuid", nr::SETRESUID, [NO, NO, NO, 0, 0, 0]),
    call("setresgid", nr::SETRESGID, [NO, NO, NO, 0, 0, 0]),
    call("setgroups", nr::SETGROUPS, [NO, 0, 0, 0, 0, 0]),
    call("getresuid", nr::GETRESUID, [0; 6]),
    call("getresgid", nr::GETRESGID, [0; 6]),
    call("getgroups", nr::GETGROUPS, [0; 6]),
    call("capget", nr::CAPGET, [0; 6]),
    call("capset", nr::CAPSET, [0; 6]),
    call("sched_yield", nr::SCHED_YIELD, [0; 6]),
    call("prctl", nr::PRCTL, [3, 0, 0, 0, 0, 0]),
    call("kill", nr::KILL, [0, NO, 0, 0, 0, 0]),
    call("statx", nr::STATX, [NO, 0, 0, 0, 0, 0]),
    call("prlimit64", nr::PRLIMIT64, [0, NO, 0, 0, 0, 0]),
    call("chdir", nr::CHDIR, [0; 6]),
    call("io_setup", nr::IO_SETUP, [0; 6]),
    call("io_destroy", nr::IO_DESTROY, [0; 6]),
    call("io_getevents", nr::IO_GETEVENTS, [0; 6]),
    call("io_submit", nr::IO_SUBMIT, [0; 6]),
    call("ioprio_get", nr::IOPRIO_GET, [NO, 0, 0, 0, 0, 0]),
    // These two end the caller.
    call("exit", nr::EXIT, [0; 6]),
    call("exit_group", nr::EXIT_GROUP, [0; 6]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number that the runtime can call is in the list: it enters the kernel only through these names.
    #[test]
    fn the_list_is_complete() {
        let all = include_str!("nr.rs");
        let numbers = all.split("mod numbers").nth(if cfg!(target_arch = "x86_64") { 1 } else { 2 }).unwrap();
        let mut count = 0;
        for line in numbers.lines().filter_map(|line| line.trim().strip_prefix("pub const ")) {
            let (name, rest) = line.split_once(": usize = ").unwrap();
            let number: usize = rest.split(';').next().unwrap().parse().unwrap();
            let listed = CALLS.iter().chain(&[USERFAULTFD]).chain(&TO_SHOW).any(|call| call.number == number);
            let known = listed || WITHOUT_FILTERS.contains(&number) || OF_PROGRAMS.contains(&number);
            assert!(known, "{name} is called and not in the list");
            count += 1;
        }
        assert_eq!(count, CALLS.len() + 1 + TO_SHOW.len() + WITHOUT_FILTERS.len() + OF_PROGRAMS.len());
    }
}
