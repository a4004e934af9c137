//! Interposed functions that start threads, and record the threads' control blocks.
//!
//! The C library keeps its threads' stacks, and those of threads that have ended, in lists that run through
//! the control blocks. In a forked child it walks and changes those lists before any handler runs, when
//! evicted pages would read as zeros. So a control block is never evicted once its thread has begun. It is in
//! the lists even before that; so a fork waits for threads that are being started, and threads started later
//! wait for the fork.
//!
//! Programs that look up the C library's own function (`dlsym` with `RTLD_NEXT`, as jemalloc does) start
//! threads that bypass us, and the C library starts some itself. Before a fork its lists are searched for
//! these.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use super::{NEXT, dlsym, ending};
use crate::kernel::addresses::END;
use crate::kernel::sys;
use crate::process::threads::{Start, Starts};
use crate::reclaim::watch::with_tasks_back;
use crate::runtime::RUNTIME;

/// Number of threads that are being started: they are in the lists, but not kept yet.
static STARTING: AtomicU32 = AtomicU32::new(0);
/// Number of forks under way: no thread is started meanwhile.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// How long a fork waits for threads that are being started, in ns: they only need a CPU. But a thread that
/// starts one may itself wait, inside the C library, for a lock that a handler of the program has taken
/// before this fork. Then the new thread is not in the lists yet, and the fork can safely continue.
const FORK_WAITS: u64 = 1_000_000_000;
/// How long starting a thread waits for forks, in ns.
const START_WAITS: u64 = 1_000_000_000;

/// Called before a fork: waits until every thread that is being started is known.
pub fn hold() {
    FORKING.fetch_add(1, SeqCst);
    let until = sys::now_ns() + FORK_WAITS;
    loop {
        let starting = STARTING.load(SeqCst);
        if starting == 0 {
            return;
        }
        let now = sys::now_ns();
        if now >= until {
            // The count may also be wrong, in a child of a fork that the runtime did not know of.
            STARTING.store(0, SeqCst);
            return;
        }
        let _ = sys::futex_wait(&STARTING, starting, Some(until - now), false);
    }
}

/// Called after a fork, in the parent.
pub fn let_go() {
    if count_down(&FORKING) == 0 {
        sys::futex_wake(&FORKING, sys::ALL, false);
    }
}

/// Called after a fork, in the child: the other threads do not exist.
pub fn after_fork() {
    STARTING.store(0, SeqCst);
    FORKING.store(0, SeqCst);
}

fn begin_start() {
    let until = sys::now_ns() + START_WAITS;
    loop {
        // The order matters: if a fork is not seen here, it sees this start.
        STARTING.fetch_add(1, SeqCst);
        let forking = FORKING.load(SeqCst);
        let now = if forking == 0 { until } else { sys::now_ns() };
        if now >= until {
            return;
        }
        end_start();
        let _ = sys::futex_wait(&FORKING, forking, Some(until - now), false);
    }
}

fn end_start() {
    count_down(&STARTING);
    if FORKING.load(SeqCst) != 0 {
        sys::futex_wake(&STARTING, sys::ALL, false);
    }
}

/// Decrements the count, unless a fork has reset it. Returns the new count.
fn count_down(count: &AtomicU32) -> u32 {
    count.fetch_update(SeqCst, SeqCst, |now| now.checked_sub(1)).map_or(0, |before| before - 1)
}

pub static NEXT_CREATE: AtomicUsize = AtomicUsize::new(0);
pub static NEXT_C11: AtomicUsize = AtomicUsize::new(0);
static STATIC_TLS: AtomicUsize = AtomicUsize::new(0);
static CONTROL_BLOCK: AtomicUsize = AtomicUsize::new(0);

const AGAIN: c_int = 11;

