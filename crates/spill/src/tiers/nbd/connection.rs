//! A connection to an NBD server through libnbd: requests with deadlines, and the outcome of each.
//!
//! The library is loaded when it is needed; it handles the protocol, URIs and TLS. Only calls that cannot
//! block beyond a deadline are used: those that start a request, those that check one, and `nbd_poll` with
//! the remaining time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::Instant;

use super::super::Trouble;

const LIBRARY: &str = "libnbd.so.0";

/// Why a request failed.
pub enum Failure {
    /// It was not sent.
    Unsent(Trouble),
    /// The server has refused it.
    Refused(Trouble),
    /// The server has reported a failure of the medium at this position.
    Failed(Trouble),
    /// It was sent, and may still be executed.
    Unanswered(Trouble),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsent(trouble)
            | Failure::Refused(trouble)
            | Failure::Failed(trouble)
            | Failure::Unanswered(trouble) => trouble,
        }
    }
}
/// libnbd's handle.
#[repr(C)]
pub struct Handle {
    _opaque: [u8; 0],
}

/// libnbd's `nbd_completion_callback`; without a function, nothing is called.
#[repr(C)]
#[derive(Clone, Copy)]
struct Callback {
    call: Option<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>,
    user: *mut c_void,
    free: Option<unsafe extern "C" fn(*mut c_void)>,
}

const NOBODY: Callback = Callback { call: None, user: std::ptr::null_mut(), free: None };
/// `LIBNBD_SIZE_MINIMUM` and `LIBNBD_SIZE_MAXIMUM`.
pub const MINIMUM: c_int = 0;
pub const MAXIMUM: c_int = 2;

pub type Ask = unsafe extern "C" fn(*mut Handle) -> c_int;

/// The functions of the library that are used. It is never unloaded.
pub struct Library {
    create: unsafe extern "C" fn() -> *mut Handle,
    close: unsafe extern "C" fn(*mut Handle),
    get_error: unsafe extern "C" fn() -> *const c_char,
    get_errno: unsafe extern "C" fn() -> c_int,
    set_uri_allow_local_file: unsafe extern "C" fn(*mut Handle, bool) -> c_int,
    aio_connect_uri: unsafe extern "C" fn(*mut Handle, *const c_char) -> c_int,
    aio_get_fd: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub aio_is_ready: Ask,
    aio_is_connecting: Ask,
    pub is_read_only: Ask,
    pub can_trim: Ask,
    pub can_multi_conn: Ask,
    get_size: unsafe extern "C" fn(*mut Handle) -> i64,
    get_block_size: unsafe extern "C" fn(*mut Handle, c_int) -> i64,
    aio_pread: unsafe extern "C" fn(*mut Handle, *mut c_void, usize, u64, Callback, u32) -> i64,
    aio_pwrite: unsafe extern "C" fn(*mut Handle, *const c_void, usize, u64, Callback, u32) -> i64,
    aio_trim: unsafe extern "C" fn(*mut Handle, u64, u64, Callback, u32) -> i64,
    aio_command_completed: unsafe extern "C" fn(*mut Handle, u64) -> c_int,
    poll: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
}

