//! Limits that follow free memory, on an invented machine: its free memory is what the heaps leave.

use std::boxed::Box;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memfold_proc::memory::Room;

use super::*;
use crate::heap::residency::machine::Machine;

const MIB: u64 = 1 << 20;

std::thread_local! {
    static MACHINE: Cell<Option<&'static Machine>> = const { Cell::new(None) };
}

/// The machine of the heaps that this thread makes.
pub fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}

/// A machine, or a cgroup, that others use too.
#[derive(Clone)]
struct World {
    total: u64,
    /// Bytes that others use; all ones means unknown.
    others: Arc<AtomicU64>,
    /// Bytes that each heap of this thread has reported.
    heaps: Arc<[AtomicU64; 3]>,
    looks: Arc<AtomicU64>,
}

const UNKNOWN: u64 = u64::MAX;

impl World {
    /// Puts this thread's heaps on a new machine.
    fn new(total: u64) -> Self {
        let world = World { total, others: Arc::default(), heaps: Arc::default(), looks: Arc::default() };
        let seen = world.clone();
        MACHINE.set(Some(Box::leak(Box::new(Machine::new(Box::new(move || seen.rooms()))))));
        world
    }

    fn rooms(&self) -> Option<Vec<Room>> {
        self.looks.fetch_add(1, Relaxed);
        let others = self.others.load(Relaxed);
        if others == UNKNOWN {
            return None;
        }
        let used = others + self.heaps.iter().map(|heap| heap.load(Relaxed)).sum::<u64>();
        // A bound that is not the strictest one changes nothing.
        let wide = Room { available: 1 << 40, total: 1 << 41 };
        Some(vec![wide, Room { available: self.total.saturating_sub(used), total: self.total }])
    }

    fn left(&self) -> u64 {
        self.rooms().unwrap()[1].available
    }

    /// Fills a heap with nodes until it has this many bytes of them. Before each node the heap's size is
    /// reported; time passes with every node.
    fn fill(
        &self,
        which: usize,
        heap: &Heap,
        session: &mut Session<'_>,
        bytes: u64,
    ) -> Result<Vec<Handle>, Error> {
        let mut handles = vec![];
        for number in 0..bytes / NODE {
            self.tell(which, heap);
            handles.push(session.put(&node(number))?);
        }
        self.tell(which, heap);
        Ok(handles)
    }

    fn tell(&self, which: usize, heap: &Heap) {
        let core = heap.core();
        self.heaps[which].store(core.frames.bytes() + core.bytes_without_frames(), Relaxed);
        core.headroom.expire();
    }
}

const NODE: u64 = 4096;

/// Compresses to about a tenth.
fn node(number: u64) -> [u64; NODE as usize / 8] {
    std::array::from_fn(|i| if i % 10 == 0 { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number })
}

fn is_all_there(session: &Session<'_>, handles: &[Handle]) {
    for (number, handle) in (0..).zip(handles) {
        assert_eq!(session.get::<[u64; NODE as usize / 8]>(*handle), Ok(node(number)));
    }
}

fn heap(limit: Limit) -> Heap {
    Heap::new(Options::new().limit(limit).codec("lz4")).unwrap()
}

#[test]
fn nothing_is_compressed_while_memory_is_free() {
    let world = World::new(1024 * MIB);
    for limit in [Limit::default(), Limit::All] {
        let heap = heap(limit);
        let handles = world.fill(0, &heap, &mut heap.session().unwrap(), 100 * MIB).unwrap();
        assert_eq!((heap.stats().evictions, handles.len() as u64), (0, 100 * MIB / NODE), "{limit:?}");
    }
}

#[test]
fn the_default_leaves_as_much_to_others_and_all_a_reserve() {
    // The reserve is 16 MiB, so Free may have 24 of 64, and All 48.
    for (limit, least, most) in [(Limit::Free, 18, 25), (Limit::All, 35, 49)] {
        let world = World::new(64 * MIB);
        let heap = heap(limit);
        let mut session = heap.session().unwrap();
        let mut peak = 0;
        for number in 0..24 * MIB * 2 / NODE {
            world.tell(0, &heap);
            session.put(&node(number)).unwrap();
            peak = peak.max(heap.core().frames.bytes());
        }
        assert!((least * MIB..=most * MIB).contains(&peak), "{limit:?}: {}", peak / MIB);
    }
}

