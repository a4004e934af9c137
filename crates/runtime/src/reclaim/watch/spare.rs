//! What a process can give back at most, when its limit asks for more.
//!
//! ```text
//!  own │ store │ does not compress │ floor │ spare │      what of it is owed: no more than the spare part
//! ```
//!
//! A limit below that can't be held. To fight for it all the same would cost the program nearly all of its
//! time and then be given up, fault by fault, until everything is resident. So the process settles at the
//! least that its data allow: it owes the spare part and no more, and who makes more resident waits until as
//! much is given back, as with a limit that just fits. The **floor** is what it keeps resident to work with:
//! a part of the limit, and the more the further the limit is out of reach, up to a part of the store. And
//! what a whole round of the hand could not take.

use core::sync::atomic::Ordering::*;

use memfold_shared::near;

use super::ReclaimThread;
use crate::kernel::sys::PAGE;

/// Where the limit can't be held it keeps this part of its store too, at most.
const FLOOR_OF_STORE: i64 = 24;

/// See the module. All in bytes.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// What the process has besides its store and what does not compress.
    rest: i64,
    store: i64,
    kept: u64,
    floor: i64,
    /// What of the rest could not be taken by a whole round.
    stuck: i64,
}

impl Spare {
    /// With so many bytes of memory, of which so many are in the store, do not compress, and are on standby.
    pub fn look(&mut self, own: u64, store: u64, kept: u64, standby: u64, limit: u64) {
        self.rest = own as i64 - store as i64 - kept as i64;
        (self.store, self.kept) = (store as i64, kept);
        self.floor = near::floor(limit) as i64;
        // What is on standby was taken.
        self.stuck = self.stuck.min(self.rest - standby as i64);
    }

    /// What does not compress.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// What can be given back if nothing but the floor is to be left.
    pub fn at_most(&self) -> i64 {
        self.rest - self.floor
    }

    /// A whole round has taken nothing: what is there stays.
    pub fn nothing_taken(&mut self) {
        self.stuck = self.rest;
    }

    /// What of `share` is owed. If nothing can be made denser the floor rises with what is out of reach.
    pub fn owed(&self, share: i64, can_shrink: bool) -> i64 {
        let beyond = (share - self.at_most()).max(0);
        let floor = if can_shrink {
            self.floor
        } else {
            (self.floor + (beyond / 2).min(self.store / FLOOR_OF_STORE)).max(self.stuck)
        };
        share.min((self.rest - floor).max(0))
    }
}

impl ReclaimThread {
    /// Looks at what the process has.
    pub(super) fn look_at_spare(&mut self, own: u64, limit: u64) {
        let (runtime, slot) = (self.runtime, self.runtime.slot());
        let store = slot.payload.load(Relaxed) + slot.overhead.load(Relaxed);
        let pages = |pages: u64| pages * PAGE as u64;
        let kept = pages(runtime.pages.incompressible.load(Relaxed).max(0) as u64);
        self.spare.look(own, store, kept, pages(runtime.pages.standby.pages.load(Relaxed)), limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn spare(own: i64, store: i64, kept: i64, standby: i64, limit: i64) -> Spare {
        let mut spare = Spare::default();
        let bytes = |mib: i64| (mib * MIB) as u64;
        spare.look(bytes(own), bytes(store), bytes(kept), bytes(standby), bytes(limit));
        spare
    }

    #[test]
    fn a_limit_within_reach_is_owed_whole() {
        let spare = spare(110, 50, 0, 4, 100);
        assert_eq!(spare.owed(10 * MIB, false), 10 * MIB);
        assert_eq!(spare.owed(-5 * MIB, false), -5 * MIB);
    }

    #[test]
    fn out_of_reach_the_process_settles_near_its_store() {
        // All data in the store take 160 of 320 MiB; what is resident moves to the store at a half.
        for limit in [40, 80, 120, 150] {
            let mut own = 320;
            for _ in 0..1000 {
                let store = 160 - (own - 160).max(0);
                let share = (own - limit) * MIB;
                own -= (spare(own, store, 0, 0, limit).owed(share, false) / MIB).min(1);
            }
            assert!((160..=180).contains(&own), "limit {limit}: {own}");
        }
    }

    #[test]
    fn what_does_not_compress_is_never_owed() {
        let spare = spare(200, 2, 190, 1, 100);
        assert!(spare.owed(100 * MIB, false) <= 5 * MIB);
    }

    #[test]
    fn what_a_round_could_not_take_is_not_owed_until_some_of_it_was() {
        let mut spare = spare(100, 10, 0, 0, 50);
        assert_eq!(spare.owed(20 * MIB, false), 20 * MIB);
        spare.nothing_taken();
        assert_eq!(spare.owed(20 * MIB, false), 0);
        let bytes = |mib: i64| (mib * MIB) as u64;
        spare.look(bytes(103), bytes(10), 0, 0, bytes(50));
        assert_eq!(spare.owed(23 * MIB, false), 3 * MIB);
        spare.look(bytes(103), bytes(10), 0, bytes(10), bytes(50));
        assert_eq!(spare.owed(23 * MIB, false), 10 * MIB);
    }
}