impl Library {
    fn get() -> Result<&'static Self, String> {
        static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
        FOUND.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, String> {
        // SAFETY: it is a system library, whose initialisers are meant to run when it is loaded.
        let library = unsafe { libloading::Library::new(LIBRARY) }.map_err(|_| {
            format!("{LIBRARY}, which connects to NBD servers, is missing; install it (Debian: libnbd0)")
        })?;
        let library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the function in libnbd(3), which is part of its stable interface.
                *unsafe { library.get(concat!("nbd_", $name)) }
                    .map_err(|_| format!("{LIBRARY} is too old: it has no nbd_{}", $name))?
            };
        }
        Ok(Library {
            create: function!("create"),
            close: function!("close"),
            get_error: function!("get_error"),
            get_errno: function!("get_errno"),
            set_uri_allow_local_file: function!("set_uri_allow_local_file"),
            aio_connect_uri: function!("aio_connect_uri"),
            aio_get_fd: function!("aio_get_fd"),
            aio_is_ready: function!("aio_is_ready"),
            aio_is_connecting: function!("aio_is_connecting"),
            is_read_only: function!("is_read_only"),
            can_trim: function!("can_trim"),
            can_multi_conn: function!("can_multi_conn"),
            get_size: function!("get_size"),
            get_block_size: function!("get_block_size"),
            aio_pread: function!("aio_pread"),
            aio_pwrite: function!("aio_pwrite"),
            aio_trim: function!("aio_trim"),
            aio_command_completed: function!("aio_command_completed"),
            poll: function!("poll"),
        })
    }

    /// The last error in this thread.
    fn error(&self) -> String {
        // SAFETY: the text belongs to the library, and stays valid until its next call in this thread.
        let text = unsafe { (self.get_error)() };
        if text.is_null() {
            return "the connection was lost".into();
        }
        // SAFETY: as above, with a zero at its end.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// One connection, for one thread at a time.
pub struct Connection {
    handle: *mut Handle,
    library: &'static Library,
}

// SAFETY: libnbd's handles may be used by any thread; they contain a lock.
unsafe impl Send for Connection {}

impl Connection {
    pub fn open(uri: &CStr, deadline: Instant) -> Result<Self, String> {
        let library = Library::get()?;
        // SAFETY: takes no arguments; the result is checked for null.
        let handle = unsafe { (library.create)() };
        if handle.is_null() {
            return Err(library.error());
        }
        let connection = Connection { handle, library };
        // SAFETY: the handle is open until the connection is dropped, the URI ends with a zero.
        unsafe {
            // Keys for TLS are named in the URI, which comes from the user.
            (library.set_uri_allow_local_file)(handle, true);
            if (library.aio_connect_uri)(handle, uri.as_ptr()) < 0 {
                return Err(library.error());
            }
        }
        while connection.ask(|lib| lib.aio_is_connecting) {
            connection.poll(deadline)?;
        }
        if connection.ask(|lib| lib.aio_is_ready) { Ok(connection) } else { Err(library.error()) }
    }

    pub fn ask(&self, what: impl FnOnce(&Library) -> Ask) -> bool {
        // SAFETY: the handle is open.
        unsafe { what(self.library)(self.handle) == 1 }
    }

    pub fn size(&self) -> Result<u64, String> {
        // SAFETY: the handle is open.
        let size = unsafe { (self.library.get_size)(self.handle) };
        u64::try_from(size).map_err(|_| self.library.error())
    }

    /// A block size of the server, or 0 if it does not report one.
    pub fn block_size(&self, which: c_int) -> u64 {
        // SAFETY: the handle is open.
        let size = unsafe { (self.library.get_block_size)(self.handle, which) };
        u64::try_from(size).unwrap_or(0)
    }

    /// Waits until the server sends something, or this side can send.
    pub fn poll(&self, deadline: Instant) -> Result<(), String> {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Err("it does not answer in time".into());
        }
        // SAFETY: the handle is open.
        let polled = unsafe { (self.library.poll)(self.handle, left.min(1000) as c_int) };
        if polled < 0 { Err(self.library.error()) } else { Ok(()) }
    }

    /// Whether nothing unexpected has arrived, in particular the end of the connection.
    pub fn is_quiet(&self) -> bool {
        // SAFETY: the handle is open.
        let fd = unsafe { (self.library.aio_get_fd)(self.handle) };
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor is polled, without waiting.
        self.ask(|lib| lib.aio_is_ready) && fd >= 0 && unsafe { libc::poll(&raw mut poll, 1, 0) } == 0
    }

    /// Waits until a command is done.
    pub fn finish(&self, cookie: i64, deadline: Instant) -> Result<(), Failure> {
        let Ok(cookie) = u64::try_from(cookie) else {
            let trouble = self.trouble();
            return Err(if self.ask(|lib| lib.aio_is_ready) {
                Failure::Refused(trouble)
            } else {
                // Sending may have begun before the failure.
                Failure::Unanswered(trouble)
            });
        };
        loop {
            // SAFETY: the handle is open, and the command belongs to it.
            match unsafe { (self.library.aio_command_completed)(self.handle, cookie) } {
                0 => self.poll(deadline).map_err(|why| Failure::Unanswered(Trouble::Away(why)))?,
                1 => return Ok(()),
                _ => {
                    // SAFETY: takes no arguments.
                    let is_medium = unsafe { (self.library.get_errno)() } == libc::EIO;
                    let trouble = self.trouble();
                    return Err(match self.ask(|lib| lib.aio_is_ready) {
                        true if is_medium => Failure::Failed(trouble),
                        true => Failure::Refused(trouble),
                        false => Failure::Unanswered(trouble),
                    });
                }
            }
        }
    }

    pub fn trouble(&self) -> Trouble {
        // SAFETY: takes no arguments.
        match unsafe { (self.library.get_errno)() } {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Trouble::Full,
            _ => Trouble::Away(self.library.error()),
        }
    }

    /// # Safety
    /// After an error the connection must be dropped before the buffer: the library may still write there.
    pub unsafe fn read(&self, into: &mut [u8], at: u64, deadline: Instant) -> Result<(), Failure> {
        let (to, len) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: the buffer is valid until the command is done or the handle is closed, as the caller
        // guarantees.
        let cookie = unsafe { (self.library.aio_pread)(self.handle, to, len, at, NOBODY, 0) };
        self.finish(cookie, deadline)
    }

    /// # Safety
    /// As for `read`: the library may still read there.
    pub unsafe fn write(&self, bytes: &[u8], at: u64, deadline: Instant) -> Result<(), Failure> {
        let (from, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: as for `read`.
        let cookie = unsafe { (self.library.aio_pwrite)(self.handle, from, len, at, NOBODY, 0) };
        self.finish(cookie, deadline)
    }

    pub fn trim(&self, at: u64, bytes: u64, deadline: Instant) -> Result<(), Failure> {
        // SAFETY: the handle is open.
        let cookie = unsafe { (self.library.aio_trim)(self.handle, bytes, at, NOBODY, 0) };
        self.finish(cookie, deadline)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle any more.
        unsafe { (self.library.close)(self.handle) };
    }
}
