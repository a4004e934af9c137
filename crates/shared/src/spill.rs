//! The spill area: how processes of a tree pass batches to the supervisor, and get parts of them back.
//!
//! It follows the [shared page](crate::page) in the same file, if `memfold run` was started with `--spill`.
//!
//! ```text
//! +-------------------------+---------------+---------------------------------------------+
//! | Area                    | slot 0 .. 17  | buffer 0 | buffer 1 | ..                    |
//! | key, doorbells, numbers |               | 256 KiB each, of which a batch may be less  |
//! +-------------------------+---------------+---------------------------------------------+
//!
//! a request slot   FREE ──> TAKEN ──> ASKED ──> BUSY ──> ANSWERED ──> FREE
//!                      \── by a process ──/  \─ by the server ─/   \─ by the process; by the server, if the
//!                                                                      process is gone or stopped
//! ```
//!
//! A request without a buffer is answered by freeing its request slot (`Post`). An answer that is not taken
//! for some seconds is taken away: a process that is stopped, or in a debugger, must not keep slots from
//! others. If its answer is gone, the process asks again. So an answer counts only if the process that asked
//! frees the slot itself.
//!
//! A thread that asks rings the doorbell of the CPU on which it runs: the server's thread of this doorbell is
//! bound to that CPU, and waking a thread elsewhere, on a CPU that sleeps, would take longer than some tiers
//! do. If no thread sleeps there, it rings the next doorbell. The serving thread wakes the threads that wait
//! for the slot. All of these are futexes.
//!
//! Invariants, as for the shared page: all fields are atomics, every reader copes with any value, and no
//! field is used unchecked as an address or an index. The contents of a buffer are sealed: if other processes
//! of the tree overwrite them, they do not open.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::page::{self, Shared};

/// Number of request slots, and of buffers.
pub const POSTS: usize = 18;
/// This many of them are never taken for outgoing batches: threads that wait for memory go first.
pub const FOR_GETS: usize = 6;
/// This many of those are not taken for requests ahead of need: stopped processes keep their slots for some
/// seconds.
pub const FOR_NEED: usize = 4;
/// Nor are this many of those that outgoing batches may take.
pub const FOR_PUTS: usize = 4;
/// And this many are only for forks and new programs: these need no tier, and must not wait for one.
pub const FOR_CONTROL: usize = 2;

/// The purpose for which a request slot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// A batch, for which no thread waits.
    Put,
    /// A page for which a thread waits.
    Get,
    /// The same, before there is a thread to take the answer.
    Ahead,
    /// A fork, or a new program.
    Control,
}
/// Size of a buffer, and of the largest batch, in bytes.
pub const BUFFER: usize = 256 << 10;
/// Size of the smallest batch in bytes.
pub const SMALLEST_BATCH: usize = 64 << 10;
/// The fraction of the limit that a batch should have, within these bounds.
const PART: u64 = 256;

/// Maximum number of doorbells.
pub const BELLS: usize = 8;

/// In place of a unit: the batch is not in a file that processes may read.
pub const NOWHERE: u32 = u32::MAX;

/// Stands for a process that has become another program, and does not wait for an answer.
pub const NOBODY: u32 = u32::MAX;

/// Numbers from here on are not pids: they are for children whose own pid differs from the pid by which the
/// supervisor knows them.
pub const FOREIGN: u32 = 1 << 31;

/// State of a [`Post`].
pub mod state {
    /// It belongs to no process.
    pub const FREE: u32 = 0;
    /// A process is filling it.
    pub const TAKEN: u32 = 1;
    /// The request is ready to be served.
    pub const ASKED: u32 = 2;
    /// The request is being served.
    pub const BUSY: u32 = 3;
    /// The request was served.
    pub const ANSWERED: u32 = 4;
}

/// Kinds of requests.
pub mod kind {
    /// Keep the first `len` bytes of the buffer as `batch`; from then on the process holds it. The answer's
    /// `from` is the unit of the file where it lies, or [`NOWHERE`](super::NOWHERE).
    pub const PUT: u32 = 1;
    /// Fill the first `len` bytes of the buffer with the bytes at `from` in `batch`.
    pub const GET: u32 = 2;
    /// The process no longer holds the `len / 8` batches whose numbers are in the buffer. Answered by freeing
    /// the request slot.
    pub const RELEASE: u32 = 3;
    /// A child will be forked, and `batch` is the fork's number: keep for the child everything that the
    /// process holds. Answered as a release is.
    pub const FORK: u32 = 4;
    /// The process is that child, and `from` is its parent. Answered as a release is.
    pub const CLAIM: u32 = 5;
    /// A program begins in this process: it holds nothing. Answered as a release is.
    pub const BEGIN: u32 = 6;
    /// Like [`GET`], for data that no thread waits for: tried once.
    pub const TRY: u32 = 7;
    /// The process exists, and may hold batches later. No thread waits for the answer.
    pub const HERE: u32 = 8;
    /// The batches set aside for the child of fork `batch` are no longer needed. Answered as a release is.
    pub const FORGO: u32 = 9;
}

