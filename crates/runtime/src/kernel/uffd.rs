//! userfaultfd: opening, registering, resolving and reading.

use core::ffi::CStr;

use crate::kernel::addresses::END;
use crate::kernel::sys::{self, Errno, Fd, PAGE, Result, o};

const DEVICE: &CStr = c"/dev/userfaultfd";
const DEVICE_NEW: usize = 0xAA00;
const API: usize = 0xC018_AA3F;
const REGISTER: usize = 0xC020_AA00;
const UNREGISTER: usize = 0x8010_AA01;
const WAKE: usize = 0x8010_AA02;
const COPY: usize = 0xC028_AA03;
const ZEROPAGE: usize = 0xC020_AA04;
const MOVE: usize = 0xC028_AA05;
const WRITEPROTECT: usize = 0xC018_AA06;
const CONTINUE: usize = 0xC020_AA07;
const POISON: usize = 0xC020_AA08;
/// Flags of a fault's message.
const FLAG_WRITE: usize = 1;
const FLAG_WP: usize = 2;
/// Modes of REGISTER.
const MISSING: u64 = 1;
const WP: u64 = 2;
/// Modes of COPY and ZEROPAGE.
const DONT_WAKE: u64 = 1;
const COPY_PROTECTED: u64 = 2;

/// Possible lowest and highest addresses of programs; see [`Uffd::wake_all`].
const LOWEST: [usize; 4] = [PAGE, 16 * PAGE, 256 * PAGE, 4096 * PAGE];
const HIGHEST: [usize; 4] = [END, END - PAGE, 1 << 42, (1 << 39) - PAGE];

/// Features of the kernel's interface.
#[allow(missing_docs)]
pub mod feature {
    pub const WRITE_PROTECT: u64 = 1 << 0;
    pub const EVENT_FORK: u64 = 1 << 1;
    pub const EVENT_REMAP: u64 = 1 << 2;
    pub const EVENT_REMOVE: u64 = 1 << 3;
    pub const EVENT_UNMAP: u64 = 1 << 6;
    pub const THREAD_ID: u64 = 1 << 8;
    pub const MOVE: u64 = 1 << 16;
    /// The features that the runtime needs.
    pub const NEEDED: u64 = EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP | THREAD_ID;
}

/// The kind of access that made a thread wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// A read of a missing page.
    Read,
    /// A write to a missing page.
    Write,
    /// A write to a page that is present, but write-protected.
    Protected,
}

/// A message of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A thread touched a missing or write-protected page.
    Fault {
        /// The page's address.
        page: usize,
        /// The kind of access.
        touch: Touch,
        /// The thread.
        tid: u32,
    },
    /// Contents of the range are about to be discarded (madvise).
    Remove {
        /// First byte.
        start: usize,
        /// First byte after the end.
        end: usize,
    },
    /// The range has been unmapped.
    Unmap {
        /// First byte.
        start: usize,
        /// First byte after the end.
        end: usize,
    },
    /// A mapping has moved.
    Remap {
        /// The old address.
        from: usize,
        /// The new address.
        to: usize,
        /// Length in bytes.
        bytes: usize,
    },
    /// The memory has been copied by a fork; the forking thread waits until this is read.
    Fork {
        /// A userfaultfd for the child's memory; it belongs to the reader of the message.
        child: Fd,
    },
    /// Something that this code did not request.
    Other,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawMessage {
    event: u8,
    _reserved: [u8; 7],
    arguments: [u64; 3],
}

/// Bytes of one message as read.
pub const MESSAGE_BYTES: usize = size_of::<RawMessage>();

