//! The shared counters page: what the supervisor and the processes of its
//! tree tell each other.
//!
//! `memfold run` makes it as a memory file and hands its name
//! (`/proc/PID/fd/N`) down in [`ENV_SHARED`]; every process that loads the
//! preload library maps it and takes a [`Slot`].
//!
//! ```text
//! +--------+------------------+-----------+----------+------------------+-----------+
//! | Header | settings, limit  | fault     | messages | Slot 0 .. Slot n | trail     |
//! |        | pressure (futex) | histogram | (ring)   | one per process  | (report)  |
//! +--------+------------------+-----------+----------+------------------+-----------+
//! ```
//!
//! Invariants:
//! - all fields are atomics; every reader copes with any value, because any
//!   process of the tree can write here. Nothing in it is an address or an
//!   index that is used unchecked.
//! - a slot belongs to the process whose id is in `pid`; only that process
//!   writes its gauges, except that the supervisor writes `resident` as long as the process has no keeper.
//!   The supervisor frees the slot when the process has ended, after it has added the counters to the totals.
//! - the layout never changes under the same [`VERSION`].

use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

use crate::near;
use crate::trail::Trail;

/// Name of the environment variable that holds the path of the shared page.
pub const ENV_SHARED: &str = "MEMFOLD_SHARED";
/// What stands in [`ENV_SHARED`] before the number of a System V segment, where there can be no memory file.
pub const SEGMENT: &str = "segment:";
/// "memfold\0" read as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"memfold\0");
/// Version of the layout of [`Shared`], and of [`crate::door::Door`].
pub const VERSION: u32 = 13;
/// Processes of one tree that can be managed at the same time.
pub const SLOTS: usize = 1024;
/// Messages that processes can leave for the supervisor before one is lost.
pub const MESSAGES: usize = 16;
/// Bytes of one message.
pub const MESSAGE_BYTES: usize = 240;
/// Room for the name of a codec, its end included.
pub const CODEC_NAME_BYTES: usize = 64;
/// The least limit, in bytes, that leaves the runtime room to work: its own
/// threads, tables, buffers and the reserve of the store.
pub const SMALLEST_LIMIT: u64 = 8 << 20;
/// More than any machine has; sums with it do not overflow.
pub const LARGEST_LIMIT: u64 = 1 << 60;
/// Shared pages are write-protected when copies of them would leave less room than this, bytes.
const COPIES_ROOM: u64 = 24 << 20;
/// Buckets of the fault histogram; see [`bucket_of`].
pub const BUCKETS: usize = 40 * SUB;
const SUB: usize = 16;

/// What to do when the data does not compress enough to hold the limit.
pub mod on_full {
    /// Say so and let the process grow.
    pub const GROW: u32 = 0;
    /// Say so and end the process.
    pub const KILL: u32 = 1;
}

/// Bits of [`Shared::flags`].
pub mod flags {
    /// Evict all the time, whatever the limit: finds faults in tests.
    pub const PARANOID: u32 = 1;
    /// A report is wanted: processes leave a [trail](crate::trail).
    pub const REPORT: u32 = 2;
    /// The store asks for memory when it has none left, not before (to measure what the reserve is good for).
    pub const NO_RESERVE: u32 = 4;
    /// The supervisor watches processes that have no thread of memfold, and can give them one: see `door.rs`.
    pub const OUTSIDE: u32 = 8;
    /// Some process of the tree has said that tasks are scarce.
    pub const TOLD_TASKS: u32 = 16;
}

/// What the supervisor tells a process that it watches from outside: [`Slot::call`].
pub mod call {
    /// The tree is far from its limit, or the process is too small to matter.
    pub const FAR: u32 = 0;
    /// The tree is near its limit: whoever gets memory that would make the process large enough to matter
    /// starts its keeper.
    pub const NEAR: u32 = 1;
    /// Whoever calls any function of the library starts it.
    pub const NOW: u32 = 2;
}

