//! Whether the counted memory is what the system reports.

use std::vec;
use std::vec::Vec;

use super::area::{HOLLOW, KEPT_HOLLOW, Tally};
use super::*;
use crate::SystemMemory;
use crate::heap::{Handle, Heap, Limit, Options};
use crate::random::Random;
use crate::store::Memory;

/// Bytes of a block, and its places.
const BLOCK: usize = 32 << 10;
const PLACES: usize = 4096;
const UNIT: usize = 2 << 20;

/// Bytes of frames that have memory, as the system reports; `None` if it doesn't.
#[cfg(target_os = "linux")]
fn resident(frames: &Frames) -> Option<u64> {
    use std::os::unix::fs::FileExt;

    /// In an entry of the page map: present, or swapped out.
    const THERE: u64 = 3 << 62;
    let (map, page) = (std::fs::File::open("/proc/self/pagemap").ok()?, SystemMemory.page_size());
    let mut found = 0;
    for range in frames.ranges() {
        let mut entries = vec![0; range.len() / page * 8];
        map.read_exact_at(&mut entries, (range.start / page * 8) as u64).ok()?;
        let entries = entries.as_chunks().0.iter().map(|entry| u64::from_ne_bytes(*entry));
        found += entries.filter(|entry| entry & THERE != 0).count() * page;
    }
    Some(found as u64)
}

#[cfg(not(target_os = "linux"))]
fn resident(_: &Frames) -> Option<u64> {
    None
}

/// Checks everything; `in_use` frames are in use.
fn check(frames: &Frames, in_use: usize) {
    assert!(frames.check());
    let tally = frames.tally();
    if let Some(found) = resident(frames) {
        assert_eq!(found, tally.committed);
    }
    assert!(tally.hollow <= tally.committed / HOLLOW, "{tally:?}");
    let images = (in_use * BLOCK) as u64;
    // The marks of a frame take 512 and 4096 bytes here.
    let marks = (in_use * (512 + 4096)) as u64 + (in_use as u64 + 8) * 512;
    assert!((images..=images + marks + tally.hollow).contains(&tally.committed), "{in_use}: {tally:?}");
}

fn provide(frames: &Frames, number: u32) {
    assert!(frames.provide(number, number.is_multiple_of(2), number.is_multiple_of(7)));
    let base = frames.get(number).unwrap().base();
    // SAFETY: here and below: the frame's memory, which belongs to the test.
    unsafe { base.cast::<u32>().write(number) };
}

fn holds(frames: &Frames, number: u32) {
    // SAFETY: as above.
    assert_eq!(unsafe { frames.get(number).unwrap().base().cast::<u32>().read() }, number);
}

/// With huge pages of this size, frames grow, shrink at random, grow again and are given back.
fn grow_and_shrink(huge: Option<usize>, count: u32) {
    let frames = Frames::with(BLOCK, PLACES, huge);
    let mut used: Vec<u32> = (0..count).map(|_| frames.make().unwrap()).collect();
    for &number in &used {
        provide(&frames, number);
        if number.is_multiple_of(300) {
            check(&frames, number as usize + 1);
        }
    }
    check(&frames, used.len());
    let mut random = Random(5);
    for turn in 0..3 {
        let mut empty = vec![];
        for step in 0..count as usize / 2 {
            let number = used.swap_remove(random.index(used.len()));
            frames.shrink(number);
            empty.push(number);
            if step.is_multiple_of(300) {
                check(&frames, used.len());
            }
        }
        used.iter().for_each(|&number| holds(&frames, number));
        empty.sort_unstable();
        for &number in empty.iter().take(empty.len() / (turn + 1)) {
            provide(&frames, number);
            used.push(number);
        }
        check(&frames, used.len());
        used.iter().for_each(|&number| holds(&frames, number));
        provide_rest(&frames, &mut used, &empty);
    }
    used.into_iter().for_each(|number| frames.shrink(number));
    assert_eq!((frames.tally().committed, frames.tally().hollow), (0, 0));
    check(&frames, 0);
}

