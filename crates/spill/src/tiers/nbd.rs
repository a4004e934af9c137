//! An export of an NBD server, over libnbd.
//!
//! Batches lie in it as in a file (see `file`), and are trimmed when they are deleted. libnbd is looked for when it is wanted; it knows the
//! protocol, URIs and TLS. Of what it can do, only calls that end in time are used: a server that does not answer is left, and
//! connected to anew. It may still do what it was told: units that were to be written or trimmed then are not used again, or a late
//! request could hit another batch. Several connections are used if the server says that they see the same (multi-conn).

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::space::Space;
use super::target::shown;
use super::{BadTarget, Room, Terms, Tier, Trouble, locked};

const UNIT: u64 = 4096;
/// Connections at most.
const CONNECTIONS: usize = 4;
const LIBRARY: &str = "libnbd.so.0";

/// See the module.
pub struct NbdTier {
    uri: CString,
    name: String,
    deadline: Duration,
    can_trim: bool,
    /// Bytes of one request at most.
    longest: usize,
    size: u64,
    pool: Mutex<Pool>,
    /// A connection was put back, or may be made.
    free: Condvar,
    kept: Mutex<Kept>,
}

struct Pool {
    idle: Vec<Connection>,
    /// Idle ones and those in use.
    made: usize,
    most: usize,
}

struct Kept {
    space: Space,
    /// First unit and bytes.
    batches: HashMap<u64, (u64, u32)>,
}

fn units(bytes: u32) -> u64 {
    u64::from(bytes).div_ceil(UNIT).max(1)
}

impl NbdTier {
    /// An export that nobody else uses.
    pub fn open(uri: &str, terms: Terms) -> Result<Self, BadTarget> {
        let name = shown(uri);
        let bad = |why: &str| BadTarget(format!("{name}: {why}"));
        let uri = CString::new(uri).map_err(|_| bad("there is a zero byte in it"))?;
        let connection = Connection::open(&uri, Instant::now() + terms.deadline).map_err(|why| bad(&why))?;
        if connection.ask(|lib| lib.is_read_only) {
            return Err(bad("the export can only be read; start the server without -r"));
        }
        let size = connection.size().map_err(|why| bad(&why))?;
        let most = terms.most.unwrap_or(u64::MAX).min(size) / UNIT;
        if most == 0 {
            return Err(bad("the export has less than 4096 bytes"));
        }
        if connection.block_size(MINIMUM) > UNIT {
            return Err(bad("the server wants requests of more than 4096 bytes"));
        }
        let longest = match connection.block_size(MAXIMUM) / UNIT * UNIT {
            0 => 1 << 20,
            bytes => bytes.min(1 << 20) as usize,
        };
        let can_trim = connection.ask(|lib| lib.can_trim);
        let most_connections = if connection.ask(|lib| lib.can_multi_conn) { CONNECTIONS } else { 1 };
        Ok(NbdTier {
            uri,
            deadline: terms.deadline,
            can_trim,
            longest,
            size,
            pool: Mutex::new(Pool { idle: vec![connection], made: 1, most: most_connections }),
            free: Condvar::new(),
            kept: Mutex::new(Kept { space: Space::new(most), batches: HashMap::new() }),
            name,
        })
    }

    /// Does something over a connection. One that failed is dropped before this returns, whatever the trouble was; if it had been idle, what
    /// ended it may have been long ago, and it is done again over a new one.
    fn with<R>(
        &self,
        mut work: impl FnMut(&Connection, Instant) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let deadline = Instant::now() + self.deadline;
        loop {
            let (connection, is_new) = self.connection(deadline)?;
            let result = work(&connection, deadline);
            let mut pool = locked(&self.pool);
            if result.is_ok() && connection.ask(|lib| lib.aio_is_ready) {
                pool.idle.push(connection);
                drop(pool);
                self.free.notify_one();
                return result;
            }
            // What befell it has befallen the idle ones, too.
            let idle = std::mem::take(&mut pool.idle);
            pool.made -= 1 + idle.len();
            drop(pool);
            drop((connection, idle));
            self.free.notify_all();
            if is_new || Instant::now() >= deadline || !matches!(result, Err(Trouble::Away(_))) {
                return result;
            }
        }
    }

