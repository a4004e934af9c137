//! The spill area: how processes of a tree hand batches to the supervisor, and get parts of them back.
//!
//! It follows the [shared page](crate::page) in the same file, if `memfold run` was given `--spill`.
//!
//! ```text
//! +-------------------------+---------------+---------------------------------------------+
//! | Area                    | Post 0 .. 17  | buffer 0 | buffer 1 | ..                    |
//! | key, doorbells, numbers |               | 256 KiB each, of which a batch may be less  |
//! +-------------------------+---------------+---------------------------------------------+
//!
//! a post      FREE ──> TAKEN ──> ASKED ──> BUSY ──> ANSWERED ──> FREE
//!                 \── by a process ──/  \─ by the server ─/   \─ by the process, or the server for who is gone or stopped
//! ```
//!
//! What is asked without a buffer is answered by making the post free. An answer that is not taken for some seconds is taken away: a process that is stopped, or
//! in a debugger, must not keep posts from others. Who finds his answer gone asks again. So an answer counts only for who makes its post free himself.
//!
//! Who asks rings a doorbell, that of the CPU he is on: the server's thread of this doorbell is bound to that CPU, and to wake a thread elsewhere, on
//! a CPU that sleeps, would take longer than some tiers do. If nobody sleeps there, he rings the next. Who serves wakes the post. All are futexes.
//!
//! Invariants, as for the shared page: all fields are atomics, every reader copes with any value, and nothing in it is used unchecked as
//! an address or an index. What stands in a buffer is sealed: what others of the tree scribble there does not open.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::page::{self, Shared};

/// Posts, and buffers.
pub const POSTS: usize = 18;
/// Of these, so many are never taken for batches on their way out: who waits for memory goes first.
pub const FOR_GETS: usize = 6;
/// Of those, so many are not taken to ask ahead of need: processes that are stopped keep what they have for some seconds.
pub const FOR_NEED: usize = 4;
/// Nor are so many of those that batches on their way out may take.
pub const FOR_PUTS: usize = 4;
/// And so many are for forks and new programs alone: these need no tier, and must not wait for one.
pub const FOR_CONTROL: usize = 2;

/// What a post is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// What nobody waits for.
    Put,
    /// A page that is waited for.
    Get,
    /// The same, before anybody is there who could take the answer.
    Ahead,
    /// A fork, or a new program.
    Control,
}
/// Bytes of a buffer, and of the largest batch.
pub const BUFFER: usize = 256 << 10;
/// The smallest batch.
pub const SMALLEST_BATCH: usize = 64 << 10;
/// A batch is so small a part of the limit, as far as it may be.
const PART: u64 = 256;

/// Doorbells at most.
pub const BELLS: usize = 8;

/// No place in a file that processes may read.
pub const NOWHERE: u32 = u32::MAX;

/// Stands for a process that has become another program, and waits for no answer.
pub const NOBODY: u32 = u32::MAX;

/// Numbers from here on are no process's: that of a child which knows itself, and is known to the supervisor, by different ones.
pub const FOREIGN: u32 = 1 << 31;

/// State of a [`Post`].
pub mod state {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// A process fills it.
    pub const TAKEN: u32 = 1;
    /// It is to be served.
    pub const ASKED: u32 = 2;
    /// It is served.
    pub const BUSY: u32 = 3;
    /// It was served.
    pub const ANSWERED: u32 = 4;
}

/// What is asked.
pub mod kind {
    /// Keep the first `len` bytes of the buffer as `batch`; the process holds it then. The answer's `from` is the unit of the file where it lies, or [`NOWHERE`](super::NOWHERE).
    pub const PUT: u32 = 1;
    /// Fill the first `len` bytes of the buffer with what stands at `from` in `batch`.
    pub const GET: u32 = 2;
    /// The process holds the `len / 8` batches no more whose numbers stand in the buffer. Answered by making the post free.
    pub const RELEASE: u32 = 3;
    /// A child will be forked, `batch` is its number among the forks: keep for it all that the process holds. Answered as a release is.
    pub const FORK: u32 = 4;
    /// The process is that child: `from` is its parent. Answered so, too.
    pub const CLAIM: u32 = 5;
    /// A program begins in this process: it holds nothing. Answered so, too.
    pub const BEGIN: u32 = 6;
    /// As [`GET`], for something that nobody waits for: tried once.
    pub const TRY: u32 = 7;
    /// The process is there, and may hold something one day. Nobody waits for that.
    pub const HERE: u32 = 8;
    /// What was set aside for the child of fork `batch` is not needed any more. Answered as a release is.
    pub const FORGO: u32 = 9;
}

