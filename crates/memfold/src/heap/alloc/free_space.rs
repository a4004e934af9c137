//! The free lists: which blocks have room.
//!
//! Blocks from which no session allocates are listed by the longest node that surely fits: four lists for
//! each doubling. So a block for a node is found in a few steps, however many blocks there are (compll
//! searches them one by one). The locks of blocks are taken before this one, never after it, so the caller
//! has to check what it finds here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec::Vec;

use crate::heap::block::handle::FIRST_LARGE;
use crate::heap::block::table::{LISTS, List};
use crate::heap::error::Error;
use crate::room::push;

/// Lists for each doubling, as a power of two.
const STEPS: u32 = 2;

/// See the module.
pub struct FreeSpace {
    /// First block of each list.
    heads: Vec<u32>,
    /// Which of the lists by room are not empty.
    some: u64,
    /// Next and previous block of the same list.
    links: Vec<(u32, u32)>,
    /// Vacant numbers, lowest first (so the numbers in use are dense), and the first number that was never
    /// used.
    vacant: BinaryHeap<Reverse<u32>>,
    next: u32,
}

/// The list for blocks in which a node of `bytes` fits, if listing them pays.
pub fn list_of(bytes: usize) -> Option<List> {
    if bytes < 8 {
        return None;
    }
    let doubling = bytes.ilog2();
    let step = (bytes >> (doubling - STEPS)) as u32 & ((1 << STEPS) - 1);
    Some(List((((doubling - 3) << STEPS) + step).min(LISTS - 1)))
}

/// The most bytes for which the list is a lower one than for `bytes`.
pub fn below(bytes: usize) -> usize {
    let step = bytes.max(8).ilog2() - STEPS;
    (bytes >> step << step).saturating_sub(1)
}

impl FreeSpace {
    /// Empty free lists.
    pub fn new() -> Self {
        FreeSpace {
            heads: std::vec![0; LISTS as usize],
            some: 0,
            links: Vec::new(),
            vacant: BinaryHeap::new(),
            next: 1,
        }
    }

    /// A number for a new block; an error if all are in use, or there is no memory to keep track of it.
    pub fn take_number(&mut self) -> Result<u32, Error> {
        if let Some(Reverse(number)) = self.vacant.pop() {
            return Ok(number);
        }
        let number = self.next;
        let next = number.checked_add(1).filter(|&next| next <= FIRST_LARGE).ok_or(Error::Limit)?;
        // Memory is reserved now, so that listing the block or making it vacant can't fail later.
        let links = (next as usize).saturating_sub(self.links.len());
        self.links.try_reserve(links).map_err(|_| Error::OutOfMemory)?;
        self.vacant.try_reserve(next as usize).map_err(|_| Error::OutOfMemory)?;
        self.next = next;
        Ok(number)
    }

    /// Makes the number vacant.
    pub fn give_number(&mut self, number: u32) {
        self.vacant.push(Reverse(number));
    }

