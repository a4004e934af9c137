//! The preload library: how the runtime gets into a program.
//!
//! The dynamic loader calls [`start`] before the program's own constructors.
//! Interposed is only what the runtime can't do without: `pthread_create`
//! (where a thread's control block is). Everything is bound at load time.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::fork;
use crate::runtime::{RUNTIME, Start, Starts};
use crate::shared::{ENV_SHARED, Shared, state};
use crate::spill::{self, area::Area};
use crate::sys::{self, o};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __register_atfork(
        prepare: extern "C" fn(),
        parent: extern "C" fn(),
        child: extern "C" fn(),
        dso: *mut c_void,
    ) -> c_int;
    static _IO_list_all: *const u8;
}

const NEXT: *mut c_void = -1isize as *mut c_void;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// Called by the loader.
extern "C" fn start(_argc: c_int, argv: *const *const c_char, environment: *const *const c_char) {
    if RUNTIME.pid.load(Relaxed) != 0 {
        return;
    }
    // SAFETY: the loader hands over the environment: strings, ended by a null pointer.
    let Some(path) = (unsafe { find(environment, ENV_SHARED) }) else { return };
    let Some((shared, area)) = map(path) else { return };
    let pid = sys::getpid();
    let Some(slot) = RUNTIME.take_slot(shared, pid) else { return };
    let image = (argv as u64).wrapping_sub(8);
    RUNTIME.image.store(image, Relaxed);
    slot.image.store(image, Relaxed);
    RUNTIME.pid.store(pid, Relaxed);
    RUNTIME.set_shared(shared, slot);
    RUNTIME.set_state(state::WATCHING);
    match area {
        Some(area) if spill::is_in_namespace_of(area) => {
            RUNTIME.spill.set_area(area, pid);
            RUNTIME.tell_spill_begins();
        }
        Some(_) => RUNTIME.say(spill::FOREIGN_WORDS),
        None => {}
    }
    keep_thread(pid);
    RUNTIME.sanitized.store(has_sanitizer(), Relaxed);
    // SAFETY: looks up and registers functions that live as long as the process.
    unsafe {
        NEXT_CREATE.store(dlsym(NEXT, c"pthread_create".as_ptr()) as usize, Release);
        __register_atfork(prepare, fork_parent, fork_child, core::ptr::null_mut());
    }
    if RUNTIME.start_keeper(false).is_err() {
        RUNTIME.say("can't start a thread: this process is not managed");
        RUNTIME.set_state(state::STOPPED);
        RUNTIME.stopped.store(true, Release);
        return;
    }
    RUNTIME.wait_for_start();
}

/// Whether a sanitizer of gcc or clang is in the program. Those stand in front of `memcpy` and the like, which the
/// runtime calls too, with functions that touch managed memory; and the one for leaks stops all threads of
/// the process, handlers too, while it reads all memory.
fn has_sanitizer() -> bool {
    [c"__asan_init", c"__lsan_init", c"__tsan_init", c"__msan_init", c"__hwasan_init"]
        .iter()
        // SAFETY: looks a name up.
        .any(|name| !unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) }.is_null())
}

extern "C" fn prepare() {
    fork::prepare(touch_streams);
}
extern "C" fn fork_parent() {
    fork::parent();
}
extern "C" fn fork_child() {
    fork::child();
}

/// The value of a variable in the environment.
///
/// # Safety
/// `environment` must be an array of strings that ends with a null pointer.
unsafe fn find(environment: *const *const c_char, name: &str) -> Option<&'static CStr> {
    for index in 0.. {
        // SAFETY: the array has not ended yet.
        let entry = unsafe { *environment.add(index) };
        if entry.is_null() {
            break;
        }
        // SAFETY: a string of the environment, alive while the loader runs us.
        let text = unsafe { CStr::from_ptr(entry) };
        let rest = text.to_bytes().strip_prefix(name.as_bytes());
        if rest.is_some_and(|rest| rest.first() == Some(&b'=')) {
            // SAFETY: the rest of a string is a string.
            return Some(unsafe { CStr::from_ptr(entry.add(name.len() + 1)) });
        }
    }
    None
}

