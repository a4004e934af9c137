//! Records which processes hold which batches. A batch is deleted when no process holds it any more.
//!
//! ```text
//! put          the process holds it
//! fork         the parent's batches are set aside for the child, before it exists; the child claims them
//! release      the process no longer holds it
//! exec, end    the process holds nothing
//! ```
//!
//! A process is identified by its id and by a property ([`Who`]) that tells it from a later process or
//! program with the same id. This is necessary because a process that executes a program without the library
//! does not report that.
//!
//! A child claims its batches within milliseconds, or never if the fork failed or the child ended early. The
//! batches set aside for it are deleted some minutes later, once its parent has ended or has no child that
//! might still claim. So a slow child loses nothing.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::who::Who;

/// Minimum time that batches wait for their child.
const WAITS: Duration = Duration::from_secs(120);

/// Batches that wait for a child.
#[derive(Debug)]
struct Aside {
    parent: u32,
    /// The number of the fork.
    number: u64,
    held: HashSet<u64>,
    since: Instant,
}

/// A process, and the batches it holds.
#[derive(Debug, Default)]
struct Holder {
    /// `None` if the kernel did not reveal it.
    who: Option<Who>,
    held: HashSet<u64>,
}

/// Information about processes, which this module gets from its caller.
pub trait Outside {
    /// Whether a process has certainly ended.
    fn is_gone(&self, pid: u32) -> bool;
    /// The process that has this id.
    fn who(&self, pid: u32) -> Option<Who>;
    /// The children of a process; `None` if unknown.
    fn children(&self, pid: u32) -> Option<Vec<u32>>;
}

/// The record; see the module.
#[derive(Debug, Default)]
pub struct Holds {
    /// The holders by process id, including processes that hold nothing.
    of: HashMap<u32, Holder>,
    aside: Vec<Aside>,
    /// Batches that no process holds, and which must still be deleted.
    forgone: Vec<u64>,
    /// How many processes hold each batch, including those for which it is set aside.
    count: HashMap<u64, u32>,
}

impl Holds {
    /// A program begins: the process holds nothing. Like the other functions, this one returns the batches
    /// that no process holds any more.
    pub fn begin(&mut self, pid: u32, who: Option<Who>) -> Vec<u64> {
        let before = self.of.insert(pid, Holder { who, ..Holder::default() });
        self.let_go(before.unwrap_or_default().held)
    }

    /// Adds a process, unless it is known already.
    pub fn enter(&mut self, pid: u32, who: Option<Who>) -> Vec<u64> {
        let known = self.of.get(&pid).map(|holder| holder.who);
        match known {
            Some(known) if !was_before(known, who) => Vec::new(),
            _ => self.begin(pid, who),
        }
    }

    /// The process has stored a batch.
    pub fn add(&mut self, pid: u32, batch: u64) {
        if self.of.entry(pid).or_default().held.insert(batch) {
            *self.count.entry(batch).or_default() += 1;
        }
    }

    /// The process will not learn that its batch was stored, so the batch is deleted at the next sweep.
    pub fn forgo(&mut self, pid: u32, batch: u64) {
        let free = self.release(pid, &[batch]);
        self.forgone.extend(free);
    }

    /// The process no longer needs these batches.
    pub fn release(&mut self, pid: u32, batches: &[u64]) -> Vec<u64> {
        let Some(own) = self.of.get_mut(&pid) else { return Vec::new() };
        let held: HashSet<u64> = batches.iter().copied().filter(|batch| own.held.remove(batch)).collect();
        self.let_go(held)
    }

    /// Sets aside everything that the process holds, for a child.
    pub fn fork(&mut self, parent: u32, number: u64, since: Instant) {
        let held = self.of.get(&parent).map(|holder| holder.held.clone()).unwrap_or_default();
        for batch in &held {
            *self.count.entry(*batch).or_default() += 1;
        }
        self.aside.push(Aside { parent, number, held, since });
    }

    /// The child takes over the batches set aside for it.
    pub fn claim(&mut self, parent: u32, number: u64, child: u32, who: Option<Who>) -> Vec<u64> {
        let free = self.begin(child, who);
        if let Some(at) = self.aside.iter().position(|it| (it.parent, it.number) == (parent, number)) {
            let held = self.aside.swap_remove(at).held;
            self.of.insert(child, Holder { who, held });
        }
        free
    }

    /// The child of that fork needs none of the batches set aside for it.
    pub fn forgo_aside(&mut self, number: u64) -> Vec<u64> {
        match self.aside.iter().position(|it| it.number == number) {
            Some(at) => {
                let held = self.aside.swap_remove(at).held;
                self.let_go(held)
            }
            None => Vec::new(),
        }
    }

    /// Forgets processes that are gone, and batches that no child will claim.
    pub fn sweep(&mut self, outside: &impl Outside) -> Vec<u64> {
        let is_gone = |pid: u32, who: Option<Who>| outside.is_gone(pid) || was_before(who, outside.who(pid));
        let of = self.of.iter();
        let gone: Vec<u32> =
            of.filter(|(pid, holder)| is_gone(**pid, holder.who)).map(|(pid, _)| *pid).collect();
        let mut free = std::mem::take(&mut self.forgone);
        for pid in gone {
            let holder = self.of.remove(&pid).unwrap_or_default();
            free.extend(self.let_go(holder.held));
        }
        // If every child of the parent is known here, no child will claim any more.
        let is_known = |child: &u32| self.of.contains_key(child);
        let has_no_more = |parent: u32| {
            outside.is_gone(parent) || outside.children(parent).is_some_and(|all| all.iter().all(is_known))
        };
        let (left, kept) = std::mem::take(&mut self.aside)
            .into_iter()
            .partition(|it| it.since.elapsed() > WAITS && has_no_more(it.parent));
        let left: Vec<Aside> = left;
        self.aside = kept;
        left.into_iter().for_each(|aside| free.extend(self.let_go(aside.held)));
        free
    }