/// A program that uses more than half of the memory again and again would otherwise decompress at every step.
#[test]
fn what_is_used_again_and_again_is_resident_beyond_half() {
    let world = World::new(64 * MIB);
    let heap = heap(Limit::Free);
    let mut session = heap.session().unwrap();
    let handles = world.fill(0, &heap, &mut session, 30 * MIB).unwrap();
    assert!(heap.core().frames.bytes() < 25 * MIB);
    let mut random = crate::random::Random(1);
    let mut use_some = |session: &Session<'_>, count: u64| {
        let before = heap.stats().faults;
        for _ in 0..count {
            world.tell(0, &heap);
            let number = random.below(handles.len() as u64);
            let right = Ok(node(number));
            assert_eq!(session.get::<[u64; NODE as usize / 8]>(handles[number as usize]), right);
        }
        heap.stats().faults - before
    };
    use_some(&session, 20_000);
    assert_eq!(use_some(&session, 5_000), 0);
    assert!(heap.core().frames.bytes() <= 36 * MIB);
    // New nodes need no more than half; an eighth more may stay.
    world.fill(0, &heap, &mut session, 60 * MIB).unwrap();
    assert!(heap.core().frames.bytes() < 27 * MIB, "{} MiB", heap.core().frames.bytes() / MIB);
    // Others take memory while it is used.
    use_some(&session, 20_000);
    assert!(heap.core().frames.bytes() > 28 * MIB);
    world.others.store(20 * MIB, Relaxed);
    use_some(&session, 2_000);
    assert!(world.left() > 16 * MIB, "{} MiB are left", world.left() / MIB);
}

#[test]
fn memory_that_others_take_is_given_back_and_taken_again() {
    let world = World::new(256 * MIB);
    let heap = heap(Limit::All);
    let mut session = heap.session().unwrap();
    let handles = world.fill(0, &heap, &mut session, 150 * MIB).unwrap();
    assert_eq!(heap.stats().evictions, 0);
    world.others.store(200 * MIB, Relaxed);
    world.tell(0, &heap);
    is_all_there(&session, &handles[..1000]);
    world.fill(0, &heap, &mut session, MIB).unwrap();
    assert!(world.left() > 8 * MIB, "{} MiB are left", world.left() / MIB);
    is_all_there(&session, &handles);
    world.others.store(0, Relaxed);
    // Any fault may trigger a look at free memory.
    for (number, handle) in (0..).zip(&handles) {
        world.tell(0, &heap);
        assert_eq!(session.get::<[u64; NODE as usize / 8]>(*handle), Ok(node(number)));
    }
    let before = heap.stats().evictions;
    is_all_there(&session, &handles);
    assert_eq!(heap.stats().evictions, before, "all of it is resident again");
}

#[test]
fn allocations_are_refused_before_memory_is_full() {
    let world = World::new(64 * MIB);
    let heap = Heap::new(Options::new().codec("copy")).unwrap();
    let mut session = heap.session().unwrap();
    let mut handles = vec![];
    // Looks are rare: the allowance of one look is valid until the next.
    let refused = loop {
        let number = handles.len() as u64;
        if number.is_multiple_of(100) {
            world.tell(0, &heap);
        }
        match session.put(&node(number)) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
    };
    world.tell(0, &heap);
    assert_eq!(refused, Error::Limit);
    assert!((2 * MIB..9 * MIB).contains(&world.left()), "{} KiB are left", world.left() >> 10);
    assert!(handles.len() as u64 * NODE > 50 * MIB);
    is_all_there(&session, &handles);
    // Freed memory can be used again.
    for handle in handles.drain(..2000) {
        session.free(handle).unwrap();
    }
    world.fill(0, &heap, &mut session, 4 * MIB).unwrap();
}

/// Each session fills a block, which grows the store without a further block. Blocks are large beside the memory.
#[test]
fn sessions_by_turns_stop_before_memory_is_full() {
    for total in [64, 128] {
        let world = World::new(total * MIB);
        let heap = Heap::new(Options::new().block_size(1 << 20).codec("copy")).unwrap();
        let mut sessions: Vec<_> = (0..4).map(|_| heap.session().unwrap()).collect();
        let (mut refused, mut stored) = (0, 0);
        for number in 0.. {
            let core = heap.core();
            let taken = core.frames.bytes() + core.bytes_without_frames();
            assert!(taken < (total - 1) * MIB, "{} of {total} MiB", taken / MIB);
            if number % 16 == 0 {
                world.tell(0, &heap);
            }
            match sessions[number % 4].put_bytes(&[7; 349_525]) {
                Ok(_) => stored += 349_525,
                Err(error) => {
                    assert_eq!(error, Error::Limit);
                    refused += 1;
                }
            }
            if refused == 50 {
                break;
            }
        }
        assert!(stored > total * MIB / 10 * 7, "{} of {total} MiB", stored / MIB);
    }
}

