//! Mappings, and their contents.

use super::{Errno, Fd, PAGE, Result, getpid, nr, syscall};

/// Protection bits.
#[allow(missing_docs)]
pub mod prot {
    pub const NONE: usize = 0;
    pub const READ: usize = 1;
    pub const WRITE: usize = 2;
}

const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;

/// Maps private anonymous memory that uses no memory until it is touched.
pub fn map_anonymous(bytes: usize, protection: usize) -> Result<*mut u8> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    unsafe { syscall(nr::MMAP, [0, bytes, protection, flags, -1isize as usize, 0]) }.map(|p| p as *mut u8)
}

/// Maps a file as shared.
pub fn map_shared(fd: Fd, bytes: usize) -> Result<*mut u8> {
    let args = [0, bytes, prot::READ | prot::WRITE, MAP_SHARED, fd.0 as usize, 0];
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    unsafe { syscall(nr::MMAP, args) }.map(|p| p as *mut u8)
}

/// Attaches a System V shared memory segment. Returns its address and its size.
pub fn attach_segment(number: i32) -> Result<(*mut u8, usize)> {
    const IPC_STAT: usize = 2;
    // The kernel's structure is 112 bytes, and begins with one of 48 bytes; the size comes next.
    let mut about = [0usize; 32];
    // SAFETY: the kernel writes its structure, for which there is room.
    unsafe { syscall(nr::SHMCTL, [number as usize, IPC_STAT, about.as_mut_ptr() as usize, 0, 0, 0]) }?;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { syscall(nr::SHMAT, [number as usize, 0, 0, 0, 0, 0]) }?;
    Ok((start as *mut u8, about[6]))
}

/// Changes protection.
///
/// # Safety
/// No code may rely on the old protection.
pub unsafe fn mprotect(at: usize, bytes: usize, protection: usize) -> Result<()> {
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(nr::MPROTECT, [at, bytes, protection, 0, 0, 0]) }.map(drop)
}

/// Unmaps.
///
/// # Safety
/// The range must not be used any more.
pub unsafe fn munmap(at: usize, bytes: usize) -> Result<()> {
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(nr::MUNMAP, [at, bytes, 0, 0, 0, 0]) }.map(drop)
}

/// Advice values of [`madvise`].
#[allow(missing_docs)]
pub mod advice {
    pub const DONTNEED: usize = 4;
    pub const DONTFORK: usize = 10;
    pub const DOFORK: usize = 11;
    pub const NOHUGEPAGE: usize = 15;
    pub const DONTDUMP: usize = 16;
    pub const WIPEONFORK: usize = 18;
    pub const POPULATE_READ: usize = 22;
    pub const GUARD_INSTALL: usize = 102;
    pub const POPULATE_WRITE: usize = 23;
}

/// Gives advice about a range.
///
/// # Safety
/// Some advice discards contents: they must no longer be needed.
pub unsafe fn madvise(at: usize, bytes: usize, advice: usize) -> Result<()> {
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(nr::MADVISE, [at, bytes, advice, 0, 0, 0]) }.map(drop)
}

/// Reads this process's memory; fails where nothing is mapped.
pub fn read_own_memory(from: usize, into: &mut [usize]) -> Result<()> {
    let bytes = size_of_val(into);
    let (near, far) = ([into.as_mut_ptr() as usize, bytes], [from, bytes]);
    let parts = (near.as_ptr() as usize, far.as_ptr() as usize);
    // SAFETY: there is room for this many bytes; an unreadable address is an error.
    let read = unsafe { syscall(nr::PROCESS_VM_READV, [getpid() as usize, parts.0, 1, parts.1, 1, 0]) }?;
    if read == bytes { Ok(()) } else { Err(Errno::FAULT) }
}

/// Moves the pages of `from` to `to`. With `keep_source` the mapping at
/// `from` stays and is empty afterwards.
///
/// # Safety
/// Any mapping at `to` is replaced; users of `from` must cope with missing pages.
pub unsafe fn mremap_to(from: usize, bytes: usize, to: usize, keep_source: bool) -> Result<()> {
    const MAYMOVE: usize = 1;
    const FIXED: usize = 2;
    const DONTUNMAP: usize = 4;
    let flags = MAYMOVE | FIXED | if keep_source { DONTUNMAP } else { 0 };
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(nr::MREMAP, [from, bytes, bytes, flags, to, 0]) }.map(drop)
}

