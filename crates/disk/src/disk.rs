//! The parts of a device.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread::available_parallelism;

use memfold::store::{Owners, Ref, Tiered, Tuning};

use crate::Error;
use crate::backing::Backing;
use crate::budget::Budget;
use crate::images::Images;
use crate::leaf::{Held, Layout, Left, PAGE, PAGES};
use crate::locked;
use crate::options::{BadOption, Options};
use crate::resident::Resident;
use crate::room::Making;
use crate::shared::Shared;
use crate::stripes::{Stripe, Stripes, leaf_of};
use crate::works::{Work, Works};

/// Owners of pages are smaller than this: the page's number, or its remainder if there are more pages. Larger
/// numbers are owners of shared blobs.
const OWNERS: u64 = memfold::store::OWNER_LIMIT / 2;

/// A block device in memory; see the crate.
pub struct Disk {
    pub(crate) options: Options,
    pub(crate) layout: Layout,
    pub(crate) stripes: Stripes,
    pub(crate) store: Tiered<Budget>,
    pub(crate) resident: Resident,
    pub(crate) backing: Option<Backing>,
    pub(crate) shared: Option<Shared>,
    pub(crate) images: Images,
    pub(crate) works: Works,
    /// The minimum that is counted for the works' memory; the field below is what is counted now.
    least_work_bytes: u64,
    work_bytes: Mutex<u64>,
    /// Held while room is made; contains the memory needed for it.
    pub(crate) making: Mutex<Making>,
    pub(crate) counts: Counts,
}

/// Counts of events, and of the current content.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Pages that are not holes; then those of them that are one repeated word, and those that are joined.
    pub used: AtomicU64,
    pub fills: AtomicU64,
    pub joined: AtomicU64,
    pub pages_read: AtomicU64,
    pub pages_written: AtomicU64,
    pub pages_trimmed: AtomicU64,
    /// Decompressions, and blocks that were made denser.
    pub faults: AtomicU64,
    pub merges: AtomicU64,
    /// Pages that went back from the dense tier to the fast tier.
    pub promotions: AtomicU64,
    /// Blobs that the store has moved.
    pub moved: AtomicU64,
    pub refused: AtomicU64,
    /// Advances with every read and change: tells whether there is something to do.
    pub activity: AtomicU64,
    /// Advances with every change: tells whether there may be room where there was none.
    pub changes: AtomicU64,
}

impl Disk {
    /// A device full of holes.
    pub fn new(options: Options) -> Result<Self, BadOption> {
        let layout = options.check()?;
        let budget = Budget::new(options.limit);
        let cpus = available_parallelism().map_or(1, usize::from);
        let works = options.works.unwrap_or(cpus);
        let store = Tiered::new(budget, options.fast, options.dense);
        // Frames are allocated when pages are read, which must not need memory on a device that is used as swap.
        let resident = if options.swap { Some(0) } else { options.resident };
        let resident = resident.unwrap_or((options.limit / 32).min(256 << 20));
        let resident = Resident::new(resident);
        let images = Images::new(2 * cpus.max(4), layout.bytes());
        let stripes = Stripes::new();
        let open = |given| Backing::open(given, options.size, options.limit, options.told);
        let backing = options.backing.as_ref().map(open).transpose()?;
        // A hint for each page of the device, or for as many pages as there can be.
        let shared = options
            .share
            .then(|| Shared::new((options.size.min(options.limit.saturating_mul(4))) / PAGE as u64));
        // The threads that read and write, plus the one that makes room.
        let work_bytes = ((works + 1) * Work::least_bytes(&store, layout, backing.is_some())) as u64;
        let backing_bytes = backing.as_ref().map_or(0, Backing::memory_bytes);
        let fixed = work_bytes
            + backing_bytes
            + images.bytes() as u64
            + stripes.table_bytes()
            + resident.table_bytes();
        if fixed > store.store().memory().open() {
            return Err(BadOption::OutOfMemory);
        }
        store.store().memory().force(fixed);
        let work = || Work::new(&store, layout, backing.is_some()).ok_or(BadOption::OutOfMemory);
        let mut making = work()?;
        let mut works = (0..works).map(|_| work()).collect::<Result<Vec<_>, _>>()?;
        if options.swap {
            works.iter_mut().chain([&mut making]).for_each(Work::fill_in);
            images.fill_in();
            let budget = store.store().memory();
            let leaves = options.size.div_ceil((PAGES * PAGE) as u64);
            let ballast = (options.limit / 32).clamp(4 << 20, 64 << 20);
            if !stripes.make_all(leaves, budget) || !budget.load(ballast) {
                return Err(BadOption::OutOfMemory);
            }
            // Each class of the store asks for more long before it runs out.
            let tuning = store.store().tuning();
            store.store().set_tuning(Tuning { fill_ratio: 48, ..tuning });
        }
        let works = Works::new(works, &making);
        Ok(Disk {
            options,
            layout,
            stripes,
            store,
            resident,
            backing,
            shared,
            images,
            works,
            least_work_bytes: work_bytes,
            work_bytes: Mutex::new(work_bytes + backing_bytes),
            making: Mutex::new(Making::new(making)),
            counts: Counts::default(),
        })
    }

