//! The parts of a device.

use std::sync::Mutex;
use std::sync::atomic::Ordering::*;
use std::thread::available_parallelism;

use memfold::store::{Tiered, Tuning};

use crate::Error;
use crate::backing::Backing;
use crate::counts::Counts;
use crate::index::leaf::{Layout, PAGE, PAGES};
use crate::index::shared::Shared;
use crate::index::stripes::{Stripe, Stripes, leaf_of};
use crate::locked;
use crate::memory::budget::Budget;
use crate::memory::images::Images;
use crate::memory::resident::Resident;
use crate::memory::works::{Work, Works};
use crate::options::{BadOption, Options};
use crate::reclaim::making::Making;

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
    /// The minimum counted for the memory of `works`; the next field is what is currently counted.
    least_work_bytes: u64,
    work_bytes: Mutex<u64>,
    /// Held while making room; contains the memory needed for it.
    pub(crate) making: Mutex<Making>,
    pub(crate) counts: Counts,
}

impl Disk {
    /// A device full of holes.
    pub fn new(options: Options) -> Result<Self, BadOption> {
        let layout = options.check()?;
        let budget = Budget::new(options.limit);
        let cpus = available_parallelism().map_or(1, usize::from);
        let works = options.works.unwrap_or(cpus);
        let store = Tiered::new(budget, options.fast, options.dense);
        // Reading allocates frames, but on a device that is used as swap, reading must not need memory.
        let resident = if options.swap { Some(0) } else { options.resident };
        let resident = resident.unwrap_or((options.limit / 32).min(256 << 20));
        let resident = Resident::new(resident);
        let images = Images::new(2 * cpus.max(4), layout.bytes());
        let stripes = Stripes::new();
        let open = |given| Backing::open(given, options.size, options.limit, options.told);
        let backing = options.backing.as_ref().map(open).transpose()?;
        // A hint for each page of the device, but no more than for the pages that fit into the limit.
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
            // Each size class of the store requests more memory long before it runs out.
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

    /// Does nothing: the data are in memory, and are lost when the process ends in any case.
    pub fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Removes everything from the backing device, for a device that is not dropped before the process ends.
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

    /// Updates the counts of the working memory, which may have grown, and of the tables of the backing
    /// device. Returns the bytes that are counted but currently not in memory.
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

    /// Bytes of the working memory and of these tables, as they were counted last.
    pub(crate) fn counted_works(&self) -> u64 {
        *locked(&self.work_bytes)
    }

    /// Bytes that uncompressed pages may take now.
    pub(crate) fn resident_allowed(&self) -> u64 {
        (self.counts.used.load(Relaxed) * PAGE as u64 / 64).max(1 << 20)
    }

    /// Locks the leaf that contains a page.
    pub(crate) fn lock(&self, page: u64) -> (std::sync::MutexGuard<'_, Stripe>, u64, usize) {
        let (leaf, at) = leaf_of(page);
        (self.stripes.lock(leaf), leaf, at)
    }

    /// Merges holes and unused ends, and releases them. Returns whether anything was released.
    pub(crate) fn compact(&self, bytes: usize) -> bool {
        self.store.store().maintain(self, bytes).released_bytes > 0
    }
}
