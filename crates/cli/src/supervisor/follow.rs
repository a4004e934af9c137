//! `--limit auto`: a limit that follows what the machine and the cgroup have free, because others take
//! memory, too: other runs beside this one, programs without memfold, files in memory, the kernel itself.
//!
//! ```text
//!   |<------------------------- total of the machine or of the cgroup ------------------------>|
//!   |  this run  |  others  |<------------------- available ---------------------------------->|
//!                           |<------------- free ------------------------>|<---- reserve ----->|
//!
//!   limit = this run + free + step           as long as something is free; half of it while others grow
//!   limit = this run - its part of what is missing + step           once the reserve is used
//! ```
//!
//! Runs know nothing about each other. Each gives back a part of what is missing in proportion to its size,
//! and all take the same step, so runs that want more than there is end up with equal parts, whoever came
//! first: additive increase and multiplicative decrease, as for connections that share a line (Chiu and Jain,
//! *Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks*, 1989).

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::{Duration, Instant};

use memfold_proc::memory::{self, Room};
use memfold_shared::page::{Shared, flags};
use memfold_shared::{near, page};

use crate::settings::limit::reserve;
use crate::sys;

/// The step, as a part of the reserve.
const STEP: u64 = 16;
/// While the reserve is used by more than this part, nobody takes a step.
const MOST_STEPS: i64 = 2;
/// The time over which others are seen to grow, and the growth that counts, as a part of the reserve.
const GROWTH_TIME: Duration = Duration::from_millis(500);
const GROWTH_PART: u64 = 8;
/// The least time between two looks; and the longest, while there is room for all.
const FASTEST: Duration = Duration::from_millis(10);
const SLOWEST: Duration = Duration::from_millis(250);
/// Bytes that may be filled in a millisecond.
const FILLS_PER_MS: u64 = 4 << 20;

/// Whether others take more and more memory.
#[derive(Debug, Clone, Copy)]
struct Others {
    since: Instant,
    then: u64,
    grow: bool,
}

impl Others {
    fn look(&mut self, now: Instant, used: u64, reserve: u64) {
        if used > self.then + reserve / GROWTH_PART {
            *self = Self { since: now, then: used, grow: true };
        } else if now.duration_since(self.since) >= GROWTH_TIME {
            *self = Self { since: now, then: used, grow: false };
        }
    }
}

/// Follows what is free.
#[derive(Debug)]
pub struct Follow {
    next: Instant,
    cpus: u64,
    /// For each room.
    others: Vec<Others>,
    /// The most that others held at once in the smallest room, in bytes.
    pub most_of_others: u64,
}

impl Follow {
    pub fn new(now: Instant) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        Self { next: now, cpus, others: Vec::new(), most_of_others: 0 }
    }

    /// Whether the limit of this tree follows.
    pub fn is_on(shared: &Shared) -> bool {
        shared.flags.load(Relaxed) & flags::FOLLOWS != 0
    }

    /// Sets the limit anew, if it follows what is free. `before` is the limit that this supervisor knows:
    /// nothing is set if a user has set another one meanwhile.
    pub fn set(&mut self, shared: &Shared, now: Instant, before: u64) {
        if !Self::is_on(shared) {
            return;
        }
        // What the processes compare with the limit.
        let own = shared.tree_resident();
        let Some(limit) = self.look(now, own).filter(|limit| *limit != before) else { return };
        if shared.limit_bytes.compare_exchange(before, limit, AcqRel, Relaxed).is_err() {
            return;
        }
        // Processes look at a distant limit ten times a second only.
        let is_near = limit.saturating_sub(own) < near::start_room(self.cpus);
        if is_near && before.saturating_sub(limit) > near::start_room(1) / 4 {
            shared.pressure.fetch_add(1, AcqRel);
            sys::futex_wake(&shared.pressure);
        }
    }

    /// The limit for a run that holds `own` bytes now, if it is time for a new one.
    fn look(&mut self, now: Instant, own: u64) -> Option<u64> {
        if now < self.next {
            return None;
        }
        self.next = now + SLOWEST;
        let rooms = memory::rooms()?;
        let least = rooms.iter().map(|room| room.available.saturating_sub(reserve(room.total))).min()?;
        self.next = now + Duration::from_millis(least / FILLS_PER_MS).clamp(FASTEST, SLOWEST);
        self.limit(now, own, &rooms)
    }

    fn limit(&mut self, now: Instant, own: u64, rooms: &[Room]) -> Option<u64> {
        let others = |room: &Room| (room.total - room.available).saturating_sub(own);
        if self.others.len() != rooms.len() {
            let begin = |room| Others { since: now, then: others(room), grow: false };
            self.others = rooms.iter().map(begin).collect();
        }
        let smallest = rooms.iter().min_by_key(|room| room.total).map_or(0, others);
        self.most_of_others = self.most_of_others.max(smallest);
        let limits = rooms.iter().zip(&mut self.others).map(|(room, seen)| {
            seen.look(now, others(room), reserve(room.total));
            limit(own, room, seen.grow)
        });
        limits.min()
    }
}