    /// A connection, and whether it was made just now.
    fn connection(&self, deadline: Instant) -> Result<(Connection, bool), Trouble> {
        let mut pool = locked(&self.pool);
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok((connection, false));
            }
            if pool.made < pool.most {
                pool.made += 1;
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Away("it does not answer".into()));
            }
            pool = self.free.wait_timeout(pool, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pool);
        let made = Connection::open(&self.uri, deadline).and_then(|connection| {
            let size = connection.size()?;
            // A smaller one is another export, or what was there is gone.
            if size < self.size {
                Err(format!("it has {size} bytes now, {} before", self.size))
            } else {
                Ok((connection, true))
            }
        });
        made.map_err(|why| {
            locked(&self.pool).made -= 1;
            self.free.notify_one();
            Trouble::Away(why)
        })
    }

    /// Trims units, and then they are free.
    fn free(&self, first: u64, bytes: u32) {
        if self.can_trim {
            let trim = |connection: &Connection, deadline: Instant| {
                connection.trim(first * UNIT, units(bytes) * UNIT, deadline)
            };
            if let Err(Trouble::Away(_)) = self.with(trim) {
                return;
            }
        }
        locked(&self.kept).space.give_back(first, units(bytes));
    }
}

impl Tier for NbdTier {
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble> {
        let len = bytes.len() as u32;
        let first = locked(&self.kept).space.take(units(len)).ok_or(Trouble::Full)?;
        let mut padded = bytes.to_vec();
        padded.resize((units(len) * UNIT) as usize, 0);
        let written = self.with(|connection, deadline| {
            for (part, at) in padded.chunks(self.longest).zip((first * UNIT..).step_by(self.longest)) {
                // SAFETY: `with` drops a connection that failed, and `padded` outlives that.
                unsafe { connection.write(part, at, deadline) }?;
            }
            Ok(())
        });
        if let Err(trouble) = written {
            if !matches!(trouble, Trouble::Away(_)) {
                locked(&self.kept).space.give_back(first, units(len));
            }
            return Err(trouble);
        }
        let before = locked(&self.kept).batches.insert(batch, (first, len));
        if let Some((first, bytes)) = before {
            self.free(first, bytes);
        }
        Ok(())
    }

    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        let (first, bytes) = locked(&self.kept).batches.get(&batch).copied().ok_or(Trouble::Lost)?;
        if (from as usize).checked_add(into.len()).is_none_or(|end| end > bytes as usize) {
            return Err(Trouble::Lost);
        }
        let begin = u64::from(from) / UNIT * UNIT;
        let skip = (u64::from(from) - begin) as usize;
        let mut read = vec![0; (skip + into.len()).next_multiple_of(UNIT as usize)];
        let at = first * UNIT + begin;
        self.with(|connection, deadline| {
            for (part, at) in read.chunks_mut(self.longest).zip((at..).step_by(self.longest)) {
                // SAFETY: `with` drops a connection that failed, and `read` outlives that.
                unsafe { connection.read(part, at, deadline) }?;
            }
            Ok(())
        })?;
        into.copy_from_slice(&read[skip..][..into.len()]);
        Ok(())
    }

    fn delete(&self, batches: &[u64]) -> Result<(), Trouble> {
        for batch in batches {
            let kept = locked(&self.kept).batches.remove(batch);
            if let Some((first, bytes)) = kept {
                self.free(first, bytes);
            }
        }
        Ok(())
    }

    fn probe(&self) -> Result<(), Trouble> {
        let mut first = vec![0; UNIT as usize];
        // SAFETY: `with` drops a connection that failed, and `first` outlives that.
        self.with(|connection, deadline| unsafe { connection.read(&mut first, 0, deadline) })
    }

    fn room(&self) -> Room {
        let kept = locked(&self.kept);
        Room { used: kept.space.used() * UNIT, most: kept.space.most() * UNIT }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// libnbd's handle.
#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

/// libnbd's `nbd_completion_callback`; without a function, nobody is called.
#[repr(C)]
#[derive(Clone, Copy)]
struct Callback {
    call: Option<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>,
    user: *mut c_void,
    free: Option<unsafe extern "C" fn(*mut c_void)>,
}

const NOBODY: Callback = Callback { call: None, user: std::ptr::null_mut(), free: None };
/// `LIBNBD_SIZE_MINIMUM` and `LIBNBD_SIZE_MAXIMUM`.
const MINIMUM: c_int = 0;
const MAXIMUM: c_int = 2;

type Ask = unsafe extern "C" fn(*mut Handle) -> c_int;

/// What is used of the library. It is never unloaded.
struct Library {
    create: unsafe extern "C" fn() -> *mut Handle,
    close: unsafe extern "C" fn(*mut Handle),
    get_error: unsafe extern "C" fn() -> *const c_char,
    get_errno: unsafe extern "C" fn() -> c_int,
    set_uri_allow_local_file: unsafe extern "C" fn(*mut Handle, bool) -> c_int,
    aio_connect_uri: unsafe extern "C" fn(*mut Handle, *const c_char) -> c_int,
    aio_is_ready: Ask,
    aio_is_connecting: Ask,
    is_read_only: Ask,
    can_trim: Ask,
    can_multi_conn: Ask,
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
        // SAFETY: its initialisers are those of a library of the system, made for being loaded.
        let library = unsafe { libloading::Library::new(LIBRARY) }.map_err(|_| {
            format!("{LIBRARY} is missing, with which NBD servers are reached; install it (Debian: libnbd0)")
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

    /// What went wrong last in this thread.
    fn error(&self) -> String {
        // SAFETY: the text is the library's, and stays until its next call in this thread.
        let text = unsafe { (self.get_error)() };
        if text.is_null() {
            return "the connection was lost".into();
        }
        // SAFETY: as above, with a zero at its end.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// One connection, for one thread at a time.
struct Connection {
    handle: *mut Handle,
    library: &'static Library,
}

// SAFETY: libnbd's handles may be used by any thread; they have a lock inside.
unsafe impl Send for Connection {}

impl Connection {
    fn open(uri: &CStr, deadline: Instant) -> Result<Self, String> {
        let library = Library::get()?;
        // SAFETY: takes nothing; null is looked for.
        let handle = unsafe { (library.create)() };
        if handle.is_null() {
            return Err(library.error());
        }
        let connection = Connection { handle, library };
        // SAFETY: the handle is open until the connection is dropped, the URI ends with a zero.
        unsafe {
            // Keys for TLS are named in the URI, which is the user's own.
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

    fn ask(&self, what: impl FnOnce(&Library) -> Ask) -> bool {
        // SAFETY: the handle is open.
        unsafe { what(self.library)(self.handle) == 1 }
    }

    fn size(&self) -> Result<u64, String> {
        // SAFETY: the handle is open.
        let size = unsafe { (self.library.get_size)(self.handle) };
        u64::try_from(size).map_err(|_| self.library.error())
    }

    /// 0 if the server does not say.
    fn block_size(&self, which: c_int) -> u64 {
        // SAFETY: the handle is open.
        let size = unsafe { (self.library.get_block_size)(self.handle, which) };
        u64::try_from(size).unwrap_or(0)
    }

    /// Waits for the server, or for us to be able to send.
    fn poll(&self, deadline: Instant) -> Result<(), String> {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Err("it does not answer in time".into());
        }
        // SAFETY: the handle is open.
        let polled = unsafe { (self.library.poll)(self.handle, left.min(1000) as c_int) };
        if polled < 0 { Err(self.library.error()) } else { Ok(()) }
    }

    /// Waits until a command is done.
    fn finish(&self, cookie: i64, deadline: Instant) -> Result<(), Trouble> {
        let Ok(cookie) = u64::try_from(cookie) else { return Err(self.trouble()) };
        loop {
            // SAFETY: the handle is open, and the command is its own.
            match unsafe { (self.library.aio_command_completed)(self.handle, cookie) } {
                0 => self.poll(deadline).map_err(Trouble::Away)?,
                1 => return Ok(()),
                _ => return Err(self.trouble()),
            }
        }
    }

    fn trouble(&self) -> Trouble {
        // SAFETY: takes nothing.
        match unsafe { (self.library.get_errno)() } {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Trouble::Full,
            _ => Trouble::Away(self.library.error()),
        }
    }

    /// # Safety
    /// After an error the connection is dropped before the buffer: the library may still write there.
    unsafe fn read(&self, into: &mut [u8], at: u64, deadline: Instant) -> Result<(), Trouble> {
        let (to, len) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: the buffer is there until the command is done, or the handle closed: passed on to the caller.
        let cookie = unsafe { (self.library.aio_pread)(self.handle, to, len, at, NOBODY, 0) };
        self.finish(cookie, deadline)
    }

    /// # Safety
    /// As for `read`: the library may still read there.
    unsafe fn write(&self, bytes: &[u8], at: u64, deadline: Instant) -> Result<(), Trouble> {
        let (from, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: as for `read`.
        let cookie = unsafe { (self.library.aio_pwrite)(self.handle, from, len, at, NOBODY, 0) };
        self.finish(cookie, deadline)
    }

    fn trim(&self, at: u64, bytes: u64, deadline: Instant) -> Result<(), Trouble> {
        // SAFETY: the handle is open.
        let cookie = unsafe { (self.library.aio_trim)(self.handle, bytes, at, NOBODY, 0) };
        self.finish(cookie, deadline)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle any more.
        unsafe { (self.library.close)(self.handle) };
    }
}
