//! Answers the requests of processes.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::{Duration, Instant};

use memfold_shared::spill::{Area, BUFFER, NOWHERE, POSTS, Post, Word, answer, kind, scarce, state};
use memfold_spill::{Engine, Room, Trouble};

use super::state::State;
use crate::spill::who::Who;
use crate::sys;

/// At most this many threads wait for a tier.
const GETTING: u32 = 4;
/// A request that the tier did not answer is tried again after this time.
const AGAIN: Duration = Duration::from_millis(100);

fn scarcity(room: Room) -> u32 {
    match room.used {
        used if used > room.most / 8 * 7 => scarce::VERY,
        used if used > room.most / 4 * 3 => scarce::RATHER,
        _ => scarce::NOT,
    }
}

/// Answers a request; `false` if no process waits for the answer any more.
fn answer_with(area: &Area, number: usize, busy: Word, what: u32) -> bool {
    let post = &area.posts[number];
    post.answer.store(what, Relaxed);
    let is_awaited = post.change(busy, busy.with(state::ANSWERED));
    if is_awaited {
        sys::futex_wake(post.futex());
    } else if area.free(number, busy.left()) {
        sys::futex_wake(&area.freed);
    }
    is_awaited
}

/// Answers a request without a result by freeing its slot: the process that asked may be stopped, and must
/// not occupy the slot.
fn answer_by_freeing(area: &Area, number: usize, busy: Word) {
    let _ = area.free(number, busy) || area.free(number, busy.left());
    sys::futex_wake(area.posts[number].futex());
    sys::futex_wake(&area.freed);
}

impl State {
    /// Answers requests until the service ends.
    pub fn serve(self: &Arc<Self>, engine: &Arc<Engine>, bell: &AtomicU32) {
        let area = self.area;
        loop {
            let seen = bell.load(Acquire);
            let (mut found, mut is_put_off, now) = (false, false, sys::now_ns());
            // Begin at the end, with the requests for which threads wait.
            for number in (0..POSTS).rev() {
                let post = &area.posts[number];
                let asked = post.load();
                if asked.state() != state::ASKED {
                    continue;
                }
                if self.again[number].load(Relaxed) > now {
                    is_put_off = true;
                    continue;
                }
                // An unavailable tier must not occupy all threads, because forks and new programs wait for
                // answers, too.
                let is_get = matches!(post.kind.load(Relaxed), kind::GET | kind::TRY);
                // These requests must not delay the end: the successor serves them.
                if is_get && self.is_ending.load(Acquire) {
                    continue;
                }
                if is_get && self.getting.fetch_add(1, AcqRel) >= GETTING {
                    self.getting.fetch_sub(1, AcqRel);
                    continue;
                }
                let busy = asked.with(state::BUSY);
                if post.change(asked, busy) {
                    found = true;
                    self.answer(engine, number, busy);
                }
                if is_get {
                    self.getting.fetch_sub(1, AcqRel);
                }
            }
            if self.is_ending.load(Acquire) {
                return;
            }
            if !found {
                sys::futex_wait(bell, seen, if is_put_off { AGAIN } else { Duration::from_secs(3600) });
            }
        }
    }

    fn answer(self: &Arc<Self>, engine: &Arc<Engine>, number: usize, busy: Word) {
        let post = &self.area.posts[number];
        let (pid, batch, from) = (busy.pid(), post.batch.load(Relaxed), post.from.load(Relaxed));
        let who = || Who::of(pid);
        let free = match post.kind.load(Relaxed) {
            kind::PUT => return self.put(engine, number, busy),
            how @ (kind::GET | kind::TRY) => return self.get(engine, number, busy, how == kind::GET),
            kind::RELEASE => self.lock().release(pid, &self.numbers_in(number)),
            kind::FORK => {
                self.lock().fork(pid, batch, Instant::now());
                Vec::new()
            }
            kind::CLAIM => {
                let who = who();
                self.lock().claim(from, batch, pid, who)
            }
            kind::FORGO => self.lock().forgo_aside(batch),
            kind::HERE => {
                let who = who();
                self.lock().enter(pid, who)
            }
            kind::BEGIN => {
                let who = who();
                self.forget_questions_of(pid, number);
                self.lock().begin(pid, who)
            }
            _ => Vec::new(),
        };
        self.let_go(engine, free);
        answer_by_freeing(self.area, number, busy);
    }