/// Results.
pub mod answer {
    /// It was done.
    pub const DONE: u32 = 1;
    /// Not now: the tier is full or away. Nothing is lost.
    pub const LATER: u32 = 2;
    /// The tier did not answer within the patience.
    pub const AWAY: u32 = 3;
    /// The tier no longer has the data.
    pub const LOST: u32 = 4;
}

/// Whether the tier takes batches.
pub mod open {
    /// It does not, and may never again: it is full or unfit, or has no server.
    pub const NO: u32 = 0;
    /// It does.
    pub const YES: u32 = 1;
    /// It does not answer, and may come back.
    pub const AWAY: u32 = 2;
}

/// How much room there is on the tier.
pub mod scarce {
    /// Enough.
    pub const NOT: u32 = 0;
    /// More than 3/4 of it are used.
    pub const RATHER: u32 = 1;
    /// More than 7/8.
    pub const VERY: u32 = 2;
}

/// How blocks are sealed.
pub mod seal {
    /// With a checksum.
    pub const CHECKED: u32 = 0;
    /// Encrypted.
    pub const ENCRYPTED: u32 = 1;
}

/// The data that all processes share.
#[repr(C, align(64))]
pub struct Area {
    /// Incremented, and woken, for each request.
    pub doorbells: [AtomicU32; BELLS],
    /// Number of doorbells that have a thread.
    pub bells: AtomicU32,
    /// Incremented, and woken, when a request slot becomes free.
    pub freed: AtomicU32,
    /// Number of threads that wait for a free slot; too high if one of them was killed.
    pub waiting: AtomicU32,
    /// Whether batches are taken: one of [`open`].
    pub is_open: AtomicU32,
    /// One of [`scarce`].
    pub scarce: AtomicU32,
    /// Process id of the server.
    pub server: AtomicU32,
    /// The PID namespace of the server, as the inode of its file; 0 if unknown.
    pub namespace: AtomicU64,
    /// The next batch's number.
    pub next_batch: AtomicU64,
    /// One of [`seal`].
    pub seal: AtomicU32,
    /// Maximum size of a batch in bytes.
    pub batch_bytes: AtomicU32,
    /// How long a thread waits for a page, in ns.
    pub patience_ns: AtomicU64,
    /// The key, valid only for this run.
    pub key: [AtomicU64; 4],
    /// The server's descriptor of the tier's file, if processes may read it themselves; or 0. See
    /// `spill/direct.rs` of the runtime.
    pub file: AtomicU32,
    /// The inode number of that file, and its device.
    pub file_id: [AtomicU64; 2],
    /// Direct reads by processes: their number, and bytes.
    pub direct_reads: AtomicU64,
    /// See `direct_reads`.
    pub direct_bytes: AtomicU64,
    /// Duration of faults whose page was spilled: see [`page::bucket_of`].
    pub fault_histogram: [AtomicU64; page::BUCKETS],
    /// The longest one, in ns.
    pub fault_max_ns: AtomicU64,
    /// The request slots.
    pub posts: [Post; POSTS],
}

/// A request slot.
#[repr(C, align(64))]
pub struct Post {
    /// A [`Word`].
    word: AtomicU64,
    /// One of [`kind`].
    pub kind: AtomicU32,
    /// One of [`answer`].
    pub answer: AtomicU32,
    /// See [`kind`].
    pub batch: AtomicU64,
    /// Since when a thread has waited for the answer, ns of the system's monotonic clock.
    pub since: AtomicU64,
    /// See [`kind`].
    pub from: AtomicU32,
    /// See [`kind`].
    pub len: AtomicU32,
}

/// The state of a request slot. It changes as a whole, so that a process never frees a slot that belongs to
/// another one by then.
///
/// ```text
/// 63 .. 32 process   31 .. 8 times it was taken   7 .. 0 state        the lower half is the futex
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// The state of a slot that was never taken.
    pub const NONE: Word = Word(0);

    /// One of [`state`].
    pub fn state(self) -> u32 {
        self.0 as u32 & 0xff
    }

    /// The process that has taken the slot.
    pub fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The same with another state.
    pub fn with(self, state: u32) -> Self {
        Word(self.0 & !0xff | u64::from(state))
    }

    /// The same, with no process waiting for the answer.
    pub fn left(self) -> Self {
        Word(self.0 & u64::from(u32::MAX) | u64::from(NOBODY) << 32)
    }

    /// The value that a futex on it compares.
    pub fn low(self) -> u32 {
        self.0 as u32
    }

    fn taken_by(self, pid: u32) -> Self {
        let count = ((self.0 as u32 >> 8) + 1) << 8;
        Word(u64::from(pid) << 32 | u64::from(count | state::TAKEN))
    }
}

impl Post {
    /// Its present state.
    pub fn load(&self) -> Word {
        Word(self.word.load(Acquire))
    }

    /// Changes the state from `from` to `to`. Fails if it is not `from`.
    pub fn change(&self, from: Word, to: Word) -> bool {
        self.word.compare_exchange(from.0, to.0, AcqRel, Relaxed).is_ok()
    }