/// The shared page, and the area behind it if there is one.
fn map(path: &CStr) -> Option<(&'static Shared, Option<&'static Area>)> {
    let fd = sys::open(path, o::RDWR | o::CLOEXEC).ok()?;
    let size = sys::file_size(fd);
    let spills = size >= Area::FILE_BYTES as u64;
    let bytes = if spills { Area::FILE_BYTES } else { Shared::BYTES };
    let mapped = (size >= Shared::BYTES as u64).then(|| sys::map_shared(fd, bytes));
    sys::close(fd);
    let start = mapped?.ok()?;
    // SAFETY: the mapping is large enough and stays for ever; all fields are atomics.
    let shared = unsafe { &*(start as *const Shared) };
    // SAFETY: as above, and the file is as long as it has to be for that.
    let area = spills.then(|| unsafe { &*(start.add(Area::OFFSET) as *const Area) });
    shared.is_valid().then_some((shared, area))
}

/// Touches what the C library touches in a forked child before any of the
/// child's handlers: the locks of all open streams.
fn touch_streams() {
    // Offsets of the members in glibc's FILE, part of its binary interface.
    const CHAIN: usize = 104;
    const LOCK: usize = 136;
    // SAFETY: the list of streams is intact; a stream closed by another thread
    // at this moment stays readable as heap memory, and the number of steps is bounded.
    unsafe {
        let mut stream = core::ptr::read_volatile(&raw const _IO_list_all);
        for _ in 0..100_000 {
            if stream.is_null() {
                break;
            }
            let lock = core::ptr::read_volatile(stream.add(LOCK) as *const *const u32);
            if !lock.is_null() {
                core::ptr::read_volatile(lock);
            }
            stream = core::ptr::read_volatile(stream.add(CHAIN) as *const *const u8);
        }
    }
}

static NEXT_CREATE: AtomicUsize = AtomicUsize::new(0);
static STATIC_TLS: AtomicUsize = AtomicUsize::new(0);

type Create = extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int;

/// Starts a thread and remembers where its control block is.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    routine: usize,
    argument: usize,
) -> c_int {
    let mut next = NEXT_CREATE.load(Acquire);
    if next == 0 {
        // SAFETY: looks up a function that lives as long as the process.
        next = unsafe { dlsym(NEXT, c"pthread_create".as_ptr()) } as usize;
        NEXT_CREATE.store(next, Release);
    }
    // SAFETY: the C library's function of this type.
    let create: Create = unsafe { core::mem::transmute(next) };
    if RUNTIME.pid.load(Relaxed) == 0 {
        return create(thread, attributes, routine, argument as *mut c_void);
    }
    const AGAIN: c_int = 11;
    let Some(cell) = take_start() else { return AGAIN };
    // SAFETY: the cell is exclusive until the new thread gives it back.
    unsafe { (*cell).routine = routine };
    // SAFETY: as above.
    unsafe { (*cell).argument = argument };
    let result = create(thread, attributes, memfold_thread_start as *const () as usize, cell as *mut c_void);
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
        // SAFETY: cells of the list are unused and live for ever.
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

/// A signal handler that forks or starts a thread wants the same locks: signals wait meanwhile.
fn with_starts<T>(work: impl FnOnce(&mut Starts) -> T) -> T {
    let mask = sys::block_signals();
    let done = work(&mut RUNTIME.starts.lock());
    sys::restore_signals(mask);
    done
}

unsafe extern "C" {
    fn memfold_thread_start(cell: *mut c_void) -> *mut c_void;
}

// The new thread begins here: notes itself, then jumps to its routine, so
// that no frame of ours is on its stack when it is cancelled or unwound.
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
    keep_thread(sys::gettid());
    call
}

/// Keeps the calling thread's control block and thread-local storage resident.
fn keep_thread(tid: u32) {
    /// More than glibc's control block.
    const CONTROL_BLOCK: usize = 8192;
    let mut tls = STATIC_TLS.load(Relaxed);
    if tls == 0 {
        tls = static_tls_bytes();
        STATIC_TLS.store(tls, Relaxed);
    }
    let base = thread_pointer();
    RUNTIME.keep_out.add(base.saturating_sub(tls), base + CONTROL_BLOCK, tid);
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
fn thread_pointer() -> usize {
    let base: usize;
    // SAFETY: the ABI keeps the thread pointer's own value at offset 0.
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) base, options(nostack, readonly)) };
    base
}

#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let base: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) base, options(nostack, nomem)) };
    base
}

#[cfg(not(test))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write;
    let mut text = sys::Text::new();
    let _ = write!(text, "bug in memfold: {info}");
    if RUNTIME.pid.load(Relaxed) != 0 {
        RUNTIME.say(text.as_str());
    }
    sys::abort()
}