type Create = extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int;
type CreateC11 = extern "C" fn(*mut c_void, usize, *mut c_void) -> c_int;

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    routine: usize,
    argument: usize,
) -> c_int {
    let next = next_of(&NEXT_CREATE, c"pthread_create".as_ptr());
    // SAFETY: the C library's function of this type.
    let create: Create = unsafe { core::mem::transmute(next) };
    start(routine, argument, [AGAIN, AGAIN], |routine, argument| {
        create(thread, attributes, routine, argument)
    })
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(thread: *mut c_void, routine: usize, argument: usize) -> c_int {
    const ERROR: c_int = 2;
    const NO_MEMORY: c_int = 3;
    let next = next_of(&NEXT_C11, c"thrd_create".as_ptr());
    // SAFETY: the C library's function of this type.
    let create: CreateC11 = unsafe { core::mem::transmute(next) };
    start(routine, argument, [NO_MEMORY, ERROR], |routine, argument| create(thread, routine, argument))
}

/// The address of the C library's function, looked up once.
pub fn next_of(known: &AtomicUsize, name: *const c_char) -> usize {
    let mut next = known.load(Acquire);
    if next == 0 {
        // SAFETY: looks up a function that lives as long as the process.
        next = unsafe { dlsym(NEXT, name) } as usize;
        known.store(next, Release);
    }
    next
}

/// Starts a thread that keeps its control block before it goes on to its routine. The calling thread cannot
/// do that: the new thread may have run by now, and the place that holds its id may be gone. `full` is the
/// result if there is no memory to store the routine, `refused` the C library's result if no more threads are
/// allowed.
fn start(
    routine: usize,
    argument: usize,
    [full, refused]: [c_int; 2],
    create: impl Fn(usize, *mut c_void) -> c_int,
) -> c_int {
    if !crate::process::here::is_managed() {
        return create(routine, argument as *mut c_void);
    }
    let Some(cell) = take_start() else { return full };
    // SAFETY: the cell is exclusive until the new thread returns it.
    unsafe { (*cell).routine = routine };
    // SAFETY: as above.
    unsafe { (*cell).argument = argument };
    let try_it = || {
        begin_start();
        let result = create(memfold_thread_start as *const () as usize, cell as *mut c_void);
        if result != 0 {
            end_start();
        }
        result
    };
    // Threads of memfold may have taken the place of this one.
    let result = with_tasks_back(try_it, |result| *result == refused);
    if result != 0 {
        give_start_back(cell);
    }
    result
}

fn take_start() -> Option<*mut Start> {
    with_starts(|starts| {
        if starts.0.is_null() {
            return RUNTIME.arena.reserve(size_of::<Start>(), 16).map(|place| place as *mut Start);
        }
        let cell = starts.0;
        // SAFETY: cells of the list are unused and never freed.
        starts.0 = unsafe { (*cell).next };
        Some(cell)
    })
}

fn give_start_back(cell: *mut Start) {
    with_starts(|starts| {
        // SAFETY: the cell came from `take_start` and is no longer used.
        unsafe { (*cell).next = starts.0 };
        starts.0 = cell;
    });
}

/// A signal handler that forks or starts a thread needs the same locks, so signals are blocked meanwhile.
fn with_starts<T>(work: impl FnOnce(&mut Starts) -> T) -> T {
    let mask = sys::block_signals();
    let done = work(&mut RUNTIME.threads.starts.lock());
    sys::restore_signals(mask);
    done
}

unsafe extern "C" {
    fn memfold_thread_start(cell: *mut c_void) -> *mut c_void;
}

// The new thread begins here: it records itself, then jumps to its routine, so that no frame of ours is on
// its stack when it is cancelled or unwound.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl memfold_thread_start",
    ".hidden memfold_thread_start",
    ".type memfold_thread_start, @function",
    "memfold_thread_start:",
    "sub rsp, 8",
    "call {note}",
    "add rsp, 8",
    "mov rdi, rdx",
    "jmp rax",
    ".size memfold_thread_start, . - memfold_thread_start",
    note = sym note_thread,
);
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl memfold_thread_start",
    ".hidden memfold_thread_start",
    "memfold_thread_start:",
    "stp x29, x30, [sp, #-16]!",
    "bl {note}",
    "ldp x29, x30, [sp], #16",
    "mov x2, x0",
    "mov x0, x1",
    "br x2",
    note = sym note_thread,
);

