//! Fetching blocks from the tier: requesting them, waiting for the answer, opening and decompressing them.

use core::sync::atomic::Ordering::*;

use memfold::probe;
use memfold::store::Tiered;
use memfold_shared::spill::{self as area, Area, For, POSTS, Word, answer, kind};

use super::batches::SpillLocation;
use super::direct::{Ended, FETCHERS, MOST_AT_ONCE};
use super::out::codec_of;
use super::posts::{Unheard, fill, free_request_slot, ring, send_request_silently};
use super::queue::{AGAIN_NS, Asked, Left, Way};
use crate::interpose::rights::credentials;
use crate::kernel::addresses::PAGES;
use crate::kernel::addresses::RUN;
use crate::kernel::sys::{self, PAGE};
use crate::memory::patience::Patience;
use crate::pages::events::order::Fault;
use crate::pages::stored::StoreMemory;
use crate::pages::table::{Block, State};
use crate::reclaim::worker::Worker;
use crate::runtime::Runtime;
use crate::spill::state::Spill;

/// Consecutive blocks of a batch.
#[derive(Clone, Copy)]
pub struct Fetched {
    /// Their locations, from the first page on; `None` for pages between them that were not spilled.
    pub(super) spots: [Option<SpillLocation>; RUN],
    /// Number of pages.
    pub count: usize,
    /// The batch's number at the time of the request.
    pub number: u64,
}

impl Spill {
    /// Begins to read blocks if they lie in a file that this process may read.
    fn begin_read(&self, page: usize, wanted: &Fetched) -> Option<Asked> {
        let (first, last) = (wanted.spots[0]?, wanted.spots[wanted.count - 1]?);
        let unit = self.batches.unit(first.batch)?;
        let read = self.direct.begin(unit, first.offset, last.end())?;
        probe!(runtime_fetch_begin, page, wanted.number, read.bytes(), true);
        Some(Asked { way: Way::Read(read), number: wanted.number, first, count: wanted.count })
    }

    /// Whether a location lies where this process may read.
    fn may_read(&self, spot: SpillLocation) -> bool {
        self.direct.is_open() && self.batches.unit(spot.batch).is_some()
    }
}