/// State of a slot's process.
pub mod state {
    /// Nothing is evicted; nothing is registered.
    pub const WATCHING: u32 = 1;
    /// Handlers run; blocks are evicted.
    pub const PAGING: u32 = 2;
    /// The runtime has stopped for good in this process; everything is resident.
    pub const STOPPED: u32 = 3;
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
    /// Counted up, and woken as a futex, when a process sees the tree come near its limit.
    pub pressure: AtomicU32,
    /// The store asks for its next chunk when the last is this full, in 1/64 (56 is CRAMES's 7/8).
    pub fill_ratio: AtomicU32,
    /// Memory is taken away although there is room, as long as a thread waits no more than this share of time, of a
    /// million; 0: it is not. See `watch/proactive.rs`.
    pub stall_ppm: AtomicU32,
    /// What is taken so is compressed after so long untouched, ms; 0: as soon as the share allows.
    pub idle_ms: AtomicU32,
    /// Anonymous memory of the supervisor and of members that are not managed, in bytes (supervisor writes).
    pub unmanaged_resident: AtomicU64,
    /// To be added to the sum of all resident gauges: pages shared by fork are counted in each process (supervisor writes).
    pub resident_correction: AtomicI64,
    /// What has become of pages that were shared after forks and the correction does not know yet, bytes: copies that
    /// threads were let make, by which no process becomes larger, and what one process has given back and others
    /// have. Counts up; `copied_seen` is where it stood at the last correction.
    pub copied: AtomicU64,
    /// See `copied`.
    pub copied_seen: AtomicU64,
    /// The correction may take off too little by so much at most, bytes (supervisor writes).
    pub doubt: AtomicU64,
    /// How many processes share what is shared since a fork; 0: that is not known (supervisor writes).
    pub sharers: AtomicU64,
    /// What one process has given back and others have, bytes; counts up.
    pub unshared: AtomicU64,
    /// Slots from this number on were never used.
    pub used_slots: AtomicU32,
    /// The tree is near its limit, for a process that is just beginning (supervisor writes).
    pub near: AtomicU32,
    /// What was left of the limit at that look, bytes (supervisor writes).
    pub room: AtomicU64,
    /// When it last looked at the processes that it watches from outside, ns of the monotonic clock.
    pub looked_ns: AtomicU64,
    /// How often it has done so.
    pub looks: AtomicU32,
    /// Bytes that processes without a keeper have allocated since that look began, near the limit: together
    /// they use up the room that was left.
    pub got: AtomicU64,
    /// Memory that ended processes held, bytes; counts up (supervisor writes).
    pub freed: AtomicU64,
    /// How much of it was freed within the last 500 ms: see `turns.rs` (supervisor writes).
    pub freed_lately: AtomicU64,
    /// How scarce tasks are in the tree (`pids.max`, `ulimit -u`): 0 if they are not, else a level of
    /// `near::worth_threads`. Raised where a process or thread could not be started.
    pub tasks_wanted: AtomicU32,
    /// Forked processes whose shared pages were not measured yet count them too: bytes (supervisor writes).
    pub unmeasured: AtomicU64,
    /// Name of the fast codec, zero-terminated.
    pub codec_fast: [AtomicU8; CODEC_NAME_BYTES],
    /// Name of the dense codec, zero-terminated; empty means none.
    pub codec_dense: [AtomicU8; CODEC_NAME_BYTES],
    /// Which instructions codecs use: a `memfold_codec::cpu::Path` as a number, 0 for the fastest there are.
    pub cpu_path: AtomicU64,
    /// Seccomp filters of the supervisor, under which it has tried all that the runtime does: see `filters.rs`.
    pub proven_filters: AtomicU32,
    /// Peak of the tree's sum of resident bytes, as the processes saw it.
    pub peak_resident: AtomicU64,
    /// Peak of the tree's logical bytes.
    pub peak_logical: AtomicU64,
    /// Peak of the tree's payload bytes.
    pub peak_payload: AtomicU64,
    /// Peak of the tree's overhead bytes.
    pub peak_overhead: AtomicU64,
    /// Peak over time of evicted bytes, and `payload_at_peak` at that time: gives the compression ratio.
    pub peak_evicted: AtomicU64,
    /// Payload bytes at the time of `peak_evicted`.
    pub payload_at_peak: AtomicU64,
    /// Processes that have ever taken a slot.
    pub processes: AtomicU64,
    /// Counters of processes whose slots were freed.
    pub ended: Counters,
    /// Service time of faults: see [`bucket_of`].
    pub fault_histogram: [AtomicU64; BUCKETS],
    /// Longest service time of a fault, ns.
    pub fault_max_ns: AtomicU64,
    /// Messages written so far; message `n` is at `n % MESSAGES`.
    pub message_head: AtomicU32,
    /// The ring of messages.
    pub messages: [Message; MESSAGES],
    /// One slot a process.
    pub slots: [Slot; SLOTS],
    /// See [`Shared::trail`].
    trail: Trail,
}

