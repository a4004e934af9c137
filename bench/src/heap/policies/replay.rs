//! Replays a trace in a heap: each block of the trace is one of the heap's blocks, filled by one node, and
//! the faults that the heap counts are the misses of its policy.

use std::collections::BinaryHeap;

use memfold::heap::{Handle, Heap, Limit, Options, PolicyKind};

use super::trace::{Event, Trace};

/// The smallest block size, and a node size of which two do not fit into a block.
const BLOCK: usize = 1024;
const NODE: usize = 700;

/// Uses of existing blocks, and the faults among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub uses: u64,
    pub faults: u64,
}

impl Count {
    /// The share of uses that found their block resident.
    pub fn hit_ratio(self) -> f64 {
        if self.uses == 0 { 1.0 } else { 1.0 - self.faults as f64 / self.uses as f64 }
    }
}

/// Replays a trace in a heap with `resident` blocks: a count for each phase.
pub fn replay(trace: &Trace, policy: PolicyKind, resident: u32) -> Result<Vec<Count>, String> {
    let options =
        Options::new().block_size(BLOCK).limit(Limit::Blocks(resident)).policy(policy).codec("copy");
    let heap = Heap::new(options).map_err(|bad| bad.to_string())?;
    let session = heap.session().map_err(|error| error.to_string())?;
    let mut nodes: Vec<Option<Handle>> = vec![None; trace.blocks().0];
    let (mut counts, mut faults) = (Vec::new(), 0);
    for phase in &trace.phases {
        let mut count = Count::default();
        for event in &phase.events {
            let done = match *event {
                Event::Use(block) => match nodes[block as usize] {
                    Some(node) => {
                        count.uses += 1;
                        session.read_at(node, 0, &mut [0; 8])
                    }
                    None => session.alloc(NODE).map(|node| nodes[block as usize] = Some(node)),
                },
                Event::Free(block) => match nodes[block as usize].take() {
                    Some(node) => session.free(node),
                    None => Ok(()),
                },
            };
            done.map_err(|error| format!("{}: {error}", trace.name))?;
        }
        let stats = heap.stats();
        if stats.blocks != stats.nodes {
            return Err(format!(
                "{} blocks for {} nodes: each should have its own",
                stats.blocks, stats.nodes
            ));
        }
        count.faults = stats.faults - faults;
        faults = stats.faults;
        counts.push(count);
    }
    Ok(counts)
}

/// The result of the best possible policy: it knows the future, and evicts the block whose next use is the
/// latest (Belady's MIN).
pub fn optimum(trace: &Trace, resident: u32) -> Vec<Count> {
    const NEVER: usize = usize::MAX;
    let events: Vec<Event> = trace.events().collect();
    // For each use, the time of the next use of its block.
    let mut again = vec![NEVER; events.len()];
    let mut later = vec![NEVER; trace.blocks().0];
    for (at, event) in events.iter().enumerate().rev() {
        match *event {
            Event::Use(block) => again[at] = std::mem::replace(&mut later[block as usize], at),
            // The block leaves its frame without being evicted.
            Event::Free(block) => later[block as usize] = NEVER,
        }
    }
    #[derive(Clone, Copy, PartialEq)]
    enum Place {
        New,
        Resident(usize),
        Out,
    }
    let mut places = vec![Place::New; later.len()];
    // Blocks by their next use; outdated entries are recognised by their time.
    let (mut queue, mut held, mut at): (BinaryHeap<(usize, u32)>, u32, usize) = (BinaryHeap::new(), 0, 0);
    let mut counts = Vec::new();
    for phase in &trace.phases {
        let mut count = Count::default();
        for event in &phase.events {
            let time = at;
            at += 1;
            let block = match *event {
                Event::Use(block) => block,
                Event::Free(block) => {
                    if let Place::Resident(_) = std::mem::replace(&mut places[block as usize], Place::New) {
                        held -= 1;
                    }
                    continue;
                }
            };
            count.uses += u64::from(places[block as usize] != Place::New);
            if !matches!(places[block as usize], Place::Resident(_)) {
                count.faults += u64::from(places[block as usize] == Place::Out);
                while held == resident {
                    let Some((next, victim)) = queue.pop() else { break };
                    if places[victim as usize] == Place::Resident(next) {
                        places[victim as usize] = Place::Out;
                        held -= 1;
                    }
                }
                held += 1;
            }
            places[block as usize] = Place::Resident(again[time]);
            queue.push((again[time], block));
        }
        counts.push(count);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::trace::{Phase, scan_and_hot, zipf};

    fn trace(blocks: &[u32]) -> Trace {
        let events = blocks.iter().map(|&block| Event::Use(block)).collect();
        Trace { name: String::from("test"), phases: vec![Phase { name: String::from("all"), events }] }
    }

    #[test]
    fn hits_are_those_of_the_policy() {
        // In a loop over four blocks of which three fit, LRU and FIFO always miss. (Initially all blocks have
        // the same time on the heap's clock, so any of them may be evicted.)
        let round = trace(&[0, 1, 2, 3].repeat(100));
        for policy in [PolicyKind::Lru, PolicyKind::Fifo] {
            let counts = replay(&round, policy, 3).expect("played");
            assert_eq!(counts[0].uses, 396);
            assert!(counts[0].faults >= 390, "{policy:?} {counts:?}");
        }
        // The optimum keeps two blocks and evicts the others in turn, so one use in three misses.
        assert_eq!(optimum(&round, 3), [Count { uses: 396, faults: 132 }]);
        // With room for all blocks there are no faults.
        assert_eq!(replay(&round, PolicyKind::Sieve, 4), Ok(vec![Count { uses: 396, faults: 0 }]));
        assert_eq!(optimum(&round, 4), [Count { uses: 396, faults: 0 }]);
    }

    #[test]
    fn no_policy_is_better_than_the_optimum() {
        for trace in [zipf(500, 20_000), scan_and_hot(500, 25, 20_000)] {
            for resident in [10, 50, 200] {
                let best = optimum(&trace, resident)[0];
                for policy in PolicyKind::ALL {
                    let count = replay(&trace, policy, resident).expect("played")[0];
                    assert_eq!(count.uses, best.uses);
                    assert!(count.faults >= best.faults, "{policy:?} {resident}: {count:?} {best:?}");
                }
            }
        }
    }

    #[test]
    fn freed_blocks_make_room() {
        let mut freed = trace(&[0, 1, 2]);
        freed.phases[0].events.extend([Event::Free(1), Event::Use(3), Event::Use(0), Event::Use(2)]);
        assert_eq!(optimum(&freed, 3), [Count { uses: 2, faults: 0 }]);
        assert_eq!(replay(&freed, PolicyKind::Lru, 3), Ok(vec![Count { uses: 2, faults: 0 }]));
    }
}
