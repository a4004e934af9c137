//! Sessions that work on each other's blocks: in whatever order they take turns, they need few more blocks
//! than one session would.

use std::vec::Vec;

use crate::heap::*;

/// Makes `count` nodes, writes each twice and frees some; `turns` chooses the session for each operation.
fn blocks(
    count: usize,
    sessions: usize,
    size: impl Fn(usize) -> usize,
    turns: impl Fn(usize, usize) -> usize,
) -> u64 {
    let heap = Heap::new(Options::new().block_size(4096).limit(Limit::Bytes(1 << 30))).unwrap();
    let mut all: Vec<_> = (0..sessions).map(|_| heap.session().unwrap()).collect();
    let mut nodes = Vec::new();
    for i in 0..count {
        let node = all[turns(i, 0) % sessions].alloc(size(i)).unwrap();
        for part in 1..3 {
            all[turns(i, part) % sessions].write(node).unwrap().fill(i as u8);
        }
        nodes.push((node, i));
        if i % 3 == 0 {
            let (old, _) = nodes.swap_remove(i * 7 % nodes.len());
            all[turns(i, 3) % sessions].free(old).unwrap();
        }
    }
    for (node, i) in nodes {
        assert!(all[0].read(node).unwrap().iter().all(|&byte| byte == i as u8), "node {i}");
    }
    drop(all);
    let mut heap = heap;
    heap.check().unwrap();
    heap.stats().blocks
}

type Size = fn(usize) -> usize;
type Turns = fn(usize, usize) -> usize;

#[test]
fn no_pattern_of_sessions_takes_more_blocks() {
    let mixed = |i: usize| 16 + i * 13 % 150;
    let sizes: [(&str, Size); 4] =
        [("equal", |_| 100), ("small", |_| 20), ("mixed", mixed), ("two", |i| 40 + i % 2 * 200)];
    let patterns: [(&str, usize, Turns); 8] = [
        ("sixty-four by turns", 64, |i, part| i + part),
        ("a thousand, one after the other", 1000, |i, _| i / 6),
        ("one makes, the other writes", 2, |_, part| part),
        ("each writes what the other made", 2, |i, part| i + part),
        ("three do a part each", 3, |_, part| part),
        ("eight by turns", 8, |i, part| i + part),
        ("two for a while each", 2, |i, part| i / 100 + part / 2),
        ("by chance", 5, |i, part| ((i * 4 + part) * 2_654_435_761) >> 7),
    ];
    for (size, of) in sizes {
        for count in [600, 2000, 6000] {
            let one = blocks(count, 1, of, |_, _| 0);
            for (what, sessions, turns) in patterns {
                let several = blocks(count, sessions, of, turns);
                // Four blocks are held, even of few, and four were before nodes got blocks of their size.
                let most = one * 13 / 10 + 5;
                assert!(several <= most, "{size}, {count}, {what}: {several} blocks instead of {one}");
            }
        }
    }
}

/// Blocks after nodes of random sizes came and went, each by a session chosen at random.
fn blocks_by_chance(sessions: usize, frames: u32, longest: usize) -> u64 {
    let heap = Heap::new(Options::new().block_size(32 << 10).limit(Limit::Blocks(frames))).unwrap();
    let all: Vec<_> = (0..sessions).map(|_| heap.session().unwrap()).collect();
    let (mut nodes, mut state) = (Vec::new(), 12_345u64);
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..25_000 {
        let session = &all[random(sessions)];
        if nodes.len() < 3000 || random(2) == 0 && nodes.len() < 5500 {
            nodes.push(session.alloc(1 + random(longest)).unwrap());
        } else {
            session.free(nodes.swap_remove(random(nodes.len()))).unwrap();
        }
    }
    drop(all);
    let mut heap = heap;
    heap.check().unwrap();
    heap.stats().blocks
}

#[test]
fn sessions_in_few_frames_take_no_more_blocks() {
    for (frames, longest) in [(16, 400), (16, 1000)] {
        let one = blocks_by_chance(1, frames, longest);
        for sessions in [8, 64] {
            let several = blocks_by_chance(sessions, frames, longest);
            assert!(
                several * 10 <= one * 13,
                "{sessions} sessions, {frames} frames: {several} blocks instead of {one}"
            );
        }
    }
}

#[test]
fn sessions_with_a_size_each_take_no_more_blocks() {
    let made = |sessions: usize, sizes: usize| {
        let heap = Heap::new(Options::new().block_size(32 << 10).limit(Limit::Bytes(1 << 30))).unwrap();
        let all: Vec<_> = (0..sessions).map(|_| heap.session().unwrap()).collect();
        for i in 0..40 * sizes {
            all[i % sessions].alloc(300 + i % sizes).unwrap();
        }
        heap.stats().blocks
    };
    for sizes in [50, 300] {
        let (one, several) = (made(1, sizes), made(sizes, sizes));
        assert!(several * 10 <= one * 13, "{sizes} sizes: {several} blocks instead of {one}");
    }
}

/// Blocks after nodes of one size were freed and made again, one at a time, beside those before.
fn churn(size: usize) -> (u64, u64) {
    let heap = Heap::new(Options::new().block_size(4096).limit(Limit::Bytes(1 << 30))).unwrap();
    let session = heap.session().unwrap();
    let mut nodes: Vec<_> = (0..400).map(|_| session.alloc(size).unwrap()).collect();
    let before = heap.stats().blocks;
    for i in 0..8000usize {
        let at = (i.wrapping_mul(2_654_435_761) >> 7) % nodes.len();
        session.free(nodes[at]).unwrap();
        nodes[at] = session.alloc(size).unwrap();
    }
    (before, heap.stats().blocks)
}

/// The same after all nodes but one of each few were freed at once.
fn refill(size: usize) -> (u64, u64) {
    let heap = Heap::new(Options::new().block_size(4096).limit(Limit::Bytes(1 << 30))).unwrap();
    let session = heap.session().unwrap();
    let nodes: Vec<_> = (0..400).map(|_| session.alloc(size).unwrap()).collect();
    let before = heap.stats().blocks;
    let each = (400 / before as usize).max(1);
    let freed = nodes.into_iter().enumerate().filter(|(i, _)| i % each > 0);
    let count = freed.map(|(_, node)| session.free(node).unwrap()).count();
    for _ in 0..count {
        session.alloc(size).unwrap();
    }
    (before, heap.stats().blocks)
}

#[test]
fn where_a_node_was_freed_is_room_for_another() {
    for size in (100..2040).step_by(44) {
        for (what, how) in [("churn", churn as fn(usize) -> (u64, u64)), ("refill", refill)] {
            let (before, after) = how(size);
            let most = before + before / 8 + 2;
            assert!(after <= most, "{what}, {size} bytes: {before} blocks, then {after}");
        }
    }
}
