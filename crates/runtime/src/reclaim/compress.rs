//! Compressors: threads that turn standby into store, oldest slot first, as
//! long as the process owes memory.
//!
//! A slot is worked through in groups of pages: compress each, write the
//! entries of the group under the order lock, give the group's pages back. A
//! block may have been nearly empty, so a group is so many pages that are
//! there, wherever they lie in the slot.

use core::sync::atomic::Ordering::*;

use memfold::probe;
use memfold::store::{Ref, Tier};
use memfold_shared::page;
use memfold_shared::trail::{self, Run};

use crate::kernel::sched;
use crate::kernel::sys::{self, PAGE, advice};
use crate::pages::standby::page_id;
use crate::pages::stored::Entries;
use crate::pages::table::{BLOCK, PAGES, State, index_in_block};
use crate::process::thread;
use crate::reclaim::incompressible::Back;
use crate::reclaim::worker::Worker;
use crate::runtime::{RUNTIME, Runtime};

/// Pages between two times that memory is given back.
const GROUP: usize = 32;

/// Times that a page is tried to be put back.
const TRIES: u32 = 8;

/// Between two looks for the answer to a batch that was sent, ns.
const ANSWER_NS: u64 = 1_000_000;

/// Bytes of blobs that are moved between two slots at most, to close holes.
const MAINTAIN: usize = 1 << 20;

/// A compressor that has nothing to do stays awake until no fault has come for so long, ns.
const AWAKE_NS: u64 = 100_000;
/// And if a page is being fetched from a tier, ns: near ones answer within it.
const FETCH_NS: u64 = 300_000;
/// The second compressor ends when it has had nothing to do for so long, ns.
const IDLE_NS: u64 = 2_000_000_000;
/// Looks for work between two looks at the clock, a few microseconds.
const SPINS: usize = 200;
/// If these take so long, somebody else wants the CPU, ns: it is left to him for a while.
const WANTED_NS: u64 = 300_000;
const LEFT_NS: u64 = 20_000_000;

/// Entry of a compressor thread; the argument is its number among the
/// workers, and above that its number among the compressors. All but the
/// first work only when the first falls behind: the program wants the CPUs too.
pub extern "C" fn compressor(argument: usize) -> ! {
    let (number, helps) = (argument & 0xff, argument >> 8 != 0);
    // SAFETY: this is the only thread of this number.
    let Some(mut worker) = (unsafe { Worker::new(&RUNTIME, number) }) else {
        RUNTIME.fail("no memory is left for a compressor");
    };
    RUNTIME.threads.stoppable.fetch_add(1, AcqRel);
    let mut cpu = sys::thread_cpu_ns();
    let (allowed, mut kept_off) = (sched::allowed_cpus(), None);
    let (mut worked_ns, mut leaves) = (sys::now_ns(), false);
    loop {
        RUNTIME.pause_here();
        if RUNTIME.threads.quit_compressors.load(Acquire) || leaves {
            RUNTIME.threads.stoppable.fetch_sub(1, AcqRel);
            RUNTIME.threads.compressors.fetch_sub(1, AcqRel);
            thread::exit();
        }
        let seen = RUNTIME.reclaim.work.now();
        crate::interpose::rights::credentials::adopt();
        if RUNTIME.free_condemned() {
            continue;
        }
        let maintained = RUNTIME.store().store().maintain(&Entries, MAINTAIN);
        // What is made denser goes to other classes, and leaves holes in those it comes from.
        if RUNTIME.reclaim.squeeze.load(Relaxed) && (maintained.more || RUNTIME.densify_some(&mut worker)) {
            continue;
        }
        let least = if helps { RUNTIME.reclaim.margin.load(Relaxed) / 2 } else { 0 };
        let worked = RUNTIME.spill_some(&mut worker)
            || RUNTIME.reclaim.debt.load(Acquire) > least
                && !RUNTIME.reclaim.keeps_all.load(Relaxed)
                && RUNTIME.compress_oldest(&mut worker, u64::MAX)
            || !helps && RUNTIME.compress_idle(&mut worker)
            || !helps && RUNTIME.densify_some(&mut worker);
        if helps {
            // It ends when it is not needed any more: see `watch/retire.rs`.
            let now = sys::now_ns();
            worked_ns = if worked { now } else { worked_ns };
            let is_wanted = RUNTIME.shared().tasks_wanted.load(Relaxed) != 0;
            leaves = !worked && (is_wanted || now - worked_ns > IDLE_NS);
            if leaves {
                continue;
            }
        }
        if !worked {
            let now = sys::thread_cpu_ns();
            RUNTIME.slot().counters.runtime_cpu_ns.fetch_add(now - cpu, Relaxed);
            cpu = now;
            if !helps {
                let off = RUNTIME.faults.follow.cpu().filter(|_| RUNTIME.may_stay_awake(sys::now_ns()));
                if off != kept_off {
                    keep_off(&allowed, off);
                    kept_off = off;
                }
                if RUNTIME.stay_awake(seen) {
                    continue;
                }
            }
            if !helps {
                RUNTIME.reclaim.sleeps.store(true, Relaxed);
            }
            // The supervisor's answers ring no bell here.
            let is_awaited = RUNTIME.spill.in_flight.load(Relaxed) > 0;
            RUNTIME.reclaim.work.wait(seen, if is_awaited { ANSWER_NS } else { 200_000_000 });
            if !helps {
                RUNTIME.reclaim.sleeps.store(false, Relaxed);
            }
        }
    }
}