/// The limit in one room.
fn limit(own: u64, room: &Room, others_grow: bool) -> u64 {
    let reserve = reserve(room.total);
    let free = room.available as i64 - reserve as i64;
    let step = if free > -(reserve as i64) / MOST_STEPS { reserve / STEP } else { 0 };
    let used = (room.total - room.available).max(1);
    let part = match (free, others_grow) {
        (0.., false) => free,
        (0.., true) => free / 2,
        (missing, _) => (missing as f64 * (own as f64 / used as f64).min(1.0)) as i64,
    };
    // What this run holds may just have been freed, and count twice.
    let most = (room.total - reserve + step).clamp(page::SMALLEST_LIMIT, page::LARGEST_LIMIT);
    (own + step).saturating_add_signed(part).clamp(page::SMALLEST_LIMIT, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TOTAL: u64 = 256 * MIB;

    fn room(used: u64) -> Room {
        Room { available: TOTAL.saturating_sub(used), total: TOTAL }
    }

    #[test]
    fn alone_it_is_what_was_free_at_the_start() {
        for own in [0, 10 * MIB, 100 * MIB, 239 * MIB] {
            assert_eq!(limit(own, &room(own), false), 241 * MIB);
        }
        assert_eq!(limit(100 * MIB, &room(10 * MIB), false), 241 * MIB);
    }

    /// Runs with these demands, all in one room with `other` bytes of others: the bytes that each of them
    /// holds after some time, and the most that was ever used.
    fn together(wants: &[u64], other: u64, late: usize) -> (Vec<u64>, u64) {
        const GROWS: u64 = 4 * MIB;
        const SHRINKS: u64 = 2 * MIB;
        let begin = Instant::now();
        let mut own = vec![0u64; wants.len()];
        let mut runs: Vec<Follow> = wants.iter().map(|_| Follow::new(begin)).collect();
        let mut most = 0;
        for turn in 0..6000 {
            let now = begin + FASTEST * turn;
            for number in 0..wants.len() {
                // Late ones come one after another.
                if number >= late && turn < 1000 + 100 * number as u32 {
                    continue;
                }
                let used = other + own.iter().sum::<u64>();
                most = most.max(used);
                let limit = runs[number].limit(now, own[number], &[room(used)]).unwrap();
                let held = own[number];
                own[number] = if held > limit {
                    limit.max(held.saturating_sub(SHRINKS))
                } else {
                    wants[number].min(limit).min(held + GROWS)
                };
            }
        }
        (own, most)
    }

    #[test]
    fn runs_that_want_more_than_there_is_get_equal_parts_and_never_all() {
        for count in 1..=6usize {
            for late in [0, 1, count] {
                let (own, most) = together(&vec![400 * MIB; count], 0, late);
                let (least, largest) = (own.iter().min().unwrap(), own.iter().max().unwrap());
                assert!(largest - least <= largest / 8, "{count} runs, {late} of them early: {own:?}");
                assert!(own.iter().sum::<u64>() > 235 * MIB, "{own:?}");
                assert!(most < 252 * MIB, "{count} runs, {late} of them early: {most}");
            }
        }
    }

    #[test]
    fn one_that_wants_little_gets_it() {
        let (own, _) = together(&[400 * MIB, 30 * MIB, 400 * MIB], 0, 3);
        assert_eq!(own[1], 30 * MIB);
        assert!(own[0] > 90 * MIB && own[2] > 90 * MIB, "{own:?}");
    }

    #[test]
    fn what_others_take_is_missing() {
        let (own, most) = together(&[400 * MIB; 2], 100 * MIB, 2);
        assert!(most < 252 * MIB && own.iter().sum::<u64>() > 135 * MIB, "{own:?} {most}");
    }
}
