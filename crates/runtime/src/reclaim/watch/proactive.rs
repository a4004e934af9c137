//! Proactive eviction: memory is put on standby although there is room, as long as that does not hurt the
//! program. A touch of a page on standby costs microseconds; pages that stay untouched for a while are
//! compressed.
//!
//! There are two ways to set the amount. **Adaptive** (`--limit auto`): as fast as the program tolerates. The
//! share of time in which a thread waits is kept below a target, as TMO does with the kernel's pressure
//! (Weiner et al., ASPLOS 2022, section 3.3). **By age** (`--proactive`): all memory has its turn in half of
//! a set time, and pages that then stay untouched for that time are compressed (cold age: Lagar-Cavilla et
//! al., ASPLOS 2019, section 4).
//!
//! Waiting time is an account: the target's share of each second is paid in, and the time that threads have
//! waited is drawn. While the account is overdrawn nothing is evicted, so over time no more than the target
//! is spent, whatever the program does.
//!
//! ```text
//!  budget  /|  /|      /|          pace  ____
//!         / | / |     / |               /    |____        halved each time
//!  0 ----/--|/--|----/--|----         /          |____    that it was too much
//!                \__/
//! ```

use core::sync::atomic::Ordering::*;

use memfold_shared::near::SMALLEST_PROACTIVE as SMALLEST;
use memfold_shared::page::Shared;

use super::ReclaimThread;
use crate::kernel::addresses::BLOCK;
use crate::kernel::sys;

/// Minimum time between two looks, in ns.
const STEP_NS: u64 = 50_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// This much stays resident, in bytes.
const FLOOR: u64 = 2 << 20;
/// Adaptive: pages that lie on standby for this long are compressed, in ns.
const ADAPTIVE_IDLE_NS: u64 = 2 * SECOND_NS;
/// Adaptive: the maximum fraction of the process's memory that is put on standby in a second; the same while
/// the program hardly runs; and the minimum.
const FASTEST: u64 = 16;
const FASTEST_IDLE: u64 = 4;
const SLOWEST: u64 = 4096;
/// Adaptive: without trouble, the pace doubles in this time, in ns.
const DOUBLES_NS: u64 = 4 * SECOND_NS;
/// The account holds at most what `SAVED_NS` pay in, and is overdrawn by at most what `OVERDRAWN_NS` pay in.
const SAVED_NS: u64 = 2 * SECOND_NS;
const OVERDRAWN_NS: u64 = 10 * SECOND_NS;
/// A program that uses less than this fraction of one CPU hardly runs.
const IDLE: u64 = 20;
/// A program that grows by more than this fraction in a second is left alone.
const GROWS: u64 = 50;
/// Minimum time between the end of a round and the next round, in ns.
const ROUND_NS: u64 = SECOND_NS / 2;

/// See the module.
pub(super) struct Proactive {
    at_ns: u64,
    program_ns: u64,
    logical: u64,
    /// Whether the program had waited too long at the last look.
    hurts: bool,
    /// Bytes a second.
    pace: u64,
    /// Bytes that may be put on standby now.
    owed: u64,
    /// No round begins before this time.
    next_round_ns: u64,
}

/// The input of a look.
#[derive(Debug, Clone, Copy)]
struct Look {
    now_ns: u64,
    /// Resident size, in bytes.
    own: u64,
    logical: u64,
    /// The account of waiting time as the handlers have left it, in ns.
    patience_ns: i64,
    /// CPU time so far, without that of the runtime.
    program_ns: u64,
    /// The share of time in which a thread may wait, in millionths.
    target_ppm: u64,
    /// Age at which pages are compressed; 0: adaptive.
    idle_ns: u64,
}

/// The result, for the compressors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Orders {
    /// Age at which pages on standby are compressed.
    idle_ns: u64,
    /// Whether the program hardly runs, so that there is time to make stored pages denser.
    leisure: bool,
    /// The new balance of the account.
    patience_ns: i64,
}

impl Proactive {
    pub const fn new() -> Self {
        Proactive { at_ns: 0, program_ns: 0, logical: 0, hurts: false, pace: 0, owed: 0, next_round_ns: 0 }
    }