    /// The word on which threads that wait for it sleep.
    pub fn futex(&self) -> &AtomicU32 {
        // SAFETY: the lower half of an atomic number is an atomic number, on machines where the lower half
        // comes first: only the kernel reads it.
        unsafe { &*(&raw const self.word).cast::<AtomicU32>() }
    }
}

/// The whole file.
#[repr(C)]
pub struct File {
    /// The shared page.
    pub shared: Shared,
    /// The spill area.
    pub area: Head,
    buffers: Buffers,
}

/// The area, on pages of its own.
#[repr(C, align(4096))]
pub struct Head(pub Area);

#[repr(C, align(4096))]
struct Buffers([[AtomicU64; BUFFER / 8]; POSTS]);

impl Area {
    /// Its offset in the file.
    pub const OFFSET: usize = core::mem::offset_of!(File, area);
    /// Number of bytes before the first buffer.
    const HEAD: usize = size_of::<Head>();
    /// Size of the file including the area.
    pub const FILE_BYTES: usize = size_of::<File>();

    /// The buffer of request slot `number`, which lies behind the area.
    pub fn buffer(&self, number: usize) -> *mut u8 {
        (self as *const Area as usize + Self::HEAD + number % POSTS * BUFFER) as *mut u8
    }

    /// The largest batch size under a limit.
    pub fn batch_bytes_for(limit: u64) -> usize {
        let wanted = (limit / PART).clamp(SMALLEST_BATCH as u64, BUFFER as u64) as usize;
        1 << wanted.ilog2()
    }

    /// Maximum memory of the buffers, in bytes.
    pub fn memory(&self) -> u64 {
        (Self::HEAD + POSTS * self.batch_bytes.load(Relaxed) as usize) as u64
    }

    /// Counts a fault on a spilled page that took `ns` to serve.
    pub fn note_fault(&self, ns: u64) {
        self.fault_histogram[page::bucket_of(ns)].fetch_add(1, Relaxed);
        self.fault_max_ns.fetch_max(ns, Relaxed);
    }

    /// Frees a request slot in state `from`. `false` if its state has changed.
    pub fn free(&self, number: usize, from: Word) -> bool {
        let is_free = self.posts[number % POSTS].change(from, from.with(state::FREE));
        if is_free {
            self.freed.fetch_add(1, SeqCst);
        }
        is_free
    }

    /// The slots that may be taken for this purpose, in the order in which they are tried: not all slots are
    /// for all purposes.
    fn request_slots_for(what: For) -> impl Iterator<Item = usize> {
        let last = match what {
            For::Put => POSTS - FOR_CONTROL - FOR_GETS,
            For::Get => POSTS - FOR_CONTROL,
            // Requests ahead of need may wait until there is room, which outgoing batches make.
            For::Ahead => POSTS - FOR_CONTROL - FOR_NEED - FOR_PUTS,
            For::Control => POSTS,
        };
        // Purposes with slots of their own begin with those.
        (0..last).map(move |number| match what {
            For::Put => number,
            For::Ahead => FOR_PUTS + last - 1 - number,
            For::Get | For::Control => last - 1 - number,
        })
    }

    /// Whether there is a free one.
    pub fn has_free(&self, what: For) -> bool {
        Self::request_slots_for(what).any(|number| self.posts[number].load().state() == state::FREE)
    }

    /// Takes a free request slot for `pid`.
    pub fn take(&self, pid: u32, what: For) -> Option<(usize, Word)> {
        Self::request_slots_for(what).find_map(|number| {
            let post = &self.posts[number];
            let free = post.load();
            let taken = free.taken_by(pid);
            (free.state() == state::FREE && post.change(free, taken)).then_some((number, taken))
        })
    }
}

#[cfg(target_endian = "big")]
compile_error!("the futex of a post is its first half");

const _: () = assert!(BUFFER.is_multiple_of(4096) && BUFFER <= 1 << 18);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_fit_the_limit() {
        let sizes = [8 << 20, 16 << 20, 40 << 20, 64 << 20, 1 << 40].map(Area::batch_bytes_for);
        assert_eq!(sizes, [64 << 10, 64 << 10, 128 << 10, 256 << 10, 256 << 10]);
    }

    #[test]
    fn some_posts_are_left_for_who_waits() {
        // SAFETY: an area consists of atomic numbers.
        let area: Area = unsafe { core::mem::zeroed() };
        let [puts, gets, controls] =
            [For::Put, For::Get, For::Control].map(|what| core::iter::from_fn(|| area.take(7, what)).count());
        assert_eq!((puts, gets, controls), (10, FOR_GETS, FOR_CONTROL));
    }

    #[test]
    fn requests_ahead_leave_slots_for_others() {
        // SAFETY: as above.
        let area: Area = unsafe { core::mem::zeroed() };
        let [ahead, puts, gets] =
            [For::Ahead, For::Put, For::Get].map(|what| core::iter::from_fn(|| area.take(7, what)).count());
        assert_eq!((ahead, puts, gets), (8, FOR_PUTS, FOR_NEED));
    }
}