/// Whether any page of a range (at most 2 MiB) is resident.
pub fn any_resident(at: usize, bytes: usize) -> bool {
    let mut pages = [0u8; 512];
    // SAFETY: the kernel writes one byte for each page, and there are at most 512.
    let answer =
        unsafe { syscall(nr::MINCORE, [at, bytes.min(512 * PAGE), pages.as_mut_ptr() as usize, 0, 0, 0]) };
    answer.is_ok() && pages.iter().any(|page| page & 1 != 0)
}

/// Writes a page's own contents back to it, atomically. This makes a page this process's own that was shared
/// with a process that is gone. The kernel refuses this where the page is not present: a plain touch would
/// wait until the page is restored.
///
/// The operation is FUTEX_WAKE_OP: word |= 0, and no thread is woken.
pub fn write_back_in_place(page: usize) -> Result<()> {
    static NOBODY: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    const OR_0_IF_EQUAL_7FF: usize = 2 << 28 | 0x7ff;
    let args = [NOBODY.as_ptr() as usize, 5 | 128, 0, 0, page, OR_0_IF_EQUAL_7FF];
    // SAFETY: changes no byte.
    unsafe { syscall(nr::FUTEX, args) }.map(drop)
}

/// Maps fresh anonymous memory at an address, if nothing is mapped there.
pub fn map_if_free(at: usize, bytes: usize, protection: usize) -> Result<()> {
    const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    // SAFETY: the kernel refuses this where anything is mapped.
    unsafe { syscall(nr::MMAP, [at, bytes, protection, flags, -1isize as usize, 0]) }.map(drop)
}

/// Maps fresh anonymous memory, replacing any mapping there.
///
/// # Safety
/// The present mapping must no longer be needed.
pub unsafe fn map_over(at: usize, bytes: usize, protection: usize) -> Result<()> {
    const MAP_FIXED: usize = 0x10;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(nr::MMAP, [at, bytes, protection, flags, -1isize as usize, 0]) }.map(drop)
}

/// Makes the next page of the stack present and unprotected: a thread that holds a lock which a handler or
/// the keeper may need must not fault on its stack.
#[inline(never)]
pub fn touch_stack() {
    touch_below::<PAGE>();
}

/// The same for a fork, which goes deeper: it holds such locks until the child has its own state.
#[inline(never)]
pub fn touch_stack_for_fork() {
    touch_below::<{ 2 * PAGE }>();
}

#[inline(always)]
fn touch_below<const BYTES: usize>() {
    let mut below = [core::mem::MaybeUninit::<u8>::uninit(); BYTES];
    let start = below.as_mut_ptr();
    // SAFETY: does nothing. Since the address could be used, the array takes its place on the stack; else the
    // compiler keeps only the bytes that are written, and they lie next to each other.
    unsafe { core::arch::asm!("/* {} */", in(reg) start, options(nostack, preserves_flags)) };
    for place in (0..BYTES).step_by(PAGE / 2).chain([BYTES - 1]) {
        // SAFETY: inside the array.
        unsafe { core::ptr::write_volatile((*start.add(place)).as_mut_ptr(), 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mincore(at: usize, bytes: usize, present: *mut u8) -> i32;
    }

    /// How many of the pages below the present one are touched.
    #[inline(never)]
    fn pages_touched_by(touch: fn()) -> usize {
        const PAGES: usize = 8;
        let here = [0u8; 256];
        let place = core::hint::black_box(&here).as_ptr().addr();
        // In the middle of a page, the frames of what is called here do not reach the next.
        if !(PAGE / 4..PAGE / 2).contains(&(place % PAGE)) {
            return core::hint::black_box(pages_touched_by(touch)) + usize::from(here[1]);
        }
        let mut present = [0u8; PAGES];
        let end = place & !(PAGE - 1);
        let start = end - PAGES * PAGE;
        // SAFETY: far below what is in use of this stack, which is large.
        unsafe { madvise(start, end - start, advice::DONTNEED) }.unwrap();
        touch();
        // SAFETY: there is a byte for each page.
        assert_eq!(unsafe { mincore(start, end - start, present.as_mut_ptr()) }, 0);
        present.iter().filter(|&&page| page & 1 != 0).count()
    }

    #[test]
    fn the_stack_is_touched_as_far_as_it_says() {
        let count = || {
            // The first call looks up what it calls, on this stack.
            pages_touched_by(|| ());
            [pages_touched_by(|| ()), pages_touched_by(touch_stack), pages_touched_by(touch_stack_for_fork)]
        };
        let [none, one, two] = std::thread::spawn(count).join().unwrap();
        assert_eq!([none, one, two], [0, 1, 2]);
    }
}