#[test]
fn heaps_of_one_process_share() {
    let world = World::new(128 * MIB);
    let heaps = [heap(Limit::Free), heap(Limit::Free), heap(Limit::Free)];
    let mut sessions: Vec<_> = heaps.iter().map(|heap| heap.session().unwrap()).collect();
    // The heaps take turns, so that they grow side by side.
    for number in 0..50 * MIB / NODE {
        for (which, session) in sessions.iter_mut().enumerate() {
            world.tell(which, &heaps[which]);
            session.put(&node(number)).unwrap();
        }
    }
    let bytes = heaps.each_ref().map(|heap| heap.core().frames.bytes());
    let (all, most, least) = (bytes.iter().sum::<u64>(), bytes.iter().max(), bytes.iter().min());
    // Together they have half of the free memory beyond the reserve, as one heap would.
    assert!((30 * MIB..57 * MIB).contains(&all), "{bytes:?}");
    assert!(most.unwrap() < &(2 * least.unwrap()), "{bytes:?}");
    drop(sessions);
    let [first, second, third] = heaps;
    drop((second, third));
    let mut session = first.session().unwrap();
    world.heaps[1..].iter().for_each(|heap| heap.store(0, Relaxed));
    world.fill(0, &first, &mut session, 20 * MIB).unwrap();
    // The first heap now has the memory that the others had before.
    assert!(first.core().frames.bytes() > 40 * MIB, "{}", first.core().frames.bytes() / MIB);
}

#[test]
fn blocks_may_be_as_large_as_a_container() {
    let world = World::new(64 * MIB);
    let heap = Heap::new(Options::new().block_size(8 << 20).alignment(128).codec("lz4")).unwrap();
    let mut session = heap.session().unwrap();
    let mut handles = vec![];
    while let Ok(handle) = session.put(&node(handles.len() as u64)) {
        handles.push(handle);
        world.tell(0, &heap);
        assert!(world.left() > 2 * MIB, "{} MiB are left", world.left() / MIB);
        if handles.len() as u64 * NODE == 64 * MIB {
            break;
        }
    }
    for _ in 0..2 {
        is_all_there(&session, &handles);
        world.tell(0, &heap);
        assert!(world.left() > 2 * MIB, "{} MiB are left", world.left() / MIB);
    }
}

#[test]
fn the_limit_is_a_share_if_free_memory_is_unknown() {
    let world = World::new(64 * MIB);
    world.others.store(UNKNOWN, Relaxed);
    let heap = heap(Limit::Free);
    let mut session = heap.session().unwrap();
    let handles = world.fill(0, &heap, &mut session, 40 * MIB).unwrap();
    assert_eq!((heap.core().limit(), world.looks.load(Relaxed)), (Limit::Share, 1));
    assert!(heap.core().frames.bytes() < 10 * MIB);
    is_all_there(&session, &handles);
}

#[test]
fn a_look_is_rare() {
    let world = World::new(1 << 40);
    let heap = heap(Limit::Free);
    let mut session = heap.session().unwrap();
    let begin = std::time::Instant::now();
    for number in 0..50 * MIB / NODE {
        session.put(&node(number)).unwrap();
    }
    let most = 2 + begin.elapsed().as_millis() as u64 / 20;
    assert!((1..=most).contains(&world.looks.load(Relaxed)), "{} looks", world.looks.load(Relaxed));
}

#[test]
fn the_background_thread_gives_memory_back_while_sessions_are_idle() {
    let world = World::new(256 * MIB);
    let heap = Heap::new(Options::new().limit(Limit::All).codec("lz4").background(true)).unwrap();
    let mut session = heap.session().unwrap();
    let handles = world.fill(0, &heap, &mut session, 100 * MIB).unwrap();
    assert_eq!(heap.stats().evictions, 0);
    world.others.store(150 * MIB, Relaxed);
    let is_given_back = || (heap.core().frames.bytes() < 95 * MIB).then_some(());
    let waited = (0..300).find_map(|_| {
        thread::sleep(std::time::Duration::from_millis(100));
        is_given_back()
    });
    assert_eq!(waited, Some(()), "{} MiB", heap.core().frames.bytes() / MIB);
    is_all_there(&session, &handles);
}

/// The same holds with [`Limit::Bytes`].
#[test]
fn freed_nodes_make_room_for_new_ones() {
    let heap = Heap::new(Options::new().limit(Limit::Bytes(20 * MIB)).codec("copy")).unwrap();
    let mut session = heap.session().unwrap();
    let put = |session: &mut Session<'_>| session.put(&node(1));
    let mut handles = vec![];
    while let Ok(handle) = put(&mut session) {
        handles.push(handle);
    }
    let count = handles.len();
    handles.drain(..count / 4).for_each(|handle| session.free(handle).unwrap());
    let more = std::iter::from_fn(|| put(&mut session).ok()).count();
    assert!(more * 10 > count / 4 * 9, "{} of {count} were freed, {more} were added", count / 4);
}
