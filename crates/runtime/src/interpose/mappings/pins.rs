//! Pages that the kernel holds on to while a device or another thread reads or writes them. Moving a page
//! away does not end that: data that arrive later go to the moved page. Where the kernel does not refuse to
//! move such pages (`reclaim/pins.rs`, `kernel/mounts.rs`), the runtime must learn that such I/O may happen
//! before it first happens.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use crate::interpose::desk;
use crate::interpose::next::{Next, is_managed, is_paging, keeping_errno};
use crate::kernel::mounts::Notices;
use crate::kernel::sys;
use crate::runtime::RUNTIME;

/// Records that the program is about to do something that pins pages. Where eviction notices pins, this does
/// no harm; before paging begins it is unknown whether it does.
#[cold]
pub fn note() {
    if !RUNTIME.pages.pins_seen.swap(true, SeqCst) && RUNTIME.kernel.mounts.notices() == Notices::Nothing {
        let_evictions_end();
    }
}

/// Evictions that are under way must end first.
fn let_evictions_end() {
    if is_paging() {
        keeping_errno(desk::let_evictions_end);
    }
}

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const VMSPLICE: usize = 278;
    pub const PROCESS_VM_WRITEV: usize = 311;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const VMSPLICE: usize = 75;
    pub const PROCESS_VM_WRITEV: usize = 271;
}

const F_SETFL: c_int = 4;

/// Called when a file was opened or its flags have changed: checks whether reading it may write to pages
/// unnoticed. The keeper checks files opened before paging when paging begins.
#[cold]
pub fn opened(file: c_int, direct: bool) {
    if file >= 0
        && !RUNTIME.may_write_late()
        && !RUNTIME.kernel.mounts.are_harmless()
        && RUNTIME.kernel.mounts.may_write_late(sys::Fd(file), direct)
    {
        RUNTIME.note_late_writer();
        let_evictions_end();
    }
}

/// Defines functions that change a descriptor's flags.
macro_rules! changes {
    ($($name:ident is $next:ident $text:literal;)+) => {
        $(
            static $next: Next = Next::call_of($text, sys::nr::FCNTL);

            /// Replaces the C library's function.
            ///
            /// # Safety
            /// The same as for the C library's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(file: usize, command: c_int, argument: usize) -> c_int {
                let direct = command == F_SETFL && argument as c_int & sys::o::DIRECT != 0;
                if direct {
                    note();
                }
                // SAFETY: the caller upholds the contract.
                let answer = unsafe { $next.call([file, command as usize, argument]) as c_int };
                if direct && answer >= 0 && is_paging() {
                    keeping_errno(|| opened(file as c_int, true));
                }
                answer
            }
        )+
    };
}

changes! {
    fcntl is FCNTL c"fcntl";
    fcntl64 is FCNTL64 c"fcntl64";
}

/// All functions interposed here; those that open files are in `opening.rs`.
pub static ALL: [&Next; 5] = [&READV, &WRITEV, &VMSPLICE, &FCNTL, &FCNTL64];

static READV: Next = Next::call_of(c"process_vm_readv", sys::nr::PROCESS_VM_READV);
static WRITEV: Next = Next::call_of(c"process_vm_writev", nr::PROCESS_VM_WRITEV);
static VMSPLICE: Next = Next::call_of(c"vmsplice", nr::VMSPLICE);

/// Whether `process` is this process: its id, or the id of one of its threads.
fn is_own(process: c_int) -> bool {
    let own = RUNTIME.process.pid.load(Relaxed);
    is_managed() && (process as u32 == own || process > 0 && sys::thread_exists(own, process as u32))
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_vm_readv(
    process: c_int,
    here: usize,
    here_count: usize,
    there: usize,
    there_count: usize,
    flags: usize,
) -> isize {
    if is_own(process) {
        note();
    }
    // SAFETY: the caller upholds the contract.
    unsafe { READV.call([process as usize, here, here_count, there, there_count, flags]) }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_vm_writev(
    process: c_int,
    here: usize,
    here_count: usize,
    there: usize,
    there_count: usize,
    flags: usize,
) -> isize {
    if is_own(process) {
        note();
    }
    // SAFETY: the caller upholds the contract.
    unsafe { WRITEV.call([process as usize, here, here_count, there, there_count, flags]) }
}

/// Replaces the C library's function: a pipe takes in pages of the program.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmsplice(pipe: usize, pages: usize, count: usize, flags: usize) -> isize {
    note();
    // SAFETY: the caller upholds the contract.
    unsafe { VMSPLICE.call([pipe, pages, count, flags]) }
}
