//! Stops a thread of another process briefly, and changes where it continues.
//!
//! Nothing here uses `waitpid`: a thread is stopped as soon as its registers can be read. The notifications
//! go to `sys::reap`, which collects ended children and skips the notifications.

use std::ffi::c_void;
use std::io;

use nix::libc;

/// A thread that the calling thread has stopped, or is about to stop.
pub struct Tracee {
    tid: i32,
}

/// The registers of a stopped thread.
pub type Registers = libc::user_regs_struct;

/// Why a thread is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was asked to stop.
    Asked,
    /// It is about to receive this signal.
    Signal(i32),
}

fn call(request: libc::c_uint, tid: i32, address: usize, data: *mut c_void) -> io::Result<()> {
    // SAFETY: the requests of this module read or write the one structure that `data` points to, or nothing.
    let result = unsafe { libc::ptrace(request, tid, address as *mut c_void, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Tracee {
    /// Begins to trace a thread, without stopping it.
    pub fn seize(tid: i32) -> io::Result<Self> {
        call(libc::PTRACE_SEIZE, tid, 0, std::ptr::null_mut())?;
        Ok(Self { tid })
    }

    /// Asks the thread to stop.
    pub fn interrupt(&self) -> io::Result<()> {
        call(libc::PTRACE_INTERRUPT, self.tid, 0, std::ptr::null_mut())
    }

    /// Its registers, if it has stopped.
    pub fn registers(&self) -> Option<Registers> {
        let mut registers = std::mem::MaybeUninit::<Registers>::zeroed();
        call(libc::PTRACE_GETREGS, self.tid, 0, registers.as_mut_ptr().cast()).ok()?;
        // SAFETY: the structure consists of numbers, which the kernel has written.
        Some(unsafe { registers.assume_init() })
    }

    /// Sets its registers.
    pub fn set_registers(&self, mut registers: Registers) -> io::Result<()> {
        call(libc::PTRACE_SETREGS, self.tid, 0, (&raw mut registers).cast())
    }

    /// Why it has stopped.
    pub fn stop(&self) -> Option<Stop> {
        const STOP_CODE: i32 = libc::SIGTRAP | libc::PTRACE_EVENT_STOP << 8;
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        call(libc::PTRACE_GETSIGINFO, self.tid, 0, info.as_mut_ptr().cast()).ok()?;
        // SAFETY: the structure consists of numbers, which the kernel has written.
        let info = unsafe { info.assume_init() };
        // If the whole process is stopped, the code is derived from that signal.
        let asked = info.si_code >> 8 == libc::PTRACE_EVENT_STOP || info.si_code == STOP_CODE;
        Some(if asked { Stop::Asked } else { Stop::Signal(info.si_signo) })
    }

    /// The address of its `rseq` structure, as the kernel knows it; 0 if it has none. Linux 5.13 or later.
    pub fn restartable_sequence(&self) -> Option<u64> {
        const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        let mut found = [0u64; 3];
        call(GET_RSEQ_CONFIGURATION, self.tid, size_of_val(&found), found.as_mut_ptr().cast()).ok()?;
        Some(found[0])
    }

    /// Its thread id.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Lets a stopped thread continue, with this signal, or without one if it is 0.
    pub fn let_go(self, signal: i32) {
        // A stopped thread stays stopped until it is let go or killed.
        let _ = call(libc::PTRACE_DETACH, self.tid, 0, signal as usize as *mut c_void);
    }
}

/// Reads memory of a process; false if not all of it can be read.
pub fn read_memory(pid: i32, from: u64, into: &mut [u8]) -> bool {
    let near = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let far = libc::iovec { iov_base: from as *mut c_void, iov_len: into.len() };
    // SAFETY: the kernel writes into the exclusive buffer, and checks the other address.
    let got = unsafe { libc::process_vm_readv(pid, &near, 1, &far, 1, 0) };
    got == into.len() as isize
}

/// Writes memory of a process; false if not all of it can be written.
pub fn write_memory(pid: i32, to: u64, bytes: &[u8]) -> bool {
    let near = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let far = libc::iovec { iov_base: to as *mut c_void, iov_len: bytes.len() };
    // SAFETY: the kernel only reads the buffer, and checks the other address, which is in another process.
    let put = unsafe { libc::process_vm_writev(pid, &near, 1, &far, 1, 0) };
    put == bytes.len() as isize
}
