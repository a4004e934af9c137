//! Memory that is shared with other processes: files, segments, mappings.

use std::ffi::c_int;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use memfold_proc::PAGE;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags};

/// Zeroed memory that is never unmapped, and that this process shares with its children.
///
/// `T` must be made of atomic numbers.
pub fn shared_zeroes<T: 'static>() -> nix::Result<&'static T> {
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let how = MapFlags::MAP_SHARED | MapFlags::MAP_ANONYMOUS;
    let Some(bytes) = NonZeroUsize::new(size_of::<T>()) else { return Err(nix::errno::Errno::EINVAL) };
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use.
    let start = unsafe { nix::sys::mman::mmap_anonymous(None, bytes, access, how) }?;
    // SAFETY: the mapping is aligned to a page, has the size of T, is zeroed, and is never unmapped.
    Ok(unsafe { start.cast::<T>().as_ref() })
}

/// A memory file, mapped while this value lives, and shared with every other process that maps it.
#[derive(Debug)]
pub struct Mapped<T>(NonNull<T>);

impl<T> Mapped<T> {
    /// Maps the file.
    ///
    /// `T` must be valid for any bytes and tolerate concurrent changes by others, so it must consist of
    /// atomics.
    pub fn new(file: &OwnedFd) -> nix::Result<Self> {
        let bytes = NonZeroUsize::new(size_of::<T>()).ok_or(nix::errno::Errno::EINVAL)?;
        let length = nix::sys::stat::fstat(file)?.st_size;
        if u64::try_from(length).unwrap_or(0) < bytes.get() as u64 {
            return Err(nix::errno::Errno::EINVAL);
        }
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use.
        let start: NonNull<_> =
            unsafe { nix::sys::mman::mmap(None, bytes, access, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self(start.cast()))
    }
}

impl<T> std::ops::Deref for Mapped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping has the size of T, is aligned to a page, and lives as long as `self`. It holds
        // zeros or bytes that other processes wrote, and T is valid for any bytes (see `new`).
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size, and references into it end before `self`
        // does.
        let _ = unsafe { nix::sys::mman::munmap(self.0.cast(), size_of::<T>()) };
    }
}

/// The same, never unmapped.
pub fn map_shared<T: 'static>(file: &OwnedFd) -> nix::Result<&'static T> {
    Ok(Box::leak(Box::new(Mapped::new(file)?)))
}

/// Makes a shared memory segment that other processes in the same IPC namespace attach by its number. Unlike
/// a memory file, it is not subject to the limit of file sizes. [`disown_segment`] must mark it for removal.
pub fn make_segment(bytes: usize) -> nix::Result<c_int> {
    // SAFETY: takes numbers only.
    nix::errno::Errno::result(unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, libc::IPC_CREAT | 0o600) })
}

/// Marks a segment of [`make_segment`]: from now on it is removed together with the last process that has it.
pub fn disown_segment(number: c_int) {
    // SAFETY: takes numbers, and no structure for this command.
    unsafe { libc::shmctl(number, libc::IPC_RMID, std::ptr::null_mut()) };
}

impl<T> Mapped<T> {
    /// Attaches a segment; for `T` see [`Mapped::new`].
    pub fn attach(number: c_int) -> nix::Result<Self> {
        let mut about = std::mem::MaybeUninit::<libc::shmid_ds>::uninit();
        // SAFETY: the call writes the structure, which is read only if the call succeeded.
        let about = unsafe {
            nix::errno::Errno::result(libc::shmctl(number, libc::IPC_STAT, about.as_mut_ptr()))?;
            about.assume_init()
        };
        if about.shm_segsz < size_of::<T>() {
            return Err(nix::errno::Errno::EINVAL);
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use. The
        // segment is at least as large as a T, and never changes its size.
        let start = unsafe { libc::shmat(number, std::ptr::null(), 0) };
        NonNull::new(start.cast::<T>())
            .filter(|_| start as isize != -1)
            .map(Self)
            .ok_or_else(nix::errno::Errno::last)
    }
}

/// The same, never unmapped.
pub fn attach_segment<T: 'static>(number: c_int) -> nix::Result<&'static T> {
    Ok(Box::leak(Box::new(Mapped::attach(number)?)))
}

/// Whether a file may be mapped for execution, which a `noexec` mount prevents.
pub fn can_map_executable(file: &OwnedFd) -> bool {
    let Some(bytes) = NonZeroUsize::new(PAGE as usize) else { return false };
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
    // SAFETY: as in `Mapped::new`; nothing is read from the mapping.
    let mapped = unsafe { nix::sys::mman::mmap(None, bytes, access, MapFlags::MAP_PRIVATE, file, 0) };
    match mapped {
        Ok(start) => {
            // SAFETY: the mapping was made here, and nothing points into it.
            let _ = unsafe { nix::sys::mman::munmap(start, bytes.get()) };
            true
        }
        Err(_) => false,
    }
}

/// Whether two processes share one address space, as after vfork. None if the kernel does not reveal it.
pub fn same_memory(a: i32, b: i32) -> Option<bool> {
    const KCMP_VM: c_int = 1;
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) } {
        0 => Some(true),
        order if order > 0 => Some(false),
        _ => None,
    }
}
