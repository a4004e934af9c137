//! Futex operations that write to memory inside of the kernel: those that wake by a second word, and those that
//! inherit priorities. The kernel cannot wait for a fault there. So where the page is evicted, or protected after a
//! fork, they fail with EFAULT; then the page is restored and the operation repeated, as the kernel itself repeats
//! it for other pages.
//!
//! The C library's own mutexes do not come here: it touches their words before it asks the kernel.

use crate::interpose::next::is_managed_here;
use crate::kernel::sys::{self, Errno, PAGE};
use crate::runtime::RUNTIME;

/// Operations, without their flags.
const WAKE_OP: usize = 5;
const LOCK_PI: usize = 6;
const UNLOCK_PI: usize = 7;
const TRYLOCK_PI: usize = 8;
const WAIT_REQUEUE_PI: usize = 11;
const CMP_REQUEUE_PI: usize = 12;
const LOCK_PI2: usize = 13;
/// Private to the process, and by the clock of real time.
const FLAGS: usize = 128 | 256;
/// How often an operation is repeated: its pages may be evicted again.
const TRIES: u32 = 16;

/// The result of a futex operation that has failed with EFAULT.
///
/// # Safety
/// The arguments must be those of the system call, and the caller upholds its contract.
pub unsafe fn after_fault(arguments: [usize; 6]) -> sys::Result<usize> {
    let [first, operation, _, _, second, _] = arguments;
    let words: &[usize] = match operation & !FLAGS {
        LOCK_PI | UNLOCK_PI | TRYLOCK_PI | LOCK_PI2 => &[first],
        WAKE_OP | WAIT_REQUEUE_PI | CMP_REQUEUE_PI => &[first, second],
        _ => return Err(Errno::FAULT),
    };
    if !is_managed_here() {
        return Err(Errno::FAULT);
    }
    for _ in 0..TRIES {
        let page = |word: &usize| word & !(PAGE - 1);
        if !words.iter().map(page).all(|page| RUNTIME.restore_for_writes(page, page + PAGE)) {
            break;
        }
        // SAFETY: the caller upholds the contract.
        let answer = unsafe { sys::syscall(sys::nr::FUTEX, arguments) };
        if answer != Err(Errno::FAULT) {
            return answer;
        }
    }
    Err(Errno::FAULT)
}