/// How it ended.
pub mod answer {
    /// It was done.
    pub const DONE: u32 = 1;
    /// Not now: the tier is full or away. Nothing is lost.
    pub const LATER: u32 = 2;
    /// The tier did not answer for as long as it was to be waited for.
    pub const AWAY: u32 = 3;
    /// The tier does not have it any more.
    pub const LOST: u32 = 4;
}

/// Whether the tier takes batches.
pub mod open {
    /// It does not, and may never again: it is full, unfit, or nobody serves it.
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

/// What all share.
#[repr(C, align(64))]
pub struct Area {
    /// Counted up, and woken, with a question.
    pub doorbells: [AtomicU32; BELLS],
    /// How many of them there is a thread for.
    pub bells: AtomicU32,
    /// Counted up, and woken, when a post becomes free.
    pub freed: AtomicU32,
    /// How many wait for that; more if one of them was killed.
    pub waiting: AtomicU32,
    /// Whether batches are taken: one of [`open`].
    pub is_open: AtomicU32,
    /// One of [`scarce`].
    pub scarce: AtomicU32,
    /// Process id of who serves.
    pub server: AtomicU32,
    /// The PID namespace of who serves, by the inode of its file; 0 if that is not known.
    pub namespace: AtomicU64,
    /// The next batch's number.
    pub next_batch: AtomicU64,
    /// One of [`seal`].
    pub seal: AtomicU32,
    /// The most bytes of a batch.
    pub batch_bytes: AtomicU32,
    /// So long a page is waited for, ns.
    pub patience_ns: AtomicU64,
    /// For this run alone.
    pub key: [AtomicU64; 4],
    /// The server's descriptor of the file that the tier is, if processes may read it themselves; or 0. See [`super::direct`].
    pub file: AtomicU32,
    /// That file's number, and its device.
    pub file_id: [AtomicU64; 2],
    /// What they have read there: how often, and bytes.
    pub direct_reads: AtomicU64,
    /// See `direct_reads`.
    pub direct_bytes: AtomicU64,
    /// How long faults took whose page was spilled: see [`page::bucket_of`].
    pub fault_histogram: [AtomicU64; page::BUCKETS],
    /// The longest, ns.
    pub fault_max_ns: AtomicU64,
    /// The questions.
    pub posts: [Post; POSTS],
}

/// One question.
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
    /// Since when the answer is waited for, ns of the system's monotonic clock.
    pub since: AtomicU64,
    /// See [`kind`].
    pub from: AtomicU32,
    /// See [`kind`].
    pub len: AtomicU32,
}

/// How a post is: changed as a whole, so that nobody frees what is another's by now.
///
/// ```text
/// 63 .. 32 process   31 .. 8 how often it was taken   7 .. 0 state        the lower half is the futex
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// Of no post that was ever taken.
    pub const NONE: Word = Word(0);

    /// One of [`state`].
    pub fn state(self) -> u32 {
        self.0 as u32 & 0xff
    }

    /// Who has taken it.
    pub fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The same in another state.
    pub fn with(self, state: u32) -> Self {
        Word(self.0 & !0xff | u64::from(state))
    }

    /// The same, and nobody waits for it.
    pub fn left(self) -> Self {
        Word(self.0 & u64::from(u32::MAX) | u64::from(NOBODY) << 32)
    }

    /// What a futex on it should hold.
    pub fn low(self) -> u32 {
        self.0 as u32
    }

    fn taken_by(self, pid: u32) -> Self {
        let count = ((self.0 as u32 >> 8) + 1) << 8;
        Word(u64::from(pid) << 32 | u64::from(count | state::TAKEN))
    }
}

impl Post {
    /// How it is.
    pub fn load(&self) -> Word {
        Word(self.word.load(Acquire))
    }

    /// Changes it, if it is `from`.
    pub fn change(&self, from: Word, to: Word) -> bool {
        self.word.compare_exchange(from.0, to.0, AcqRel, Relaxed).is_ok()
    }

