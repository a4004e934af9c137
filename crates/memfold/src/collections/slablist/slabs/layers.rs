//! The sublayers above the leaves: where each leaf begins, how many elements it has, and the same for groups
//! of leaves.
//!
//! ```text
//!   firsts   | a  | k        |                   of groups
//!              |    |
//!   groups   | a c f | k m r t |                 of leaves, with their handles and counts
//!              | |       |
//!   leaves   in the heap
//! ```
//!
//! All of it is in plain memory: some 40 bytes per leaf. Keys are side by side, so a search reads few cache
//! lines. No group is empty.

use std::vec::Vec;

use crate::collections::slablist::format::partition;
use crate::heap::Handle;

/// The most leaves of a group, by default.
pub const MOST: usize = 256;

/// A leaf.
#[derive(Debug, Clone, Copy)]
pub struct LeafRef {
    /// Where it is.
    pub handle: Handle,
    /// How many elements it has: at least one.
    pub count: u32,
    /// Their weight.
    pub weight: u32,
}

struct Group<K> {
    firsts: Vec<K>,
    leaves: Vec<LeafRef>,
    count: u64,
}

/// Names a leaf until leaves are added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafIndex {
    group: usize,
    leaf: usize,
}

/// See the module.
pub struct Layers<K> {
    firsts: Vec<K>,
    groups: Vec<Group<K>>,
    leaves: usize,
    /// The most leaves of a group.
    most: usize,
}

impl<K: Clone> Layers<K> {
    /// Without leaves; groups will have at most `most` of them.
    pub fn new(most: usize) -> Self {
        Layers { firsts: Vec::new(), groups: Vec::new(), leaves: 0, most: most.max(2) }
    }

    /// How many leaves there are.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// The last leaf for whose first element `is_before` holds, as it does for all leaves before it;
    /// otherwise the first leaf. There must be leaves.
    #[inline]
    pub fn find(&self, mut is_before: impl FnMut(&K) -> bool) -> LeafIndex {
        let group = partition(self.firsts.len(), |i| is_before(&self.firsts[i])).saturating_sub(1);
        let firsts = &self.groups[group].firsts;
        let leaf = partition(firsts.len(), |i| is_before(&firsts[i])).saturating_sub(1);
        LeafIndex { group, leaf }
    }

    /// The leaf with the element at a position, and the position in it; `None` after the last.
    pub fn at(&self, mut position: u64) -> Option<(LeafIndex, usize)> {
        for (number, group) in self.groups.iter().enumerate() {
            if position >= group.count {
                position -= group.count;
                continue;
            }
            for (leaf, at) in group.leaves.iter().enumerate() {
                if position < at.count.into() {
                    return Some((LeafIndex { group: number, leaf }, position as usize));
                }
                position -= u64::from(at.count);
            }
        }
        None
    }

    /// The leaf.
    #[inline(always)]
    pub fn get(&self, spot: LeafIndex) -> LeafRef {
        self.groups[spot.group].leaves[spot.leaf]
    }

    /// The first leaf of all.
    pub fn first(&self) -> Option<LeafIndex> {
        (self.leaves > 0).then_some(LeafIndex { group: 0, leaf: 0 })
    }

    /// The last leaf of all.
    pub fn last(&self) -> Option<LeafIndex> {
        let group = self.groups.len().checked_sub(1)?;
        Some(LeafIndex { group, leaf: self.groups[group].leaves.len() - 1 })
    }

    /// The next leaf.
    pub fn next(&self, LeafIndex { group, leaf }: LeafIndex) -> Option<LeafIndex> {
        if leaf + 1 < self.groups[group].leaves.len() {
            Some(LeafIndex { group, leaf: leaf + 1 })
        } else {
            (group + 1 < self.groups.len()).then_some(LeafIndex { group: group + 1, leaf: 0 })
        }
    }

    /// Adds to a leaf's count of elements and to its weight.
    #[inline]
    pub fn add(&mut self, spot: LeafIndex, more: i32, weight: i32) {
        let group = &mut self.groups[spot.group];
        group.count = group.count.wrapping_add_signed(more.into());
        let leaf = &mut group.leaves[spot.leaf];
        leaf.count = leaf.count.wrapping_add_signed(more);
        leaf.weight = leaf.weight.wrapping_add_signed(weight);
    }

    /// How many elements precede a leaf's.
    pub fn before(&self, spot: LeafIndex) -> u64 {
        let groups = &self.groups[..spot.group];
        let leaves = &self.groups[spot.group].leaves[..spot.leaf];
        groups.iter().map(|group| group.count).sum::<u64>()
            + leaves.iter().map(|leaf| u64::from(leaf.count)).sum::<u64>()
    }

    /// Notes that a leaf begins with another element now.
    pub fn set_first(&mut self, spot: LeafIndex, first: K) {
        if spot.leaf == 0 {
            self.firsts[spot.group] = first.clone();
        }
        self.groups[spot.group].firsts[spot.leaf] = first;
    }

