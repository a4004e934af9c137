//! The contenders that really store the payload: memfold's store, malloc, and mere copying for comparison.

use std::sync::atomic::{AtomicU64, Ordering};

use memfold::SystemMemory;
use memfold::store::{Owners, Ref, Store};

use super::Keeper;
use super::trace::BLOBS;
use crate::PAGE;
use crate::clock::resident_bytes;
use crate::random::Random;

/// Payloads are pieces of this many random bytes.
const SOURCE: usize = 512 << 10;
/// Bytes that the store moves or releases before others get their turn.
const BUDGET: usize = 2 << 20;

/// The source of the payloads.
struct Source(Vec<u8>);

impl Source {
    fn new() -> Self {
        let mut random = Random(7);
        Source((0..SOURCE / 8).flat_map(|_| random.next().to_le_bytes()).collect())
    }

    /// The content of blob `i` with this length.
    fn piece(&self, i: usize, len: usize) -> &[u8] {
        let start = (i * 7919 + len) % (SOURCE - PAGE);
        &self.0[start..start + len]
    }
}

/// The store. This thread does the work of its background thread when it is due.
pub struct Kept {
    store: Store<SystemMemory>,
    slots: Slots,
    source: Source,
}

struct Slots(Vec<AtomicU64>);

impl Owners for Slots {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        self.0.get(owner as usize).is_some_and(|slot| {
            slot.compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }
}

impl Kept {
    pub fn new() -> Self {
        let slots = Slots((0..BLOBS).map(|_| AtomicU64::new(0)).collect());
        Kept { store: Store::new(SystemMemory), slots, source: Source::new() }
    }
}

impl Keeper for Kept {
    fn put(&mut self, i: usize, len: usize) {
        let r = self.store.put(i as u64, 0, self.source.piece(i, len)).expect("room");
        self.slots.0[i].store(r.to_bits(), Ordering::Release);
    }

    fn free(&mut self, i: usize, _len: usize) {
        let r = Ref::from_bits(self.slots.0[i].swap(0, Ordering::AcqRel)).expect("a blob");
        self.store.free(r, i as u64, &self.slots).expect("a whole blob");
    }

    fn tick(&mut self) {
        self.store.maintain(&self.slots, BUDGET);
    }

    fn settle(&mut self) {
        while self.store.maintain(&self.slots, BUDGET).more {}
    }

    fn bytes(&mut self) -> Option<usize> {
        Some(self.store.stats().resident_bytes as usize)
    }

    fn check(&self, lens: &[Option<usize>]) {
        for (i, len) in lens.iter().enumerate() {
            let Some(len) = *len else { continue };
            let r = Ref::from_bits(self.slots.0[i].load(Ordering::Acquire)).expect("a blob");
            // SAFETY: there is one thread, and it neither frees nor maintains meanwhile.
            let blob = unsafe { self.store.get(r, i as u64) }.expect("a whole blob");
            assert!(blob.payload == self.source.piece(i, len), "blob {i} came back different");
        }
    }
}

/// glibc's malloc. Its memory is what the process has more than at the beginning.
pub struct Malloc {
    slots: Vec<u64>,
    source: Source,
    before: usize,
}

impl Malloc {
    pub fn new(slots: Vec<u64>) -> Self {
        let source = Source::new();
        Malloc { slots, source, before: resident_bytes() }
    }
}

impl Keeper for Malloc {
    fn put(&mut self, i: usize, len: usize) {
        // SAFETY: exactly as many bytes as were requested.
        unsafe {
            let to = libc::malloc(len).cast::<u8>();
            assert!(!to.is_null());
            to.copy_from_nonoverlapping(self.source.piece(i, len).as_ptr(), len);
            self.slots[i] = to as u64;
        }
    }

    fn free(&mut self, i: usize, _len: usize) {
        // SAFETY: the slot holds what malloc gave, once.
        unsafe { libc::free(self.slots[i] as *mut libc::c_void) };
    }

    fn bytes(&mut self) -> Option<usize> {
        Some(resident_bytes().saturating_sub(self.before))
    }

    fn check(&self, lens: &[Option<usize>]) {
        for (i, len) in lens.iter().enumerate() {
            let Some(len) = *len else { continue };
            // SAFETY: `put` wrote as many bytes there.
            let blob = unsafe { std::slice::from_raw_parts(self.slots[i] as *const u8, len) };
            assert!(blob == self.source.piece(i, len), "blob {i} came back different");
        }
    }
}

/// Not an allocator: copies each payload to where the last one ended, in a ring.
pub struct Copying {
    area: Vec<u8>,
    at: usize,
    source: Source,
}

impl Copying {
    pub fn new(lens: &[usize]) -> Self {
        Copying { area: vec![0; lens.iter().sum::<usize>() + PAGE], at: 0, source: Source::new() }
    }
}

impl Keeper for Copying {
    fn put(&mut self, i: usize, len: usize) {
        if self.at + len > self.area.len() {
            self.at = 0;
        }
        self.area[self.at..self.at + len].copy_from_slice(self.source.piece(i, len));
        self.at += len;
    }

    fn free(&mut self, _i: usize, _len: usize) {}

    fn bytes(&mut self) -> Option<usize> {
        None
    }

    fn check(&self, _lens: &[Option<usize>]) {}
}