    fn link(&mut self, block: u32) -> &mut (u32, u32) {
        let index = block as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, (0, 0));
        }
        &mut self.links[index]
    }

    fn head(&mut self, List(list): List) -> &mut u32 {
        let list = list as usize;
        if self.heads.len() <= list {
            self.heads.resize(list + 1, 0);
        }
        &mut self.heads[list]
    }

    fn set_head(&mut self, list: List, block: u32) {
        *self.head(list) = block;
        if list.0 < LISTS {
            let bit = 1 << list.0;
            self.some = if block != 0 { self.some | bit } else { self.some & !bit };
        }
    }

    /// Moves a block from one list to another.
    pub fn relist(&mut self, block: u32, from: Option<List>, to: Option<List>) {
        if let Some(from) = from {
            let (next, previous) = *self.link(block);
            match previous {
                0 => self.set_head(from, next),
                previous => self.link(previous).0 = next,
            }
            if next != 0 {
                self.link(next).1 = previous;
            }
        }
        if let Some(to) = to {
            let head = *self.head(to);
            *self.link(block) = (head, 0);
            if head != 0 {
                self.link(head).1 = block;
            }
            self.set_head(to, block);
        }
    }

    /// The blocks of a list.
    pub fn of_list(&self, List(list): List) -> impl Iterator<Item = u32> + '_ {
        let block = |block: u32| Some(block).filter(|&block| block != 0);
        let first = self.heads.get(list as usize).copied().and_then(block);
        std::iter::successors(first, move |&at| self.links.get(at as usize).and_then(|link| block(link.0)))
    }

    /// Some blocks in which a node of `bytes` fits: the first of each list, the lists with the least room
    /// first.
    pub fn candidates(&self, bytes: usize) -> impl DoubleEndedIterator<Item = u32> + '_ {
        // All blocks of the next list have room for it.
        let from = list_of(bytes).map_or(0, |list| list.0 + 1);
        (from..LISTS).filter(|list| self.some >> list & 1 != 0).map(|list| self.heads[list as usize])
    }

    /// Every listed block and its list; the inner `Err` is a block whose links contradict each other.
    pub fn listed(&self) -> Result<Result<Vec<(u32, List)>, u32>, Error> {
        let mut all = Vec::new();
        for (list, &head) in self.heads.iter().enumerate() {
            let (mut before, mut block) = (0, head);
            if list < LISTS as usize && (block != 0) != (self.some >> list & 1 != 0) {
                return Ok(Err(block));
            }
            while block != 0 {
                match self.links.get(block as usize) {
                    Some(&(next, previous)) if previous == before && all.len() < self.links.len() => {
                        push(&mut all, (block, List(list as u32)))?;
                        (before, block) = (block, next);
                    }
                    _ => return Ok(Err(block)),
                }
            }
        }
        Ok(Ok(all))
    }

    /// One more than the highest number so far, and the vacant numbers below that.
    pub fn numbers(&self) -> (u32, impl Iterator<Item = u32>) {
        (self.next, self.vacant.iter().map(|&Reverse(number)| number))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.links.capacity() * size_of::<(u32, u32)>()
            + (self.vacant.capacity() + self.heads.capacity()) * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn blocks_with_room_are_found() {
        let mut rooms = FreeSpace::new();
        let numbers: Vec<u32> = (0..5).map(|_| rooms.take_number().unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        for (&block, bytes) in numbers.iter().zip([4, 100, 100, 1000, 30_000]) {
            rooms.relist(block, None, list_of(bytes));
        }
        let found = |rooms: &FreeSpace, bytes| rooms.candidates(bytes).collect::<Vec<_>>();
        assert_eq!(found(&rooms, 50), [3, 4, 5]);
        assert_eq!(found(&rooms, 200), [4, 5]);
        rooms.relist(3, list_of(100), None);
        assert_eq!(found(&rooms, 50), [2, 4, 5]);
        rooms.relist(2, list_of(100), list_of(20_000));
        assert_eq!(found(&rooms, 2000), [2, 5]);
        let kind = Some(List::of_kind(300));
        rooms.relist(1, None, kind);
        rooms.relist(3, None, kind);
        let of_kind = |rooms: &FreeSpace, kind| rooms.of_list(List::of_kind(kind)).collect::<Vec<_>>();
        assert_eq!(of_kind(&rooms, 300), [3, 1]);
        rooms.relist(3, kind, None);
        assert_eq!((of_kind(&rooms, 300), of_kind(&rooms, 9)), (vec![1], vec![]));
        assert_eq!(rooms.listed().unwrap().unwrap().len(), 4);
        rooms.give_number(3);
        assert_eq!((rooms.take_number(), rooms.take_number()), (Ok(3), Ok(6)));
    }

    #[test]
    fn lists_are_in_order() {
        let lists: Vec<u32> = (8..1 << 24).step_by(37).map(|bytes| list_of(bytes).unwrap().0).collect();
        assert!(lists.is_sorted() && *lists.last().unwrap() < LISTS);
        for bytes in (16..40_000).step_by(7) {
            let (list, lower) = (list_of(bytes).unwrap(), list_of(below(bytes)).unwrap());
            assert!(lower.0 + 1 == list.0, "{bytes}");
        }
    }
}
