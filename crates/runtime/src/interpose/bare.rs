//! `_Fork`, `clone`, and the system calls behind them through `syscall`: they make a child with a copy of the
//! memory, bypassing the handlers of `pthread_atfork`. Sandboxes and container tools make all of their
//! children this way. This module does the work of those handlers:
//!
//! ```text
//!   fork::prepare ── the call ──┬── fork::parent
//!                               └── fork::child, on the parent's stack ── the program's stack and function
//! ```
//!
//! - Children that share the memory (`CLONE_VM`: threads, and those of `vfork`)
//!   need nothing.
//! - `_Fork` may be called in a signal handler. Locks are held only with signals blocked, so nothing here
//!   waits for a lock that the interrupted thread holds.
//! - A child with a stack or thread-local storage of its own switches to them only after its runtime has
//!   begun, because they may be evicted and nothing restores them before.
//! - With `CLONE_VFORK` the kernel would suspend the parent in the middle of the fork. So the parent waits
//!   afterwards instead, until the child's `execve` closes a pipe.
//! - If the program's last thread ends itself by the system call, the runtime's threads end, too.
//! - Where the runtime has stopped, there is nothing to prepare. No system call is made that the program has
//!   not requested, because the program may have a filter.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use memfold_shared::page::state;

use crate::interpose::next::{Next, is_managed, is_managed_here, keeping_errno, result};
use crate::interpose::rights::credentials;
use crate::kernel::sys::{self, Errno, PAGE};
use crate::preload;
use crate::process::fork;
use crate::runtime::RUNTIME;

const VM: usize = 0x100;
const FILES: usize = 0x400;
const VFORK: usize = 0x4000;
const SETTLS: usize = 0x8_0000;
const CHILD_SETTID: usize = 0x100_0000;

static UNDERSCORE_FORK: Next = Next::library(c"_Fork");
static CLONE: Next = Next::library(c"clone");
static SYSCALL: Next = Next::library(c"syscall");

/// All functions interposed here.
pub static ALL: [&Next; 3] = [&UNDERSCORE_FORK, &CLONE, &SYSCALL];

/// Whether a child made with these flags has to be prepared.
fn is_to_be_prepared(flags: usize) -> bool {
    flags & VM == 0
        && is_managed()
        && !RUNTIME.process.stopped.load(Acquire)
        && RUNTIME.process.state() != state::STOPPED
}

/// Makes a child by `make`, which returns 0 in the child. `written` is the address to which the kernel writes
/// in the child before the child's faults can be served, or 0.
fn make_child(written: usize, make: impl FnOnce() -> isize) -> isize {
    fork::prepare(|| {
        if written != 0 {
            let page = written & !(PAGE - 1);
            RUNTIME.restore_range(page, page + PAGE);
        }
    });
    let made = make();
    match made {
        0 => keeping_errno(preload::begin_child),
        _ => keeping_errno(fork::parent),
    }
    made
}

/// A request to the kernel, without a stack for the child.
struct Wanted {
    flags: usize,
    child_tid: usize,
    tls: usize,
}

impl Wanted {
    /// Makes the child by `make`, which gets the flags that remain for the kernel. Returns 0 in the child.
    fn make(self, make: impl FnOnce(usize) -> sys::Result<usize>) -> sys::Result<usize> {
        let written = if self.flags & CHILD_SETTID != 0 { self.child_tid } else { 0 };
        let end = (self.flags & (VFORK | FILES) == VFORK).then(ChildEnd::new).flatten();
        let mut answer = Ok(0);
        make_child(written, || {
            answer = make(self.flags & !(VFORK | SETTLS));
            answer.map_or(-1, |pid| pid as isize)
        });
        if answer == Ok(0) {
            if let Some(end) = end {
                sys::close(end.reader);
            }
            if self.flags & SETTLS != 0 {
                set_thread_pointer(self.tls);
            }
        } else if let Some(end) = end {
            end.wait(answer.is_ok());
        }
        answer
    }
}

/// A pipe whose writing end the child keeps until it executes a program or ends. (With `CLONE_FILES` there is
/// no such end, and the parent does not wait.)
struct ChildEnd {
    reader: sys::Fd,
    writer: sys::Fd,
}

impl ChildEnd {
    fn new() -> Option<Self> {
        sys::pipe().ok().map(|[reader, writer]| ChildEnd { reader, writer })
    }

