//! What near means: when a process needs threads of memfold, and how often to look at it. The keeper uses
//! this for its own process, and the supervisor for processes without a keeper.

/// The highest rate at which one CPU can fill memory, in bytes per ms: with huge pages.
pub const GROWTH_PER_MS: u64 = 10 << 20;
/// Paging starts when there is less room than this for each CPU, in bytes: starting takes some milliseconds.
pub const START_ROOM: u64 = 32 << 20;
/// Maximum number of CPUs that count for that.
const STARTING: u64 = 4;
/// The room at which paging starts in a process that cannot grow without calling the library: bounds in
/// bytes, and the fraction of the limit. The library call waits until paging has started. For a build of
/// short-lived compilers that fits its limit, this small room halves the time.
const TOLD_ROOM: (u64, u64) = (4 << 20, 16 << 20);
/// See [`TOLD_ROOM`].
const TOLD_PART: u64 = 8;
/// The maximum and minimum time between looks, in ns.
pub const SLOWEST_LOOK: u64 = 100_000_000;
/// See [`SLOWEST_LOOK`].
pub const FASTEST_LOOK: u64 = 1_000_000;
/// If the tree's resident memory has not changed for this many looks, or a process in a large or too large tree
/// has had nothing to do, looks are at least this far apart, in ns: looking a thousand times a second takes time
/// from the programs. Growth that is not reported fills less than 20 MiB meanwhile, unless the kernel gives it
/// huge pages.
pub const QUIET_LOOK: u64 = 4_000_000;
/// See [`QUIET_LOOK`].
pub const QUIET_LOOKS: u32 = 64;
/// A change smaller than this does not count, in bytes.
pub const QUIET: u64 = 64 << 10;
/// Smaller processes are left alone while there is room, in bytes: the threads and tables for paging would
/// cost more than is saved.
pub const SMALLEST_PROACTIVE: u64 = 32 << 20;
/// Before paging begins, at most this much of a process's writable and untouched memory belongs to the
/// library, in bytes.
pub const OWN_UNTOUCHED: u64 = 2 << 20;
/// A process keeps this fraction of the limit resident in any case: with less it would do nothing but fault.
const FLOOR: u64 = 32;
/// Where many processes are small, what all of them keep in any case is at most this fraction of the limit.
const FLOORS: u64 = 2;
/// A process with less than this, in bytes, has next to nothing that could be compressed.
const LOWEST_FLOOR: u64 = 512 << 10;

/// The memory that a process keeps resident in any case, in bytes. A process with less gives nothing back, so
/// it needs no thread: the larger ones make room for it.
pub fn floor(limit: u64) -> u64 {
    (limit / FLOOR).clamp(2 << 20, 64 << 20)
}

/// The same in a tree whose processes have these sizes, in bytes, evicted memory included. If many processes are
/// smaller than [`floor`], there may be no larger ones that could make room for them.
pub fn floor_among<I: Iterator<Item = u64>>(limit: u64, sizes: impl Fn() -> I) -> u64 {
    let mut floor = floor(limit);
    // What the processes keep falls with the floor, but not below the sizes of the smallest ones.
    for _ in 0..8 {
        let kept: u64 = sizes().map(|size| size.min(floor)).sum();
        if kept <= limit / FLOORS {
            break;
        }
        floor = (u128::from(floor) * u128::from(limit / FLOORS) / u128::from(kept)) as u64;
    }
    floor.max(LOWEST_FLOOR)
}

/// A limit counts as held when it is exceeded by at most this many bytes.
pub fn tolerance(limit: u64) -> u64 {
    limit / 20 + (8 << 20)
}

/// Number of levels of task scarcity, see [`worth_threads`]. At the highest level no process has threads.
pub const TASK_LEVELS: u32 = 7;

/// The memory, resident or evicted, that a process must have to be worth threads of memfold while tasks are
/// scarce, in bytes: it doubles with each level, so that the smallest processes give their threads back
/// first.
pub fn worth_threads(limit: u64, level: u32) -> u64 {
    match level {
        0 => 0,
        TASK_LEVELS.. => u64::MAX,
        _ => floor(limit) << (level - 1),
    }
}

/// With less room than this, in bytes, paging starts in a process that may grow just by touching memory.
pub fn start_room(cpus: u64) -> u64 {
    START_ROOM * cpus.min(STARTING)
}

/// With less room than this, in bytes, a process is told that the limit is near: its next request may exceed
/// the remaining room.
pub fn near_room(cpus: u64) -> u64 {
    2 * start_room(cpus)
}

