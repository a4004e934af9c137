//! What each policy chooses, given invented uses.

use std::cell::RefCell;
use std::collections::HashMap;

use super::*;

#[derive(Default)]
struct Made(RefCell<HashMap<u32, (u32, u32)>>, RefCell<u32>);

impl Made {
    fn touch(&self, frame: u32) {
        *self.1.borrow_mut() += 1;
        let mut frames = self.0.borrow_mut();
        let entry = frames.entry(frame).or_default();
        *entry = (*self.1.borrow(), entry.1 + 1);
    }
}

impl Uses for Made {
    fn last(&self, frame: u32) -> u32 {
        self.0.borrow().get(&frame).map_or(0, |uses| uses.0)
    }

    fn count(&self, frame: u32) -> u32 {
        self.0.borrow().get(&frame).map_or(0, |uses| uses.1)
    }
}

/// Frames 1 to 4 come; then these are used; then all are chosen in turn.
fn order(kind: PolicyKind, used: &[u32]) -> std::vec::Vec<u32> {
    let (mut policy, uses) = (kind.make(), Made::default());
    for frame in 1..=4 {
        uses.touch(frame);
        policy.came(frame, &uses);
    }
    used.iter().for_each(|&frame| uses.touch(frame));
    std::iter::from_fn(|| policy.choose(&uses)).collect()
}

#[test]
fn each_chooses_by_its_rule() {
    let used = [1, 3, 1, 1, 3, 2];
    assert_eq!(order(PolicyKind::Fifo, &used), [1, 2, 3, 4]);
    assert_eq!(order(PolicyKind::SecondChance, &used), [4, 1, 2, 3]);
    assert_eq!(order(PolicyKind::Lru, &used), [4, 1, 3, 2]);
    assert_eq!(order(PolicyKind::Lfu, &used), [4, 2, 3, 1]);
    assert_eq!(order(PolicyKind::Sieve, &used), [4, 1, 2, 3]);
}

#[test]
fn frames_that_left_are_not_chosen() {
    for kind in PolicyKind::ALL {
        let (mut policy, uses) = (kind.make(), Made::default());
        (1..=5).for_each(|frame| policy.came(frame, &uses));
        policy.left(3);
        policy.left(5);
        let mut left: std::vec::Vec<u32> = std::iter::from_fn(|| policy.choose(&uses)).collect();
        left.sort();
        assert_eq!(left, [1, 2, 4], "{kind:?}");
    }
}

#[test]
fn names_are_those_of_the_command_line() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert_eq!("mru".parse::<PolicyKind>(), Err(UnknownPolicy));
}

#[test]
fn the_hand_of_sieve_does_not_wait_for_what_comes() {
    let (mut policy, uses) = (PolicyKind::Sieve.make(), Made::default());
    for frame in 1..=3 {
        uses.touch(frame);
        policy.came(frame, &uses);
    }
    // All but the newest were used since they came: the newest is chosen.
    uses.touch(1);
    uses.touch(2);
    assert_eq!(policy.choose(&uses), Some(3));
    uses.touch(3);
    policy.came(3, &uses);
    // Old frames that were not used again are chosen before one that has just come.
    assert_eq!(policy.choose(&uses), Some(1));
    assert_eq!(policy.choose(&uses), Some(2));
}
