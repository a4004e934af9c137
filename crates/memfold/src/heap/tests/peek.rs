//! Reads of parts of nodes whose blocks stay compressed.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::vec::Vec;

use crate::heap::stored::grouping::ASCENDING;
use crate::heap::*;
use crate::random::Random;

fn heap(blocks: u32) -> Heap {
    Heap::new(Options::new().block_size(4096).limit(Limit::Blocks(blocks))).unwrap()
}

fn make(session: &Session<'_>, version: u64) -> Handle {
    let node = session.alloc(session.longest()).unwrap();
    fill(session, node, version);
    node
}

/// Fills a node with an ascending array. Every word shows which array it belongs to.
fn fill(session: &Session<'_>, node: Handle, version: u64) {
    let put = |bytes: &mut [u8]| {
        for (i, word) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
            *word = word_of(version, i).to_le_bytes();
        }
    };
    session.change_in_place(node, put).unwrap();
}

fn word_of(version: u64, number: usize) -> u64 {
    let number = number as u64;
    version << 48 | number << 36 | Random(version << 20 | number).next() >> 28
}

/// Reads the first word and another one, whose position depends on the first.
fn two(session: &Session<'_>, node: Handle, number: usize) -> Result<(u64, u64), Error> {
    let of = |view: View<'_>| Some(8 * number..8 * number + 8 + view.get::<u64>(0)? as usize % 8);
    session.view_parts(node, |view| (view.get(0).unwrap(), view.get(8 * number).unwrap()), &Two(of))
}

/// The first word, and the word that it leads to.
struct Two<F>(F);

impl<F: Fn(View<'_>) -> Option<Range<usize>>> Parts for Two<F> {
    const HAS_BORDER: bool = false;

    fn first(&self) -> Option<Range<usize>> {
        Some(0..8)
    }

    fn second(&self, node: View<'_>) -> Option<Range<usize>> {
        (self.0)(node)
    }

    fn is_before(&self, _: u64) -> bool {
        unreachable!()
    }
}