#[repr(C)]
struct Call {
    routine: usize,
    argument: usize,
}

extern "C" fn note_thread(cell: *mut Start) -> Call {
    // SAFETY: the cell was filled by pthread_create for this thread.
    let call = unsafe { Call { routine: (*cell).routine, argument: (*cell).argument } };
    give_start_back(cell);
    keep_thread(0);
    ending::arm();
    end_start();
    call
}

/// Keeps the calling thread's control block and thread-local storage resident, but nothing else next to its
/// stack: the rest may have been evicted long ago, and a fork would wait until it is restored.
///
/// ```text
///   x86-64    stack ─── │ thread-local storage │ control block │ end of the mapping
///                                              └ thread pointer
/// ```
///
/// Behind the control block of the first thread lies data of the loader (among it the vector of thread-local
/// storage, which a child may read before any handler runs): `behind` bytes of it are kept, too.
pub fn keep_thread(behind: usize) {
    keep(thread_pointer(), behind);
}

fn keep(pointer: usize, behind: usize) {
    let known = |cell: &AtomicUsize, ask: fn() -> usize| match cell.load(Relaxed) {
        0 => {
            let bytes = ask();
            cell.store(bytes, Relaxed);
            bytes
        }
        bytes => bytes,
    };
    let tls = known(&STATIC_TLS, static_tls_bytes);
    let control_block = known(&CONTROL_BLOCK, control_block_bytes);
    #[cfg(target_arch = "x86_64")]
    let (start, end) = (pointer.saturating_sub(tls), pointer + control_block);
    #[cfg(target_arch = "aarch64")]
    let (start, end) = (pointer.saturating_sub(control_block), pointer + tls);
    if !RUNTIME.pages.keep_out.add(&RUNTIME.arena, start, end + behind, pointer) {
        RUNTIME.say("it has more threads than memfold can track (a million): nothing more is evicted");
    }
}

/// Keeps the control blocks of threads that were started bypassing us, including those that have ended, as
/// found in the C library's lists.
///
/// ```text
///   _rtld_global │ ... │ stacks in use │ the program's own stacks │ stacks of ended threads │ ... (glibc 2.34)
///                         next, previous ──> the same in a control block ──> ... ──> and back
/// ```
///
/// Other threads may change the lists meanwhile. Then the path may lead from one list to another, or to an
/// invalid address; it ends at the head of any list, and at an address that is not a control block (on x86-64
/// a control block begins with its own address).
pub fn keep_unlisted_threads() {
    const LISTS: usize = 3;
    const LIST_BYTES: usize = 16;
    /// Bounds the walk along a list, which other threads may keep changing.
    const MOST: usize = 1 << 20;
    let [used, user, member] = [
        c"_thread_db_rtld_global__dl_stack_used",
        c"_thread_db_rtld_global__dl_stack_user",
        c"_thread_db_pthread_list",
    ]
    .map(offset_of);
    // SAFETY: looks a name up.
    let global = unsafe { dlsym(core::ptr::null_mut(), c"_rtld_global".as_ptr()) } as usize;
    if global == 0 || used == 0 || user != used + LIST_BYTES || !(1..8192).contains(&member) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    let to_pointer = 0usize.wrapping_sub(member);
    #[cfg(target_arch = "aarch64")]
    let to_pointer = control_block_bytes().wrapping_sub(member);
    let heads: [usize; LISTS] = core::array::from_fn(|list| global + used + list * LIST_BYTES);
    for head in heads {
        let mut at = head;
        for _ in 0..MOST {
            let mut next = [0];
            if sys::read_own_memory(at, &mut next).is_err() {
                break;
            }
            [at] = next;
            if heads.contains(&at) || !at.is_multiple_of(8) || at >= END {
                break;
            }
            let pointer = at.wrapping_add(to_pointer);
            if RUNTIME.pages.keep_out.knows_thread(pointer) {
                continue;
            }
            // Without this check, an address that is not a control block would be kept for ever.
            #[cfg(target_arch = "x86_64")]
            if sys::read_own_memory(pointer, &mut next).is_err() || next != [pointer] {
                break;
            }
            keep(pointer, 0);
        }
    }
}