/// Binds the calling thread to those of its CPUs that are not `cpu`: where the thread runs whose faults it follows is no place for it.
fn keep_off(allowed: &sched::CpuSet, cpu: Option<usize>) {
    let mut set = *allowed;
    if let Some(cpu) = cpu.filter(|cpu| cpu / 64 < set.len()) {
        set[cpu / 64] &= !(1 << (cpu % 64));
    }
    sched::bind_to(&set);
}

/// Some pages of a slot: their places in it, ascending.
struct Pages {
    index: [u16; GROUP],
    count: usize,
}

impl Pages {
    fn new() -> Self {
        Pages { index: [0; GROUP], count: 0 }
    }

    fn add(&mut self, index: usize) {
        self.index[self.count] = index as u16;
        self.count += 1;
    }
}

/// What a page was compressed to; by default, one of zeros.
#[derive(Clone, Copy, Default)]
struct Size {
    class: u8,
    bytes: u16,
}

/// What is to become of a page.
#[derive(Clone, Copy)]
enum Fate {
    /// Its entry says this from now on.
    Kept(State),
    /// Its blob is still in the store: see `clean`.
    Clean,
    /// It does not get smaller, and goes back.
    Back,
}

/// What came of compressing some pages.
struct Done {
    /// Pages to do again since they got another owner meanwhile.
    again: u64,
    /// Of these, pages to be kept as they are.
    whole: u64,
    /// Pages that went back, and are as large as before.
    back: u32,
    /// The store got no more memory: not all were done.
    full: bool,
    /// Bytes that the store took.
    stored_bytes: i64,
}

impl Runtime {
    /// Whether there are two CPUs, of which one thread's faults need one, and nobody else wants the other.
    fn may_stay_awake(&self, now: u64) -> bool {
        self.reclaim.two_cpus.load(Relaxed)
            && self.reclaim.alone.load(Relaxed)
            && !self.faults.follow.is_spread()
            && now >= self.reclaim.sleep_until_ns.load(Relaxed)
    }

    /// While one thread faults again and again: waits for work without
    /// sleeping (and is woken for it: `keep_awake`). A thread that is woken goes to an idle CPU if there is one, and
    /// then each of its faults goes from one CPU to another and back, which takes
    /// four times as long. With two CPUs it stays where its handler is, as long
    /// as the other one is not idle. Returns whether there is work.
    fn stay_awake(&self, seen: u32) -> bool {
        let begin = sys::now_ns();
        if !self.may_stay_awake(begin) {
            return false;
        }
        let faults = &self.slot().counters.pages_faulted;
        let (mut known, mut since, mut looked) = (faults.load(Relaxed), begin, begin);
        loop {
            for _ in 0..SPINS {
                if self.reclaim.work.now() != seen || self.forks.pause.load(Relaxed) != 0 {
                    return true;
                }
                core::hint::spin_loop();
            }
            let (now, count) = (sys::now_ns(), faults.load(Relaxed));
            if now - looked > WANTED_NS {
                // Somebody else has run here meanwhile: the CPU is not idle anyway.
                self.reclaim.sleep_until_ns.store(now + LEFT_NS, Relaxed);
                return false;
            }
            looked = now;
            let patience = if self.spill.fetching.load(Relaxed) > 0 { FETCH_NS } else { AWAKE_NS };
            if count != known {
                (known, since) = (count, now);
            } else if now - since > patience {
                return false;
            }
        }
    }

    /// A fault is served that began now.
    pub fn keep_awake(&self, begin: u64) {
        if begin.saturating_sub(self.faults.served_ns.load(Relaxed)) < AWAKE_NS
            && self.reclaim.sleeps.load(Relaxed)
            && self.may_stay_awake(begin)
        {
            self.reclaim.sleeps.store(false, Relaxed);
            self.reclaim.work.ring();
        }
    }

