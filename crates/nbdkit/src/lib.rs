//! A compressed RAM disk as a plugin of nbdkit: `nbdkit memfold size=8G`.
//!
//! ```text
//!   config, config_complete   settings, checked
//!   get_ready                 the device: a lack of memory is reported before nbdkit goes to the background
//!   after_fork                its thread
//!   open, pread, pwrite ...   from any number of threads at once
//!   cleanup                   the thread ends
//! ```
//!
//! All connections share one device. A panic in a call is an error of that call: the device keeps working.

mod ffi;

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ffi::{Extents, Plugin};
use memfold_disk::settings::Settings;
use memfold_disk::status::{About, Server};
use memfold_disk::{Disk, Error, Maintenance, PAGE};

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);
static DISK: OnceLock<Arc<Disk>> = OnceLock::new();
static KEEPER: Mutex<Option<Maintenance>> = Mutex::new(None);
static SERVER: Mutex<Option<Server>> = Mutex::new(None);
/// The device's name and address, from the plugin's own parameters.
static NAME: Mutex<Option<String>> = Mutex::new(None);
static ADDRESS: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The handle of all connections; its contents are never used.
static HANDLE: u8 = 0;

const EIO: c_int = 5;
/// A long cache request is read in pieces of this size.
const PIECE: usize = 64 << 10;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a message where nbdkit was started, or writes it to nbdkit's log.
fn say(text: &str) {
    let text = CString::new(&*memfold_escape::line(text)).unwrap_or_default();
    // SAFETY: a format with one string, and that string.
    unsafe { ffi::nbdkit_error(c"%s".as_ptr(), text.as_ptr()) };
}

/// Runs a callback that can fail: returns 0, or -1 after setting an error number for the client.
fn answer(call: impl FnOnce() -> Result<(), Error>) -> c_int {
    let errno = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => {
            // At the limit every write would print this error.
            if error != Error::Full {
                say(&error.to_string());
            }
            error.errno()
        }
        Err(_) => {
            say("an internal error; the device keeps running");
            EIO
        }
    };
    // SAFETY: takes a number.
    unsafe { ffi::nbdkit_set_error(errno) };
    -1
}

/// The same at the start, where messages matter and error numbers do not.
fn prepare(call: impl FnOnce() -> Result<(), String>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(text)) => {
            say(&text);
            -1
        }
        Err(_) => -1,
    }
}

fn disk() -> &'static Arc<Disk> {
    DISK.get().unwrap_or_else(|| unreachable!("nbdkit asks for it before anything is opened"))
}

/// The memory available to this process: the machine's, or the container's limit if that is less.
fn memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let limit = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let total = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    [
        total.map(|kib| kib << 10),
        limit("/sys/fs/cgroup/memory.max"),
        limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ]
    .into_iter()
    .flatten()
    .min()
    .unwrap_or(1 << 30)
}

// SAFETY: only nbdkit calls the following functions, with the arguments that nbdkit-plugin(3) describes.
unsafe extern "C" fn config(name: *const c_char, value: *const c_char) -> c_int {
    prepare(|| {
        // SAFETY: nbdkit passes texts that end with zero.
        let [name, value] = [name, value].map(|text| unsafe { CStr::from_ptr(text) }.to_bytes());
        let value = OsStr::from_bytes(value);
        match &*String::from_utf8_lossy(name) {
            "name" => {
                let text = value.to_str().ok_or("name= must be UTF-8")?;
                *locked(&NAME) = Some(text.to_owned());
            }
            // A path may contain any bytes.
            "address" => *locked(&ADDRESS) = Some(value.into()),
            name => return set(name, value),
        }
        Ok(())
    })
}

fn set(name: &str, value: &OsStr) -> Result<(), String> {
    let mut settings = locked(&SETTINGS);
    match settings.get_or_insert_default().set(name, value) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("there is no parameter '{name}'; 'nbdkit memfold --help' lists them")),
        Err(bad) => Err(bad.to_string()),
    }
}

/// Whether a filter is loaded that consumes the parameter `limit`.
fn is_limit_taken() -> bool {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).collect();
    words.contains(&&b"--filter=limit"[..])
        || words.windows(2).any(|pair| pair == [&b"--filter"[..], b"limit"])
}

