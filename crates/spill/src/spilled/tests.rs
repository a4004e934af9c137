use std::collections::HashMap;

use super::*;
use crate::made::Made;

const BATCH: usize = 16 << 10;

struct Set {
    spilled: Spilled,
    batches: Arc<Mutex<HashMap<u64, Vec<u8>>>>,
    trouble: Arc<Mutex<Option<Trouble>>>,
}

fn set() -> Set {
    let tier = Made::default();
    let (batches, trouble) = (tier.batches.clone(), tier.trouble.clone());
    let sealer = Sealer::for_this_run().unwrap();
    Set {
        spilled: Spilled::new(Box::new(tier), sealer, BATCH, Duration::from_millis(300), |_| {}).unwrap(),
        batches,
        trouble,
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (seed.wrapping_mul(0x9e37_79b9) >> (at % 24)) as u8 ^ at as u8).collect()
}

impl Set {
    fn get(&self, number: u64, owner: u64) -> Result<Vec<u8>, Trouble> {
        let mut room = vec![0; 5 * BATCH];
        self.spilled.get(number, owner, &mut room).map(|(tag, payload)| {
            assert_eq!(u64::from(tag), owner % 200);
            payload.to_vec()
        })
    }

    fn put(&self, owner: u64, len: usize) -> Result<u64, Trouble> {
        self.spilled.put(owner, (owner % 200) as u8, &bytes(owner, len))
    }

    fn cause(&self, trouble: Option<Trouble>) {
        *locked(&self.trouble) = trouble;
    }