    /// Between two pages, as long as there is time: a thread that was woken on this CPU goes first. It may have slept so shortly that the kernel
    /// would let it wait for the next tick, a hundred times as long as a page takes.
    pub fn let_others_run(&self) {
        if self.reclaim.debt.load(Relaxed) < self.reclaim.margin.load(Relaxed) / 4 {
            sched::yield_now();
        }
    }

    /// Compresses the oldest slot, though there is room, if it lies there for long enough. `false` if there is none.
    fn compress_idle(&self, worker: &mut Worker) -> bool {
        let idle = self.reclaim.idle_ns.load(Relaxed);
        idle != u64::MAX && self.compress_oldest(worker, sys::now_ns().saturating_sub(idle))
    }

    /// Compresses the oldest slot, if it was queued before. `false` if there is none.
    fn compress_oldest(&self, worker: &mut Worker, before_ns: u64) -> bool {
        let Some(slot) = self.pages.standby.take_oldest(before_ns) else { return false };
        if self.pages.standby.queued() < self.reclaim.standby_goal.load(Relaxed) {
            self.threads.keeper.ring();
        }
        let held = self.pages.standby.slot(slot);
        let mut pages = Pages::new();
        for word in 0..PAGES / 64 {
            let mut bits = held.present[word].load(Relaxed);
            while bits != 0 {
                pages.add(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                if pages.count < GROUP {
                    continue;
                }
                let done = self.compress_group(worker, slot, &mut pages);
                if self.forks.pause.load(Relaxed) != 0 || !done {
                    // What is left stays on standby; the slot is taken up again later.
                    self.pages.standby.enqueue(slot);
                    return done;
                }
            }
        }
        if pages.count > 0 && !self.compress_group(worker, slot, &mut pages) {
            self.pages.standby.enqueue(slot);
            return false;
        }
        if let Some(block) = self.pages.table.block(held.home.load(Relaxed)) {
            block.judge(held.taken.load(Relaxed), held.rescued.load(Relaxed));
        }
        self.pages.standby.give_back(slot);
        true
    }

    /// Compresses some pages of a slot, and gives them back at once: that
    /// stops all CPUs on which the program runs, however few pages they are.
    /// `false` if the store got no more memory: then some are still on standby.
    fn compress_group(&self, worker: &mut Worker, slot: u32, pages: &mut Pages) -> bool {
        let held = self.pages.standby.slot(slot);
        let Pages { index, count } = core::mem::replace(pages, Pages::new());
        let (mut todo, mut whole) = (u64::MAX >> (64 - count), 0);
        let (mut used, mut back, mut tries) = (0i64, 0, 0);
        while todo != 0 {
            let done = self.compress_pages(worker, slot, &index, (todo, whole));
            todo = done.again;
            used += done.stored_bytes;
            back += i64::from(done.back);
            if self.note_store_full(done.full) {
                self.reclaim.change_debt(used);
                return false;
            }
            tries += 1;
            // What can't go back by then is kept in the store.
            whole = if tries < TRIES { done.whole } else { u64::MAX };
            if todo & !whole != 0 {
                sched::yield_now();
            }
        }
        for index in &index[..count] {
            let index = usize::from(*index);
            held.present[index / 64].fetch_and(!(1 << (index % 64)), Relaxed);
        }
        let (first, last) = (usize::from(index[0]), usize::from(index[count - 1]));
        let at = self.pages.standby.address(slot) + first * PAGE;
        // SAFETY: no entry names these pages any more, between them are none, and this thread holds the slot.
        let _ = unsafe { sys::madvise(at, (last + 1 - first) * PAGE, advice::DONTNEED) };
        self.reclaim.given_back.fetch_add(1, Relaxed);
        probe!(runtime_compress, slot, count);
        let bytes = (count * PAGE) as u64;
        if held.shared.load(Relaxed) {
            // Others still have them: this process is smaller, but nothing is free.
            self.shared().copied.fetch_add(bytes, Relaxed);
            self.shared().unshared.fetch_add(bytes, Relaxed);
            self.reclaim.change_debt(used);
        } else {
            self.reclaim.change_debt(used + back * PAGE as i64 - bytes as i64);
        }
        true
    }

    /// Notes whether the store gets the memory that it needs; returns what it is given.
    fn note_store_full(&self, full: bool) -> bool {
        if self.stored.full.load(Relaxed) != full {
            self.stored.full.store(full, Relaxed);
            if full && !self.stored.told_full.swap(true, Relaxed) {
                self.say("no memory is left for compressed pages (ulimit -v, ulimit -d): no more is evicted");
            }
            self.reclaim.room.ring();
        }
        full
    }

    /// Compresses the pages in `todo`, a bit for each of `pages`, and writes their entries. Those in `whole`
    /// are kept as they are if they don't get smaller; others go back then.
    fn compress_pages(
        &self,
        worker: &mut Worker,
        slot: u32,
        pages: &[u16; GROUP],
        (todo, whole): (u64, u64),
    ) -> Done {
        let held = self.pages.standby.slot(slot);
        let mut made: [(u64, Option<Fate>); GROUP] = [(0, None); GROUP];
        let mut sizes = [Size::default(); GROUP];
        let whole = if self.leaves_incompressible() { whole } else { u64::MAX };
        let (mut same_filled, mut full) = (0, false);
        let tier = self.tier(held.shared.load(Relaxed));
        for (number, made) in made.iter_mut().enumerate().filter(|(number, _)| todo >> number & 1 != 0) {
            self.let_others_run();
            let index = usize::from(pages[number]);
            let id = page_id(slot, index);
            let owner = held.owners[index].load(Relaxed);
            let entry = self.pages.table.entry(owner as usize * PAGE);
            if entry.is_none_or(|entry| entry.load() != State::Standby(id)) {
                continue;
            }
            let at = self.pages.standby.address(slot) + index * PAGE;
            // SAFETY: the page lies in a slot that this thread holds, readable, and is changed by nobody.
            let page = unsafe { core::slice::from_raw_parts(at as *const u8, PAGE) };
            if self.is_clean_on_standby(owner as usize * PAGE) {
                *made = (owner, Some(Fate::Clean));
                continue;
            }
            let is_whole = whole >> number & 1 != 0;
            let Some((fate, size)) = self.compress_page(worker, tier, owner, page, is_whole) else {
                full = true;
                break;
            };
            *made = (owner, Some(fate));
            sizes[number] = size;
            same_filled += u64::from(matches!(fate, Fate::Kept(State::Zero)));
        }
        let (mut again, mut never, mut back) = (0, 0, 0);
        let mut useless: [Option<(Ref, u64)>; GROUP] = [None; GROUP];
        let mut compressed = 0;
        let trail = self.shared().trail();
        let mut run = trail.map(|trail| Run::new(trail, self.slot().pid.load(Relaxed)));
        let forks = self.forks.generation.load(Relaxed);
        let mut order = self.pages.order.lock();
        for (number, (owner, fate)) in made.iter().enumerate() {
            let index = usize::from(pages[number]);
            let id = page_id(slot, index);
            let Some(fate) = *fate else {
                // It seemed void; but perhaps its mapping was just being moved.
                let owner = held.owners[index].load(Relaxed);
                let entry = self.pages.table.entry(owner as usize * PAGE);
                if todo >> number & 1 != 0 && entry.is_some_and(|entry| entry.load() == State::Standby(id)) {
                    again |= 1 << number;
                }
                continue;
            };
            let entry = self.pages.table.entry(*owner as usize * PAGE);
            if let Fate::Clean = fate {
                if !self.reuse_blob(worker, slot, index, *owner) {
                    again |= 1 << number;
                }
                continue;
            }
            let Fate::Kept(state) = fate else {
                if entry.is_some_and(|entry| entry.load() == State::Standby(id)) {
                    let run = made[number..]
                        .iter()
                        .zip(&pages[number..])
                        .enumerate()
                        .take_while(|(more, ((_, fate), at))| {
                            matches!(fate, Some(Fate::Back)) && usize::from(**at) == index + more
                        })
                        .count();
                    match self.put_back_incompressible(&mut order, slot, index, run) {
                        Back::Done(pages) => back += pages as u32,
                        Back::Later => again |= 1 << number,
                        Back::Never => (again, never) = (again | 1 << number, never | 1 << number),
                    }
                } else if held.owners[index].load(Relaxed) != *owner {
                    again |= 1 << number;
                }
                continue;
            };
            if entry.is_some_and(|entry| entry.replace(State::Standby(id), state)) {
                self.pages.standby.forget(id);
                compressed += 1;
                if let (State::Stored(_), Some(block)) =
                    (state, self.pages.table.block(*owner as usize * PAGE))
                {
                    block.set_own(*owner as usize % PAGES, forks);
                }
                if let Some(run) = &mut run {
                    run.add(*owner, sizes[number].class.into(), sizes[number].bytes.into());
                }
                if tier == Tier::Fast
                    && let Some(block) = self.pages.table.block(*owner as usize * PAGE)
                {
                    block.fast.fetch_add(1, Relaxed);
                    self.reclaim.fast_left.store(true, Relaxed);
                }
                if state == State::Zero {
                    self.pages.zero_pages.fetch_add(1, Relaxed);
                }
                continue;
            }
            if held.owners[index].load(Relaxed) != *owner {
                again |= 1 << number;
            }
            if let State::Stored(name) = state {
                useless[number] = Some((name, *owner));
            }
        }
        drop(order);
        useless.iter().flatten().for_each(|(name, owner)| self.free(*name, *owner));
        let counters = &self.slot().counters;
        counters.pages_compressed.fetch_add(compressed, Relaxed);
        if let Some(run) = run {
            run.end();
        }
        counters.pages_same_filled.fetch_add(same_filled, Relaxed);
        Done { again, whole: never, back, full, stored_bytes: compressed as i64 * PAGE as i64 / 3 }
    }

    /// Has the entry of a clean page on standby name its blob again. Under the order lock. `false` if the page
    /// has moved meanwhile or its blob is gone: then it is compressed like any other.
    fn reuse_blob(&self, worker: &mut Worker, slot: u32, index: usize, owner: u64) -> bool {
        let (page, id) = (owner as usize * PAGE, page_id(slot, index));
        let Some(entry) = self.pages.table.entry(page).filter(|entry| entry.load() == State::Standby(id))
        else {
            return self.pages.standby.slot(slot).owners[index].load(Relaxed) == owner;
        };
        let Some(name) = self.is_clean_on_standby(page).then(|| self.take_blob(page)).flatten() else {
            return false;
        };
        if self.shared().flags.load(Relaxed) & page::flags::PARANOID != 0 {
            self.compare(worker, name, owner, self.pages.standby.page_address(id));
        }
        entry.store(State::Stored(name));
        self.pages.standby.forget(id);
        self.slot().counters.pages_clean.fetch_add(1, Relaxed);
        true
    }

    /// With `--paranoid`: ends the process if a blob differs from its page.
    #[cold]
    fn compare(&self, worker: &mut Worker, name: Ref, owner: u64, page: usize) {
        let into = &mut worker.pages[..PAGE];
        self.stored.set_reading(worker.number, true);
        // SAFETY: nobody else knows the blob, which this thread was handed out.
        let loaded = unsafe { self.store().load(name, owner, into, &mut worker.decode) };
        self.stored.set_reading(worker.number, false);
        // SAFETY: a page on standby, which nobody changes.
        let page = unsafe { core::slice::from_raw_parts(page as *const u8, PAGE) };
        if loaded.is_err() || *into != *page {
            self.fail_corrupt();
        }
    }

    /// `None` if the store gets no memory for it. `whole`: the page is kept even if it does not get smaller.
    fn compress_page(
        &self,
        worker: &mut Worker,
        tier: Tier,
        owner: u64,
        page: &[u8],
        whole: bool,
    ) -> Option<(Fate, Size)> {
        let word = memfold_codec::same_filled(page);
        if word == Some(0) {
            return Some((Fate::Kept(State::Zero), Size::default()));
        }
        let address = owner as usize * PAGE;
        let is_marked =
            || self.pages.table.block(address).is_some_and(|block| block.marks.has(index_in_block(address)));
        let (name, bytes) = if whole {
            self.store().insert_sized(tier, owner, page, &mut worker.space).ok()?
        } else if is_marked() {
            return Some((Fate::Back, Size::default()));
        } else {
            match self.store().insert_if_smaller(tier, owner, page, &mut worker.space).ok()? {
                Some(kept) => kept,
                None => return Some((Fate::Back, Size::default())),
            }
        };
        let class = if word.is_some() { trail::REPEATED } else { trail::size_class(bytes) };
        Some((Fate::Kept(State::Stored(name)), Size { class: class as u8, bytes: bytes as u16 }))
    }

    /// Stops here while a fork is prepared.
    pub fn pause_here(&self) {
        while self.forks.pause.load(Acquire) != 0 {
            self.threads.paused.fetch_add(1, AcqRel);
            sys::futex_wake(&self.threads.paused, sys::ALL, false);
            while self.forks.pause.load(Acquire) != 0 {
                let _ = sys::futex_wait(&self.forks.pause, 1, None, false);
            }
            self.threads.paused.fetch_sub(1, AcqRel);
        }
    }
}

const _: () = assert!(GROUP <= 64 && PAGES <= u16::MAX as usize && BLOCK == PAGES * PAGE);