unsafe extern "C" fn config_complete() -> c_int {
    prepare(|| {
        let mut settings = locked(&SETTINGS);
        let settings = settings.get_or_insert_default();
        if !settings.has_limit() && is_limit_taken() {
            return Err(
                "nbdkit's filter 'limit' takes limit= for itself: give the plugin memory-limit=SIZE".into()
            );
        }
        let options = settings.options(memory());
        options.map(drop).map_err(|bad| bad.to_string())
    })
}

unsafe extern "C" fn get_ready() -> c_int {
    prepare(|| {
        let mut options =
            locked(&SETTINGS).get_or_insert_default().options(memory()).map_err(|bad| bad.to_string())?;
        options.told = say;
        let disk = Disk::new(options).map_err(|bad| bad.to_string())?;
        DISK.set(Arc::new(disk)).map_err(|_| "there is already a device".to_string())
    })
}

unsafe extern "C" fn after_fork() -> c_int {
    prepare(|| {
        if locked(&SETTINGS).as_ref().is_some_and(Settings::is_for_swap) {
            // A fork loses memory locks, and nbdkit's threads start later.
            memfold_disk::swap::prepare_process()?.iter().for_each(|missing| say(missing));
        }
        let name = locked(&NAME).take().unwrap_or_else(|| format!("disk-{}", std::process::id()));
        let about = About { name, door: "nbd", address: locked(&ADDRESS).take() };
        let keeper = Maintenance::start(disk(), &about);
        *locked(&KEEPER) = Some(keeper.map_err(|error| format!("cannot start a thread: {error}"))?);
        match Server::start(disk(), about) {
            Ok(server) => *locked(&SERVER) = Some(server),
            Err(error) => say(&format!("'memfold disk status' will not show this device: {error}")),
        }
        Ok(())
    })
}

unsafe extern "C" fn cleanup() {
    *locked(&SERVER) = None;
    *locked(&KEEPER) = None;
    if let Some(disk) = DISK.get() {
        disk.end();
    }
}

unsafe extern "C" fn open(_readonly: c_int) -> *mut c_void {
    (&raw const HANDLE).cast_mut().cast()
}

unsafe extern "C" fn get_size(_: *mut c_void) -> i64 {
    disk().size() as i64
}

unsafe extern "C" fn yes(_: *mut c_void) -> c_int {
    1
}

