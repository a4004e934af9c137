//! The contenders that hold the blobs: the store, and the allocators.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memfold::SystemMemory;
use memfold::store::{Owners, Pace, Pacer, Ref, Store, Tuning};

use crate::area::Area;
use crate::clock::thread_cpu;

/// One slot of eight bytes for each blob.
pub type Slots = Area<AtomicU64>;

/// Keeps blobs by number.
pub trait Keeper {
    /// Keeps a copy of `bytes` as blob `i`.
    fn put(&self, i: usize, bytes: &[u8]);
    /// Frees blob `i`.
    fn free(&self, i: usize);
    /// Whether blob `i` is `bytes`.
    fn is(&self, i: usize, bytes: &[u8]) -> bool;
    /// A report about itself, for a closing line.
    fn report(&self) -> String {
        String::new()
    }
}

/// An allocator: its malloc and free, and a slot for each pointer.
pub struct Malloc {
    pub slots: Slots,
    pub malloc: unsafe extern "C" fn(usize) -> *mut libc::c_void,
    pub free: unsafe extern "C" fn(*mut libc::c_void),
}

impl Keeper for Malloc {
    fn put(&self, i: usize, bytes: &[u8]) {
        // SAFETY: `malloc` is an allocator's function, and exactly as many bytes are written as were
        // requested.
        unsafe {
            let to = (self.malloc)(bytes.len()).cast::<u8>();
            assert!(!to.is_null());
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.slots[i].store(to as u64, Ordering::Relaxed);
        }
    }

    fn free(&self, i: usize) {
        // SAFETY: the slot holds a pointer from malloc, and the swap removes it.
        unsafe { (self.free)(self.slots[i].swap(0, Ordering::Relaxed) as *mut libc::c_void) };
    }

    fn is(&self, i: usize, bytes: &[u8]) -> bool {
        let at = self.slots[i].load(Ordering::Relaxed) as *const u8;
        // SAFETY: `put` wrote as many bytes there.
        unsafe { std::slice::from_raw_parts(at, bytes.len()) == bytes }
    }
}

/// The store with its background thread.
pub struct Kept {
    shared: Arc<Shared>,
    background: Option<JoinHandle<()>>,
}

struct Shared {
    store: Store<SystemMemory>,
    slots: Held,
    stop: AtomicBool,
    moved: AtomicU64,
    released: AtomicU64,
    worked: AtomicU64,
}

struct Held(Slots);

/// The bytes that the background thread moves or releases before it reads the clock again.
const BUDGET: usize = 8 << 20;
/// Approximate bytes of the program itself.
const PROGRAM: u64 = 6 << 20;
/// The bit that pins a slot.
const PIN: u64 = 1 << 63;

impl Owners for Held {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        self.0.get(owner as usize).is_some_and(|slot| {
            slot.compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }
}

impl Kept {
    pub fn new(slots: Slots) -> Self {
        let shared = Arc::new(Shared {
            store: Store::new(SystemMemory),
            slots: Held(slots),
            stop: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            released: AtomicU64::new(0),
            worked: AtomicU64::new(0),
        });
        let background = thread::spawn({
            let shared = shared.clone();
            move || {
                let (mut pacer, epoch) = (Pacer::new(), Instant::now());
                let now = || epoch.elapsed().as_nanos() as u64;
                while !shared.stop.load(Ordering::Relaxed) {
                    shared.be_as_loose_as_promised();
                    let begun = now();
                    match pacer.next(begun, shared.store.debt()) {
                        Pace::Work(goal) => {
                            let done = shared.store.maintain_to(goal, &shared.slots, BUDGET);
                            pacer.worked(now() - begun, &done);
                            shared.worked.store(thread_cpu().as_nanos() as u64, Ordering::Relaxed);
                            shared.moved.fetch_add(done.moved, Ordering::Relaxed);
                            shared.released.fetch_add(done.released_bytes, Ordering::Relaxed);
                        }
                        Pace::Sleep(ns) => thread::sleep(Duration::from_nanos(ns)),
                    }
                }
            }
        });
        Kept { shared, background: Some(background) }
    }
}

impl Shared {
    /// The target for the total is 9/8 of the payload. The store gets what is left after slots and program.
    fn be_as_loose_as_promised(&self) {
        let stats = self.store.stats();
        let outside = self.slots.0.len() as u64 * 8 + PROGRAM;
        let fixed = stats.header_bytes + stats.rounding_bytes + stats.table_bytes + outside;
        let loose = (stats.payload_bytes / 8).saturating_sub(fixed);
        let held = stats.payload_bytes + stats.rounding_bytes;
        let share = (loose * 256 / held.max(1)).clamp(4, 32) as u8;
        self.store.set_tuning(Tuning { loose_share: share, ..Tuning::DEFAULT });
    }
}

impl Keeper for Kept {
    fn put(&self, i: usize, bytes: &[u8]) {
        let r = self.shared.store.put(i as u64, 0, bytes).expect("room");
        self.shared.slots.0[i].store(r.to_bits(), Ordering::Release);
    }

    fn free(&self, i: usize) {
        let r = Ref::from_bits(self.shared.slots.0[i].swap(0, Ordering::AcqRel)).expect("a blob");
        self.shared.store.free(r, i as u64, &self.shared.slots).expect("a whole blob");
    }

    fn is(&self, i: usize, bytes: &[u8]) -> bool {
        let slot = &self.shared.slots.0[i];
        let Some(r) = Ref::from_bits(slot.fetch_or(PIN, Ordering::Acquire)) else { return false };
        // SAFETY: the slot is pinned, and only this thread frees.
        let same = unsafe { self.shared.store.get(r, i as u64) }.is_ok_and(|blob| blob.payload == bytes);
        slot.fetch_and(!PIN, Ordering::Release);
        same
    }

    fn report(&self) -> String {
        let stats = self.shared.store.stats();
        format!(
            "{:?}; background: {} ms of CPU, {} blobs moved, {} MiB given back",
            stats,
            self.shared.worked.load(Ordering::Relaxed) / 1_000_000,
            self.shared.moved.load(Ordering::Relaxed),
            self.shared.released.load(Ordering::Relaxed) >> 20
        )
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(background) = self.background.take() {
            let _ = background.join();
        }
    }
}