impl Runtime {
    /// Hands a fault to the fetchers, which restore up to `run` pages. Returns the probable number of pages;
    /// `None` if this cannot be done now.
    pub(super) fn leave_to_fetchers(&self, fault: Fault, begin: u64, run: usize) -> Option<usize> {
        let found = self.locations_at(fault.page, run)?;
        let mut queue = self.spill.queue.lock();
        if queue.has(fault.page) {
            return Some(found.count);
        }
        if queue.is_full() {
            queue.forgotten = true;
            return Some(found.count);
        }
        // Request ahead only if a fetcher will soon take the answer. More requests would keep other processes
        // from asking.
        let area = self.spill.area().filter(|_| queue.count < FETCHERS);
        let ask = |area: &'static Area| {
            self.spill.begin_read(fault.page, &found).or_else(|| {
                let taken = area.take(self.spill.pid(), For::Ahead)?;
                self.ask_for(area, taken, fault.page, &found)
            })
        };
        let asked = area.and_then(ask);
        queue.push(Left { fault, begin, run, asked });
        self.spill.fetching.fetch_add(1, Relaxed);
        drop(queue);
        if let Some(area) = area.filter(|_| asked.is_some_and(|asked| matches!(asked.way, Way::Post(..)))) {
            ring(area);
        }
        self.spill.asked.ring_one();
        Some(found.count)
    }

    /// The spilled blocks from a page on that can be requested at once, for at most `most` pages.
    fn locations_at(&self, page: usize, most: usize) -> Option<Fetched> {
        let most = most.min(RUN).min(PAGES - page / PAGE % PAGES);
        self.locations_from(self.pages.table.block(page)?, page, most)
    }

    fn locations_from(&self, block: &Block, page: usize, most: usize) -> Option<Fetched> {
        let mut fetched = Fetched { spots: [None; RUN], count: 0, number: 0 };
        let mut before: Option<SpillLocation> = None;
        for index in 0..most {
            let State::Spilled(spot) = block.entries[page / PAGE % PAGES + index].load() else { continue };
            // The bytes between them in the batch are read, too; this bounds the total.
            let follows = |before: SpillLocation| before.batch == spot.batch && before.end() <= spot.offset;
            let first = fetched.spots[0].unwrap_or(spot);
            if before.is_some_and(|before| !follows(before)) || spot.end() - first.offset > MOST_AT_ONCE {
                break;
            }
            if index > 0 && before.is_none() {
                return None;
            }
            fetched.spots[index] = Some(spot);
            fetched.count = index + 1;
            before = Some(spot);
        }
        fetched.number = self.spill.batches.number(fetched.spots[0]?.batch)?;
        Some(fetched)
    }

    /// Requests blocks without ringing, with a request slot taken for this; the thread that waits for the
    /// answer frees the slot.
    fn ask_for(
        &self,
        area: &Area,
        (post, taken): (usize, Word),
        page: usize,
        wanted: &Fetched,
    ) -> Option<Asked> {
        let (first, last) = (wanted.spots[0]?, wanted.spots[wanted.count - 1]?);
        let bytes = (last.end() - first.offset) as usize;
        fill(&area.posts[post % POSTS], kind::GET, wanted.number, first.offset, bytes.min(area::BUFFER));
        send_request_silently(area, post, taken);
        probe!(runtime_fetch_begin, page, wanted.number, bytes, false);
        Some(Asked { way: Way::Post(post, taken), number: wanted.number, first, count: wanted.count })
    }

    /// Fetches the pages of up to `most` blocks from `page` on into the worker's pages. `asked` is a request
    /// that was made already. `None` if the first page is not spilled any more. Waits for as long as the
    /// supervisor does.
    pub(crate) fn fetch(
        &self,
        worker: &mut Worker,
        page: usize,
        most: usize,
        mut asked: Option<Asked>,
    ) -> Option<Fetched> {
        let area = self.spill.area()?;
        let mut patience = Patience::new(area.patience_ns.load(Relaxed));
        // If a read fails, the supervisor may know where the block is.
        let mut may_read = true;
        loop {
            let now = match asked.take() {
                Some(asked) => asked,
                None => {
                    let wanted = self.locations_at(page, most)?;
                    match self.ask(area, page, &wanted, may_read, &mut patience) {
                        Ok(asked) => asked,
                        Err(why) => return self.give_up(page, wanted.spots[0]?, wanted.number, why),
                    }
                }
            };
            let opened = match now.way {
                Way::Read(read) => {
                    // If only one thread faults, this CPU is idle.
                    let is_idle =
                        self.reclaim.may_keep_awake.load(Relaxed) && self.faults.follow.cpu().is_some();
                    let ended = self.spill.direct.wait(read, &mut patience, is_idle, credentials::adopt);
                    if ended == Ended::Never {
                        return self.give_up(page, now.first, now.number, Some(answer::AWAY));
                    }
                    let mut opened = None;
                    if ended == Ended::Read {
                        area.direct_reads.fetch_add(1, Relaxed);
                        area.direct_bytes.fetch_add(read.bytes() as u64, Relaxed);
                        opened = self.open(worker, page, &now, read.buffer(), read.from);
                    }
                    self.spill.direct.give_back(read);
                    may_read = false;
                    opened
                }
                Way::Post(post, taken) => match self.spill.wait_for_answer(area, post, taken, || {
                    credentials::adopt();
                    patience.is_over();
                }) {
                    Ok((what, word)) => {
                        let is_there = what == answer::DONE;
                        let opened = is_there
                            .then(|| self.open(worker, page, &now, area.buffer(post), now.first.offset))
                            .flatten();
                        // An opened block is right in any case. If the request slot belonged to another
                        // request by then, a failure to open means nothing.
                        let is_own = free_request_slot(area, post, word);
                        // The supervisor does not know which process was stopped, and for how long.
                        let may_wait = what == answer::AWAY && !patience.is_over();
                        if is_own && opened.is_none() && !may_wait {
                            return self.give_up(page, now.first, now.number, Some(what));
                        }
                        opened
                    }
                    // This process was stopped for a long time, and may ask again.
                    Err(Unheard::TakenAway) => None,
                    Err(Unheard::Alone) if may_read && self.spill.may_read(now.first) => None,
                    Err(Unheard::Alone) => return self.give_up(page, now.first, now.number, None),
                },
            };
            // Further blocks may have gone meanwhile, or are requested again.
            if opened.is_some() {
                return opened;
            }
        }
    }

    /// Reads blocks, or requests them. If there is no supervisor to ask, it waits until it can read. On
    /// failure it returns the reason, as [`Runtime::take_request_slot`] does.
    fn ask(
        &self,
        area: &'static Area,
        page: usize,
        wanted: &Fetched,
        may_read: bool,
        patience: &mut Patience,
    ) -> Result<Asked, Option<u32>> {
        let first = wanted.spots[0].ok_or(None)?;
        loop {
            if may_read && let Some(asked) = self.spill.begin_read(page, wanted) {
                return Ok(asked);
            }
            let taken = if area.server.load(Relaxed) == 0 {
                Err(None)
            } else {
                self.spill.take_request_slot(area, For::Get, patience)
            };
            match taken {
                Ok(taken) => {
                    let asked = self.ask_for(area, taken, page, wanted).ok_or(None)?;
                    let since = sys::now_ns().saturating_sub(patience.waited());
                    area.posts[taken.0 % POSTS].since.store(since, Relaxed);
                    ring(area);
                    return Ok(asked);
                }
                Err(None) if may_read && self.spill.may_read(first) && !patience.is_over() => {
                    let _ = sys::futex_wait(&area.freed, area.freed.load(Relaxed), Some(AGAIN_NS), true);
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Opens the blocks at `from`, which begin at `offset` in their batch, if their pages are still spilled
    /// there. `None` if the first does not open.
    fn open(
        &self,
        worker: &mut Worker,
        page: usize,
        asked: &Asked,
        from: *const u8,
        offset: u32,
    ) -> Option<Fetched> {
        let now = self.locations_at(page, asked.count)?;
        if now.number != asked.number || now.spots[0] != Some(asked.first) {
            return None;
        }
        let count = self.open_all(worker, &now, from, offset);
        (count > 0).then_some(Fetched { count, ..now })
    }

    /// A block could not be fetched: ends the process if the block is still needed.
    fn give_up(
        &self,
        page: usize,
        first: SpillLocation,
        number: u64,
        answer: Option<u32>,
    ) -> Option<Fetched> {
        // The page may have gone meanwhile, and its batch with it; then other data may lie in its place.
        let is_wanted =
            self.pages.table.entry(page).is_some_and(|entry| entry.load() == State::Spilled(first))
                && self.spill.batches.number(first.batch) == Some(number);
        if is_wanted {
            self.fail(match answer {
                Some(answer::DONE) => {
                    "a page was spilled, and the tier returned other data: the process is terminated, so that it can't continue with wrong data"
                }
                Some(answer::AWAY) => {
                    "a page was spilled to a tier that has not answered for as long as --spill-patience allows: the process is terminated"
                }
                None => "a page was spilled, and the supervisor (memfold run), which could fetch it, is gone: the process is terminated",
                _ => {
                    "a page was spilled, and the tier no longer has it: the process is terminated, so that it can't continue with wrong data"
                }
            });
        }
        None
    }

    /// Opens blocks up to the first that does not open. Returns the number of pages covered.
    fn open_all(&self, worker: &mut Worker, fetched: &Fetched, from: *const u8, offset: u32) -> usize {
        for (index, spot) in fetched.spots.iter().enumerate().take(fetched.count) {
            let Some(spot) = spot else { continue };
            let len = spot.len as usize;
            // Copied out of memory that other processes can write to: a block must not change after it was
            // opened.
            let sealed = &mut worker.sealed[..len];
            // SAFETY: within the buffer, since these blocks, or some of them, were requested; the worker's
            // memory is its own.
            unsafe {
                let from = from.add((spot.offset - offset) as usize);
                core::ptr::copy_nonoverlapping(from, sealed.as_mut_ptr(), len);
            }
            let sealer = self.spill.sealer();
            let opened =
                sealer.and_then(|sealer| sealer.open_first(fetched.number, spot.offset, sealed).ok());
            let page = &mut worker.pages[index * PAGE..(index + 1) * PAGE];
            let done = opened.is_some_and(|(block, _)| {
                let codec = codec_of(block.tag);
                Tiered::<StoreMemory>::open(block.owner, codec, block.payload, page, &mut worker.decode)
                    .is_ok()
            });
            if !done {
                return index;
            }
        }
        fetched.count
    }

    /// Fetches one spilled page whose entry cannot change meanwhile.
    pub fn fetch_alone(&self, worker: &mut Worker, page: usize) {
        if self.fetch(worker, page, 1, None).is_none() {
            self.fail("a spilled page could not be restored");
        }
    }
}