    fn look(&mut self, look: Look) -> Orders {
        let ns = look.now_ns - self.at_ns;
        let first = self.at_ns == 0;
        let ran = look.program_ns.saturating_sub(self.program_ns);
        let grown = look.logical.saturating_sub(self.logical);
        let per_second = |bytes: u64| (u128::from(bytes) * u128::from(ns) / u128::from(SECOND_NS)) as u64;
        let grows = grown > per_second(self.logical / GROWS);
        (self.at_ns, self.program_ns, self.logical) = (look.now_ns, look.program_ns, look.logical);
        if first {
            return Orders { idle_ns: u64::MAX, leisure: false, patience_ns: 0 };
        }
        let share = |ns: u64| (u128::from(ns) * u128::from(look.target_ppm) / 1_000_000) as i64;
        let patience_ns =
            look.patience_ns.saturating_add(share(ns)).clamp(-share(OVERDRAWN_NS), share(SAVED_NS));
        let hurts = patience_ns < 0;
        let hurt = core::mem::replace(&mut self.hurts, hurts);
        let runs = ran > ns / IDLE;
        if look.idle_ns > 0 {
            self.pace = (u128::from(look.own) * 2 * u128::from(SECOND_NS) / u128::from(look.idle_ns)) as u64;
        } else {
            let most = look.own / if runs { FASTEST } else { FASTEST_IDLE };
            self.pace = match (hurts, hurt) {
                (true, false) => self.pace / 2,
                (true, true) => self.pace,
                (false, _) if runs => {
                    let more =
                        u128::from(self.pace) * u128::from(ns.min(DOUBLES_NS)) / u128::from(DOUBLES_NS);
                    self.pace + (more as u64).max(1)
                }
                (false, _) => most,
            }
            .clamp(look.own / SLOWEST, most);
        }
        self.owed = if hurts || grows || look.own < SMALLEST.max(FLOOR) && look.logical < SMALLEST {
            0
        } else {
            let most = self.pace.max(BLOCK as u64);
            (self.owed + per_second(self.pace)).min(most).min(look.own.saturating_sub(FLOOR))
        };
        // While threads wait too long, no further page is made more expensive to touch.
        let idle_ns = match (hurts, look.idle_ns) {
            (true, _) => u64::MAX,
            (false, 0) => ADAPTIVE_IDLE_NS,
            (false, idle) => idle,
        };
        Orders { idle_ns, leisure: !runs && !hurts, patience_ns }
    }

    /// Whether memory may be put on standby now.
    pub fn owes(&self, now: u64) -> bool {
        self.owed > 0 && now >= self.next_round_ns
    }

    /// This many bytes were put on standby.
    pub fn took(&mut self, bytes: u64) {
        self.owed = self.owed.saturating_sub(bytes);
    }

    /// All memory has had its turn, in a round that took `took_ns`.
    pub fn end_round(&mut self, now: u64, took_ns: u64) {
        self.next_round_ns = now + took_ns.clamp(ROUND_NS, 8 * ROUND_NS);
    }
}

/// Whether memory is to be evicted although there is room.
pub(super) fn is_wanted(shared: &Shared) -> bool {
    shared.stall_ppm.load(Relaxed) != 0
}