unsafe extern "C" fn no(_: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn can_fua(_: *mut c_void) -> c_int {
    ffi::FUA_NATIVE
}

unsafe extern "C" fn can_cache(_: *mut c_void) -> c_int {
    ffi::CACHE_NATIVE
}

unsafe extern "C" fn pread(_: *mut c_void, dst: *mut c_void, len: u32, offset: u64, _flags: u32) -> c_int {
    // SAFETY: nbdkit passes a buffer of this many bytes for writing.
    answer(|| disk().read(offset, unsafe { slice::from_raw_parts_mut(dst.cast(), len as usize) }))
}

unsafe extern "C" fn pwrite(_: *mut c_void, src: *const c_void, len: u32, offset: u64, _flags: u32) -> c_int {
    // SAFETY: nbdkit passes a buffer of this many bytes for reading.
    answer(|| disk().write(offset, unsafe { slice::from_raw_parts(src.cast(), len as usize) }))
}

unsafe extern "C" fn flush(_: *mut c_void, _flags: u32) -> c_int {
    answer(|| disk().flush())
}

unsafe extern "C" fn trim(_: *mut c_void, len: u32, offset: u64, _flags: u32) -> c_int {
    answer(|| disk().trim(offset, len.into()))
}

/// Zeros are holes, and making a hole is always fast. Without the flag that allows trimming the effect is the
/// same: a later write needs memory in any case.
unsafe extern "C" fn zero(_: *mut c_void, len: u32, offset: u64, _flags: u32) -> c_int {
    answer(|| disk().zero(offset, len.into()))
}

/// Pages that are read twice are kept uncompressed while there is room.
unsafe extern "C" fn cache(_: *mut c_void, len: u32, offset: u64, _flags: u32) -> c_int {
    answer(|| {
        let mut piece = vec![0; PIECE.min(len as usize)];
        let end = offset + u64::from(len);
        for _ in 0..2 {
            for offset in (offset..end).step_by(PIECE) {
                let len = piece.len().min((end - offset) as usize);
                disk().read(offset, &mut piece[..len])?;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn extents(
    _: *mut c_void,
    len: u32,
    offset: u64,
    flags: u32,
    extents: *mut Extents,
) -> c_int {
    let mut failed = false;
    let answered = answer(|| {
        let (mut at, end) = (offset, offset + u64::from(len));
        // The reply may include extents beyond the requested range: a client that needs them next saves a
        // request.
        let until = if flags & ffi::FLAG_REQ_ONE != 0 { end } else { disk().size() };
        while let Some(extent) = disk().extent(at, until) {
            let kind = if extent.is_hole { ffi::EXTENT_HOLE | ffi::EXTENT_ZERO } else { 0 };
            // SAFETY: nbdkit's own object, valid during this call.
            failed = unsafe { ffi::nbdkit_add_extent(extents, extent.offset, extent.len, kind) } != 0;
            at = extent.offset + extent.len;
            if failed || at >= end || flags & ffi::FLAG_REQ_ONE != 0 {
                break;
            }
        }
        Ok(())
    });
    // nbdkit has set an error itself.
    if failed { -1 } else { answered }
}

unsafe extern "C" fn block_size(_: *mut c_void, least: *mut u32, best: *mut u32, most: *mut u32) -> c_int {
    // SAFETY: nbdkit passes three places for the results.
    unsafe {
        *least = 1;
        *best = PAGE as u32;
        *most = u32::MAX;
    }
    0
}

const HELP: &CStr = match CStr::from_bytes_with_nul(HELP_BYTES) {
    Ok(text) => text,
    Err(_) => c"",
};
/// Help about the device's name and address for `memfold disk status`: only the plugin has these parameters,
/// because the FUSE device gets them from options of the command.
const OWN_HELP: &str = "
name=TEXT         What 'memfold disk status' calls the device. The default is disk-PID.
address=TEXT      The address that 'memfold disk status' shows.";
const HELP_BYTES: &[u8] = &{
    let texts = [memfold_disk::settings::HELP.as_bytes(), OWN_HELP.as_bytes()];
    let mut bytes = [0; memfold_disk::settings::HELP.len() + OWN_HELP.len() + 1];
    let (mut text, mut at, mut end) = (0, 0, 0);
    while text < texts.len() {
        while at < texts[text].len() {
            bytes[end] = texts[text][at];
            (at, end) = (at + 1, end + 1);
        }
        (text, at) = (text + 1, 0);
    }
    bytes
};

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

static PLUGIN: Plugin = Plugin {
    struct_size: size_of::<Plugin>() as u64,
    api_version: 2,
    thread_model: ffi::THREADS_PARALLEL,
    name: c"memfold".as_ptr(),
    longname: c"memfold: compressed RAM disk".as_ptr(),
    version: VERSION.as_ptr(),
    description:
        c"A compressed disk in memory: fast codecs for written data, dense ones for data that stay cold"
            .as_ptr(),
    load: None,
    unload: None,
    config: Some(config),
    config_complete: Some(config_complete),
    config_help: HELP.as_ptr(),
    open: Some(open),
    close: None,
    get_size: Some(get_size),
    can_write: Some(yes),
    can_flush: Some(yes),
    is_rotational: Some(no),
    can_trim: Some(yes),
    version_1: [None; 5],
    errno_is_preserved: 0,
    dump_plugin: None,
    can_zero: Some(yes),
    can_fua: Some(can_fua),
    pread: Some(pread),
    pwrite: Some(pwrite),
    flush: Some(flush),
    trim: Some(trim),
    zero: Some(zero),
    magic_config_key: c"size".as_ptr(),
    can_multi_conn: Some(yes),
    can_extents: Some(yes),
    extents: Some(extents),
    can_cache: Some(can_cache),
    cache: Some(cache),
    thread_model_now: None,
    can_fast_zero: Some(yes),
    preconnect: None,
    get_ready: Some(get_ready),
    after_fork: Some(after_fork),
    list_exports: None,
    default_export: None,
    export_description: None,
    cleanup: Some(cleanup),
    block_size: Some(block_size),
};

/// nbdkit's entry point.
// SAFETY: the only definition of this name, with the signature that nbdkit calls.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_init() -> *mut Plugin {
    // nbdkit only reads it.
    ptr::from_ref(&PLUGIN).cast_mut()
}