/// The C library's description of a member for debuggers: bits, number and offset. Returns the offset, or 0.
fn offset_of(name: &core::ffi::CStr) -> usize {
    // SAFETY: these numbers never change.
    unsafe {
        let found = dlsym(core::ptr::null_mut(), name.as_ptr()).cast::<u32>();
        if found.is_null() { 0 } else { *found.add(2) as usize }
    }
}

/// Restores the values of keys (`pthread_setspecific`) that do not fit into control blocks. In a child the C
/// library writes zeros over those of all other threads, before any handler runs; if their page was evicted,
/// the child would have a page of zeros there, without the other contents of the page.
///
/// ```text
///   control block │ ... │ specific: 32 pointers │ ...       the first points into the control block itself
///                             └ 32 values on the heap, 512 bytes
/// ```
pub fn touch_keys() {
    const BLOCKS: usize = 32;
    const BLOCK_BYTES: usize = 512;
    let offset = offset_of(c"_thread_db_pthread_specific");
    if !(1..8192).contains(&offset) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    let first = offset;
    #[cfg(target_arch = "aarch64")]
    let first = offset.wrapping_sub(control_block_bytes());
    RUNTIME.pages.keep_out.for_each_thread(|thread| {
        // The thread may have ended, and its stack may be gone or be reused: then nothing is read, or pages
        // are restored without need.
        let mut blocks = [0; BLOCKS];
        if sys::read_own_memory(thread.wrapping_add(first), &mut blocks).is_err() {
            return;
        }
        let is_block = |block: &usize| *block != 0 && block.is_multiple_of(8) && *block < END - BLOCK_BYTES;
        for block in blocks.into_iter().skip(1).filter(is_block) {
            let from = block & !(sys::PAGE - 1);
            RUNTIME.restore_range(from, (block + BLOCK_BYTES).next_multiple_of(sys::PAGE));
        }
    });
}

fn control_block_bytes() -> usize {
    /// More than glibc's size so far.
    const PLENTY: usize = 4096;
    known_control_block().unwrap_or(PLENTY)
}

/// Size of a control block, if the C library tells it.
pub fn known_control_block() -> Option<usize> {
    // SAFETY: the C library's information for debuggers: a number that never changes.
    unsafe {
        let found = dlsym(core::ptr::null_mut(), c"_thread_db_sizeof_pthread".as_ptr()).cast::<u32>();
        (!found.is_null()).then(|| *found as usize).filter(|bytes| (512..8192).contains(bytes))
    }
}

fn static_tls_bytes() -> usize {
    const PLENTY: usize = 64 << 10;
    // SAFETY: looks up a function of the loader; it only writes the two numbers.
    unsafe {
        let found = dlsym(core::ptr::null_mut(), c"_dl_get_tls_static_info".as_ptr());
        if found.is_null() {
            return PLENTY;
        }
        let ask: extern "C" fn(*mut usize, *mut usize) = core::mem::transmute(found);
        let (mut size, mut align) = (0, 0);
        ask(&mut size, &mut align);
        if size == 0 || size > 16 << 20 { PLENTY } else { size + align }
    }
}

#[cfg(target_arch = "x86_64")]
pub fn thread_pointer() -> usize {
    let base: usize;
    // SAFETY: the ABI keeps the thread pointer's own value at offset 0.
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) base, options(nostack, readonly)) };
    base
}

#[cfg(target_arch = "aarch64")]
pub fn thread_pointer() -> usize {
    let base: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) base, options(nostack, nomem)) };
    base
}
