//! The sublayers above the leaves: where each leaf begins, how many elements it has, and the same of groups of leaves.
//!
//! ```text
//!   firsts   | a  | k        |                   of groups
//!              |    |
//!   groups   | a c f | k m r t |                 of leaves, with their handles and counts
//!              | |       |
//!   leaves   in the heap
//! ```
//!
//! All of it stays in plain memory: it is some 40 bytes for a leaf. Keys lie side by side, so a search reads few lines of memory. No group is empty.

use std::vec::Vec;

use crate::heap::Handle;

/// Leaves of a group at most.
const MOST: usize = 256;

/// A leaf.
#[derive(Debug, Clone, Copy)]
pub struct LeafRef {
    /// Where it is.
    pub handle: Handle,
    /// How many elements it has: at least one.
    pub count: u32,
}

#[derive(Debug)]
struct Group<T> {
    firsts: Vec<T>,
    leaves: Vec<LeafRef>,
    count: u64,
}

/// Names a leaf until leaves come or go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    group: usize,
    leaf: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Layers<T> {
    firsts: Vec<T>,
    groups: Vec<Group<T>>,
    leaves: usize,
}

impl<T: Copy> Layers<T> {
    /// Without leaves.
    pub fn new() -> Self {
        Layers { firsts: Vec::new(), groups: Vec::new(), leaves: 0 }
    }

    /// How many leaves there are.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// The last leaf whose first element `is_before` holds for, which it does for the leaves up to it; else the first leaf. There are leaves.
    #[inline]
    pub fn find(&self, mut is_before: impl FnMut(&T) -> bool) -> Spot {
        let group = partition(&self.firsts, &mut is_before).saturating_sub(1);
        let leaf = partition(&self.groups[group].firsts, &mut is_before).saturating_sub(1);
        Spot { group, leaf }
    }

    /// The leaf with the element at a position, and the position there; `None` behind the last.
    pub fn at(&self, mut position: u64) -> Option<(Spot, usize)> {
        for (number, group) in self.groups.iter().enumerate() {
            if position >= group.count {
                position -= group.count;
                continue;
            }
            for (leaf, at) in group.leaves.iter().enumerate() {
                if position < at.count.into() {
                    return Some((Spot { group: number, leaf }, position as usize));
                }
                position -= u64::from(at.count);
            }
        }
        None
    }

    /// The leaf.
    #[inline(always)]
    pub fn get(&self, spot: Spot) -> LeafRef {
        self.groups[spot.group].leaves[spot.leaf]
    }

    /// The first leaf of all.
    pub fn first(&self) -> Option<Spot> {
        (self.leaves > 0).then_some(Spot { group: 0, leaf: 0 })
    }

    /// The last leaf of all.
    pub fn last(&self) -> Option<Spot> {
        let group = self.groups.len().checked_sub(1)?;
        Some(Spot { group, leaf: self.groups[group].leaves.len() - 1 })
    }

    /// The leaf behind.
    pub fn next(&self, Spot { group, leaf }: Spot) -> Option<Spot> {
        if leaf + 1 < self.groups[group].leaves.len() {
            Some(Spot { group, leaf: leaf + 1 })
        } else {
            (group + 1 < self.groups.len()).then_some(Spot { group: group + 1, leaf: 0 })
        }
    }

    /// The leaf before.
    pub fn previous(&self, Spot { group, leaf }: Spot) -> Option<Spot> {
        if leaf > 0 {
            return Some(Spot { group, leaf: leaf - 1 });
        }
        let group = group.checked_sub(1)?;
        Some(Spot { group, leaf: self.groups[group].leaves.len() - 1 })
    }

    /// The leaf has so many elements more.
    #[inline]
    pub fn add(&mut self, spot: Spot, more: i32) {
        let group = &mut self.groups[spot.group];
        group.count = group.count.wrapping_add_signed(more.into());
        let leaf = &mut group.leaves[spot.leaf];
        leaf.count = leaf.count.wrapping_add_signed(more);
    }

    /// The leaf begins with another element now.
    pub fn set_first(&mut self, spot: Spot, first: T) {
        self.groups[spot.group].firsts[spot.leaf] = first;
        if spot.leaf == 0 {
            self.firsts[spot.group] = first;
        }
    }