    #[track_caller]
    fn until(&self, mut is_so: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < Duration::from_secs(20), "not within 20 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn on_tier(&self) -> u64 {
        locked(&self.batches).values().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Random puts, reads and frees by three threads, compared with a map, while the tier is unresponsive or full
/// from time to time.
#[test]
fn every_block_is_read_back_whatever_the_tier_does() {
    let set = set();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let trouble = scope.spawn(|| {
            for round in 0.. {
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(30));
                set.cause(
                    [None, Some(Trouble::Full), None, Some(Trouble::Away("a cable".into()))][round % 4]
                        .clone(),
                );
            }
            set.cause(None);
        });
        let workers: Vec<_> = (0..3_u64)
            .map(|thread| {
                let set = &set;
                scope.spawn(move || {
                    let (mut kept, mut state, mut refused) =
                        (Vec::<(u64, u64, usize)>::new(), thread * 7 + 1, 0);
                    let mut next = |below: usize| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        state as usize % below
                    };
                    let begin = Instant::now();
                    for step in 0_u64.. {
                        if begin.elapsed() > Duration::from_secs(3) {
                            break;
                        }
                        match next(8) {
                            0..=3 => {
                                let longest = if next(20) == 0 { 4 * BATCH } else { 4096 };
                                let (owner, len) = (thread << 40 | step, 1 + next(longest));
                                match set.put(owner, len) {
                                    Ok(number) => kept.push((number, owner, len)),
                                    Err(_) => refused += 1,
                                }
                            }
                            4 | 5 if !kept.is_empty() => {
                                let (number, ..) = kept.swap_remove(next(kept.len()));
                                set.spilled.free(number);
                            }
                            _ if !kept.is_empty() => {
                                let (number, owner, len) = kept[next(kept.len())];
                                match set.get(number, owner) {
                                    Ok(got) => assert!(got == bytes(owner, len)),
                                    Err(trouble) => assert!(matches!(trouble, Trouble::Away(_)), "{trouble}"),
                                }
                            }
                            _ => {}
                        }
                    }
                    (kept, refused)
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        trouble.join().unwrap();
        set.until(|set| set.spilled.is_open());
        assert!(results.iter().any(|(_, refused)| *refused > 0));
        for (number, owner, len) in results.iter().flat_map(|(kept, _)| kept) {
            assert!(set.get(*number, *owner).unwrap() == bytes(*owner, *len));
            // Another owner does not get the block.
            assert_eq!(set.get(*number, owner + 1), Err(Trouble::Lost));
            set.spilled.free(*number);
            assert_eq!(set.get(*number, *owner), Err(Trouble::Lost));
        }
    });
    assert_eq!(set.spilled.needed_bytes(), 0);
    // Refused batches are sent when something is put again.
    set.until(|set| {
        let number = set.put(1, 100).unwrap();
        set.spilled.free(number);
        set.on_tier() == 0
    });
}

#[test]
fn sparse_batches_are_emptied() {
    let set = set();
    let numbers: Vec<u64> = (0..2000).map(|owner| set.put(owner, 1000).unwrap()).collect();
    // Seven of eight blocks are freed, in all batches.
    for (owner, number) in numbers.iter().enumerate() {
        if owner % 8 != 0 {
            set.spilled.free(*number);
        }
    }
    let needed = set.spilled.needed_bytes();
    let mut owner = 10_000;
    set.until(|set| {
        let number = set.put(owner, 1000).unwrap();
        owner += 1;
        set.spilled.free(number);
        set.on_tier() < 3 * needed
    });
    for owner in (0..2000).step_by(8) {
        assert!(set.get(numbers[owner], owner as u64).unwrap() == bytes(owner as u64, 1000));
    }
}

/// A batch that is lost, or has a block that does not open, is skipped; all others are emptied.
#[test]
fn a_batch_that_is_lost_holds_up_no_other() {
    for damages in [true, false] {
        let set = set();
        let numbers: Vec<u64> = (0..2000).map(|owner| set.put(owner, 1000).unwrap()).collect();
        set.until(|set| set.spilled.inner.state.lock().unwrap().unacknowledged == 0);
        {
            let mut batches = locked(&set.batches);
            // Batch 3, of which only block 50 will be needed, becomes the sparsest.
            if damages {
                batches.get_mut(&3).unwrap().iter_mut().for_each(|byte| *byte ^= 1);
            } else {
                batches.remove(&3);
            }
        }
        let is_needed = |owner: usize| owner.is_multiple_of(8) && !(47..58).contains(&owner) || owner == 50;
        for (owner, number) in numbers.iter().enumerate() {
            if !is_needed(owner) {
                set.spilled.free(*number);
            }
        }
        let needed = set.spilled.needed_bytes();
        let mut owner = 10_000;
        set.until(|set| {
            let number = set.put(owner, 1000).unwrap();
            owner += 1;
            set.spilled.free(number);
            set.on_tier() < 3 * needed
        });
        let lost =
            (0..2000).filter(|owner| is_needed(*owner) && set.get(numbers[*owner], *owner as u64).is_err());
        assert_eq!(lost.count(), 1, "the test takes block 50 to be in batch 3");
    }
}

/// Threads that wait for the tier at the same time share the next batch, instead of sending one each.
#[test]
fn threads_that_waited_fill_the_same_batch() {
    let set = set();
    let held = locked(&set.batches);
    std::thread::scope(|scope| {
        for thread in 0..12_u64 {
            let set = &set;
            scope.spawn(move || (0..20).for_each(|step| assert!(set.put(thread << 32 | step, 1000).is_ok())));
        }
        std::thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    set.until(|set| locked(&set.spilled.inner.state).unacknowledged == 0);
    let sparse = locked(&set.batches).values().filter(|bytes| bytes.len() < BATCH - 2000).count();
    assert_eq!(sparse, 0);
}

#[test]
fn remaining_batches_are_reported() {
    let (tier, told) = (Made::default(), Arc::new(Mutex::new(Vec::new())));
    let (trouble, tell) = (tier.trouble.clone(), told.clone());
    let heed = move |health: &Health| locked(&tell).push(health.clone());
    let sealer = Sealer::for_this_run().unwrap();
    let spilled = Spilled::new(Box::new(tier), sealer, BATCH, Duration::ZERO, heed).unwrap();
    (0..100).for_each(|owner| assert!(spilled.put(owner, 1, &[1; 4000]).is_ok()));
    *locked(&trouble) = Some(Trouble::Away("a cable".into()));
    drop(spilled);
    let Some(Health::Away(why)) = locked(&told).last().cloned() else { panic!("nothing is told") };
    assert!(why.contains("could not be deleted") && why.contains("in memory"), "{why}");
}

#[test]
fn refused_batches_stay_and_are_sent_again() {
    let set = set();
    let mut kept = Vec::new();
    set.cause(Some(Trouble::Full));
    // No block that was accepted before the tier refused is lost.
    let refused = (0..).find_map(|owner| match set.put(owner, 4000) {
        Ok(number) => {
            kept.push((number, owner));
            None
        }
        Err(trouble) => Some(trouble),
    });
    assert_eq!(refused, Some(Trouble::Full));
    assert!(kept.len() <= (UNACKNOWLEDGED + 2) * 4, "{}", kept.len());
    assert_eq!(set.on_tier(), 0);
    kept.iter().for_each(|(number, owner)| assert!(set.get(*number, *owner).unwrap() == bytes(*owner, 4000)));
    set.cause(None);
    set.until(|set| set.spilled.is_open());
    set.until(|set| {
        let _ = set.put(99, 4000);
        set.on_tier() > 5 * 4000
    });
    kept.iter().for_each(|(number, owner)| assert!(set.get(*number, *owner).unwrap() == bytes(*owner, 4000)));
    set.spilled.end();
    assert_eq!(set.on_tier(), 0);
}

#[test]
fn nothing_is_left_on_the_tier() {
    for ends in [true, false] {
        let set = set();
        let numbers: Vec<u64> = (0..100).map(|owner| set.put(owner, 4000).unwrap()).collect();
        let (spilled, batches) = (set.spilled, set.batches);
        if ends {
            spilled.end();
            assert_eq!(locked(&batches).len(), 0);
            // Later puts are refused, and earlier blocks are gone.
            assert_eq!(spilled.put(1, 1, &[1]), Err(Trouble::Full));
            assert_eq!(spilled.get(numbers[3], 3, &mut [0; BATCH]), Err(Trouble::Lost));
        }
        drop(spilled);
        assert_eq!(locked(&batches).len(), 0);
    }
}

#[test]
fn blocks_that_the_tier_changed_are_lost_and_never_data() {
    let set = set();
    let numbers: Vec<u64> = (0..40).map(|owner| set.put(owner, 4000).unwrap()).collect();
    set.until(|set| set.on_tier() > 8 * 4000);
    locked(&set.batches).values_mut().for_each(|bytes| bytes[2000] ^= 1);
    let lost = (0..40).filter(|owner| match set.get(numbers[*owner], *owner as u64) {
        Ok(got) => {
            assert!(got == bytes(*owner as u64, 4000));
            false
        }
        Err(trouble) => {
            assert_eq!(trouble, Trouble::Lost);
            true
        }
    });
    assert!(lost.count() >= 2);
    // The stamp distinguishes blocks that had the same number.
    let before = set.spilled.stamp(numbers[3]);
    set.spilled.free(numbers[3]);
    assert_eq!(set.spilled.stamp(numbers[3]), None);
    assert_eq!(set.put(7, 10), Ok(numbers[3]));
    assert_ne!(set.spilled.stamp(numbers[3]), before);
    assert_eq!(set.put(8, LONGEST + 1), Err(Trouble::Full), "it is too long");
}

/// Each has its own batch, and at most two of those are in memory, one of them on its way.
#[test]
fn blocks_that_are_longer_than_a_batch() {
    let set = set();
    let usual = Spilled::fixed_bytes(BATCH);
    let lens = [BATCH - Spilled::OVERHEAD, BATCH - Spilled::OVERHEAD + 1, BATCH, 20 * BATCH, 100, 7 * BATCH];
    let blocks: Vec<(u64, u64, usize)> = (0..40)
        .zip(lens.into_iter().cycle())
        .map(|(owner, len)| {
            let number = set.put(owner, len).unwrap();
            let bytes = set.spilled.memory_bytes() - usual;
            assert!(bytes < 2 * 20 * BATCH as u64, "{bytes}");
            (number, owner, len)
        })
        .collect();
    let all_there = |set: &Set| {
        for (number, owner, len) in &blocks {
            let mut room = vec![0; len + Spilled::OVERHEAD];
            let (_, payload) = set.spilled.get(*number, *owner, &mut room).unwrap();
            assert!(payload == bytes(*owner, *len), "{len}");
        }
    };
    all_there(&set);
    // Refused batches are sent again.
    let more = set.put(77, 3 * BATCH).unwrap();
    set.cause(Some(Trouble::Full));
    set.until(|set| set.put(78, 3 * BATCH).is_err());
    set.cause(None);
    set.until(|set| set.spilled.is_open() && set.put(79, 10).is_ok());
    all_there(&set);
    let mut room = vec![0; 4 * BATCH];
    assert!(set.spilled.get(more, 77, &mut room).unwrap().1 == bytes(77, 3 * BATCH));
    for (number, ..) in &blocks {
        assert!(set.spilled.free(*number).is_some());
    }
    set.spilled.end();
    assert_eq!(set.on_tier(), 0);
}

/// Reading blocks in the order in which they were put takes few reads of the tier, and each block is intact.
#[test]
fn a_sequence_is_read_ahead() {
    let set = set();
    let numbers: Vec<u64> = (0..600).map(|owner| set.put(owner, 1000).unwrap()).collect();
    set.until(|set| set.on_tier() > 570 << 10);
    let reads = || set.spilled.engine.counters().got.load(Relaxed);
    let read_all = |step: usize| {
        let before = reads();
        for (owner, number) in numbers.iter().enumerate().step_by(step) {
            assert!(set.get(*number, owner as u64).unwrap() == bytes(owner as u64, 1000));
        }
        reads() - before
    };
    assert!(read_all(1) < 60);
    numbers.iter().skip(1).step_by(3).for_each(|number| assert!(set.spilled.free(*number).is_some()));
    assert!(read_all(3) < 60);
    let before = reads();
    for at in (0..600).map(|step| step * 217 % 600).filter(|at| at % 3 != 1) {
        assert!(set.get(numbers[at], at as u64).unwrap() == bytes(at as u64, 1000));
    }
    assert!(reads() - before > 300, "nothing is read ahead for one who jumps");
}
