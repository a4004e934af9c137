//! The work of the engine's threads, and how it changes the tier's health.

use std::sync::atomic::Ordering::*;
use std::time::Instant;

use super::*;

impl Inner {
    /// Refuses all waiting writes.
    pub(super) fn refuse_all(&self) {
        let rest = std::mem::take(&mut locked(&self.queue).puts);
        let why = Err(Trouble::Away("the run ends".into()));
        rest.into_iter().for_each(|put| (put.done)(&why));
    }

    /// Deletes these batches and all that wait. No deletes follow.
    pub(super) fn delete_last(&self, batches: Vec<u64>) {
        if !self.tier.ends_with_process() {
            return self.delete_all(batches);
        }
        let all = std::mem::take(&mut locked(&self.queue).deletes).len() + batches.len();
        self.counters.deleted.fetch_add(all as u64, Relaxed);
    }

    /// Deletes these batches and all that wait, as long as the tier answers. The rest keeps waiting.
    pub(super) fn delete_all(&self, batches: Vec<u64>) {
        let mut rest = std::mem::take(&mut locked(&self.queue).deletes);
        rest.extend(batches);
        let (health, since) = locked(&self.health).clone();
        // A tier that has just not answered is not called again.
        let may_be_back = matches!(health, Health::Away(_)) && since.elapsed() > SOONEST;
        if !rest.is_empty() && may_be_back && self.tier.probe().is_ok() {
            self.become_(Health::Open);
        }
        let mut left = rest.as_slice();
        while !left.is_empty() {
            let (some, more) = left.split_at(left.len().min(LAST_DELETES));
            left = more;
            if !self.delete(some) {
                break;
            }
        }
        // The failed ones are already in the queue.
        locked(&self.queue).deletes.extend_from_slice(left);
    }

    /// The loop of a writer.
    pub(super) fn write(&self, busy: &Busy) {
        let mut queue = locked(&self.queue);
        loop {
            if queue.is_ending {
                drop(queue);
                self.refuse_all();
                return;
            }
            if queue.puts.is_empty() {
                queue = wait(&self.work, queue, LATEST);
                continue;
            }
            let count = queue.puts.len().min(self.tier.puts_at_once());
            let puts: Vec<Put> = queue.puts.drain(..count).collect();
            drop(queue);
            *locked(busy) = Some(Instant::now());
            let results = self.put(&puts);
            *locked(busy) = None;
            for (put, result) in puts.into_iter().zip(results) {
                (put.done)(&result.map(|()| self.tier.place(put.batch)));
            }
            queue = locked(&self.queue);
        }
    }

    pub(super) fn put(&self, puts: &[Put]) -> Vec<Result<(), Trouble>> {
        let why = match &locked(&self.health).0 {
            Health::Open => None,
            Health::Full => Some(Trouble::Full),
            Health::Away(why) => Some(Trouble::Away(why.clone())),
            Health::Unfit(why) => Some(Trouble::Unfit(why.clone())),
        };
        if let Some(why) = why {
            return puts.iter().map(|_| Err(why.clone())).collect();
        }
        let all: Vec<(u64, &[u8])> = puts.iter().map(|put| (put.batch, put.bytes.as_slice())).collect();
        let results = self.tier.put_all(&all);
        for ((batch, bytes), result) in all.iter().zip(&results) {
            match result {
                Ok(()) => {
                    self.counters.put.fetch_add(1, Relaxed);
                    self.counters.put_bytes.fetch_add(bytes.len() as u64, Relaxed);
                    self.has_written.store(true, Relaxed);
                }
                Err(trouble) => {
                    self.note(trouble);
                    if matches!(trouble, Trouble::Away(_)) {
                        // The batch may still have arrived.
                        locked(&self.queue).deletes.push(*batch);
                    }
                }
            }
        }
        results
    }

