//! Who holds which batches: a batch is deleted when no process needs it any more.
//!
//! ```text
//! put          the process holds it
//! fork         what the parent holds is set aside for the child, before there is one; the child claims it
//! release      the process holds it no more
//! exec, end    the process holds nothing
//! ```
//!
//! A child claims within milliseconds, or never comes: the fork failed, or it was ended before it could ask. What was set aside for it goes some minutes
//! after its parent has ended, so that nobody loses anything who was only slow.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// So long it waits for its child, at least.
const WAITS: Duration = Duration::from_secs(120);

/// What waits for a child.
#[derive(Debug)]
struct Aside {
    parent: u32,
    /// The number of the fork.
    number: u64,
    held: HashSet<u64>,
    since: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Holds {
    /// By processes; those that hold nothing are there too.
    of: HashMap<u32, HashSet<u64>>,
    aside: Vec<Aside>,
    /// Held by nobody, and still to be deleted.
    forgone: Vec<u64>,
    /// How many hold a batch, what is set aside included.
    count: HashMap<u64, u32>,
}

impl Holds {
    /// A program begins: the process is known, and holds nothing. Returns what nobody holds any more, as the others do.
    pub fn begin(&mut self, pid: u32) -> Vec<u64> {
        let before = self.of.insert(pid, HashSet::new()).unwrap_or_default();
        self.let_go(before)
    }

    /// The process has put a batch.
    pub fn add(&mut self, pid: u32, batch: u64) {
        if self.of.entry(pid).or_default().insert(batch) {
            *self.count.entry(batch).or_default() += 1;
        }
    }

    /// Nobody waited for a batch when it was kept: it goes at the next sweep.
    pub fn forgo(&mut self, pid: u32, batch: u64) {
        let free = self.release(pid, &[batch]);
        self.forgone.extend(free);
    }

    /// The process needs these no more.
    pub fn release(&mut self, pid: u32, batches: &[u64]) -> Vec<u64> {
        let Some(own) = self.of.get_mut(&pid) else { return Vec::new() };
        let held: HashSet<u64> = batches.iter().copied().filter(|batch| own.remove(batch)).collect();
        self.let_go(held)
    }

    /// Sets aside what the process holds, for a child.
    pub fn fork(&mut self, parent: u32, number: u64, since: Instant) {
        let held = self.of.get(&parent).cloned().unwrap_or_default();
        for batch in &held {
            *self.count.entry(*batch).or_default() += 1;
        }
        self.aside.push(Aside { parent, number, held, since });
    }

    /// The child takes what was set aside for it.
    pub fn claim(&mut self, parent: u32, number: u64, child: u32) -> Vec<u64> {
        let free = self.begin(child);
        if let Some(at) = self.aside.iter().position(|it| (it.parent, it.number) == (parent, number)) {
            let aside = self.aside.swap_remove(at);
            self.of.insert(child, aside.held);
        }
        free
    }

    /// Forgets processes that are gone.
    pub fn sweep(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<u64> {
        let gone: Vec<u32> = self.of.keys().copied().filter(|pid| is_gone(*pid)).collect();
        let mut free = std::mem::take(&mut self.forgone);
        for pid in gone {
            free.extend(self.begin(pid));
            self.of.remove(&pid);
        }
        while let Some(at) = self.aside.iter().position(|it| it.since.elapsed() > WAITS && is_gone(it.parent))
        {
            let aside = self.aside.swap_remove(at);
            free.extend(self.let_go(aside.held));
        }
        free
    }

    /// Nobody holds anything any more. Returns what was held.
    pub fn end(&mut self) -> Vec<u64> {
        std::mem::take(self).count.into_keys().collect()
    }

    /// Whether any process holds something, or will.
    pub fn any(&self) -> bool {
        !self.count.is_empty()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_lives_as_long_as_one_holds_it() {
        let mut holds = Holds::default();
        holds.begin(1);
        (10..14).for_each(|batch| holds.add(1, batch));
        assert_eq!(holds.release(1, &[10, 99]), [10]);
        holds.fork(1, 7, Instant::now());
        // The parent lets go before the child has come.
        assert_eq!(holds.release(1, &[11]), [] as [u64; 0]);
        assert_eq!(holds.claim(1, 7, 2), [] as [u64; 0]);
        assert_eq!(holds.release(2, &[11, 12]), [11]);
        assert_eq!(holds.sweep(|pid| pid == 1), [12]);
        assert!(holds.any());
        // It executes another program.
        assert_eq!(holds.begin(2), [13]);
        assert!(!holds.any());
    }

    #[test]
    fn what_nobody_claims_goes_when_the_parent_is_long_gone() {
        let mut holds = Holds::default();
        holds.add(1, 5);
        let Some(long_ago) = Instant::now().checked_sub(WAITS * 2) else { return };
        holds.fork(1, 1, long_ago);
        holds.fork(1, 2, Instant::now());
        // The parent becomes another program, and that forks.
        assert_eq!(holds.begin(1), [] as [u64; 0]);
        holds.add(1, 6);
        holds.fork(1, 3, Instant::now());
        holds.claim(1, 2, 3);
        holds.claim(1, 3, 4);
        assert_eq!(holds.sweep(|pid| pid == 3), [] as [u64; 0]);
        assert_eq!(holds.sweep(|pid| pid == 1), [5]);
        assert_eq!(holds.sweep(|pid| pid == 4), [6]);
        assert!(!holds.any());
    }
}
