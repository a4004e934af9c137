//! Threads of the runtime. A raw `clone` makes them, so that the C library of the program does not know them.
//! They have a thread control block of their own (compilers read the stack protector's canary from it), block
//! all signals and use no memory of the program.

use core::arch::asm;
use core::sync::atomic::Ordering::*;

use crate::kernel::sys::{self, Errno, Result};
use crate::memory::arena::Arena;
use crate::process::slot::ThreadSlot;

/// The descriptor table and the directories of a new thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// The creator's.
    Shared,
    /// Copies: what the program does with its own does not affect them. (While a thread of the program is in
    /// `execve`, the kernel does not let any thread share its directories.)
    Own,
}

const VM: usize = 0x100;
const FS: usize = 0x200;
const FILES: usize = 0x400;
const SIGHAND: usize = 0x800;
const THREAD: usize = 0x10000;
const SYSVSEM: usize = 0x40000;
const SETTLS: usize = 0x80000;
// A tracer that follows new threads would stop handlers at their system calls, and may itself be waiting for
// one of them: it reads the traced thread's memory (`strace -f`).
const UNTRACED: usize = 0x80_0000;
/// The flags for [`Descriptors::Own`].
pub const OWN_FLAGS: usize = VM | SIGHAND | THREAD | SYSVSEM | SETTLS | UNTRACED;

/// Starts a thread that runs `entry(argument)`, which never returns. No other thread may be using its place.
pub fn spawn(
    arena: &Arena,
    place: &ThreadSlot,
    descriptors: Descriptors,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> Result<u32> {
    let mut flags = OWN_FLAGS;
    if descriptors == Descriptors::Shared {
        flags |= FILES | FS;
    }
    place.prepare(arena)?;
    let (top, control_block) = place.prepare_stack();
    // SAFETY: memory of our own that no thread uses; the new stack begins with what the new thread pops.
    unsafe {
        *(top as *mut usize) = entry as usize;
        *((top + 8) as *mut usize) = argument;
    }
    let mask = sys::block_signals();
    // SAFETY: the stack and control block are exclusive to the new thread.
    let tid = unsafe { clone(flags, top, control_block) };
    if let Ok(tid) = tid {
        crate::interpose::rights::credentials::join(tid);
        place.tid.store(tid, Relaxed);
    }
    sys::restore_signals(mask);
    tid
}

/// Clones; the new thread pops its entry and argument from `stack`.
///
/// # Safety
/// `stack` must hold entry and argument, 16-byte aligned, with room below.
#[cfg(target_arch = "x86_64")]
unsafe fn clone(flags: usize, stack: usize, tls: usize) -> Result<u32> {
    let result: isize;
    // SAFETY: the child never leaves the block: it calls its entry, which
    // does not return. The parent only loses the named registers.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "pop rax",
            "pop rdi",
            "call rax",
            "ud2",
            "2:",
            inlateout("rax") sys::nr::CLONE as isize => result,
            in("rdi") flags, in("rsi") stack, in("rdx") 0usize, in("r10") 0usize, in("r8") tls,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as u32) }
}

/// Clones; the new thread loads its entry and argument from `stack`.
///
/// # Safety
/// `stack` must hold entry and argument, 16-byte aligned, with room below.
#[cfg(target_arch = "aarch64")]
unsafe fn clone(flags: usize, stack: usize, tls: usize) -> Result<u32> {
    let result: isize;
    // SAFETY: the child never leaves the block: it calls its entry, which
    // does not return.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "ldp x1, x0, [sp], #16",
            "blr x1",
            "brk 1",
            "2:",
            in("x8") sys::nr::CLONE,
            inlateout("x0") flags as isize => result,
            in("x1") stack, in("x2") 0usize, in("x3") tls, in("x4") 0usize,
        );
    }
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as u32) }
}

/// Ends the calling thread.
pub fn exit() -> ! {
    loop {
        // SAFETY: only this thread ends; its memory is never freed.
        let _ = unsafe { sys::syscall(sys::nr::EXIT, [0; 6]) };
    }
}

/// Checks whether the kernel lets this process have one more task, by making one that ends at once.
#[cfg(feature = "preload")]
pub fn try_task() -> Result<()> {
    const ENDS_NS: u64 = 100_000_000;
    // The new thread shares this thread's stack, and must not run a signal handler on it.
    let mask = sys::block_signals();
    // SAFETY: the new thread touches no memory and ends.
    let made = unsafe { clone_and_exit(VM | FS | FILES | SIGHAND | THREAD | SYSVSEM | UNTRACED) };
    sys::restore_signals(mask);
    let tid = made?;
    // Until the thread is gone the kernel counts it. Its number may belong to another thread by now.
    let (pid, begin) = (sys::getpid(), sys::now_ns());
    while sys::thread_exists(pid, tid) && sys::now_ns() - begin < ENDS_NS {
        crate::kernel::sched::yield_now();
    }
    Ok(())
}

/// # Safety
/// Signals must be blocked, and the flags must be those of a thread without a control block of its own.
#[cfg(feature = "preload")]
unsafe fn clone_and_exit(flags: usize) -> Result<u32> {
    let made: isize;
    // SAFETY: the child does nothing but its system call; the stack is not used.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "2:",
            exit = const sys::nr::EXIT,
            inlateout("rax") sys::nr::CLONE as isize => made,
            in("rdi") flags, in("rsi") 0, in("rdx") 0, in("r10") 0, in("r8") 0,
            lateout("rcx") _, lateout("r11") _,
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x8, {exit}",
            "svc 0",
            "2:",
            exit = const sys::nr::EXIT,
            inlateout("x0") flags as isize => made,
            in("x8") sys::nr::CLONE,
            in("x1") 0, in("x2") 0, in("x3") 0, in("x4") 0,
        );
    }
    if made < 0 { Err(Errno(-made as i32)) } else { Ok(made as u32) }
}