    /// Puts leaves in place of `old` leaves from `spot` on, all of one group; or before the first one, if there are none yet.
    pub fn replace(&mut self, spot: Option<Spot>, old: usize, new: &[(T, LeafRef)]) {
        let Some(Spot { group: number, leaf }) = spot else {
            debug_assert!(self.groups.is_empty() && !new.is_empty());
            let firsts = new.iter().map(|new| new.0).collect();
            let leaves: Vec<_> = new.iter().map(|new| new.1).collect();
            let count = leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
            self.leaves = leaves.len();
            self.firsts.push(new[0].0);
            self.groups.push(Group { firsts, leaves, count });
            return self.split(0);
        };
        let group = &mut self.groups[number];
        group.firsts.splice(leaf..leaf + old, new.iter().map(|new| new.0));
        group.leaves.splice(leaf..leaf + old, new.iter().map(|new| new.1));
        group.count = group.leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
        self.leaves = self.leaves + new.len() - old;
        if group.leaves.is_empty() {
            self.groups.remove(number);
            self.firsts.remove(number);
        } else {
            self.firsts[number] = group.firsts[0];
            self.split(number);
        }
    }

    /// Puts a leaf behind all others.
    pub fn push(&mut self, first: T, leaf: LeafRef) {
        match self.groups.last_mut() {
            Some(group) if group.leaves.len() < MOST => {
                group.firsts.push(first);
                group.leaves.push(leaf);
                group.count += u64::from(leaf.count);
            }
            _ => {
                let count = leaf.count.into();
                self.firsts.push(first);
                self.groups.push(Group { firsts: [first].into(), leaves: [leaf].into(), count });
            }
        }
        self.leaves += 1;
    }

    /// Makes groups of at most `MOST` leaves of one that has more.
    fn split(&mut self, number: usize) {
        while self.groups[number].leaves.len() > MOST {
            let group = &mut self.groups[number];
            let middle = (group.leaves.len() / 2).max(group.leaves.len().saturating_sub(MOST));
            let (firsts, leaves) = (group.firsts.split_off(middle), group.leaves.split_off(middle));
            let count: u64 = leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
            group.count -= count;
            self.firsts.insert(number + 1, firsts[0]);
            self.groups.insert(number + 1, Group { firsts, leaves, count });
        }
    }

    /// Leaves of the same group as `spot`: how many before it, and how many from it on.
    pub fn around(&self, spot: Spot) -> (usize, usize) {
        (spot.leaf, self.groups[spot.group].leaves.len() - spot.leaf)
    }

    /// The leaf so many further on, or back, in the same group.
    pub fn moved(&self, spot: Spot, by: isize) -> Spot {
        Spot { leaf: spot.leaf.wrapping_add_signed(by), ..spot }
    }

    /// All leaves, from `spot` on in its group.
    pub fn rest_of_group(&self, spot: Spot) -> &[LeafRef] {
        &self.groups[spot.group].leaves[spot.leaf..]
    }

    /// Whether all numbers are sums of what they are sums of, and groups begin as their leaves do. What elements are is not looked at.
    pub fn is_sound(&self) -> bool {
        let of = |group: &Group<T>| {
            let count = group.leaves.iter().map(|leaf| u64::from(leaf.count)).sum();
            let len = group.leaves.len();
            (1..=MOST).contains(&len) && group.firsts.len() == len && group.count == count
        };
        self.groups.iter().all(of)
            && self.firsts.len() == self.groups.len()
            && self.groups.iter().map(|group| group.leaves.len()).sum::<usize>() == self.leaves
    }

    /// All leaves in order.
    pub fn all(&self) -> impl Iterator<Item = (T, LeafRef)> {
        self.groups.iter().flat_map(|group| group.firsts.iter().copied().zip(group.leaves.iter().copied()))
    }

    /// Bytes of all this.
    pub fn bytes(&self) -> usize {
        let of = |group: &Group<T>| {
            group.firsts.capacity() * size_of::<T>() + group.leaves.capacity() * size_of::<LeafRef>()
        };
        self.groups.iter().map(of).sum::<usize>()
            + self.groups.capacity() * size_of::<Group<T>>()
            + self.firsts.capacity() * size_of::<T>()
    }
}

/// How many elements `is_before` holds for: the first ones.
#[inline(always)]
fn partition<T>(elements: &[T], is_before: &mut impl FnMut(&T) -> bool) -> usize {
    let (mut base, mut left) = (0, elements.len());
    while left > 1 {
        let half = left / 2;
        base += if is_before(&elements[base + half - 1]) { half } else { 0 };
        left -= half;
    }
    base + usize::from(!elements.is_empty() && is_before(&elements[base]))
}
