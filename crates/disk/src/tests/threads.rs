//! Several threads, with a background thread that never sleeps.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use super::{P, Random, kept, options};
use crate::{Disk, PAGE};

/// Each thread has its own bytes, interleaved with those of the others: parts of the same pages, pages of the
/// same blocks.
#[test]
fn threads_keep_the_bytes_that_they_write_side_by_side() {
    const THREADS: u64 = 4;
    const PAGES: u64 = 640;
    for part in [PAGE, PAGE / THREADS as usize] {
        let mut options = options(PAGES * P);
        options.resident = Some(1 << 20);
        options.share = part == PAGE;
        let (disk, _keeper) = kept(Disk::new(options).unwrap());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (disk, stop) = (&disk, &stop);
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut random = Random(thread);
                    let places = PAGES * P / part as u64 / THREADS;
                    let offset = |place: u64| (place * THREADS + thread) * part as u64;
                    let mut mine = vec![0u8; (places as usize) * part];
                    for _ in 0..20_000 {
                        let place = random.below(places);
                        let bytes = &mut mine[place as usize * part..][..part];
                        match random.below(8) {
                            0..4 => {
                                random.fill(bytes);
                                disk.write(offset(place), bytes).unwrap();
                            }
                            4 => {
                                bytes.fill(0);
                                disk.trim(offset(place), part as u64).unwrap();
                            }
                            _ => {
                                let mut back = vec![0xa5; part];
                                disk.read(offset(place), &mut back).unwrap();
                                assert!(back == bytes, "thread {thread}, place {place}");
                            }
                        }
                    }
                    stop.store(true, Relaxed);
                });
            }
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    disk.condense().unwrap();
                    disk.extent(0, PAGES * P).unwrap();
                }
            });
        });
    }
}

/// Pages are written as a whole: every reader sees one of the written versions.
#[test]
fn a_page_is_never_half_of_one_and_half_of_another() {
    const PAGES: u64 = 16;
    let mut options = options(PAGES * P);
    options.resident = Some(1 << 20);
    let disk = Disk::new(options).unwrap();
    let begun = Instant::now();
    let write = |page: u64, number: u64| {
        // Content that is not one repeated word, and differs at each place.
        let mut bytes = [0u8; PAGE];
        bytes.chunks_exact_mut(8).zip(number * 512..).for_each(|(word, value)| {
            word.copy_from_slice(&value.to_le_bytes());
        });
        disk.write(page * P, &bytes).unwrap();
    };
    (0..PAGES).for_each(|page| write(page, 0));
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (disk, write) = (&disk, &write);
            scope.spawn(move || {
                let mut random = Random(thread);
                while begun.elapsed() < Duration::from_secs(2) {
                    if thread == 0 {
                        disk.condense().unwrap();
                    }
                    let page = random.below(PAGES);
                    if thread < 2 {
                        write(page, random.below(1 << 30));
                    }
                    let count = random.below(4) + 1;
                    let mut bytes = vec![0; (count.min(PAGES - page) * P) as usize];
                    disk.read(page * P, &mut bytes).unwrap();
                    for page in bytes.chunks_exact(PAGE) {
                        let words =
                            page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                        let first = words.clone().next().unwrap();
                        assert!(first % 512 == 0 && words.eq(first..first + 512));
                    }
                }
            });
        }
    });
}

/// Changing a part of a page reads the page first; this must not undo concurrent writes, or moves of its
/// block.
#[test]
fn parts_of_few_pages_are_not_lost_while_their_blocks_come_and_go() {
    const PAGES: u64 = 8;
    const THREADS: u64 = 4;
    let part = PAGE / THREADS as usize;
    let mut options = options(PAGES * P);
    options.works = Some(8);
    let disk = Disk::new(options).unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let disk = &disk;
            scope.spawn(move || {
                let mut random = Random(thread);
                let mut mine = vec![0u8; PAGES as usize * part];
                while begun.elapsed() < Duration::from_secs(3) {
                    let page = random.below(PAGES);
                    let (offset, bytes) =
                        (page * P + thread * part as u64, &mut mine[page as usize * part..][..part]);
                    if random.below(2) == 0 {
                        random.fill(bytes);
                        disk.write(offset, bytes).unwrap();
                    }
                    let mut back = vec![0xa5; part];
                    disk.read(offset, &mut back).unwrap();
                    assert!(back == bytes, "thread {thread}, page {page}");
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while begun.elapsed() < Duration::from_secs(3) {
                    disk.condense().unwrap();
                }
            });
        }
    });
}

#[test]
fn extents_are_correct_while_leaves_are_made_and_freed() {
    let disk = Disk::new(options(1 << 30)).unwrap();
    let page = [7; PAGE];
    let mut last = page;
    last[9] = 1;
    disk.write(600 * P, &last).unwrap();
    let begun = Instant::now();
    let is_over = || begun.elapsed() > Duration::from_secs(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over() {
                disk.write(50 * P, &page).unwrap();
                disk.trim(50 * P, P).unwrap();
            }
        });
        while !is_over() {
            let extent = disk.extent(100 * P, 1 << 30).unwrap();
            assert!(extent.is_hole && extent.len == 500 * P, "{extent:?}");
        }
    });
}