#[repr(C)]
struct ApiArg {
    api: u64,
    features: u64,
    ioctls: u64,
}
#[repr(C)]
struct RangeArg {
    start: u64,
    bytes: u64,
}
#[repr(C)]
struct RegisterArg {
    range: RangeArg,
    mode: u64,
    ioctls: u64,
}
#[repr(C)]
struct ProtectArg {
    range: RangeArg,
    mode: u64,
}
#[repr(C)]
struct CopyArg {
    destination: u64,
    source: u64,
    bytes: u64,
    mode: u64,
    done: i64,
}
#[repr(C)]
struct ZeroArg {
    range: RangeArg,
    mode: u64,
    done: i64,
}

/// The features of this kernel; opens and closes a descriptor for that.
pub fn kernel_features(device: Option<Fd>) -> Result<u64> {
    let fd = open_raw(device)?;
    let mut api = ApiArg { api: 0xAA, features: 0, ioctls: 0 };
    // SAFETY: the structure is the one of UFFDIO_API.
    let answer = unsafe { sys::ioctl(fd, API, &mut api) };
    sys::close(fd);
    answer.map(|_| api.features)
}

fn open_raw(device: Option<Fd>) -> Result<Fd> {
    let flags = (o::CLOEXEC | o::NONBLOCK) as usize;
    if crate::kernel::filters::userfaultfd_may_be_called() {
        // Without USER_MODE_ONLY, so that faults in system calls of the program are served, too.
        // SAFETY: makes a descriptor.
        let by_call = unsafe { sys::syscall(sys::nr::USERFAULTFD, [flags, 0, 0, 0, 0, 0]) };
        if let Ok(fd) = by_call {
            return Ok(Fd(fd as i32));
        }
    }
    let own = match device {
        Some(_) => None,
        None => Some(sys::open(DEVICE, o::RDWR | o::CLOEXEC)?),
    };
    let from = device.or(own).ok_or(Errno::NOENT)?;
    // SAFETY: the argument of this ioctl is a number.
    let fd = unsafe { sys::syscall(sys::nr::IOCTL, [from.0 as usize, DEVICE_NEW, flags, 0, 0, 0]) };
    if let Some(own) = own {
        sys::close(own);
    }
    fd.map(|fd| Fd(fd as i32))
}

/// An open userfaultfd of this process.
#[derive(Clone, Copy)]
pub struct Uffd(pub Fd);

impl Uffd {
    /// Opens a userfaultfd with these features that also serves faults in system calls.
    pub fn open(device: Option<Fd>, features: u64) -> Result<Self> {
        let fd = open_raw(device)?;
        let mut api = ApiArg { api: 0xAA, features, ioctls: 0 };
        // SAFETY: the structure is the one of UFFDIO_API.
        match unsafe { sys::ioctl(fd, API, &mut api) } {
            Ok(_) => Ok(Uffd(fd)),
            Err(error) => {
                sys::close(fd);
                Err(error)
            }
        }
    }

    /// Registers a range for missing pages.
    pub fn register(&self, start: usize, bytes: usize) -> Result<()> {
        self.register_for(MISSING, start, bytes)
    }

    /// Registers a range for missing and write-protected pages; a range that is registered for missing pages
    /// already is then registered for both.
    pub fn register_protectable(&self, start: usize, bytes: usize) -> Result<()> {
        self.register_for(MISSING | WP, start, bytes)
    }

    fn register_for(&self, mode: u64, start: usize, bytes: usize) -> Result<()> {
        let range = RangeArg { start: start as u64, bytes: bytes as u64 };
        let mut arg = RegisterArg { range, mode, ioctls: 0 };
        // SAFETY: the structure is the one of UFFDIO_REGISTER. From now on the handlers serve missing pages
        // of the range.
        unsafe { sys::ioctl(self.0, REGISTER, &mut arg) }.map(drop)
    }

    /// Write-protects the present pages of the range, or lifts the protection, and wakes the threads that
    /// wait for that. The kernel refuses this where part of the range is not registered for it.
    pub fn protect(&self, start: usize, bytes: usize, on: bool) -> Result<()> {
        let range = RangeArg { start: start as u64, bytes: bytes as u64 };
        let mut arg = ProtectArg { range, mode: u64::from(on) };
        // SAFETY: the structure is the one of UFFDIO_WRITEPROTECT; contents do not change.
        unsafe { sys::ioctl(self.0, WRITEPROTECT, &mut arg) }.map(drop)
    }