    /// Called in the parent: as after `vfork`, signals are handled when the child is done.
    fn wait(self, is_made: bool) {
        sys::close(self.writer);
        if is_made {
            let mask = sys::block_signals();
            let _ = sys::read(self.reader, &mut [0; 1]);
            sys::restore_signals(mask);
        }
        sys::close(self.reader);
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> c_int {
    // SAFETY: the caller upholds the contract. The result is an `int`.
    let make = || unsafe { UNDERSCORE_FORK.call([]) as c_int as isize };
    if is_to_be_prepared(0) { make_child(0, make) as c_int } else { make() as c_int }
}

/// Defines functions that make a child and run a function in it.
macro_rules! clones {
    ($($name:ident)+) => {
        $(
            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function. The variable arguments are declared as fixed ones:
            /// they are passed in the same places, and are used only where the flags require them.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                function: usize,
                stack: usize,
                flags: c_int,
                argument: usize,
                parent_tid: usize,
                tls: usize,
                child_tid: usize,
            ) -> c_int {
                let given = [function, stack, flags as u32 as usize, argument, parent_tid, tls, child_tid];
                // SAFETY: the caller upholds the contract.
                unsafe { clone_to_function(given) }
            }
        )+
    };
}

clones! { clone __clone }

/// # Safety
/// The same as for the C library's `clone`.
unsafe fn clone_to_function(given: [usize; 7]) -> c_int {
    let [function, stack, flags, argument, parent_tid, tls, child_tid] = given;
    if function == 0 || stack == 0 || !is_to_be_prepared(flags) {
        // SAFETY: the caller upholds the contract.
        return unsafe { CLONE.call_with(given) } as c_int;
    }
    // SAFETY: the caller upholds the contract.
    let made = unsafe { clone_here(flags, parent_tid, child_tid, tls) };
    if made == Ok(0) {
        // SAFETY: this is the child; the function and stack are the caller's.
        unsafe { run(function, argument, stack & !15) }
    }
    result(made) as c_int
}

/// Clones without a stack for the child, which continues here.
///
/// # Safety
/// The same as for the system call.
unsafe fn clone_here(flags: usize, parent_tid: usize, child_tid: usize, tls: usize) -> sys::Result<usize> {
    Wanted { flags, child_tid, tls }.make(|flags| {
        #[cfg(target_arch = "x86_64")]
        let arguments = [flags, 0, parent_tid, child_tid, 0, 0];
        #[cfg(target_arch = "aarch64")]
        let arguments = [flags, 0, parent_tid, 0, child_tid, 0];
        // SAFETY: the caller upholds the contract. The child has a copy of this stack.
        unsafe { sys::syscall(sys::nr::CLONE, arguments) }
    })
}

/// In a child: runs its function on its stack, and then ends the child.
///
/// # Safety
/// The function and stack must be the child's own; nothing of the present stack may be needed any more.
unsafe fn run(function: usize, argument: usize, stack: usize) -> ! {
    // SAFETY: the caller upholds the contract; the last call does not return.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "mov rsp, {stack}",
            "xor ebp, ebp",
            "call {function}",
            "mov edi, eax",
            "call {leave}",
            "ud2",
            stack = in(reg) stack,
            function = in(reg) function,
            leave = sym leave_with,
            in("rdi") argument,
            options(noreturn),
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "mov sp, {stack}",
            "mov x29, xzr",
            "mov x30, xzr",
            "blr {function}",
            "bl {leave}",
            "brk 1",
            stack = in(reg) stack,
            function = in(reg) function,
            leave = sym leave_with,
            in("x0") argument,
            options(noreturn),
        );
    }
}

extern "C" fn leave_with(status: c_int) -> ! {
    leave(status as usize)
}

/// Ends the calling thread as the system call `exit` does. If it is the program's last thread, the process
/// ends, since the runtime's threads would go on for ever.
pub fn leave(status: usize) -> ! {
    // The order matters: where the runtime has stopped, a filter of the program may forbid any other call.
    let is_last = !RUNTIME.process.stopped.load(Acquire) && is_managed_here() && is_last_thread();
    let number = if is_last { sys::nr::EXIT_GROUP } else { sys::nr::EXIT };
    loop {
        // SAFETY: the program has asked for that.
        let _ = unsafe { sys::syscall(number, [status, 0, 0, 0, 0, 0]) };
    }
}

