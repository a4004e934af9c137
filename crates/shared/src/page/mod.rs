//! The shared page: how the supervisor and the processes of its tree inform each other.
//!
//! `memfold run` makes it as a memory file and passes its name (`/proc/PID/fd/N`) on in [`ENV_SHARED`]; every
//! process that loads the preload library maps it and takes a [`Slot`].
//!
//! ```text
//! +--------+------------------+-----------+----------+------------------+-----------+
//! | Header | settings, limit  | fault     | messages | Slot 0 .. Slot n | trace buf |
//! |        | pressure (futex) | histogram | (ring)   | one per process  | (report)  |
//! +--------+------------------+-----------+----------+------------------+-----------+
//! ```
//!
//! Invariants:
//! - All fields are atomics; every reader copes with any value, because any process of the tree can write
//!   here. No field is used unchecked as an address or an index.
//! - A slot belongs to the process whose id is in `pid`; only that process writes its gauges, except that the
//!   supervisor writes `resident` while the process has no keeper. The supervisor frees the slot when the
//!   process has ended, after adding the counters to the totals.
//! - The layout never changes under the same [`VERSION`], and magic number and version stay first in every
//!   version: commands of other versions read them.
//!
//! A new gauge of a slot is also reset in `reset_gauges`, and a new counter is also listed in `Counters::each`.
//! The command's `settings/shared_page.rs` writes a new setting.

mod counters;
mod histogram;
mod messages;
mod shown;
mod slot;
mod tree;

use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

use crate::trail::Trail;

pub use counters::Counters;
pub use histogram::{BUCKETS, bucket_of, bucket_start};
pub use messages::{MESSAGE_BYTES, MESSAGES, Message, load_text, store_text};
pub use shown::{Shown, show};
pub use slot::{Slot, call, state};

/// The environment variable that holds the path of the shared page.
pub const ENV_SHARED: &str = "MEMFOLD_SHARED";
/// The prefix of the number of a System V segment in [`ENV_SHARED`], where a memory file is impossible.
pub const SEGMENT: &str = "segment:";
/// "memfold\0" read as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"memfold\0");
/// Version of the layout of [`Shared`], of [`crate::spill::Area`] and of [`crate::door::Door`].
pub const VERSION: u32 = 18;
/// Maximum number of processes of one tree that can be managed at the same time.
pub const SLOTS: usize = 1024;
/// Space for the name of a codec, including its terminator.
pub const CODEC_NAME_BYTES: usize = 64;
/// The lowest limit, in bytes, that leaves the runtime room to work: its own threads, tables, buffers and the
/// reserve of the store.
pub const SMALLEST_LIMIT: u64 = 8 << 20;
/// More than any machine has; sums with it do not overflow.
pub const LARGEST_LIMIT: u64 = 1 << 60;

/// What to do when the data do not compress enough to keep the limit.
pub mod on_full {
    /// Report it and let the process grow.
    pub const GROW: u32 = 0;
    /// Report it and end the process.
    pub const KILL: u32 = 1;
}

/// Bits of [`Shared::flags`].
pub mod flags {
    /// Evict all the time, whatever the limit, so that tests find bugs.
    pub const PARANOID: u32 = 1;
    /// A report is wanted: processes write to the [trace buffer](crate::trail).
    pub const REPORT: u32 = 2;
    /// The store requests memory only when it has none left (to measure the benefit of the reserve).
    pub const NO_RESERVE: u32 = 4;
    /// The supervisor watches processes without a thread of memfold, and can give them one: see `door.rs`.
    pub const OUTSIDE: u32 = 8;
    /// A process of the tree has reported that tasks are scarce.
    pub const TOLD_TASKS: u32 = 16;
    /// A process of the tree may not map the memory that its compressed pages need (`ulimit -v`, `ulimit -d`).
    pub const NO_STORE: u32 = 32;
    /// The supervisor sets the limit by what the machine and the cgroup have free (`--limit auto`).
    pub const FOLLOWS: u32 = 64;
}