#[test]
fn a_block_stays_compressed_until_it_is_read_often() {
    let heap = heap(2);
    let session = heap.session().unwrap();
    let words = session.longest() / 8;
    let nodes: Vec<_> = (0..20).map(|version| make(&session, version)).collect();
    let mut random = Random(1);
    let before = heap.stats();
    for _ in 0..20_000 {
        let (version, number) = (random.index(20), random.index(words - 1));
        let found = two(&session, nodes[version], number).unwrap();
        assert_eq!(found, (word_of(version as u64, 0), word_of(version as u64, number)));
    }
    let after = heap.stats();
    let (peeks, faults) = (after.peeks - before.peeks, after.faults - before.faults);
    assert!(peeks > 15_000 && faults > 50 && faults < 1000, "{peeks} peeks, {faults} faults");
    // A block that is read often becomes resident.
    let before = heap.stats().peeks;
    (0..2000).for_each(|_| assert!(two(&session, nodes[3], 5).is_ok()));
    assert!(heap.stats().peeks - before < 200);
    // Freed nodes are stale, and changes are seen.
    session.free(nodes[4]).unwrap();
    fill(&session, nodes[6], 77);
    for _ in 0..200 {
        assert_eq!(two(&session, nodes[4], 5), Err(Error::Stale));
        assert_eq!(two(&session, nodes[6], 5), Ok((word_of(77, 0), word_of(77, 5))));
        let other = random.index(4);
        assert_eq!(two(&session, nodes[other], 9).unwrap().1, word_of(other as u64, 9));
    }
    let other = session.alloc(session.longest()).unwrap();
    fill(&session, other, 99);
    assert_eq!(two(&session, nodes[4], 5), Err(Error::Stale));
    // The node does not have these parts.
    for part in [0..usize::MAX, 1 << 40..1 << 41, session.longest()..session.longest() + 8] {
        let parts = Two(|_: View<'_>| Some(part.clone()));
        assert_eq!(session.view_parts(nodes[0], |view| view.get::<u64>(0), &parts), Ok(Some(word_of(0, 0))));
    }
}

/// If there is room for everything, everything soon becomes resident.
#[test]
fn blocks_soon_become_resident_if_there_is_room() {
    let mut heap = heap(20);
    let session = heap.session().unwrap();
    let nodes: Vec<_> = (0..20).map(|version| make(&session, version)).collect();
    drop(session);
    let mut file = Vec::new();
    heap.save_to(&mut file).unwrap();
    let heap = Heap::load_from(&mut &file[..], Options::new().limit(Limit::Blocks(20))).unwrap();
    let session = heap.session().unwrap();
    // A block from a file is first verified as a whole.
    nodes.iter().for_each(|node| assert!(two(&session, *node, 5).is_ok()));
    assert_eq!((heap.stats().faults, heap.stats().peeks), (20, 0));
    heap.core().evict_all(0).unwrap();
    let mut random = Random(4);
    for _ in 0..1500 {
        let version = random.index(20);
        assert_eq!(two(&session, nodes[version], 5).unwrap().1, word_of(version as u64, 5));
    }
    let stats = heap.stats();
    assert!(stats.faults >= 39 && stats.peeks < 600, "{stats:?}");
}

/// Damage to what is read is an error; damage to the rest of the block may go unnoticed.
#[test]
fn a_part_is_correct_or_an_error() {
    let heap = heap(2);
    let session = heap.session().unwrap();
    let words = session.longest() / 8;
    let nodes: Vec<_> = (0..9).map(|_| make(&session, 3)).collect();
    let block = heap.core().blocks.get(nodes[0].block()).unwrap();
    assert_eq!(block.grouping.load(Relaxed), ASCENDING);
    let mut random = Random(2);
    // SAFETY: no other thread uses the heap, and nothing is freed or moved meanwhile.
    let (_, bytes) =
        unsafe { heap.core().store.get_unverified(block.copy().unwrap(), nodes[0].block().into()) }.unwrap();
    let (bytes, len) = (bytes.as_ptr().cast_mut(), bytes.len());
    let (mut right, mut wrong) = (0, 0);
    for at in 0..len {
        let bit = 1 << random.below(8);
        // SAFETY: the byte is in the payload, which nothing else accesses meanwhile.
        unsafe { *bytes.add(at) ^= bit };
        let number = random.index(words - 1);
        match two(&session, nodes[0], number) {
            Ok(found) => {
                assert_eq!(found, (word_of(3, 0), word_of(3, number)));
                right += 1;
            }
            Err(error) => {
                assert_eq!(error, Error::Damaged);
                wrong += 1;
            }
        }
        // SAFETY: as above.
        unsafe { *bytes.add(at) ^= bit };
    }
    assert!(right > 50 && wrong > 50, "{right} {wrong}");
}

/// Both parts have the state of one moment, while other threads change, free and make nodes.
#[test]
fn both_parts_are_of_the_same_moment() {
    let heap = heap(3);
    let longest = heap.session().unwrap().longest();
    let nodes: Vec<Mutex<Option<(Handle, u64)>>> = (0..12).map(|_| Mutex::default()).collect();
    let known: Vec<Mutex<Option<Handle>>> = (0..12).map(|_| Mutex::default()).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (heap, nodes, known, done) = (&heap, &nodes, &known, &done);
            scope.spawn(move || {
                let session = heap.session().unwrap();
                let mut random = Random(seed);
                for version in 1..4000 {
                    let slot = random.index(12);
                    let mut node = nodes[slot].lock().unwrap();
                    match *node {
                        Some((handle, _)) if random.below(3) == 0 => {
                            session.free(handle).unwrap();
                            *node = None;
                        }
                        Some((handle, _)) => {
                            fill(&session, handle, version);
                            *node = Some((handle, version));
                        }
                        None => {
                            let handle = make(&session, version);
                            *node = Some((handle, version));
                            *known[slot].lock().unwrap() = Some(handle);
                        }
                    }
                }
                done.store(true, Relaxed);
            });
        }
        scope.spawn(|| {
            let session = heap.session().unwrap();
            let mut random = Random(9);
            let mut seen = 0;
            while !done.load(Relaxed) || seen < 1000 {
                let slot = random.index(12);
                if done.load(Relaxed) {
                    seen += 1;
                }
                let Some(handle) = *known[slot].lock().unwrap() else { continue };
                let number = random.index(longest / 8 - 1);
                match two(&session, handle, number) {
                    Ok((0, 0)) | Err(Error::Stale) => {}
                    Ok((first, other)) => {
                        assert_eq!(other, word_of(first >> 48, number), "{first:x} {number}");
                        seen += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
    assert!(heap.stats().peeks > 100, "{:?}", heap.stats());
}
