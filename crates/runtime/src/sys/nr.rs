//! Numbers of system calls, for each architecture.

#[cfg(target_arch = "x86_64")]
#[allow(missing_docs)]
mod numbers {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const POLL: usize = 271; // ppoll
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const MINCORE: usize = 27;
    pub const PREAD: usize = 17;
    pub const PWRITE: usize = 18;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const GETPPID: usize = 110;
    pub const CLONE: usize = 56;
    pub const EXIT: usize = 60;
    pub const EXIT_GROUP: usize = 231;
    pub const FCNTL: usize = 72;
    pub const GETTID: usize = 186;
    pub const FUTEX: usize = 202;
    pub const SCHED_SETAFFINITY: usize = 203;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const GETCPU: usize = 309;
    pub const SCHED_SETATTR: usize = 314;
    pub const SCHED_GETATTR: usize = 315;
    pub const CLOCK_GETTIME: usize = 228;
    pub const TGKILL: usize = 234;
    pub const OPENAT: usize = 257;
    pub const FSTAT: usize = 5;
    pub const READLINKAT: usize = 267;
    pub const EVENTFD2: usize = 290;
    pub const USERFAULTFD: usize = 323;
    pub const PKEY_MPROTECT: usize = 329;
    pub const CLOSE_RANGE: usize = 436;
    pub const GETDENTS64: usize = 217;
    pub const SETRESUID: usize = 117;
    pub const SETRESGID: usize = 119;
    pub const SETGROUPS: usize = 116;
    pub const GETRESUID: usize = 118;
    pub const GETRESGID: usize = 120;
    pub const GETGROUPS: usize = 115;
    pub const SCHED_YIELD: usize = 24;
    pub const PRCTL: usize = 157;
    pub const KILL: usize = 62;
    pub const STATX: usize = 332;
    pub const PRLIMIT64: usize = 302;
    pub const CHDIR: usize = 80;
}

#[cfg(target_arch = "aarch64")]
#[allow(missing_docs)]
mod numbers {
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const CLOSE: usize = 57;
    pub const POLL: usize = 73; // ppoll
    pub const MMAP: usize = 222;
    pub const MPROTECT: usize = 226;
    pub const MUNMAP: usize = 215;
    pub const SIGPROCMASK: usize = 135;
    pub const IOCTL: usize = 29;
    pub const MINCORE: usize = 232;
    pub const PREAD: usize = 67;
    pub const PWRITE: usize = 68;
    pub const MREMAP: usize = 216;
    pub const MADVISE: usize = 233;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const CLONE: usize = 220;
    pub const EXIT: usize = 93;
    pub const EXIT_GROUP: usize = 94;
    pub const FCNTL: usize = 25;
    pub const GETTID: usize = 178;
    pub const FUTEX: usize = 98;
    pub const SCHED_SETAFFINITY: usize = 122;
    pub const SCHED_GETAFFINITY: usize = 123;
    pub const GETCPU: usize = 168;
    pub const SCHED_SETATTR: usize = 274;
    pub const SCHED_GETATTR: usize = 275;
    pub const CLOCK_GETTIME: usize = 113;
    pub const TGKILL: usize = 131;
    pub const OPENAT: usize = 56;
    pub const FSTAT: usize = 80;
    pub const READLINKAT: usize = 78;
    pub const EVENTFD2: usize = 19;
    pub const USERFAULTFD: usize = 282;
    pub const PKEY_MPROTECT: usize = 288;
    pub const CLOSE_RANGE: usize = 436;
    pub const GETDENTS64: usize = 61;
    pub const SETRESUID: usize = 147;
    pub const SETRESGID: usize = 149;
    pub const SETGROUPS: usize = 159;
    pub const GETRESUID: usize = 148;
    pub const GETRESGID: usize = 150;
    pub const GETGROUPS: usize = 158;
    pub const SCHED_YIELD: usize = 124;
    pub const PRCTL: usize = 167;
    pub const KILL: usize = 129;
    pub const STATX: usize = 291;
    pub const PRLIMIT64: usize = 261;
    pub const CHDIR: usize = 49;
}

pub use numbers::*;