    /// Removes a registration.
    pub fn unregister(&self, start: usize, bytes: usize) -> Result<()> {
        let mut arg = RangeArg { start: start as u64, bytes: bytes as u64 };
        // SAFETY: the structure is the one of UFFDIO_UNREGISTER.
        unsafe { sys::ioctl(self.0, UNREGISTER, &mut arg) }.map(drop)
    }

    /// Wakes threads that wait for pages of the range; they touch the pages again.
    pub fn wake(&self, start: usize, bytes: usize) {
        let mut arg = RangeArg { start: start as u64, bytes: bytes as u64 };
        // SAFETY: the structure is the one of UFFDIO_WAKE.
        let _ = unsafe { sys::ioctl(self.0, WAKE, &mut arg) };
    }

    /// Wakes all waiting threads, wherever they wait. The kernel does not require a registration there, but a
    /// program must be able to map the whole range.
    pub fn wake_all(&self) {
        // The lowest address that can be mapped (`vm.mmap_min_addr`) and the highest differ between machines.
        for start in LOWEST {
            for end in HIGHEST {
                let mut arg = RangeArg { start: start as u64, bytes: (end - start) as u64 };
                // SAFETY: the structure is the one of UFFDIO_WAKE.
                if unsafe { sys::ioctl(self.0, WAKE, &mut arg) }.is_ok() {
                    return;
                }
            }
        }
    }