    /// Whether it was made for swap.
    pub fn is_for_swap(&self) -> bool {
        self.options.swap
    }

    /// Size of the device in bytes.
    pub fn size(&self) -> u64 {
        self.options.size
    }

    /// Bytes of pages that are not holes.
    pub fn logical_bytes(&self) -> u64 {
        self.counts.used.load(Relaxed) * PAGE as u64
    }

    /// Does nothing: the data are in memory and are lost when the process ends, whatever is called.
    pub fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Leaves nothing behind, for a device that is not dropped before the process ends.
    pub fn end(&self) {
        self.backing.iter().for_each(Backing::end);
    }

    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.options.size => Ok(()),
            _ => Err(Error::Range),
        }
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.store.store().memory()
    }

    /// Updates the count of the works' memory, of which more may have been used, and of the tables of the backing
    /// device. Returns the bytes that are counted but not in memory now.
    pub(crate) fn count_works(&self) -> u64 {
        let mut counted = locked(&self.work_bytes);
        let tables = self.backing.as_ref().map_or(0, Backing::memory_bytes)
            + self.shared.as_ref().map_or(0, Shared::table_bytes);
        let now = self.works.bytes();
        let bytes = now.max(self.least_work_bytes) + tables;
        let before = std::mem::replace(&mut *counted, bytes);
        self.budget().force(bytes.saturating_sub(before));
        self.budget().give(before.saturating_sub(bytes));
        self.least_work_bytes.saturating_sub(now)
    }

    /// Bytes that uncompressed pages may take now.
    pub(crate) fn resident_allowed(&self) -> u64 {
        (self.counts.used.load(Relaxed) * PAGE as u64 / 64).max(1 << 20)
    }

    /// Settles what is left of a page's old content, with the lock of its leaf held. The result must be freed
    /// without that lock.
    pub(crate) fn settle(&self, leaf: u64, left: Left) -> Result<Option<(Held, u64)>, Error> {
        let page = |at: usize| leaf * PAGES as u64 + at as u64;
        match left {
            Left::Nothing => Ok(None),
            Left::Blob { held, owner } => Ok(Some((held, owner_of(page(owner))))),
            Left::Moved { r, from, to } => {
                // If the blob is damaged, the next reader notices.
                let _ = self.store.store().reown(r, owner_of(page(from)), owner_of(page(to)));
                Ok(None)
            }
            Left::Damaged => Err(Error::Damaged { offset: leaf * (PAGES * PAGE) as u64 }),
        }
    }

    pub(crate) fn free(&self, freed: Option<(Held, u64)>) {
        match freed {
            // If the store does not know the blob, it was damaged: there is nothing to free.
            Some((Held::Blob(r), owner)) => drop(self.store.store().free(r, owner, self)),
            Some((Held::Shared(number), _)) => {
                if let Some(r) = self.shared.as_ref().and_then(|shared| shared.leave(number)) {
                    let _ = self.store.store().free(r, shared_owner(number), self);
                }
            }
            Some((Held::Spilled(number), _)) => self.backing.iter().for_each(|backing| backing.free(number)),
            None => {}
        }
    }

    /// Locks the leaf that contains a page.
    pub(crate) fn lock(&self, page: u64) -> (std::sync::MutexGuard<'_, Stripe>, u64, usize) {
        let (leaf, at) = leaf_of(page);
        (self.stripes.lock(leaf), leaf, at)
    }

    /// Merges holes and unused ends and releases them; returns whether that released anything.
    pub(crate) fn compact(&self, bytes: usize) -> bool {
        self.store.store().maintain(self, bytes).released_bytes > 0
    }

    /// Makes everything as small as possible, recently used or not. Otherwise this is left to the background
    /// thread.
    pub fn condense(&self) -> Result<(), Error> {
        let mut making = locked(&self.making);
        self.merge_all(&mut making)?;
        drop(making);
        while self.compact(64 << 20) {}
        Ok(())
    }
}

/// The owner of a shared blob in the store.
pub(crate) fn shared_owner(number: u64) -> u64 {
    OWNERS | (number % OWNERS)
}

/// The number by which the store knows the owner of a page's blob.
pub(crate) fn owner_of(page: u64) -> u64 {
    page % OWNERS
}

impl Owners for Disk {
    fn relocate(&self, owner: u64, from: Ref, to: Ref) -> bool {
        let moved = self.has_moved(owner, from, to);
        self.counts.moved.fetch_add(moved.into(), Relaxed);
        moved
    }
}

impl Disk {
    /// Tells the owner of a blob where it is now; returns whether the owner had it.
    fn has_moved(&self, owner: u64, from: Ref, to: Ref) -> bool {
        if owner >= OWNERS {
            return self.shared.as_ref().is_some_and(|shared| shared.relocate(owner - OWNERS, from, to));
        }
        // Pages whose numbers exceed the largest owner share their owner with other pages.
        let pages = self.options.size.div_ceil(PAGE as u64);
        (owner..pages).step_by(OWNERS as usize).any(|page| {
            let (leaf, at) = leaf_of(page);
            self.stripes.try_lock(leaf).is_some_and(|mut stripe| {
                stripe.get_mut(leaf).is_some_and(|leaf| leaf.relocate(at, from, to))
            })
        })
    }
}
