//! What a forked child inherits: mappings with evicted pages are registered with its own userfaultfd; if its
//! faults cannot be served, everything is restored in place.

use core::ops::ControlFlow;
use core::sync::atomic::Ordering::*;

use memfold_shared::page::state;

use crate::kernel::addresses::{BLOCK, index_in_block};
use crate::kernel::sys::{self, PAGE};
use crate::pages::Pages;
use crate::pages::table::State;
use crate::runtime::Runtime;

impl Pages {
    /// Whether a page of a range is evicted.
    fn has_evicted(&self, start: usize, end: usize) -> bool {
        let found = self.table.visit_blocks(start, end, |base, block| {
            let (from, to) = (start.max(base), end.min(base + BLOCK));
            let any = block.evicted.load(Relaxed) > 0
                && (from..to)
                    .step_by(PAGE)
                    .any(|page| block.entries[index_in_block(page)].load() != State::Empty);
            if any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found.is_break()
    }
}

impl Runtime {
    /// In the child: forgets pages of memory that it has not inherited. Other memory may be mapped there
    /// later, and must begin empty.
    pub fn drop_uninherited(&self, maps: sys::Fd) {
        let mut order = self.pages.order.lock();
        let (mut buffer, mut end) = ([0u8; 8192], 0);
        let read = crate::kernel::maps::for_each(maps, &mut buffer, |mapping| {
            if mapping.is_private_anonymous() {
                self.drop_range(&mut order, end, mapping.start);
                end = mapping.end;
            }
        });
        if read.is_err() {
            self.fail("a forked process can't read /proc/self/maps: it does not know what it has inherited");
        }
        self.drop_range(&mut order, end, crate::kernel::addresses::END);
    }

    /// Called in the child, by its keeper: registers the mappings that have evicted pages.
    ///
    /// It registers each of them as a whole, so that none is split, and nothing else: the same blocks of the
    /// table may contain shared memory, even memfold's own, and no thread could serve a fault there.
    pub fn register_evicted(&self, maps: sys::Fd) -> sys::Result<()> {
        let (mut buffer, mut failed) = ([0u8; 8192], false);
        crate::kernel::maps::for_each(maps, &mut buffer, |mapping| {
            let (start, end) = (mapping.start, mapping.end.min(crate::kernel::addresses::END));
            if mapping.is_private_anonymous() && self.pages.has_evicted(start, end) {
                let whole =
                    !self.pages.standby.overlaps(start, end) && self.register(start, end - start).is_ok();
                failed |= !whole && !self.register_runs(start, end);
            }
        })?;
        if failed { Err(sys::Errno::INVAL) } else { Ok(()) }
    }

    /// Registers the runs of evicted pages in a mapping that cannot be registered as a whole, because memory
    /// of memfold's own has been merged with it.
    fn register_runs(&self, start: usize, end: usize) -> bool {
        let (mut from, mut to, mut ok) = (0, 0, true);
        self.pages.table.for_each_block(start, end, |base, block| {
            for page in (start.max(base)..end.min(base + BLOCK)).step_by(PAGE) {
                if block.entries[index_in_block(page)].load() == State::Empty {
                    continue;
                }
                if page != to {
                    ok &= self.register_run(from, to);
                    from = page;
                }
                to = page + PAGE;
            }
        });
        ok & self.register_run(from, to)
    }

    fn register_run(&self, from: usize, to: usize) -> bool {
        if from == to || self.register(from, to - from).is_ok() {
            return true;
        }
        let mut ok = true;
        let mut order = self.pages.order.lock();
        for page in (from..to).step_by(PAGE) {
            match self.register(page, PAGE) {
                Ok(()) => {}
                Err(sys::Errno::NOMEM) => self.fail(
                    "a forked process can't have as many mappings (vm.max_map_count) as its evicted pages need",
                ),
                // memfold has since mapped its own memory here: the program no longer has this page.
                Err(_) if self.arena.overlaps(page, page + PAGE) => {
                    self.drop_range(&mut order, page, page + PAGE);
                }
                Err(_) => ok = false,
            }
        }
        ok
    }

    /// Restores every evicted page permanently: no userfaultfd serves this process. Reports the reason `why`,
    /// if given.
    pub fn restore_in_place(&'static self, why: Option<&str>) {
        if !self.stored.has_store() {
            return;
        }
        self.restore_matching_in_place(|state| state != State::Empty);
        self.spill.tell_spill_begins();
        self.process.set_state(state::STOPPED);
        if let Some(why) = why {
            self.say(why);
        }
    }

    /// Restores the evicted pages that are `wanted`. Only the calling thread, and perhaps the keeper or a
    /// thread that waits for it, may be running in this process.
    pub fn restore_matching_in_place(&'static self, wanted: impl Fn(State) -> bool) {
        // SAFETY: in this process no handler has started, or all have ended.
        let worker = unsafe { crate::reclaim::worker::Worker::new(self, 0) };
        let (Ok(memory), Some(mut worker)) = (sys::open_own(c"/proc/thread-self/mem", sys::o::RDWR), worker)
        else {
            self.fail("a forked process can't restore its evicted pages");
        };
        let Ok(maps) = sys::open_own(c"/proc/thread-self/maps", sys::o::RDONLY) else {
            self.fail("a forked process can't see what it has inherited");
        };
        self.drop_uninherited(maps);
        sys::close(maps);
        let Ok(pagemap) = crate::kernel::pagemap::Pagemap::open() else {
            self.fail("a forked process can't see which of its pages are resident");
        };
        self.pages.table.for_each_block(0, crate::kernel::addresses::END, |base, block| {
            if block.evicted.load(Relaxed) == 0 {
                return;
            }
            for (index, entry) in block.entries.iter().enumerate().filter(|(_, entry)| wanted(entry.load())) {
                let there = |now: crate::kernel::pagemap::Present| now.count + now.swapped_count == 1;
                if pagemap.present(base + index * PAGE, 1, 0).is_some_and(there) {
                    // The page was restored just before the fork: the resident page is right.
                    self.drop_page(block, base + index * PAGE);
                } else {
                    self.restore_page(memory, &mut worker, base + index * PAGE, entry);
                    block.evicted.fetch_sub(1, Relaxed);
                }
            }
        });
        sys::close(memory);
        pagemap.close();
    }

    fn restore_page(
        &self,
        memory: sys::Fd,
        worker: &mut crate::reclaim::worker::Worker,
        page: usize,
        entry: &crate::pages::table::Entry,
    ) {
        let state = entry.load();
        if let State::Spilled(_) = state {
            self.fetch_alone(worker, page);
        }
        let contents = &mut worker.pages[..PAGE];
        match state {
            State::Empty => return,
            State::Spilled(_) => {}
            State::Zero => contents.fill(0),
            State::Standby(id) => {
                // SAFETY: the page on standby is readable and no other thread uses it, since no other thread
                // is running.
                contents.copy_from_slice(unsafe {
                    core::slice::from_raw_parts(self.pages.standby.page_address(id) as *const u8, PAGE)
                });
            }
            State::Stored(name) | State::Pinned(name) => {
                let owner = crate::kernel::addresses::page_number(page);
                // SAFETY: no other thread of ours is running in this child.
                if unsafe { self.store().load(name, owner, contents, &mut worker.decode) }.is_err() {
                    self.fail_corrupt();
                }
            }
        }
        // Writes through /proc/self/mem also reach pages that are read-only or inaccessible.
        if sys::pwrite(memory, contents, page as u64) != Ok(PAGE) {
            self.fail("a forked process can't write an evicted page back");
        }
        entry.rescue();
        match state {
            State::Stored(name) | State::Pinned(name) => {
                self.free(name, crate::kernel::addresses::page_number(page))
            }
            State::Standby(id) => {
                self.pages.standby.forget(id);
                let at = self.pages.standby.page_address(id);
                // SAFETY: the page on standby is no longer needed.
                let _ = unsafe { sys::madvise(at, PAGE, sys::advice::DONTNEED) };
            }
            State::Spilled(spot) => self.spill.release_location(spot),
            _ => {}
        }
    }
}