/// Counters that only grow.
#[repr(C)]
pub struct Counters {
    /// Pages compressed on eviction.
    pub pages_compressed: AtomicU64,
    /// Of those, pages of one repeated word.
    pub pages_same_filled: AtomicU64,
    /// Pages recompressed by the dense codec.
    pub pages_densified: AtomicU64,
    /// Faults on pages that were compressed.
    pub pages_faulted: AtomicU64,
    /// Pages brought back before they were asked for.
    pub pages_prefetched: AtomicU64,
    /// Pages that came back from standby.
    pub pages_rescued: AtomicU64,
    /// Pages that were given back without being compressed: see `clean.rs`.
    pub pages_clean: AtomicU64,
    /// Blocks taken away.
    pub blocks_evicted: AtomicU64,
    /// CPU time of the runtime's own threads, ns.
    pub runtime_cpu_ns: AtomicU64,
    /// Time that the program's threads waited for room, ns.
    pub throttled_ns: AtomicU64,
    /// Looks of the keeper that found the limit passed and nothing left to be taken away.
    pub full_looks: AtomicU64,
    /// Time in which at least one thread of the program waited, for a page or for room, ns: see `stall.rs`.
    pub stalled_ns: AtomicU64,
    /// Time that faults on compressed pages took, ns, one after the other.
    pub fault_ns: AtomicU64,
    /// Pages that went to a tier beyond this machine's memory.
    pub pages_spilled: AtomicU64,
    /// Pages that came back from there.
    pub pages_fetched: AtomicU64,
    /// Pages that were left where they are because no codec makes them smaller; again each time that it was
    /// tried anew.
    pub pages_incompressible: AtomicU64,
}

/// One process.
#[repr(C, align(64))]
pub struct Slot {
    /// Process id; 0 is a free slot.
    pub pid: AtomicU32,
    /// One of [`state`]; 0 while starting.
    pub state: AtomicU32,
    /// Which program image took the slot: the address of `argc` on the first stack, which is `argv - 8` and
    /// field 28 of `/proc/PID/stat`. An exec changes it, so the supervisor sees when a process has gone on
    /// as a program that does not load the library. 0 is unknown.
    pub image: AtomicU64,
    /// Seccomp filters of the process that do the runtime no harm: see `filters.rs`. It keeps that when it
    /// becomes another program.
    pub filters: AtomicU32,
    /// Private anonymous memory, everything of memfold's own in it included, bytes.
    pub resident: AtomicU64,
    /// Uncompressed size of what the store holds, bytes.
    pub evicted: AtomicU64,
    /// Compressed bytes in the store.
    pub payload: AtomicU64,
    /// What the store has committed beside that, bytes: headers, rounding, holes, its reserve and its tables.
    pub overhead: AtomicU64,
    /// Of `resident`: pages on standby, bytes.
    pub standby: AtomicU64,
    /// Uncompressed size of what was spilled, bytes.
    pub spilled: AtomicU64,
    /// One of [`call`] (supervisor writes).
    pub call: AtomicU32,
    /// 1 once the process has a keeper, which watches it from inside.
    pub keeper: AtomicU32,
    /// Where in the process the supervisor can make a thread start the keeper: see `door.rs`. 0: nowhere.
    pub door: AtomicU64,
    /// Threads of memfold in it, as the keeper last said.
    pub tasks: AtomicU32,
    /// When the process took the slot, ns of the monotonic clock.
    pub since_ns: AtomicU64,
    /// What its parent had resident when it was forked: so much of its own may be shared with it, bytes.
    pub inherited: AtomicU64,
    /// Counters that only grow.
    pub counters: Counters,
}

/// A line for the supervisor's standard error.
#[repr(C)]
pub struct Message {
    /// 1 + the message's number once it is complete.
    pub seq: AtomicU32,
    /// Process id of the writer.
    pub pid: AtomicU32,
    /// UTF-8, zero-terminated.
    pub text: [AtomicU8; MESSAGE_BYTES],
}

impl Shared {
    /// Bytes to map.
    pub const BYTES: usize = core::mem::size_of::<Self>();

    /// Whether this is a page of this version, made by a supervisor.
    pub fn is_valid(&self) -> bool {
        self.magic.load(Acquire) == MAGIC && self.version.load(Relaxed) == VERSION
    }

    /// What processes leave for a report, if one is wanted.
    pub fn trail(&self) -> Option<&Trail> {
        (self.flags.load(Relaxed) & flags::REPORT != 0).then_some(&self.trail)
    }

    /// Memory that the page takes at most, in bytes: a trail that nobody wants is never touched.
    pub fn memory(&self) -> u64 {
        let unused = if self.trail().is_none() { core::mem::size_of::<Trail>() } else { 0 };
        (Self::BYTES - unused) as u64
    }