    /// Replaces `old` leaves from `spot` on, all of one group; or inserts before the first one, if there are
    /// none yet.
    pub fn replace(&mut self, spot: Option<LeafIndex>, old: usize, new: &[(K, LeafRef)]) {
        let Some(LeafIndex { group: number, leaf }) = spot else {
            debug_assert!(self.groups.is_empty() && !new.is_empty());
            let firsts = new.iter().map(|new| new.0.clone()).collect();
            let leaves: Vec<_> = new.iter().map(|new| new.1).collect();
            let count = leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
            self.leaves = leaves.len();
            self.firsts.push(new[0].0.clone());
            self.groups.push(Group { firsts, leaves, count });
            return self.split(0);
        };
        let group = &mut self.groups[number];
        group.firsts.splice(leaf..leaf + old, new.iter().map(|new| new.0.clone()));
        group.leaves.splice(leaf..leaf + old, new.iter().map(|new| new.1));
        group.count = group.leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
        self.leaves = self.leaves + new.len() - old;
        if group.leaves.is_empty() {
            self.groups.remove(number);
            self.firsts.remove(number);
        } else {
            self.firsts[number] = group.firsts[0].clone();
            self.split(number);
        }
    }

    /// Replaces the leaves from `from` up to `to`, whatever groups they are in.
    pub fn replace_between(&mut self, from: LeafIndex, to: LeafIndex, new: &[(K, LeafRef)]) {
        if from.group == to.group {
            return self.replace(Some(from), to.leaf + 1 - from.leaf, new);
        }
        // From the last group on, so that the indices of those before it stay valid.
        self.replace(Some(LeafIndex { group: to.group, leaf: 0 }), to.leaf + 1, &[]);
        for group in self.groups.drain(from.group + 1..to.group) {
            self.leaves -= group.leaves.len();
        }
        self.firsts.drain(from.group + 1..to.group);
        let old = self.groups[from.group].leaves.len() - from.leaf;
        self.replace(Some(from), old, new);
    }

    /// Adds a leaf at the end.
    pub fn push(&mut self, first: K, leaf: LeafRef) {
        let most = self.most;
        match self.groups.last_mut() {
            Some(group) if group.leaves.len() < most => {
                group.firsts.push(first);
                group.leaves.push(leaf);
                group.count += u64::from(leaf.count);
            }
            _ => {
                let count = leaf.count.into();
                self.firsts.push(first.clone());
                self.groups.push(Group { firsts: [first].into(), leaves: [leaf].into(), count });
            }
        }
        self.leaves += 1;
    }

    /// Splits a group that has too many leaves into groups of the most leaves.
    fn split(&mut self, number: usize) {
        while self.groups[number].leaves.len() > self.most {
            let group = &mut self.groups[number];
            let middle = (group.leaves.len() / 2).max(group.leaves.len().saturating_sub(self.most));
            let (firsts, leaves) = (group.firsts.split_off(middle), group.leaves.split_off(middle));
            let count: u64 = leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
            group.count -= count;
            self.firsts.insert(number + 1, firsts[0].clone());
            self.groups.insert(number + 1, Group { firsts, leaves, count });
        }
    }

    /// Leaves of `spot`'s group: how many before it, and how many from it on.
    pub fn around(&self, spot: LeafIndex) -> (usize, usize) {
        (spot.leaf, self.groups[spot.group].leaves.len() - spot.leaf)
    }

    /// The leaf `by` further on, or back, in the same group.
    pub fn moved(&self, spot: LeafIndex, by: isize) -> LeafIndex {
        LeafIndex { leaf: spot.leaf.wrapping_add_signed(by), ..spot }
    }

    /// All leaves, from `spot` on in its group.
    pub fn rest_of_group(&self, spot: LeafIndex) -> &[LeafRef] {
        &self.groups[spot.group].leaves[spot.leaf..]
    }

    /// Whether all sums are right, and groups begin as their first leaves do. Elements are not looked at.
    pub fn is_sound(&self) -> bool {
        let of = |group: &Group<K>| {
            let count = group.leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
            let len = group.leaves.len();
            (1..=self.most).contains(&len) && group.firsts.len() == len && group.count == count
        };
        self.groups.iter().all(of)
            && self.firsts.len() == self.groups.len()
            && self.groups.iter().map(|group| group.leaves.len()).sum::<usize>() == self.leaves
    }

    /// All leaves in order.
    pub fn all(&self) -> impl Iterator<Item = (&K, LeafRef)> {
        self.groups.iter().flat_map(|group| group.firsts.iter().zip(group.leaves.iter().copied()))
    }

    /// Bytes of plain memory; `outside` returns the bytes that a key occupies elsewhere.
    pub fn bytes(&self, outside: impl Fn(&K) -> usize) -> usize {
        let keys =
            |keys: &Vec<K>| keys.capacity() * size_of::<K>() + keys.iter().map(&outside).sum::<usize>();
        let of = |group: &Group<K>| keys(&group.firsts) + group.leaves.capacity() * size_of::<LeafRef>();
        self.groups.iter().map(of).sum::<usize>()
            + self.groups.capacity() * size_of::<Group<K>>()
            + keys(&self.firsts)
    }
}
