//! Requests to the supervisor, and its answers.

use core::sync::atomic::Ordering::*;

use memfold_shared::spill::{self as area, Area, For, POSTS, Post, Word, answer};

use super::direct::TURN_NS;
use crate::kernel::sched;
use crate::kernel::sys;
use crate::memory::patience::Patience;
use crate::spill::state::Spill;

/// Interval between checks that the server is still there, in ns.
pub const LOOK_NS: u64 = 1_000_000_000;

impl Spill {
    /// Takes a request slot; waits for one if there is none, until patience ends. On failure it returns the
    /// reason: [`answer::AWAY`], or `None` if no process serves the slots.
    pub fn take_request_slot(
        &self,
        area: &'static Area,
        what: For,
        patience: &mut Patience,
    ) -> Result<(usize, Word), Option<u32>> {
        let take = || area.take(self.pid(), what);
        if let Some(taken) = take() {
            return Ok(taken);
        }
        area.waiting.fetch_add(1, SeqCst);
        let mut begin = sys::now_ns();
        let taken = loop {
            let seen = area.freed.load(SeqCst);
            if let Some(taken) = take() {
                break Ok(taken);
            }
            let _ = sys::futex_wait(&area.freed, seen, Some(LOOK_NS / 100), true);
            if patience.is_over() {
                break Err(Some(answer::AWAY));
            }
            let now = sys::now_ns();
            if now - begin > LOOK_NS {
                begin = now;
                if self.is_left_alone(area) {
                    break Err(None);
                }
            }
        };
        area.waiting.fetch_sub(1, SeqCst);
        taken
    }

    /// Waits for the answer to a request, and calls `meanwhile` now and then. On success, the caller frees
    /// the request slot.
    pub fn wait_for_answer(
        &self,
        area: &'static Area,
        number: usize,
        taken: Word,
        mut meanwhile: impl FnMut(),
    ) -> Result<(u32, Word), Unheard> {
        let mut looked = sys::now_ns();
        let post = &area.posts[number % POSTS];
        let (asked, answered) = (taken.with(area::state::ASKED), taken.with(area::state::ANSWERED));
        loop {
            let now = post.load();
            if now == answered {
                return Ok((post.answer.load(Relaxed), now));
            }
            if now != asked && now != taken.with(area::state::BUSY) {
                return Err(Unheard::TakenAway);
            }
            if area.server.load(Relaxed) == 0 {
                post.change(asked, asked.with(area::state::FREE));
                return Err(Unheard::Alone);
            }
            let timed_out =
                sys::futex_wait(post.futex(), now.low(), Some(TURN_NS), true) == Err(sys::Errno::TIMEDOUT);
            meanwhile();
            if !timed_out || sys::now_ns() - looked < LOOK_NS {
                continue;
            }
            looked = sys::now_ns();
            if self.is_left_alone(area) {
                // A successor of the server may be handling the request already: then it frees the slot.
                post.change(asked, asked.with(area::state::FREE));
                return Err(Unheard::Alone);
            }
        }
    }

    /// Makes a short request that concerns the process as a whole.
    pub fn tell(&self, what: u32, batch: u64, from: u32) {
        let Some(area) = self.area().filter(|area| area.server.load(Relaxed) != 0) else { return };
        let Ok((number, taken)) = self.take_request_slot(area, For::Control, &mut Patience::new(u64::MAX))
        else {
            return;
        };
        fill(&area.posts[number], what, batch, from, 0);
        send_request(area, number, taken);
        // The answer is that the request slot no longer belongs to this process, or that no process could
        // answer.
        let _ = self.wait_for_answer(area, number, taken, || ());
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheard {
    /// The request slot was freed: it was not taken for a long time, or freeing it is the answer.
    TakenAway,
    /// No process could give one.
    Alone,
}

/// Writes a request.
pub fn fill(post: &Post, what: u32, batch: u64, from: u32, len: usize) {
    post.kind.store(what, Relaxed);
    post.answer.store(answer::LATER, Relaxed);
    post.batch.store(batch, Relaxed);
    post.since.store(sys::now_ns(), Relaxed);
    post.from.store(from, Relaxed);
    post.len.store(len as u32, Relaxed);
}

/// Makes a request without waiting for the answer.
pub fn send_request(area: &Area, number: usize, taken: Word) {
    send_request_silently(area, number, taken);
    ring(area);
}

/// Makes a request; the caller must still ring for the server.
pub fn send_request_silently(area: &Area, number: usize, taken: Word) {
    area.posts[number % POSTS].change(taken, taken.with(area::state::ASKED));
}

/// Wakes a thread of the server, preferably one that sleeps on this CPU.
pub fn ring(area: &Area) {
    let bells = (area.bells.load(Relaxed) as usize).clamp(1, area::BELLS);
    let near = sched::cpu();
    for bell in (near..near + bells).map(|number| &area.doorbells[number % bells]) {
        bell.fetch_add(1, Release);
        if sys::futex_wake(bell, 1, true) > 0 {
            break;
        }
    }
}

/// Frees a request slot whose answer was taken, or that is not used for a request. `false` if the slot had
/// been taken away: then it may have held another process's data.
pub fn free_request_slot(area: &Area, number: usize, from: Word) -> bool {
    let is_own = area.free(number, from);
    if is_own && area.waiting.load(SeqCst) > 0 {
        sys::futex_wake(&area.freed, sys::ALL, true);
    }
    is_own
}