fn provide_rest(frames: &Frames, used: &mut Vec<u32>, empty: &[u32]) {
    for &number in empty {
        if frames.get(number).unwrap().has.load(Relaxed) == 0 {
            provide(frames, number);
            used.push(number);
        }
    }
    check(frames, used.len());
}

#[test]
fn small_pages_are_counted_as_the_system_does() {
    grow_and_shrink(None, 300);
}

#[test]
fn huge_pages_are_counted_as_the_system_does() {
    // 100 MiB: some units get their memory at once, others are collapsed.
    grow_and_shrink(Some(UNIT), 3200);
}

/// Bytes of huge pages in these ranges, as the system reports.
#[cfg(target_os = "linux")]
fn huge_bytes(frames: &Frames) -> usize {
    let (smaps, ranges) = (std::fs::read_to_string("/proc/self/smaps").unwrap_or_default(), frames.ranges());
    let (mut inside, mut bytes) = (false, 0);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((from, end)) = first.split_once('-')
            && let (Ok(from), Ok(end)) = (usize::from_str_radix(from, 16), usize::from_str_radix(end, 16))
        {
            inside = ranges.iter().any(|range| range.start < end && from < range.end);
        } else if first == "AnonHugePages:" && inside {
            bytes += words.next().and_then(|number| number.parse::<usize>().ok()).unwrap_or(0) << 10;
        }
    }
    bytes
}

