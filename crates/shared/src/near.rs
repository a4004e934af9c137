//! What is near: when a process needs threads of memfold, and how often somebody has to look. The keeper
//! decides by it for its own process, and the supervisor for those that have none.

/// The fastest that one CPU can fill memory, bytes a ms: with huge pages.
pub const GROWTH_PER_MS: u64 = 10 << 20;
/// Paging starts when there is less room than this for each CPU, bytes: starting takes some milliseconds.
pub const START_ROOM: u64 = 32 << 20;
/// CPUs that count for that, at most.
const STARTING: u64 = 4;
/// As much room is needed to start in a process that can't grow without calling the library, bytes, and as
/// that part of the limit: that call waits until it has started. A build of short-lived compilers at a limit
/// that it fits into takes half the time if that is no more.
const TOLD_ROOM: (u64, u64) = (4 << 20, 16 << 20);
/// See [`TOLD_ROOM`].
const TOLD_PART: u64 = 8;
/// Looks are this far apart at most and at least, ns.
pub const SLOWEST_LOOK: u64 = 100_000_000;
/// See [`SLOWEST_LOOK`].
pub const FASTEST_LOOK: u64 = 1_000_000;
/// As long as the tree's resident memory stays as it is, for so many looks, they are never closer than this,
/// ns: looking a thousand times a second takes time from a program that fits. Growth that nobody tells of
/// fills less than 20 MiB meanwhile, unless the kernel gives it huge pages.
pub const QUIET_LOOK: u64 = 4_000_000;
/// See [`QUIET_LOOK`].
pub const QUIET_LOOKS: u32 = 64;
/// It stays as it is if it changes by less than this, bytes.
pub const QUIET: u64 = 64 << 10;
/// Smaller processes are left alone as long as there is room, bytes: the threads and tables that paging needs
/// would outweigh what is saved.
pub const SMALLEST_PROACTIVE: u64 = 32 << 20;
/// Of what a process may write to and has not touched, so much is the library's own before paging begins, at
/// most, bytes.
pub const OWN_UNTOUCHED: u64 = 2 << 20;
/// A process keeps this part of the limit resident whatever happens: with less it would do nothing but fault.
const FLOOR: u64 = 32;

/// What a process keeps resident whatever happens, bytes. One that has less gives nothing back, so it needs
/// no thread: the larger ones make room for it.
pub fn floor(limit: u64) -> u64 {
    (limit / FLOOR).clamp(2 << 20, 64 << 20)
}

/// Levels of how scarce tasks are, see [`worth_threads`]. At the highest no process has threads.
pub const TASK_LEVELS: u32 = 7;

/// What a process must have, bytes, resident or evicted, to be worth threads of memfold while tasks are scarce:
/// at each level twice as much, so that the smallest processes give theirs back first.
pub fn worth_threads(limit: u64, level: u32) -> u64 {
    match level {
        0 => 0,
        TASK_LEVELS.. => u64::MAX,
        _ => floor(limit) << (level - 1),
    }
}

/// Bytes that a process without threads of memfold must have to get some, at a level of [`worth_threads`].
pub fn least_managed(limit: u64, level: u32) -> u64 {
    floor(limit).max(worth_threads(limit, level))
}

/// With less room than this, bytes, paging starts in a process that may grow by touching alone.
pub fn start_room(cpus: u64) -> u64 {
    START_ROOM * cpus.min(STARTING)
}

/// With less room than this, bytes, a process is told that the limit is near: what it gets then may be more
/// than is left.
pub fn near_room(cpus: u64) -> u64 {
    2 * start_room(cpus)
}

/// Whether paging is to start in a process that has just got so many bytes, which it may fill before anybody
/// looks, when there is so much room.
pub fn must_start(got: u64, room: u64, cpus: u64, limit: u64) -> bool {
    room < start_room_of(got, cpus, limit)
}

/// As `start_room`, for a process that has mapped so many bytes that it has not touched yet: it can grow by
/// so much without calling the library. On a busy machine it may be long until its keeper has a CPU.
pub fn start_room_of(untouched: u64, cpus: u64, limit: u64) -> u64 {
    told_room(limit).saturating_add(untouched).min(near_room(cpus))
}

/// Whether a request of so many bytes could exceed the limit by itself. The kernel may fill all of it in
/// one system call, and a thread in `read` can't be stopped.
pub fn could_pass_at_once(got: u64, room: u64, limit: u64) -> bool {
    room < told_room(limit).saturating_add(got)
}

fn told_room(limit: u64) -> u64 {
    (limit / TOLD_PART).clamp(TOLD_ROOM.0, TOLD_ROOM.1)
}

/// How long to sleep until the next look, ns.
pub fn next_look(room: u64, cpus: u64, fastest: u64) -> u64 {
    (room / (GROWTH_PER_MS * cpus.max(1)) * 1_000_000).clamp(fastest, SLOWEST_LOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn who_can_grow_unseen_is_given_more_room() {
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
        assert!(could_pass_at_once(1 << 40, 200 << 20, GIB) && could_pass_at_once(190 << 20, 200 << 20, GIB));
        assert!(!could_pass_at_once(180 << 20, 200 << 20, GIB));
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
    fn the_larger_ones_keep_their_threads_longer() {
        assert_eq!(
            (worth_threads(GIB, 0), worth_threads(GIB, 1), worth_threads(GIB, 6)),
            (0, floor(GIB), GIB)
        );
        assert_eq!(worth_threads(GIB, TASK_LEVELS), u64::MAX);
    }
}