fn is_last_thread() -> bool {
    if !RUNTIME.is_threaded() {
        return true;
    }
    let all = sys::open_own(c"/proc/self/task", sys::o::RDONLY | sys::o::DIRECTORY).map(|tasks| {
        let all = sys::links(tasks).saturating_sub(2);
        sys::close(tasks);
        all
    });
    all.is_ok_and(|all| all <= credentials::count() + 1)
}

/// The system calls that make a child or end a thread. `None` if the call is to be made like any other.
///
/// # Safety
/// The same as for the system call.
pub unsafe fn by_number(number: usize, a: [usize; 6]) -> Option<isize> {
    #[cfg(target_arch = "x86_64")]
    const FORK: usize = 57;
    #[cfg(target_arch = "x86_64")]
    if number == FORK && is_to_be_prepared(0) {
        // SAFETY: the caller upholds the contract.
        return Some(result(
            Wanted { flags: 0, child_tid: 0, tls: 0 }.make(|_| unsafe { sys::syscall(FORK, [0; 6]) }),
        ));
    }
    // A child with a stack of its own continues after the C library's function, at the top of that stack.
    // SAFETY: the caller upholds the contract.
    let plainly = || unsafe { SYSCALL.call_with([number, a[0], a[1], a[2], a[3], a[4], a[5]]) };
    match number {
        sys::nr::CLONE if a[1] == 0 && is_to_be_prepared(a[0]) => {
            #[cfg(target_arch = "x86_64")]
            let (child_tid, tls) = (a[3], a[4]);
            #[cfg(target_arch = "aarch64")]
            let (child_tid, tls) = (a[4], a[3]);
            // SAFETY: the caller upholds the contract.
            Some(result(unsafe { clone_here(a[0], a[2], child_tid, tls) }))
        }
        sys::nr::CLONE => Some(plainly()),
        // SAFETY: the caller upholds the contract.
        sys::nr::CLONE3 => Some(unsafe { clone3(a[0], a[1]) }.unwrap_or_else(plainly)),
        sys::nr::EXIT => leave(a[0]),
        _ => None,
    }
}

/// # Safety
/// The same as for the system call.
unsafe fn clone3(arguments: usize, bytes: usize) -> Option<isize> {
    const WORDS: usize = 16;
    const FLAGS: usize = 0;
    const CHILD_TID: usize = 2;
    const STACK: usize = 5;
    const TLS: usize = 7;
    const SMALLEST: usize = 64;
    // Where the program may have a filter, this makes no system call of its own.
    if !is_to_be_prepared(0) || !(SMALLEST..=WORDS * 8).contains(&bytes) || !bytes.is_multiple_of(8) {
        return None;
    }
    let mut words = [0usize; WORDS];
    let found = sys::read_own_memory(arguments, &mut words[..bytes / 8]);
    if found == Err(Errno::FAULT) {
        return None;
    }
    if found.is_err() {
        // The system call that reads the arguments safely is forbidden here.
        // SAFETY: the caller upholds the contract.
        let given = unsafe { core::slice::from_raw_parts(arguments as *const usize, bytes / 8) };
        words[..bytes / 8].copy_from_slice(given);
    }
    if words[STACK] != 0 || !is_to_be_prepared(words[FLAGS]) {
        return None;
    }
    let wanted = Wanted { flags: words[FLAGS], child_tid: words[CHILD_TID], tls: words[TLS] };
    Some(result(wanted.make(|flags| {
        words[FLAGS] = flags;
        // SAFETY: the caller upholds the contract; the child has a copy of this stack.
        unsafe { sys::syscall(sys::nr::CLONE3, [words.as_ptr() as usize, bytes, 0, 0, 0, 0]) }
    })))
}

#[cfg(target_arch = "x86_64")]
fn set_thread_pointer(to: usize) {
    const ARCH_PRCTL: usize = 158;
    const SET_FS: usize = 0x1002;
    // SAFETY: the program has asked for that.
    let _ = unsafe { sys::syscall(ARCH_PRCTL, [SET_FS, to, 0, 0, 0, 0]) };
}

#[cfg(target_arch = "aarch64")]
fn set_thread_pointer(to: usize) {
    // SAFETY: the program has asked for that.
    unsafe { core::arch::asm!("msr tpidr_el0, {}", in(reg) to, options(nostack)) };
}