    /// The loop of the thread that probes an unresponsive tier, and deletes.
    pub(super) fn care(&self, busy: &Busy) {
        *locked(busy) = Some(Instant::now());
        let mut pause = SOONEST;
        let mut asked = Instant::now();
        // This process may have taken over from the one that opened the tier, so the claim is renewed at
        // once.
        if let Err(trouble) = self.tier.tend() {
            self.note(&trouble);
        }
        let mut queue = locked(&self.queue);
        while !queue.is_ending {
            *locked(busy) = None;
            queue = wait(&self.care, queue, SOONEST);
            *locked(busy) = Some(Instant::now());
            let deletes = std::mem::take(&mut queue.deletes);
            queue.deleting = deletes.len();
            drop(queue);
            let has_deleted = self.delete(&deletes);
            locked(&self.queue).deleting = 0;
            // Read before the health, since a thread sets it only after the tier was found away.
            let may_be_back = self.may_be_back.load(Acquire);
            let (health, since) = locked(&self.health).clone();
            if matches!(health, Health::Open | Health::Full)
                && let Err(trouble) = self.tier.tend()
            {
                self.note(&trouble);
                queue = locked(&self.queue);
                continue;
            }
            match health {
                Health::Open | Health::Unfit(_) => {}
                Health::Full if since.elapsed() >= FULL || has_deleted => self.become_(Health::Open),
                Health::Full => {}
                Health::Away(_) => {
                    // A tier that answers may still refuse everything: it is probed at growing intervals
                    // until it takes something.
                    if self.has_written.swap(false, Relaxed) {
                        pause = SOONEST;
                    }
                    if since.max(asked).elapsed() >= if may_be_back { SOONEST } else { pause } {
                        self.may_be_back.store(false, Relaxed);
                        pause = (pause * 2).min(LATEST);
                        match self.tier.probe() {
                            Ok(()) => self.become_(Health::Open),
                            Err(trouble) => self.note(&trouble),
                        }
                        asked = Instant::now();
                    }
                }
            }
            queue = locked(&self.queue);
        }
    }

    /// Deletes batches; failed ones wait for the next time. Returns whether that may have freed space.
    pub(super) fn delete(&self, batches: &[u64]) -> bool {
        if batches.is_empty() {
            return false;
        }
        let is_away = matches!(locked(&self.health).0, Health::Away(_));
        let result = if is_away { Err(None) } else { self.tier.delete(batches).map_err(Some) };
        match result {
            Ok(()) => {
                self.counters.deleted.fetch_add(batches.len() as u64, Relaxed);
                true
            }
            Err(trouble) => {
                if let Some(trouble) = trouble {
                    self.note(&trouble);
                }
                locked(&self.queue).deletes.extend_from_slice(batches);
                false
            }
        }
    }

    /// Notes that a get was answered, so that the tier is probed soon: until a probe shows that the tier also
    /// takes batches, blocks that are read back stay in memory, which grows.
    pub(super) fn note_answer(&self) {
        if self.got_no_answer.load(Relaxed) && self.got_no_answer.swap(false, Relaxed) {
            // The lock is held, since the probing thread may be about to wait.
            let _queue = locked(&self.queue);
            self.may_be_back.store(true, Release);
            self.care.notify_one();
        }
    }

    pub(super) fn note(&self, trouble: &Trouble) {
        self.counters.troubles.fetch_add(1, Relaxed);
        match trouble {
            Trouble::Lost => {}
            Trouble::Full => self.become_(Health::Full),
            Trouble::Away(why) => self.become_(Health::Away(why.clone())),
            Trouble::Unfit(why) => self.become_(Health::Unfit(why.clone())),
        }
    }

    pub(super) fn become_(&self, new: Health) {
        let _telling = locked(&self.telling);
        let mut health = locked(&self.health);
        // A different text for the same state is not a change, and an unfit tier stays unfit.
        let is_same = std::mem::discriminant(&health.0) == std::mem::discriminant(&new);
        if is_same || matches!(health.0, Health::Unfit(_)) {
            return;
        }
        *health = (new.clone(), Instant::now());
        drop(health);
        if !self.is_quiet.load(SeqCst) {
            (self.told)(&new);
        }
    }
}