    /// Fills missing pages with a copy. Returns the number of bytes done, or the error of the first page. The
    /// threads that wait for the pages must be woken afterwards, when the caller holds no lock any more: a
    /// woken thread may take the caller's CPU.
    ///
    /// # Safety
    /// The pages at `to` must be missing because the runtime evicted them or because they were never touched,
    /// and `from` must hold the contents that the program expects there.
    pub unsafe fn copy(&self, to: usize, from: *const u8, bytes: usize) -> Result<usize> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.copy_as(to, from, bytes, false) }
    }

    /// Like `copy`. With `protected` the pages are write-protected from the beginning; the kernel refuses
    /// that where the mapping is not registered for it.
    ///
    /// # Safety
    /// The same as for `copy`.
    pub unsafe fn copy_as(&self, to: usize, from: *const u8, bytes: usize, protected: bool) -> Result<usize> {
        let mut arg = CopyArg {
            destination: to as u64,
            source: from as u64,
            bytes: bytes as u64,
            mode: if protected { DONT_WAKE | COPY_PROTECTED } else { DONT_WAKE },
            done: 0,
        };
        // SAFETY: the structure is the one of UFFDIO_COPY; contents by contract.
        partial(unsafe { sys::ioctl(self.0, COPY, &mut arg) }, arg.done)
    }

    /// Fills missing pages with zeros; like `copy`, it wakes no thread.
    ///
    /// # Safety
    /// The program must expect zeros there.
    pub unsafe fn zero(&self, to: usize, bytes: usize) -> Result<usize> {
        let range = RangeArg { start: to as u64, bytes: bytes as u64 };
        let mut arg = ZeroArg { range, mode: DONT_WAKE, done: 0 };
        // SAFETY: the structure is the one of UFFDIO_ZEROPAGE; contents by contract.
        partial(unsafe { sys::ioctl(self.0, ZEROPAGE, &mut arg) }, arg.done)
    }

    /// Poisons missing pages: touching them is an error from now on (Linux 6.6).
    pub fn poison(&self, start: usize, bytes: usize) -> Result<()> {
        let range = RangeArg { start: start as u64, bytes: bytes as u64 };
        let mut arg = ZeroArg { range, mode: 0, done: 0 };
        // SAFETY: the structure is the one of UFFDIO_POISON; the pages are missing.
        unsafe { sys::ioctl(self.0, POISON, &mut arg) }.map(drop)
    }

    /// Moves pages, without a copy; refuses pinned pages with EBUSY.
    ///
    /// # Safety
    /// The same as for [`Uffd::copy`], and the pages at `from` must not be used otherwise.
    pub unsafe fn move_pages(
        &self,
        to: usize,
        from: usize,
        bytes: usize,
        allow_holes: bool,
    ) -> Result<usize> {
        let mode = if allow_holes { 2 } else { 0 };
        let mut arg =
            CopyArg { destination: to as u64, source: from as u64, bytes: bytes as u64, mode, done: 0 };
        // SAFETY: the structure is the one of UFFDIO_MOVE; contents by contract.
        partial(unsafe { sys::ioctl(self.0, MOVE, &mut arg) }, arg.done)
    }

    /// Checks whether the page is registered, without any effect: an anonymous registered page refuses
    /// UFFDIO_CONTINUE with EINVAL, an unregistered one with ENOENT, and any page with EAGAIN while an event
    /// is on its way.
    pub fn probe(&self, page: usize) -> Probe {
        let range = RangeArg { start: page as u64, bytes: PAGE as u64 };
        let mut arg = ZeroArg { range, mode: 0, done: 0 };
        // SAFETY: the structure is the one of UFFDIO_CONTINUE, which can't
        // succeed on private anonymous memory.
        match unsafe { sys::ioctl(self.0, CONTINUE, &mut arg) } {
            Err(Errno::AGAIN) => Probe::Changing,
            Err(Errno::INVAL) => Probe::Registered,
            _ => Probe::Unregistered,
        }
    }

    /// Whether the page is registered with another userfaultfd of this process.
    pub fn is_taken(&self, page: usize) -> bool {
        const BUSY: Errno = Errno(16);
        match self.register(page, PAGE) {
            Ok(()) => {
                // If the page was registered elsewhere just now, this is refused, or does what happens next
                // anyway.
                let _ = self.unregister(page, PAGE);
                false
            }
            Err(error) => error == BUSY,
        }
    }

    /// Reads the next message. Fails if there is none or it cannot be read now; with `MFILE` if it carries a
    /// descriptor and the process may not open one more.
    pub fn next(&self) -> Result<Message> {
        let mut bytes = [0u8; MESSAGE_BYTES];
        match sys::read(self.0, &mut bytes)? {
            MESSAGE_BYTES => Ok(decode(&bytes)),
            _ => Err(Errno::AGAIN),
        }
    }
}

/// The result of [`Uffd::probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Registered, and no event is pending.
    Registered,
    /// Not registered.
    Unregistered,
    /// An event is pending somewhere in this process.
    Changing,
}

fn partial(answer: Result<usize>, done: i64) -> Result<usize> {
    match answer {
        Ok(_) => Ok(done as usize),
        Err(_) if done > 0 => Ok(done as usize),
        Err(error) => Err(error),
    }
}

fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Message {
    let word = |i: usize| {
        let mut raw = [0u8; 8];
        raw.copy_from_slice(&bytes[8 + i * 8..16 + i * 8]);
        u64::from_ne_bytes(raw) as usize
    };
    match bytes[0] {
        0x12 => {
            let touch = match word(0) {
                flags if flags & FLAG_WP != 0 => Touch::Protected,
                flags if flags & FLAG_WRITE != 0 => Touch::Write,
                _ => Touch::Read,
            };
            Message::Fault { page: word(1) & !(PAGE - 1), touch, tid: word(2) as u32 }
        }
        0x13 => Message::Fork { child: Fd(word(0) as i32) },
        0x14 => Message::Remap { from: word(0), to: word(1), bytes: word(2) },
        0x15 => Message::Remove { start: word(0), end: word(1) },
        0x16 => Message::Unmap { start: word(0), end: word(1) },
        _ => Message::Other,
    }
}