    /// Everything the tree has resident now, as the processes last said, in bytes.
    pub fn tree_resident(&self) -> u64 {
        let most = self.tree_resident_unshared();
        let copied = self.copied.load(Relaxed).saturating_sub(self.copied_seen.load(Relaxed));
        let corrected = most.saturating_add_signed(self.resident_correction.load(Relaxed));
        // Not every copy that was let be made is made.
        corrected.saturating_add(copied).min(corrected.max(most))
    }

    /// The least that it can be: `tree_resident` takes pages for copied that may still be shared.
    pub fn tree_resident_certain(&self) -> u64 {
        let copied = self.copied.load(Relaxed).saturating_sub(self.copied_seen.load(Relaxed));
        self.tree_resident().saturating_sub(self.doubt.load(Relaxed) + copied)
    }

    /// The same, where forked processes whose pages were not measured yet count no page of their parents'.
    pub fn tree_resident_least(&self) -> u64 {
        self.tree_resident_certain().saturating_sub(self.unmeasured.load(Relaxed))
    }

    /// What it would be if no page were shared any more, in bytes.
    pub fn tree_resident_unshared(&self) -> u64 {
        let managed: u64 = self.live_slots().map(|s| s.resident.load(Relaxed)).sum();
        managed + self.unmanaged_resident.load(Relaxed)
    }

    /// Whether the limit could be exceeded by writes to memory that processes share since a fork. The kernel
    /// copies such pages without telling anybody.
    pub fn copies_could_pass(&self) -> bool {
        self.tree_resident_unshared() + COPIES_ROOM > self.limit_bytes.load(Relaxed).min(LARGEST_LIMIT)
    }

    /// Processes that have more than this much resident, bytes.
    pub fn larger_than(&self, bytes: u64) -> usize {
        self.live_slots().filter(|slot| slot.resident.load(Relaxed) > bytes).count()
    }

    /// The slots that belong to a process.
    pub fn live_slots(&self) -> impl Iterator<Item = &Slot> {
        self.used().iter().filter(|s| s.pid.load(Acquire) != 0)
    }

    /// Bytes that a process without threads of memfold must have to get some, for whoever watches it.
    pub fn least_managed(&self) -> u64 {
        near::least_managed(self.limit_bytes.load(Relaxed), self.tasks_wanted.load(Relaxed))
    }

    /// The slots that were ever used: the first ones.
    pub fn used(&self) -> &[Slot] {
        &self.slots[..(self.used_slots.load(Acquire) as usize).min(SLOTS)]
    }

    /// Takes a slot for `pid`: the one it has from before an exec, or a free one.
    pub fn take_slot(&self, pid: u32) -> Option<&Slot> {
        if let Some(own) = self.used().iter().find(|s| s.pid.load(Acquire) == pid) {
            own.reset_gauges();
            return Some(own);
        }
        let is_free = |slot: &Slot| slot.pid.load(Relaxed) == 0;
        let take = |slot: &Slot| is_free(slot) && slot.pid.compare_exchange(0, pid, AcqRel, Relaxed).is_ok();
        let number = self.slots.iter().position(take)?;
        self.used_slots.fetch_max(number as u32 + 1, AcqRel);
        let free = &self.slots[number];
        free.reset_gauges();
        self.processes.fetch_add(1, Relaxed);
        Some(free)
    }

    /// Adds the counters of an ended process to the totals and frees its slot.
    pub fn free_slot(&self, slot: &Slot) {
        slot.counters.drain_into(&self.ended);
        self.note_freed(slot);
        slot.reset_gauges();
        slot.filters.store(0, Relaxed);
        slot.pid.store(0, Release);
    }

    /// Counts the memory of a process that has ended as free.
    pub fn note_freed(&self, slot: &Slot) {
        self.freed.fetch_add(slot.resident.swap(0, Relaxed), Relaxed);
    }

    /// Raises the peaks to what the slots say now.
    pub fn note_peaks(&self) {
        let (mut evicted, mut payload, mut overhead, mut spilled) = (0u64, 0u64, 0u64, 0u64);
        for slot in self.live_slots() {
            spilled += slot.spilled.load(Relaxed);
            evicted += slot.evicted.load(Relaxed);
            payload += slot.payload.load(Relaxed);
            overhead += slot.overhead.load(Relaxed);
        }
        let resident = self.tree_resident();
        self.peak_resident.fetch_max(resident, Relaxed);
        self.peak_payload.fetch_max(payload, Relaxed);
        self.peak_overhead.fetch_max(overhead, Relaxed);
        self.peak_logical.fetch_max(resident.saturating_sub(payload + overhead) + evicted + spilled, Relaxed);
        if self.peak_evicted.fetch_max(evicted, Relaxed) < evicted {
            self.payload_at_peak.store(payload, Relaxed);
        }
    }