    /// Forgets all processes. Returns all batches that were held.
    pub fn end(&mut self) -> Vec<u64> {
        std::mem::take(self).count.into_keys().collect()
    }

    /// Whether any process holds batches, or may hold some later.
    pub fn any(&self) -> bool {
        !self.count.is_empty() || !self.of.is_empty()
    }

    fn let_go(&mut self, held: HashSet<u64>) -> Vec<u64> {
        let mut free = Vec::new();
        for batch in held {
            if let Some(count) = self.count.get_mut(&batch) {
                *count -= 1;
                if *count == 0 {
                    self.count.remove(&batch);
                    free.push(batch);
                }
            }
        }
        free
    }
}

/// Whether a known process is certainly gone.
fn was_before(known: Option<Who>, now: Option<Who>) -> bool {
    known.zip(now).is_some_and(|(known, now)| known.was_before(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Made {
        gone: Vec<u32>,
        now: HashMap<u32, Who>,
        children: HashMap<u32, Vec<u32>>,
    }

    impl Outside for Made {
        fn is_gone(&self, pid: u32) -> bool {
            self.gone.contains(&pid)
        }

        fn who(&self, pid: u32) -> Option<Who> {
            self.now.get(&pid).copied()
        }

        fn children(&self, pid: u32) -> Option<Vec<u32>> {
            self.children.get(&pid).cloned()
        }
    }

    fn without(gone: &[u32]) -> Made {
        Made { gone: gone.to_vec(), ..Made::default() }
    }

    #[test]
    fn a_batch_lives_as_long_as_one_holds_it() {
        let mut holds = Holds::default();
        holds.begin(1, None);
        (10..14).for_each(|batch| holds.add(1, batch));
        assert_eq!(holds.release(1, &[10, 99]), [10]);
        holds.fork(1, 7, Instant::now());
        // The parent releases its batches before the child has claimed.
        assert_eq!(holds.release(1, &[11]), [] as [u64; 0]);
        assert_eq!(holds.claim(1, 7, 2, None), [] as [u64; 0]);
        assert_eq!(holds.release(2, &[11, 12]), [11]);
        assert_eq!(holds.sweep(&without(&[1])), [12]);
        // The child executes another program.
        assert_eq!(holds.begin(2, None), [13]);
        assert!(holds.any(), "it may hold something one day");
        assert_eq!(holds.sweep(&without(&[2])), [] as [u64; 0]);
        assert!(!holds.any());
    }

    #[test]
    fn unclaimed_batches_go_when_the_parent_is_long_gone() {
        let mut holds = Holds::default();
        holds.add(1, 5);
        let Some(long_ago) = Instant::now().checked_sub(WAITS * 2) else { return };
        holds.fork(1, 1, long_ago);
        holds.fork(1, 2, Instant::now());
        // The parent executes another program, which forks.
        assert_eq!(holds.begin(1, None), [] as [u64; 0]);
        holds.add(1, 6);
        holds.fork(1, 3, Instant::now());
        holds.claim(1, 2, 3, None);
        holds.claim(1, 3, 4, None);
        assert_eq!(holds.sweep(&without(&[3])), [] as [u64; 0]);
        assert_eq!(holds.sweep(&without(&[1])), [5]);
        assert_eq!(holds.sweep(&without(&[4])), [6]);
        assert!(!holds.any());
    }

    #[test]
    fn unclaimed_batches_go_when_no_more_children_can_claim_them() {
        let mut holds = Holds::default();
        holds.add(1, 5);
        holds.enter(2, None);
        let Some(long_ago) = Instant::now().checked_sub(WAITS * 2) else { return };
        (1..4).for_each(|number| holds.fork(1, number, long_ago));
        holds.fork(1, 4, Instant::now());
        // The child of one fork reports that it needs nothing.
        assert_eq!(holds.forgo_aside(3), [] as [u64; 0]);
        assert_eq!(holds.release(1, &[5]), [] as [u64; 0]);
        let slow = Made { children: HashMap::from([(1, vec![2, 3])]), ..Made::default() };
        // If it is unknown whether the child will come, or if a slow child may still come, the batches stay.
        assert!(holds.sweep(&Made::default()).is_empty() && holds.sweep(&slow).is_empty());
        holds.claim(1, 2, 3, None);
        assert_eq!(holds.aside.len(), 2);
        assert!(holds.sweep(&slow).is_empty());
        assert_eq!(holds.aside.len(), 1, "that of a fork a moment ago");
        assert_eq!(holds.release(3, &[5]), [] as [u64; 0]);
        assert_eq!(holds.forgo_aside(4), [5]);
    }

    #[test]
    fn another_program_holds_nothing_of_what_that_process_held() {
        let (before, now) = (Who::of(std::process::id()), Who::of(1));
        assert!(was_before(before, now));
        let mut holds = Holds::default();
        holds.begin(7, before);
        holds.add(7, 5);
        let outside =
            |who: Option<Who>| Made { now: who.map(|who| (7, who)).into_iter().collect(), ..Made::default() };
        assert!(holds.sweep(&outside(before)).is_empty() && holds.sweep(&outside(None)).is_empty());
        assert!(holds.enter(7, before).is_empty());
        assert_eq!(holds.sweep(&outside(now)), [5]);
        assert!(!holds.any());
        holds.begin(7, before);
        holds.add(7, 6);
        assert_eq!(holds.enter(7, now), [6]);
    }
}
