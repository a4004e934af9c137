//! Abandoned request slots: their process has ended, has executed another program, or is stopped.
//!
//! An answer that is not taken is dropped after some seconds. Otherwise a few stopped processes could occupy
//! all slots; a process that continues later asks again. A slot that is being filled belongs to its process
//! as long as the process lives, because the process writes to it without checking.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memfold_shared::spill::{Area, NOBODY, POSTS, Word, answer, kind, state};

use super::who::{Who, is_gone};
use crate::sys;

/// How long an answer may wait to be taken.
const KEPT: Duration = Duration::from_secs(5);

/// A request slot as it was first seen.
#[derive(Clone, Copy)]
struct Found {
    word: Word,
    since: Instant,
    /// The process that had the slot then; `None` if it could not be identified.
    who: Option<Who>,
}

/// Finds and frees abandoned request slots; see the module.
#[derive(Default)]
pub struct Abandoned {
    found: [Option<Found>; POSTS],
}

impl Abandoned {
    /// Frees abandoned request slots. Returns processes and the batches that were stored for them without
    /// their knowledge.
    pub fn sweep(
        &mut self,
        area: &Area,
        now: Instant,
        who_is: impl Fn(u32) -> Option<Who>,
    ) -> Vec<(u32, u64)> {
        let mut forgone = Vec::new();
        for (number, found) in self.found.iter_mut().enumerate() {
            let (post, word) = (&area.posts[number], area.posts[number].load());
            if matches!(word.state(), state::FREE | state::BUSY) {
                *found = None;
                continue;
            }
            // The slot belongs to the process that has this id now, or to an earlier one with the same id.
            // Once another process has the id, all of these are gone.
            let new = || Found { word, since: now, who: who_is(word.pid()) };
            let known = *found.insert(found.filter(|found| found.word == word).unwrap_or_else(new));
            let is_left = word.pid() == NOBODY || is_gone(word.pid()) || {
                known.who.zip(who_is(word.pid())).is_some_and(|(then, now)| then.was_before(now))
            };
            let is_old = word.state() == state::ANSWERED && now.duration_since(known.since) > KEPT;
            if !is_left && !is_old {
                continue;
            }
            // Read these before freeing the slot, which may then belong to another process.
            let is_kept = word.state() == state::ANSWERED
                && post.kind.load(Relaxed) == kind::PUT
                && post.answer.load(Relaxed) == answer::DONE;
            let batch = post.batch.load(Relaxed);
            if area.free(number, word) {
                sys::futex_wake(post.futex());
                sys::futex_wake(&area.freed);
                forgone.extend(is_kept.then_some((word.pid(), batch)));
            }
        }
        forgone
    }
}

#[cfg(test)]
mod tests {
    use memfold_shared::spill::For;

    use super::*;

    /// A request slot of this process, in this state.
    fn post(area: &Area, what: u32, state: u32) -> (usize, Word) {
        let (number, taken) = area.take(std::process::id(), For::Put).unwrap();
        area.posts[number].kind.store(what, Relaxed);
        area.posts[number].batch.store(70 + number as u64, Relaxed);
        area.posts[number].answer.store(answer::DONE, Relaxed);
        assert!(area.posts[number].change(taken, taken.with(state)));
        (number, taken.with(state))
    }

    #[test]
    fn unclaimed_answers_are_removed() {
        let area = crate::spill::tests::area();
        let (mut abandoned, begin) = (Abandoned::default(), Instant::now());
        let (put, get) = (post(area, kind::PUT, state::ANSWERED), post(area, kind::GET, state::ANSWERED));
        let others = [state::TAKEN, state::ASKED, state::BUSY].map(|state| post(area, kind::PUT, state));
        assert_eq!(abandoned.sweep(area, begin, Who::of), []);
        // A slot that was answered only now is kept.
        let (number, before) = get;
        assert!(area.free(number, before));
        let again = post(area, kind::GET, state::ANSWERED);
        assert_eq!(again.0, number);
        let me = std::process::id();
        assert_eq!(abandoned.sweep(area, begin + KEPT * 2, Who::of), [(me, 70 + put.0 as u64)]);
        assert!(!area.free(put.0, put.1), "it is free, and its process has to see that");
        assert!(others.into_iter().chain([again]).all(|(number, word)| area.posts[number].load() == word));
    }

    #[test]
    fn slots_of_the_previous_program_are_freed() {
        let area = crate::spill::tests::area();
        let mut abandoned = Abandoned::default();
        let (number, word) = post(area, kind::PUT, state::TAKEN);
        let now = Instant::now();
        let this = Who::of(std::process::id());
        assert!(abandoned.sweep(area, now, |_| this).is_empty() && area.posts[number].load() == word);
        // Slots that the new process has taken stay with it.
        let (other, others) = post(area, kind::PUT, state::TAKEN);
        let next = Who::of(1);
        assert!(this.zip(next).is_some_and(|(this, next)| this.was_before(next)));
        assert!(abandoned.sweep(area, now, |_| next).is_empty());
        assert_eq!((area.posts[number].load().state(), area.posts[other].load()), (state::FREE, others));
        assert!(abandoned.sweep(area, now, |_| next).is_empty() && area.posts[other].load() == others);
    }
}