/// Whether paging must start in a process that has just got `got` bytes, which it may fill before the next
/// look, when there is this much room.
pub fn must_start(got: u64, room: u64, cpus: u64, limit: u64) -> bool {
    room < start_room_of(got, cpus, limit)
}

/// Like `start_room`, for a process that has mapped `untouched` bytes without touching them yet: it can grow
/// by that much without calling the library. On a busy machine it may take long until its keeper gets a CPU.
pub fn start_room_of(untouched: u64, cpus: u64, limit: u64) -> u64 {
    told_room(limit).saturating_add(untouched).min(near_room(cpus))
}

/// Whether a request of `got` bytes could exceed the limit by itself. The kernel may fill all of it in one
/// system call, and a thread in `read` cannot be stopped.
pub fn could_exceed_at_once(got: u64, room: u64, limit: u64) -> bool {
    room < told_room(limit).saturating_add(got)
}

fn told_room(limit: u64) -> u64 {
    (limit / TOLD_PART).clamp(TOLD_ROOM.0, TOLD_ROOM.1)
}

/// How long to sleep until the next look, in ns.
pub fn next_look(room: u64, cpus: u64, fastest: u64) -> u64 {
    (room / (GROWTH_PER_MS * cpus.max(1)) * 1_000_000).clamp(fastest, SLOWEST_LOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn processes_that_can_grow_unseen_get_more_room() {
        assert_eq!(start_room(2), 64 << 20);
        assert_eq!(start_room(64), 128 << 20);
        assert_eq!(start_room_of(0, 2, GIB), 16 << 20);
        assert_eq!(start_room_of(0, 2, 40 << 20), 5 << 20);
        assert_eq!(start_room_of(8 << 20, 2, GIB), 24 << 20);
        assert_eq!(start_room_of(u64::MAX, 2, GIB), 128 << 20);
    }

    #[test]
    fn a_request_that_could_fill_what_is_left_starts_paging_near_the_limit() {
        assert!(must_start(200 << 20, 100 << 20, 2, GIB) && must_start(90 << 20, 100 << 20, 2, GIB));
        assert!(!must_start(10 << 20, 100 << 20, 2, GIB) && must_start(10 << 20, 20 << 20, 2, GIB));
        assert!(!must_start(1 << 40, 200 << 20, 2, GIB));
        assert!(
            could_exceed_at_once(1 << 40, 200 << 20, GIB) && could_exceed_at_once(190 << 20, 200 << 20, GIB)
        );
        assert!(!could_exceed_at_once(180 << 20, 200 << 20, GIB));
    }

    #[test]
    fn looks_are_closer_where_memory_could_be_filled_sooner() {
        assert_eq!(next_look(0, 2, FASTEST_LOOK), FASTEST_LOOK);
        assert_eq!(next_look(0, 2, QUIET_LOOK), QUIET_LOOK);
        assert_eq!(next_look(1 << 30, 2, FASTEST_LOOK), 51_000_000);
        assert_eq!(next_look(1 << 40, 2, FASTEST_LOOK), SLOWEST_LOOK);
        assert_eq!((floor(10 << 20), floor(1 << 30), floor(1 << 40)), (2 << 20, 32 << 20, 64 << 20));
    }

    #[test]
    fn many_small_processes_keep_less() {
        let among =
            |limit: u64, sizes: &[u64]| floor_among(limit << 20, || sizes.iter().map(|size| size << 20));
        assert_eq!(among(400, &[380, 47, 47, 47, 47, 47, 47]), floor(400 << 20));
        assert_eq!(among(100, &[]), floor(100 << 20));
        // Together they keep half of the limit.
        assert!((500 << 10..600 << 10).contains(&among(100, &[3; 90])));
        assert!((13 << 20..14 << 20).contains(&among(1024, &[40; 38])));
        // The smallest ones have less anyway, so the others may keep more.
        let mixed: [u64; 60] = core::array::from_fn(|number| if number < 20 { 1 } else { 20 });
        assert!((5 << 20..6 << 20).contains(&among(512, &mixed)));
        assert_eq!(among(100, &[3; 2000]), LOWEST_FLOOR);
    }

    #[test]
    fn the_larger_ones_keep_their_threads_longer() {
        assert_eq!(
            (worth_threads(GIB, 0), worth_threads(GIB, 1), worth_threads(GIB, 6)),
            (0, floor(GIB), GIB)
        );
        assert_eq!(worth_threads(GIB, TASK_LEVELS), u64::MAX);
    }
}