/// The whole shared page (several pages of memory).
#[repr(C)]
pub struct Shared {
    /// [`MAGIC`], written last by the supervisor.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Bits of [`flags`].
    pub flags: AtomicU32,
    /// The tree's limit in bytes.
    pub limit_bytes: AtomicU64,
    /// One of [`on_full`].
    pub on_full: AtomicU32,
    /// Process id of the supervisor.
    pub supervisor: AtomicU32,
    /// Incremented, and woken as a futex, when a process finds the tree near its limit.
    pub pressure: AtomicU32,
    /// The store requests its next chunk when the last is this full, in 1/64 (56 is CRAMES's 7/8).
    pub fill_ratio: AtomicU32,
    /// Proactive eviction: the share of time, in millionths, that threads may wait because memory is evicted
    /// although there is room; 0: there is no proactive eviction. See `watch/proactive.rs`.
    pub stall_ppm: AtomicU32,
    /// Memory evicted this way is compressed once it has been untouched for this long, in ms; 0: as soon as
    /// the share allows.
    pub idle_ms: AtomicU32,
    /// Anonymous memory of the supervisor and of unmanaged members, in bytes (supervisor writes).
    pub unmanaged_resident: AtomicU64,
    /// A correction to the sum of all resident gauges: pages shared by fork are counted in each process
    /// (supervisor writes).
    pub resident_correction: AtomicI64,
    /// Bytes to add to the sum until the next correction: copies of shared pages that threads were allowed to
    /// make, which make no process larger, and pages that one process has freed while others have them. It
    /// only grows; `copied_seen` is its value at the last correction.
    pub copied: AtomicU64,
    /// See `copied`.
    pub copied_seen: AtomicU64,
    /// The correction may subtract too little by at most this much, in bytes (supervisor writes).
    pub doubt: AtomicU64,
    /// Number of processes that share pages since a fork; 0: unknown (supervisor writes).
    pub sharers: AtomicU64,
    /// Pages that one process has freed while others have them, in bytes; only grows.
    pub unshared: AtomicU64,
    /// Slots from this number on were never used.
    pub used_slots: AtomicU32,
    /// The tree is near its limit: for a process that is just starting (supervisor writes).
    pub near: AtomicU32,
    /// Room left below the limit at the supervisor's last look, in bytes (supervisor writes).
    pub room: AtomicU64,
    /// When the supervisor last looked at the processes that it watches from outside, ns of the monotonic
    /// clock.
    pub looked_ns: AtomicU64,
    /// How many times it has looked.
    pub looks: AtomicU32,
    /// Bytes that processes without a keeper have allocated near the limit since the supervisor's last look
    /// began: together they use up the remaining room.
    pub got: AtomicU64,
    /// Memory that ended processes held, in bytes; only grows (supervisor writes).
    pub freed: AtomicU64,
    /// How much of it was freed within the last 500 ms: see `turns.rs` (supervisor writes).
    pub freed_lately: AtomicU64,
    /// Memory of processes that shared some of it with others when they ended or executed another program, in
    /// bytes; only grows. The others still have what was shared.
    pub left: AtomicU64,
    /// The part of `left` that `resident_correction` takes into account (supervisor writes).
    pub left_seen: AtomicU64,
    /// How scarce tasks are in the tree (`pids.max`, `ulimit -u`): 0 if they are not, otherwise a level of
    /// `near::worth_threads`. Raised when a process or thread could not be started.
    pub tasks_wanted: AtomicU32,
    /// While the limit is exceeded: what each process keeps resident in any case, in bytes. 0: the usual
    /// (supervisor writes). See [`Shared::floor`].
    pub low_floor: AtomicU64,
    /// Bytes that forked processes count although they may be shared, because their shared pages were not
    /// measured yet (supervisor writes).
    pub unmeasured: AtomicU64,
    /// Name of the fast codec, zero-terminated.
    pub codec_fast: [AtomicU8; CODEC_NAME_BYTES],
    /// Name of the dense codec, zero-terminated; empty means none.
    pub codec_dense: [AtomicU8; CODEC_NAME_BYTES],
    /// Which instructions codecs use: a `memfold_codec::cpu::Path` as a number, 0 for the fastest available.
    pub cpu_path: AtomicU64,
    /// The amount of memory that programs are shown: one of [`show`], or a number of bytes.
    pub shown_bytes: AtomicU64,
    /// Number of seccomp filters of the supervisor. It has tried all calls of the runtime under them: see
    /// `filters.rs`.
    pub proven_filters: AtomicU32,
    /// Peak of the tree's sum of resident bytes, as seen by the processes.
    pub peak_resident: AtomicU64,
    /// Peak of the tree's logical bytes.
    pub peak_logical: AtomicU64,
    /// Peak of the tree's payload bytes.
    pub peak_payload: AtomicU64,
    /// Peak of the tree's overhead bytes.
    pub peak_overhead: AtomicU64,
    /// Peak over time of evicted bytes; with `payload_at_peak` it gives the compression ratio.
    pub peak_evicted: AtomicU64,
    /// Payload bytes at the time of `peak_evicted`.
    pub payload_at_peak: AtomicU64,
    /// Number of processes that have ever taken a slot.
    pub processes: AtomicU64,
    /// Counters of processes whose slots were freed.
    pub ended: Counters,
    /// Service time of faults: see [`bucket_of`].
    pub fault_histogram: [AtomicU64; BUCKETS],
    /// Longest service time of a fault, in ns.
    pub fault_max_ns: AtomicU64,
    /// Messages written so far; message `n` is at `n % MESSAGES`.
    pub message_head: AtomicU32,
    /// The ring of messages.
    pub messages: [Message; MESSAGES],
    /// One slot for each process.
    pub slots: [Slot; SLOTS],
    /// See [`Shared::trail`].
    trail: Trail,
}

impl Shared {
    /// Number of bytes to map.
    pub const BYTES: usize = core::mem::size_of::<Self>();

    /// Whether this is a page of this version that a supervisor has made.
    pub fn is_valid(&self) -> bool {
        self.magic.load(Acquire) == MAGIC && self.version.load(Relaxed) == VERSION
    }

    /// The trace buffer, if a report is wanted.
    pub fn trail(&self) -> Option<&Trail> {
        (self.flags.load(Relaxed) & flags::REPORT != 0).then_some(&self.trail)
    }

    /// Maximum memory of the page, in bytes: an unused trace buffer is never touched.
    pub fn memory(&self) -> u64 {
        let unused = if self.trail().is_none() { core::mem::size_of::<Trail>() } else { 0 };
        (Self::BYTES - unused) as u64
    }
}
