//! The preload library: how the runtime gets into a program.
//!
//! The dynamic loader calls [`start`] before the program's own constructors.
//! Interposed is only what the runtime can't do without: see `interpose.rs`,
//! and `threads.rs` for where threads' control blocks are. Everything is bound
//! at load time.

mod threads;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering::*;

use crate::fork;
use crate::runtime::RUNTIME;
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
    threads::keep_thread(8192);
    let of_library = [c"fork", c"pthread_create", c"_dl_get_tls_static_info"].map(|name| {
        // SAFETY: looks a name up.
        unsafe { dlsym(NEXT, name.as_ptr()) as usize }
    });
    RUNTIME.statics.find(&[&raw const RUNTIME as usize, of_library[0], of_library[1], of_library[2]]);
    RUNTIME.sanitized.store(has_sanitizer(), Relaxed);
    threads::next_of(&threads::NEXT_CREATE, c"pthread_create".as_ptr());
    threads::next_of(&threads::NEXT_C11, c"thrd_create".as_ptr());
    // SAFETY: registers functions that live as long as the process.
    unsafe { __register_atfork(prepare, fork_parent, fork_child, core::ptr::null_mut()) };
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
    threads::hold();
    fork::prepare(|| {
        touch_streams();
        threads::meet_strangers();
        threads::touch_keys();
    });
}
extern "C" fn fork_parent() {
    fork::parent();
    threads::let_go();
}
extern "C" fn fork_child() {
    threads::after_fork();
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
