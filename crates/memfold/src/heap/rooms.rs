//! Which blocks have room.
//!
//! Blocks from which no session allocates are listed by the longest node that surely fits: four lists for each doubling. So
//! a block for a node is found in a few steps, however many there are (compll looked at one after the other). The
//! blocks' own locks are taken before this one, never the other way round: what is found here has to be checked.

use std::vec::Vec;

/// Lists for each doubling, as a power of two.
const STEPS: u32 = 2;
const LISTS: usize = 64;

/// In no list.
pub const NOWHERE: u8 = 0;

/// See the module.
pub struct Rooms {
    /// First block of each list.
    heads: [u32; LISTS],
    some: u64,
    /// Next and previous block of the same list.
    links: Vec<(u32, u32)>,
    /// Numbers that are not in use, and the first that never was.
    vacant: Vec<u32>,
    next: u32,
}

/// The list for blocks in which a node of `bytes` fits; [`NOWHERE`] if that is hardly any.
pub fn list_of(bytes: usize) -> u8 {
    if bytes < 8 {
        return NOWHERE;
    }
    let doubling = bytes.ilog2();
    let step = (bytes >> (doubling - STEPS)) as u32 & ((1 << STEPS) - 1);
    (((doubling - 3) << STEPS) + step + 1).min(LISTS as u32 - 1) as u8
}

impl Rooms {
    /// No block has room.
    pub fn new() -> Self {
        Rooms { heads: [0; LISTS], some: 0, links: Vec::new(), vacant: Vec::new(), next: 1 }
    }

    /// A number for a new block; `None` when all are in use.
    pub fn take_number(&mut self) -> Option<u32> {
        if let Some(number) = self.vacant.pop() {
            return Some(number);
        }
        let number = self.next;
        self.next = number.checked_add(1)?;
        Some(number)
    }

    /// The number is not in use any more.
    pub fn give_number(&mut self, number: u32) {
        self.vacant.push(number);
    }

    /// Blocks in use.
    pub fn count(&self) -> u32 {
        self.next - 1 - self.vacant.len() as u32
    }

    fn link(&mut self, block: u32) -> &mut (u32, u32) {
        let index = block as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, (0, 0));
        }
        &mut self.links[index]
    }

    /// Moves a block from one list to another.
    pub fn relist(&mut self, block: u32, from: u8, to: u8) {
        if from != NOWHERE {
            let (next, previous) = *self.link(block);
            match previous {
                0 => self.heads[usize::from(from)] = next,
                previous => self.link(previous).0 = next,
            }
            if next != 0 {
                self.link(next).1 = previous;
            }
            if self.heads[usize::from(from)] == 0 {
                self.some &= !(1 << from);
            }
        }
        if to != NOWHERE {
            let head = self.heads[usize::from(to)];
            *self.link(block) = (head, 0);
            if head != 0 {
                self.link(head).1 = block;
            }
            self.heads[usize::from(to)] = block;
            self.some |= 1 << to;
        }
    }

    /// Some blocks in which a node of `bytes` fits: the first of each list, those with least room first.
    pub fn candidates(&self, bytes: usize) -> impl DoubleEndedIterator<Item = (u32, u8)> + '_ {
        // All blocks of the next list have room for it.
        let from = u32::from(list_of(bytes)) + 1;
        (from..LISTS as u32)
            .filter(|list| self.some >> list & 1 != 0)
            .map(|list| (self.heads[list as usize], list as u8))
    }

    /// Every listed block and its list, if each link leads to where the other came from; `Err` with a block of which that is not true.
    pub fn listed(&self) -> Result<Vec<(u32, u8)>, u32> {
        let mut all = Vec::new();
        for list in 0..LISTS {
            let (mut before, mut block) = (0, self.heads[list]);
            if (block != 0) != (self.some >> list & 1 != 0) {
                return Err(block);
            }
            while block != 0 {
                match self.links.get(block as usize) {
                    Some(&(next, previous)) if previous == before && all.len() < self.links.len() => {
                        all.push((block, list as u8));
                        (before, block) = (block, next);
                    }
                    _ => return Err(block),
                }
            }
        }
        Ok(all)
    }

    /// One more than the highest number so far, and those below that are not in use.
    pub fn numbers(&self) -> (u32, &[u32]) {
        (self.next, &self.vacant)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.links.capacity() * size_of::<(u32, u32)>() + self.vacant.capacity() * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_room_is_found() {
        let mut rooms = Rooms::new();
        let numbers: Vec<u32> = (0..5).filter_map(|_| rooms.take_number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        for (&block, bytes) in numbers.iter().zip([4, 100, 100, 1000, 30_000]) {
            rooms.relist(block, NOWHERE, list_of(bytes));
        }
        let found =
            |rooms: &Rooms, bytes| rooms.candidates(bytes).map(|(block, _)| block).collect::<Vec<_>>();
        assert_eq!(found(&rooms, 50), [3, 4, 5]);
        assert_eq!(found(&rooms, 200), [4, 5]);
        rooms.relist(3, list_of(100), NOWHERE);
        assert_eq!(found(&rooms, 50), [2, 4, 5]);
        rooms.relist(2, list_of(100), list_of(20_000));
        assert_eq!(found(&rooms, 2000), [2, 5]);
        rooms.give_number(3);
        assert_eq!((rooms.count(), rooms.take_number(), rooms.take_number()), (4, Some(3), Some(6)));
    }

    #[test]
    fn lists_are_in_order() {
        let lists: Vec<u8> = (0..1 << 24).step_by(37).map(list_of).collect();
        assert!(lists.is_sorted() && *lists.last().unwrap() < LISTS as u8);
    }
}