    /// The number of bytes that a request supplies or wants.
    fn length(post: &Post) -> usize {
        (post.len.load(Relaxed) as usize).min(BUFFER)
    }

    /// The numbers of batches in a request's buffer.
    fn numbers_in(&self, number: usize) -> Vec<u64> {
        let (numbers, len) = (self.area.buffer(number).cast::<u64>(), Self::length(&self.area.posts[number]));
        // SAFETY: `len` bytes of the request slot's buffer, which is page-aligned and mapped as long as the
        // area. Other processes of the tree could write there meanwhile, but any bytes are valid.
        (0..len / 8).map(|index| unsafe { numbers.add(index).read() }).collect()
    }

    fn put(self: &Arc<Self>, engine: &Arc<Engine>, number: usize, busy: Word) {
        let (area, post) = (self.area, &self.area.posts[number]);
        let (pid, batch, len) = (busy.pid(), post.batch.load(Relaxed), Self::length(post));
        area.scarce.store(scarcity(engine.room()), Relaxed);
        let mut bytes = vec![0; len];
        // SAFETY: `len` bytes of the request slot's buffer, which is mapped as long as the area. Other
        // processes of the tree could write there meanwhile, but any bytes are valid.
        unsafe { std::ptr::copy_nonoverlapping(area.buffer(number), bytes.as_mut_ptr(), len) };
        let state = self.clone();
        engine.put(batch, Arc::new(bytes), move |result| {
            let place = result.as_ref().ok().copied().flatten();
            let unit = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NOWHERE);
            state.area.posts[number].from.store(unit, Relaxed);
            // Record the batch before answering: from the answer on, the process relies on it.
            if result.is_ok() {
                state.lock().add(pid, batch);
            }
            let what = if result.is_ok() { answer::DONE } else { answer::LATER };
            if !answer_with(state.area, number, busy, what) && result.is_ok() {
                state.lock().forgo(pid, batch);
            }
        });
    }

    fn get(&self, engine: &Engine, number: usize, busy: Word, waits: bool) {
        let (area, post) = (self.area, &self.area.posts[number]);
        let (batch, from, len) = (post.batch.load(Relaxed), post.from.load(Relaxed), Self::length(post));
        // SAFETY: as in `put`, and the slice is gone before the request is answered.
        let into = unsafe { std::slice::from_raw_parts_mut(area.buffer(number), len) };
        let what = match engine.try_get(batch, from, into) {
            Ok(()) => answer::DONE,
            Err(Trouble::Lost) => answer::LOST,
            Err(_) if waits && self.is_patient(post) => {
                self.put_off(number, busy);
                return;
            }
            Err(_) => answer::AWAY,
        };
        answer_with(area, number, busy, what);
    }

    /// Whether a request may wait longer. The requesting process decides in the end: if it or this process
    /// was stopped meanwhile, it asks again.
    fn is_patient(&self, post: &Post) -> bool {
        sys::now_ns().saturating_sub(post.since.load(Relaxed)) < self.patience
    }

    /// Lets the request be tried again later, by this server or its successor.
    fn put_off(&self, number: usize, busy: Word) {
        self.again[number].store(sys::now_ns() + AGAIN.as_nanos() as u64, Relaxed);
        if !self.area.posts[number].change(busy, busy.with(state::ASKED))
            && self.area.free(number, busy.left())
        {
            sys::futex_wake(&self.area.freed);
        }
    }

    /// Drops the other requests of a process that executes another program, which does not wait for the
    /// answers.
    fn forget_questions_of(&self, pid: u32, but: usize) {
        for (number, post) in self.area.posts.iter().enumerate().filter(|(number, _)| *number != but) {
            loop {
                let now = post.load();
                let is_settled = now.pid() != pid
                    || now.state() == state::FREE
                    // A request that is being served is freed when it is done.
                    || now.state() == state::BUSY && post.change(now, now.left())
                    || now.state() != state::BUSY && self.area.free(number, now);
                if is_settled {
                    break;
                }
            }
        }
    }
}