    /// What who waits for it sleeps on.
    pub fn futex(&self) -> &AtomicU32 {
        // SAFETY: the lower half of an atomic number, on machines where that comes first, is one: the kernel looks at it alone.
        unsafe { &*(&raw const self.word).cast::<AtomicU32>() }
    }
}

/// The whole file.
#[repr(C)]
pub struct File {
    /// The shared page.
    pub shared: Shared,
    /// The area.
    pub area: Head,
    buffers: Buffers,
}

/// On pages of its own.
#[repr(C, align(4096))]
pub struct Head(pub Area);

#[repr(C, align(4096))]
struct Buffers([[AtomicU64; BUFFER / 8]; POSTS]);

impl Area {
    /// Where it begins in the file.
    pub const OFFSET: usize = core::mem::offset_of!(File, area);
    /// Bytes before the first buffer.
    const HEAD: usize = size_of::<Head>();
    /// Bytes of the file with it.
    pub const FILE_BYTES: usize = size_of::<File>();

    /// The buffer of post `number`, which lies behind the area.
    pub fn buffer(&self, number: usize) -> *mut u8 {
        (self as *const Area as usize + Self::HEAD + number % POSTS * BUFFER) as *mut u8
    }

    /// The largest batch under a limit.
    pub fn batch_bytes_for(limit: u64) -> usize {
        let wanted = (limit / PART).clamp(SMALLEST_BATCH as u64, BUFFER as u64) as usize;
        1 << wanted.ilog2()
    }

    /// Memory that buffers take at most, in bytes.
    pub fn memory(&self) -> u64 {
        (Self::HEAD + POSTS * self.batch_bytes.load(Relaxed) as usize) as u64
    }

    /// Counts a fault on a spilled page that took `ns` to serve.
    pub fn note_fault(&self, ns: u64) {
        self.fault_histogram[page::bucket_of(ns)].fetch_add(1, Relaxed);
        self.fault_max_ns.fetch_max(ns, Relaxed);
    }

    /// Makes a post free that is so. `false` if it is not any more.
    pub fn free(&self, number: usize, from: Word) -> bool {
        let is_free = self.posts[number % POSTS].change(from, from.with(state::FREE));
        if is_free {
            self.freed.fetch_add(1, SeqCst);
        }
        is_free
    }

    /// Posts that may be taken for that, in the order in which they are: not all are for all.
    fn posts_for(what: For) -> impl Iterator<Item = usize> {
        let last = match what {
            For::Put => POSTS - FOR_CONTROL - FOR_GETS,
            For::Get => POSTS - FOR_CONTROL,
            // What is asked for ahead may wait until there is room, which batches on their way out make.
            For::Ahead => POSTS - FOR_CONTROL - FOR_NEED - FOR_PUTS,
            For::Control => POSTS,
        };
        // Those that have some for themselves begin with these.
        (0..last).map(move |number| match what {
            For::Put => number,
            For::Ahead => FOR_PUTS + last - 1 - number,
            For::Get | For::Control => last - 1 - number,
        })
    }

    /// Whether there is one.
    pub fn has_free(&self, what: For) -> bool {
        Self::posts_for(what).any(|number| self.posts[number].load().state() == state::FREE)
    }

    /// Takes a free post for `pid`.
    pub fn take(&self, pid: u32, what: For) -> Option<(usize, Word)> {
        Self::posts_for(what).find_map(|number| {
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
        // SAFETY: an area is made of atomic numbers.
        let area: Area = unsafe { core::mem::zeroed() };
        let [puts, gets, controls] =
            [For::Put, For::Get, For::Control].map(|what| core::iter::from_fn(|| area.take(7, what)).count());
        assert_eq!((puts, gets, controls), (10, FOR_GETS, FOR_CONTROL));
    }

    #[test]
    fn who_asks_ahead_leaves_some_for_others() {
        // SAFETY: as above.
        let area: Area = unsafe { core::mem::zeroed() };
        let [ahead, puts, gets] =
            [For::Ahead, For::Put, For::Get].map(|what| core::iter::from_fn(|| area.take(7, what)).count());
        assert_eq!((ahead, puts, gets), (8, FOR_PUTS, FOR_NEED));
    }
}
