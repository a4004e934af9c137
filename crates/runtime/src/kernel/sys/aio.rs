//! Reads that proceed while their thread does other work: the kernel's asynchronous I/O (`io_submit(2)`).
//!
//! A context handles one read at a time. Its handle is the address of memory that the kernel shares, in which
//! it counts completed reads:
//!
//! ```text
//! 0 id 4 nr 8 head 12 tail 16 magic ..      head != tail: a read has ended
//! (not in include/uapi: see fs/aio.c, struct aio_ring)
//! ```
//!
//! The system calls are made by number. `io_uring` is not used, because many containers forbid it.

use core::sync::atomic::{AtomicU32, Ordering::*};

use super::{Errno, Fd, PAGE, Result, Timespec, advice, madvise, nr, syscall};

const MAGIC: u32 = 0xa10a_10a1;

/// A context for one read at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context(usize);

/// `struct iocb`, little-endian.
#[repr(C)]
#[derive(Default)]
struct Control {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: i32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_fd: i32,
}

#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    more: i64,
}

const _: () = assert!(size_of::<Control>() == 64 && size_of::<Event>() == 32);
#[cfg(target_endian = "big")]
compile_error!("the fields of an I/O control block stand in another order");

impl Context {
    /// A new context, which forked children do not inherit.
    pub fn new() -> Result<Self> {
        let mut context = 0usize;
        // SAFETY: the kernel writes one number, and maps a page of its own.
        unsafe { syscall(nr::IO_SETUP, [1, &raw mut context as usize, 0, 0, 0, 0]) }?;
        let context = Context(context);
        let is_known = context.is_known();
        // With many CPUs the ring is larger than a page.
        let bytes =
            32 + size_of::<Event>() * if is_known { context.word(1).load(Relaxed) as usize } else { 0 };
        // SAFETY: advice about the pages that were just mapped.
        let kept =
            unsafe { madvise(context.0 / PAGE * PAGE, bytes.next_multiple_of(PAGE), advice::DONTFORK) };
        if kept.is_err() || !is_known {
            context.destroy();
            return Err(Errno::NOSYS);
        }
        Ok(context)
    }

    /// The context as a number, not 0.
    pub fn to_bits(self) -> usize {
        self.0
    }

    /// A context that was made in this process, from its number.
    pub fn from_bits(bits: usize) -> Option<Self> {
        (bits != 0).then_some(Context(bits))
    }

    /// Destroys the context, after waiting for reads that are under way.
    pub fn destroy(self) {
        // SAFETY: the kernel unmaps the page that it has mapped.
        let _ = unsafe { syscall(nr::IO_DESTROY, [self.0, 0, 0, 0, 0, 0]) };
    }

    fn word(self, index: usize) -> &'static AtomicU32 {
        // SAFETY: the kernel's page contains these words, and stays as long as the context.
        unsafe { &*(self.0 as *const AtomicU32).add(index) }
    }

    /// Whether the page has the expected layout.
    fn is_known(self) -> bool {
        self.word(4).load(Relaxed) == MAGIC
    }

    /// Whether the read has ended. Makes no system call.
    pub fn has_ended(self) -> bool {
        self.word(2).load(Relaxed) != self.word(3).load(Acquire)
    }

    /// Begins to read `bytes` bytes. If that must not block (`at_once`), and the kernel would have to wait
    /// for something first, the read ends with [`Errno::AGAIN`].
    ///
    /// # Safety
    /// The kernel writes to `into` at any time until the read has ended; no other data may be there.
    pub unsafe fn begin(self, file: Fd, at: u64, into: *mut u8, bytes: usize, at_once: bool) -> Result<()> {
        const PREAD: u16 = 0;
        const NOWAIT: u32 = 8;
        let control = Control {
            opcode: PREAD,
            flags: if at_once { NOWAIT } else { 0 },
            fd: file.0,
            buffer: into as u64,
            bytes: bytes as u64,
            offset: at as i64,
            ..Control::default()
        };
        let list = [&raw const control as usize];
        // SAFETY: the kernel copies the block; the caller is responsible for the buffer.
        match unsafe { syscall(nr::IO_SUBMIT, [self.0, 1, list.as_ptr() as usize, 0, 0, 0]) }? {
            1 => Ok(()),
            _ => Err(Errno::AGAIN),
        }
    }

    /// Waits at most this long for the read to end. Returns the number of bytes read, or the error; `None` if
    /// the read has not ended.
    pub fn end(self, at_most_ns: u64) -> Option<Result<usize>> {
        let (mut event, time) = (Event::default(), Timespec::from_ns(at_most_ns));
        let args = [self.0, 1, 1, &raw mut event as usize, &raw const time as usize, 0];
        // SAFETY: the kernel writes one event, and reads the time.
        match unsafe { syscall(nr::IO_GETEVENTS, args) } {
            Ok(1) => Some(super::decode(event.result as isize)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::vec::Vec;

    #[test]
    fn a_read_goes_on_by_itself() {
        let Ok(context) = Context::new() else { return };
        let bytes: Vec<u8> = (0..3 * PAGE).map(|at| (at / 7) as u8).collect();
        let path = std::env::temp_dir().join(std::format!("memfold-aio-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut into = std::vec![0; 2 * PAGE];
        for (at, expected) in [(PAGE, 2 * PAGE), (2 * PAGE, PAGE), (3 * PAGE, 0)] {
            into.fill(0);
            // SAFETY: the buffer is not used until the read has ended.
            unsafe { context.begin(Fd(file.as_raw_fd()), at as u64, into.as_mut_ptr(), into.len(), false) }
                .unwrap();
            let ended = loop {
                if let Some(ended) = context.end(1_000_000) {
                    break ended;
                }
            };
            assert_eq!(ended, Ok(expected));
            assert_eq!(into[..expected], bytes[at..at + expected]);
            assert!(!context.has_ended());
        }
        // SAFETY: as above.
        let begun = unsafe { context.begin(Fd(-1), 0, into.as_mut_ptr(), into.len(), true) };
        assert!(begun.is_err() || context.end(1_000_000_000).is_some_and(|ended| ended.is_err()));
        context.destroy();
    }
}