impl ReclaimThread {
    /// Decides how much may be evicted although there is room.
    pub(super) fn look_ahead_of_need(&mut self, now: u64, own: u64, tree: u64) {
        let runtime = self.runtime;
        let (shared, slot) = (runtime.shared(), runtime.slot());
        if now - self.proactive.at_ns < STEP_NS {
            return;
        }
        let orders = if is_wanted(shared) {
            // Processes that wait at different times wait longer in total.
            let sharers = shared.larger_than(tree / 16).max(1) as u64;
            let store = slot.payload.load(Relaxed) + slot.overhead.load(Relaxed);
            let patience_ns = runtime.reclaim.patience_ns.load(Relaxed);
            let orders = self.proactive.look(Look {
                now_ns: now,
                own,
                logical: own.saturating_sub(store) + slot.evicted.load(Relaxed),
                patience_ns,
                program_ns: sys::process_cpu_ns().saturating_sub(slot.counters.runtime_cpu_ns.load(Relaxed)),
                target_ppm: u64::from(shared.stall_ppm.load(Relaxed)) / sharers,
                idle_ns: u64::from(shared.idle_ms.load(Relaxed)) * 1_000_000,
            });
            // Handlers draw from the account all the time.
            runtime.reclaim.patience_ns.fetch_add(orders.patience_ns.wrapping_sub(patience_ns), Relaxed);
            orders
        } else {
            self.proactive = super::Proactive::new();
            runtime.reclaim.patience_ns.store(i64::MAX, Relaxed);
            Orders { idle_ns: u64::MAX, leisure: false, patience_ns: i64::MAX }
        };
        runtime.reclaim.idle_ns.store(orders.idle_ns, Relaxed);
        if runtime.reclaim.leisure.swap(orders.leisure, Relaxed) != orders.leisure && orders.leisure {
            runtime.reclaim.work.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A program of 512 MiB of which `hot` bytes are touched all the time; a touch of standby takes 10 µs a
    /// page. Returns what is still resident after `seconds`, and the share of time that it waited in the last
    /// quarter, in millionths.
    fn simulate(hot: u64, seconds: u64, idle_ns: u64, runs: bool) -> (u64, u64) {
        let all = 512 * MIB;
        let mut proactive = Proactive::new();
        let (mut resident, mut stalled, mut ran, mut quarter) = (all, 0u64, 0u64, (0u64, 0u64));
        let mut patience_ns = 0;
        let steps = seconds * 20;
        for step in 1..=steps {
            let now_ns = step * STEP_NS;
            ran += if runs { STEP_NS } else { 0 };
            let look = Look {
                now_ns,
                own: resident,
                logical: all,
                patience_ns,
                program_ns: ran,
                target_ppm: 10_000,
                idle_ns,
            };
            patience_ns = proactive.look(look).patience_ns;
            let take = proactive.owed;
            proactive.took(take);
            // Cold resident memory has its turn as hot memory does.
            let cold = resident - hot;
            let hot_part = (u128::from(take) * u128::from(hot) / u128::from(resident.max(1))) as u64;
            resident -= (take - hot_part).min(cold);
            let waited = hot_part / 4096 * 10_000;
            stalled += waited;
            patience_ns -= waited as i64;
            if step == steps * 3 / 4 {
                quarter = (stalled, now_ns);
            }
            if step == steps {
                quarter = (stalled - quarter.0, now_ns - quarter.1);
            }
        }
        (resident, quarter.0 * 1_000_000 / quarter.1)
    }

    #[test]
    fn hot_memory_stays_and_the_share_is_kept() {
        for (hot, seconds) in [(512 * MIB, 100), (256 * MIB, 600), (64 * MIB, 600)] {
            let (resident, share) = simulate(hot, seconds, 0, true);
            assert!(share <= 11_000, "{hot}: waits {share} of a million");
            assert!(resident <= hot + (512 * MIB - hot) / 4, "{hot}: {} MiB are left", resident / MIB);
        }
        let (resident, share) = simulate(0, 30, 0, false);
        assert!(resident < 8 * MIB && share == 0, "{resident} {share}");
    }

    #[test]
    fn by_age_all_has_its_turn_in_half_of_the_time() {
        let (resident, _) = simulate(0, 20, 10 * SECOND_NS, true);
        // Each time it is a fraction of the rest.
        assert!(resident < 512 * MIB / 16, "{}", resident / MIB);
        let (_, share) = simulate(512 * MIB, 60, 10 * SECOND_NS, true);
        assert!(share <= 11_000, "{share}");
    }

    #[test]
    fn a_program_that_grows_or_waits_is_left_alone() {
        let mut proactive = Proactive::new();
        let mut look = Look {
            now_ns: SECOND_NS,
            own: 100 * MIB,
            logical: 100 * MIB,
            patience_ns: i64::MAX,
            program_ns: 0,
            target_ppm: 10_000,
            idle_ns: 0,
        };
        look.patience_ns = proactive.look(look).patience_ns;
        assert_eq!(look.patience_ns, 0);
        look.now_ns += STEP_NS;
        let orders = proactive.look(look);
        assert_eq!(orders, Orders { idle_ns: ADAPTIVE_IDLE_NS, leisure: true, patience_ns: 500_000 });
        look.patience_ns = orders.patience_ns;
        assert!(proactive.owes(look.now_ns));
        look.now_ns += STEP_NS;
        look.logical += MIB;
        look.patience_ns = proactive.look(look).patience_ns;
        assert!(!proactive.owes(look.now_ns));
        look.now_ns += STEP_NS;
        look.patience_ns -= 20_000_000;
        let orders = proactive.look(look);
        assert_eq!(orders.idle_ns, u64::MAX);
        assert!(!proactive.owes(look.now_ns));
        // Two seconds earn two hundredths of a second; no more is saved.
        look.patience_ns = orders.patience_ns;
        look.now_ns += 2 * SECOND_NS;
        let orders = proactive.look(look);
        assert_ne!(orders.idle_ns, u64::MAX);
        assert!(proactive.owes(look.now_ns));
        look.patience_ns = orders.patience_ns;
        look.now_ns += 100 * SECOND_NS;
        look.patience_ns = proactive.look(look).patience_ns;
        assert_eq!(look.patience_ns, 20_000_000);
        // After a wait of a minute, the loss is limited to what ten seconds earn.
        look.patience_ns -= 60_000_000_000;
        look.now_ns += STEP_NS;
        assert_eq!(proactive.look(look).patience_ns, -100_000_000);
    }
}
