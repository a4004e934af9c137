//! The preload library: how the runtime gets into a program.
//!
//! The dynamic loader calls [`start`] before the program's own constructors. Only functions that the runtime
//! cannot do without are interposed: see `interpose`, and `threads.rs` for the threads' control blocks.
//! Everything is bound at load time, except functions that only glibc has. These are looked up, so that this
//! library can be loaded with another C library, where it does nothing.

mod emulator;
mod ending;
mod threads;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

use memfold_shared::page::{ENV_SHARED, state};

use crate::kernel::filters;
use crate::kernel::sys;
use crate::process::fork;
use crate::process::here;
use crate::process::reach;
use crate::runtime::RUNTIME;
use crate::spill;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The C library's `__register_atfork`: functions to call before a fork, after it in the parent, and in the
/// child; and the object to which they belong.
type RegisterAtFork = extern "C" fn(extern "C" fn(), extern "C" fn(), extern "C" fn(), *mut c_void) -> c_int;

const NEXT: *mut c_void = -1isize as *mut c_void;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// Called by the loader.
extern "C" fn start(_argc: c_int, argv: *const *const c_char, environment: *const *const c_char) {
    if RUNTIME.process.pid.load(Relaxed) != 0 {
        return;
    }
    // SAFETY: looks a name up.
    let register = unsafe { dlsym(core::ptr::null_mut(), c"__register_atfork".as_ptr()) };
    if register.is_null() {
        // Not glibc: no assumption about the C library holds here.
        return;
    }
    // SAFETY: the loader passes the environment: strings, terminated by a null pointer.
    let Some(path) = (unsafe { find(environment, ENV_SHARED) }) else { return };
    // So far this makes only calls that the loader has made before; later calls may be fatal under a filter.
    let Some(status) = filters::own_status() else { return };
    let Some(mut found) = reach::find(path, status) else { return };
    if filters::allow(found.page(), status).is_none() {
        found.page().say(status.pid, filters::WORDS);
        return;
    }
    if found.complete().is_none() || !found.page().is_valid() {
        return;
    }
    let (shared, area) = (found.page(), found.area());
    let pid = sys::getpid();
    // SAFETY: as above.
    if unsafe { emulator::is_around(environment) } {
        shared.say(
            pid,
            "it runs inside of an emulator, such as valgrind or qemu-user: memfold leaves it alone",
        );
        return;
    }
    found.settle(pid);
    let Some(slot) = RUNTIME.take_slot(shared, found.outer_pid) else { return };
    let image = (argv as u64).wrapping_sub(8);
    RUNTIME.process.image.store(image, Relaxed);
    slot.image.store(image, Relaxed);
    here::begin(&RUNTIME.arena);
    RUNTIME.process.pid.store(pid, Relaxed);
    RUNTIME.process.set_shared(shared, slot);
    RUNTIME.process.set_state(state::WATCHING);
    match area {
        Some(area) if spill::is_in_namespace_of(area) => {
            RUNTIME.spill.set_area(area, pid);
            RUNTIME.spill.tell_spill_begins();
        }
        Some(_) => RUNTIME.say(spill::FOREIGN_WORDS),
        None => {}
    }
    // SAFETY: looks a name up.
    STREAMS.store(unsafe { dlsym(core::ptr::null_mut(), c"_IO_list_all".as_ptr()) }.cast(), Relaxed);
    threads::keep_thread(8192);
    ending::arm();
    let of_library = [c"fork", c"pthread_create", c"_dl_get_tls_static_info"].map(|name| {
        // SAFETY: looks a name up.
        unsafe { dlsym(NEXT, name.as_ptr()) as usize }
    });
    RUNTIME.pages.statics.find(&[&raw const RUNTIME as usize, of_library[0], of_library[1], of_library[2]]);
    RUNTIME.process.sanitized.store(has_sanitizer(), Relaxed);
    threads::next_of(&threads::NEXT_CREATE, c"pthread_create".as_ptr());
    threads::next_of(&threads::NEXT_C11, c"thrd_create".as_ptr());
    // SAFETY: the C library's function of this type.
    let register: RegisterAtFork = unsafe { core::mem::transmute(register) };
    register(prepare, fork_parent, fork_child, core::ptr::null_mut());
    if RUNTIME.open_door().is_ok() && RUNTIME.process.is_watched() {
        RUNTIME.begin_if_it_may_grow();
    } else {
        RUNTIME.begin();
    }
}

/// Whether the program contains a sanitizer of gcc or clang. Sanitizers replace `memcpy` and the like, which
/// the runtime calls, too, by functions that touch managed memory; and the leak sanitizer stops all threads
/// of the process, including handlers, while it reads all memory.
fn has_sanitizer() -> bool {
    [c"__asan_init", c"__lsan_init", c"__tsan_init", c"__msan_init", c"__hwasan_init"]
        .iter()
        // SAFETY: looks a name up.
        .any(|name| !unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) }.is_null())
}

extern "C" fn prepare() {
    if !here::is_managed() {
        // An unprepared child forks: there is nothing to prepare.
        here::set_prepared(false);
        return;
    }
    threads::hold();
    fork::prepare(|| {
        touch_streams();
        threads::keep_unlisted_threads();
        threads::touch_keys();
    });
}
extern "C" fn fork_parent() {
    if here::is_managed() {
        fork::parent();
        threads::let_go();
    }
}
extern "C" fn fork_child() {
    if here::was_prepared() {
        begin_child();
    }
}

/// Called in a prepared child, whether the C library or a bare clone has made it.
pub fn begin_child() {
    threads::after_fork();
    fork::child();
}

/// The value of an environment variable.
///
/// # Safety
/// `environment` must be an array of strings, terminated by a null pointer.
unsafe fn find(environment: *const *const c_char, name: &str) -> Option<&'static CStr> {
    for index in 0.. {
        // SAFETY: the array has not ended yet.
        let entry = unsafe { *environment.add(index) };
        if entry.is_null() {
            break;
        }
        // SAFETY: a string of the environment, which exists while the loader runs us.
        let text = unsafe { CStr::from_ptr(entry) };
        let rest = text.to_bytes().strip_prefix(name.as_bytes());
        if rest.is_some_and(|rest| rest.first() == Some(&b'=')) {
            // SAFETY: the rest of a string is a string.
            return Some(unsafe { CStr::from_ptr(entry.add(name.len() + 1)) });
        }
    }
    None
}

/// The address of the C library's pointer to its first open stream.
static STREAMS: AtomicPtr<*const u8> = AtomicPtr::new(core::ptr::null_mut());

/// Touches what the C library touches in a forked child before any of the child's handlers runs: the locks of
/// all open streams.
fn touch_streams() {
    // Offsets of members of glibc's FILE, part of its binary interface.
    const CHAIN: usize = 104;
    const LOCK: usize = 136;
    let list = STREAMS.load(Relaxed);
    if list.is_null() {
        return;
    }
    // SAFETY: the list of streams is intact; a stream closed by another thread at this moment stays readable
    // as heap memory, and the number of steps is bounded.
    unsafe {
        let mut stream = core::ptr::read_volatile(list);
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
    if RUNTIME.process.pid.load(Relaxed) != 0 {
        RUNTIME.say(text.as_str());
    }
    sys::abort()
}