    /// Counts a fault that took `ns` to serve.
    pub fn note_fault(&self, ns: u64) {
        self.fault_histogram[bucket_of(ns)].fetch_add(1, Relaxed);
        if self.fault_max_ns.load(Relaxed) < ns {
            self.fault_max_ns.fetch_max(ns, Relaxed);
        }
    }

    /// Leaves a line for the supervisor to print.
    pub fn say(&self, pid: u32, text: &str) {
        let number = self.message_head.fetch_add(1, AcqRel);
        let message = &self.messages[number as usize % MESSAGES];
        message.seq.store(0, Release);
        message.pid.store(pid, Relaxed);
        store_text(&message.text, text);
        message.seq.store(number.wrapping_add(1), Release);
    }
}

impl Slot {
    fn reset_gauges(&self) {
        self.state.store(0, Relaxed);
        self.image.store(0, Relaxed);
        self.door.store(0, Relaxed);
        self.keeper.store(0, Relaxed);
        self.tasks.store(0, Relaxed);
        self.call.store(call::FAR, Relaxed);
        self.inherited.store(0, Relaxed);
        for gauge in
            [&self.resident, &self.evicted, &self.payload, &self.overhead, &self.standby, &self.spilled]
        {
            gauge.store(0, Relaxed);
        }
    }
}

impl Counters {
    /// Names and values, for statistics.
    pub fn each(&self) -> [(&'static str, &AtomicU64); 16] {
        [
            ("pages_compressed", &self.pages_compressed),
            ("pages_same_filled", &self.pages_same_filled),
            ("pages_densified", &self.pages_densified),
            ("pages_faulted", &self.pages_faulted),
            ("pages_prefetched", &self.pages_prefetched),
            ("pages_rescued", &self.pages_rescued),
            ("pages_clean", &self.pages_clean),
            ("blocks_evicted", &self.blocks_evicted),
            ("runtime_cpu_ns", &self.runtime_cpu_ns),
            ("throttled_ns", &self.throttled_ns),
            ("full_looks", &self.full_looks),
            ("stalled_ns", &self.stalled_ns),
            ("fault_ns", &self.fault_ns),
            ("pages_spilled", &self.pages_spilled),
            ("pages_fetched", &self.pages_fetched),
            ("pages_incompressible", &self.pages_incompressible),
        ]
    }

    fn drain_into(&self, total: &Counters) {
        for ((_, from), (_, to)) in self.each().into_iter().zip(total.each()) {
            to.fetch_add(from.swap(0, Relaxed), Relaxed);
        }
    }
}

/// Bucket of a time in ns: 16 linear steps in each power of two, so that a
/// bucket's bounds differ by at most 1/16.
pub fn bucket_of(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let log = 63 - ns.leading_zeros() as usize;
    let step = (ns >> (log - 4)) as usize & (SUB - 1);
    ((log - 3) * SUB + step).min(BUCKETS - 1)
}

/// Smallest time in ns that falls into `bucket`.
pub fn bucket_start(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let (log, step) = (bucket / SUB + 3, bucket % SUB);
    ((SUB + step) as u64) << (log - 4)
}

/// Writes a zero-terminated text, cut at the end of `to`.
pub fn store_text(to: &[AtomicU8], text: &str) {
    let end = text.len().min(to.len() - 1);
    for (cell, byte) in to.iter().zip(&text.as_bytes()[..end]) {
        cell.store(*byte, Relaxed);
    }
    to[end].store(0, Relaxed);
}

/// Reads a zero-terminated text into `buffer`; what is not UTF-8 is left out.
pub fn load_text<'a>(from: &[AtomicU8], buffer: &'a mut [u8]) -> &'a str {
    let mut end = 0;
    for (cell, byte) in from.iter().zip(buffer.iter_mut()) {
        *byte = cell.load(Relaxed);
        if *byte == 0 {
            break;
        }
        end += 1;
    }
    let bytes = &buffer[..end];
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_tight() {
        for ns in (0..4000u64).chain((0..35).map(|s| (1 << s) + 3)) {
            let bucket = bucket_of(ns);
            assert!(bucket_start(bucket) <= ns, "{ns}");
            assert!(ns < bucket_start(bucket + 1), "{ns}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn text_survives_and_is_cut() {
        let cells: [AtomicU8; 8] = Default::default();
        let mut buffer = [0; 8];
        store_text(&cells, "zstd:1");
        assert_eq!(load_text(&cells, &mut buffer), "zstd:1");
        store_text(&cells, "a long name");
        assert_eq!(load_text(&cells, &mut buffer), "a long ");
    }
}
