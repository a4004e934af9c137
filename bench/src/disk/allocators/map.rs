//! The resource map with first fit, which CRAMES chose: U. Vahalia, *UNIX Internals*, 1996, chapter 12.
//!
//! Free ranges are kept as pairs of base and size, in the order of addresses; the first one that is large enough
//! is cut; a freed range merges with its neighbours. As in CRAMES, each chunk has its own map, chunks are
//! searched in order, and a completely free one is returned. Sizes are rounded up to words of eight bytes. The
//! owner passes the size when freeing.

use super::Model;
use super::chunks::{CHUNK, Chunks};

const WORD: usize = 8;
/// Bytes of a pair, with 32 bits each.
const PAIR: usize = 8;

#[derive(Clone, Copy)]
struct Range {
    base: u32,
    size: u32,
}

/// See the module.
#[derive(Default)]
pub struct ResourceMap {
    chunks: Chunks,
    maps: Vec<Vec<Range>>,
    ranges: usize,
}

impl Model for ResourceMap {
    fn allocate(&mut self, len: usize) -> u64 {
        let size = len.next_multiple_of(WORD) as u32;
        let fit = |map: &[Range]| map.iter().position(|range| range.size >= size);
        let found = self.maps.iter().enumerate().find_map(|(chunk, map)| Some((chunk, fit(map)?)));
        let (chunk, i) = found.unwrap_or_else(|| {
            let chunk = self.chunks.take();
            self.maps.resize_with(self.maps.len().max(chunk + 1), Vec::new);
            self.maps[chunk].push(Range { base: 0, size: CHUNK as u32 });
            self.ranges += 1;
            (chunk, 0)
        });
        let range = &mut self.maps[chunk][i];
        let at = range.base;
        range.base += size;
        range.size -= size;
        if range.size == 0 {
            self.maps[chunk].remove(i);
            self.ranges -= 1;
        }
        (chunk * CHUNK) as u64 + u64::from(at)
    }

    fn free(&mut self, at: u64, len: usize) {
        let size = len.next_multiple_of(WORD) as u32;
        let (chunk, base) = (at as usize / CHUNK, (at as usize % CHUNK) as u32);
        let map = &mut self.maps[chunk];
        let before = map.len();
        let i = map.partition_point(|range| range.base < base);
        let joins_next = map.get(i).is_some_and(|next| base + size == next.base);
        let joins_last = i > 0 && map[i - 1].base + map[i - 1].size == base;
        match (joins_last, joins_next) {
            (true, true) => {
                map[i - 1].size += size + map[i].size;
                map.remove(i);
            }
            (true, false) => map[i - 1].size += size,
            (false, true) => map[i] = Range { base, size: size + map[i].size },
            (false, false) => map.insert(i, Range { base, size }),
        }
        self.ranges = self.ranges + map.len() - before;
        if map[0].size == CHUNK as u32 {
            map.clear();
            self.ranges -= 1;
            self.chunks.give_back(chunk);
        }
    }

    fn bytes(&self) -> usize {
        self.chunks.bytes() + self.ranges * PAIR
    }

    fn has(&self, at: u64) -> bool {
        self.chunks.has(at)
    }
}