#[test]
#[cfg(target_os = "linux")]
fn large_heaps_get_huge_pages_and_small_ones_none() {
    let Some(unit) = SystemMemory.huge_page() else { return };
    let frames = Frames::new(BLOCK, PLACES);
    let (large, small) = (unit * HOLLOW as usize, unit * 6);
    for number in 0..(large + large / 2) / BLOCK {
        provide(&frames, frames.make().unwrap());
        if number == small / BLOCK {
            assert_eq!((frames.tally().hollow, huge_bytes(&frames)), (0, 0));
        }
    }
    // The system may have no huge pages left, but the heap has to ask for some.
    assert!(frames.whole_units() >= large / 2 / unit);
    // Units with small pages get huge ones over time.
    let (whole, mut tries) = (frames.whole_units(), 0);
    while frames.whole_units() == whole && frames.is_any_full() {
        provide(&frames, frames.make().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(tries < 500, "nothing is collapsed");
        tries += 1;
    }
    assert!(frames.check());
}

#[test]
fn blocks_as_long_as_huge_pages_get_some_at_once() {
    let frames = Frames::with(UNIT, PLACES, Some(UNIT));
    let number = frames.make().unwrap();
    assert!(frames.provide(number, false, false) && frames.check());
    assert_eq!((frames.tally().committed, frames.tally().hollow), (UNIT as u64, 0));
    frames.shrink(number);
    // Blocks that don't fit into units evenly, too.
    let frames = Frames::with(3 * UNIT - 4096, PLACES, Some(UNIT));
    let numbers: Vec<u32> = (0..9).map(|_| frames.make().unwrap()).collect();
    for &number in &numbers {
        assert!(frames.provide(number, true, true) && frames.check());
        assert!(frames.tally().hollow <= frames.tally().committed / HOLLOW);
    }
    for &number in &numbers {
        frames.shrink(number);
        assert!(frames.check() && frames.tally().hollow <= frames.tally().committed / HOLLOW);
    }
    assert_eq!(frames.tally().committed, 0);
}

#[test]
fn frames_of_less_than_a_page_go_with_it() {
    let frames = Frames::with(1024, 128, Some(UNIT));
    let numbers: Vec<u32> = (0..64).map(|_| frames.make().unwrap()).collect();
    numbers.iter().for_each(|&number| assert!(frames.provide(number, true, false)));
    assert!(frames.check() && resident(&frames).is_none_or(|found| found == frames.tally().committed));
    numbers[1..].iter().for_each(|&number| frames.shrink(number));
    let page = SystemMemory.page_size() as u64;
    assert_eq!(frames.tally().committed, 2 * page);
    frames.shrink(0);
    assert!(frames.check() && frames.tally().committed == 0);
}

#[test]
fn a_heap_that_shrinks_keeps_little() {
    let frames = Frames::with(BLOCK, PLACES, Some(UNIT));
    let all: Vec<u32> = (0..4096).map(|_| frames.make().unwrap()).collect();
    all.iter().for_each(|&number| provide(&frames, number));
    // Blocks are repacked: the memory that they leave is kept for the next ones.
    let gone: Vec<u32> = all.iter().copied().filter(|number| number % 160 == 9).collect();
    gone.iter().for_each(|&number| frames.shrink(number));
    check(&frames, all.len() - gone.len());
    assert!(frames.whole_units() == 0 || frames.tally().hollow > 0);
    gone.iter().for_each(|&number| provide(&frames, number));
    // Half of all.
    all.iter().filter(|number| *number % 2 == 0).for_each(|&number| frames.shrink(number));
    check(&frames, all.len() / 2);
    let Tally { committed, hollow } = frames.tally();
    assert!(hollow <= committed / KEPT_HOLLOW, "{hollow} of {committed}");
}

/// The bytes that frames may take include what may be hollow, in all heaps that can have huge pages.
#[test]
fn limits_have_room_for_what_is_kept() {
    let frames = Frames::with(BLOCK, PLACES, Some(UNIT));
    for mib in [16, 20, 50, 80, 120, 130, 1000, 5000] {
        let bytes = (mib << 20) as u64;
        let taken = u64::from(frames.within(bytes)) * frames.most_bytes() as u64;
        assert!(taken + taken / HOLLOW <= bytes && taken > bytes / 10 * 9, "{taken} of {mib} MiB");
    }
}

/// Nodes of 1000 bytes, most of which are zero.
fn fill(heap: &Heap, nodes: &mut Vec<Handle>, count: usize) {
    let mut session = heap.session().unwrap();
    for i in 0..count {
        let node = session.alloc(1000).unwrap();
        session.set_at(node, 0, &(nodes.len() + i)).unwrap();
        nodes.push(node);
    }
}

fn check_heap(heap: &mut Heap, most: u64) {
    let stats = heap.stats();
    assert!(stats.memory_bytes() <= most, "{} bytes of {most}: {stats:?}", stats.memory_bytes());
    let frames = &heap.core().frames;
    let tally = frames.tally();
    assert!(resident(frames).is_none_or(|found| found == tally.committed));
    assert!(tally.hollow <= tally.committed / HOLLOW, "{tally:?}");
}

#[test]
fn a_limit_is_held_while_a_heap_grows_and_shrinks() {
    let limit = 80 << 20;
    let mut heap = Heap::new(Options::new().limit(Limit::Bytes(limit)).codec("lz4")).unwrap();
    let (mut nodes, mut random) = (vec![], Random(3));
    for _ in 0..6 {
        fill(&heap, &mut nodes, 20_000);
        check_heap(&mut heap, limit);
    }
    let full = heap.stats().frame_bytes;
    assert!(full > limit * 3 / 4 && heap.stats().evictions > 1000, "{:?}", heap.stats());
    for _ in 0..6 {
        let session = heap.session().unwrap();
        // Mostly whole blocks, not quite in order.
        let first = random.index(1000);
        for node in nodes.drain(first..first + 18_000) {
            session.free(node).unwrap();
        }
        drop(session);
        check_heap(&mut heap, limit);
    }
    assert!(heap.stats().frame_bytes < full * 7 / 8, "{:?}", heap.stats());
    heap.check().unwrap();
}
