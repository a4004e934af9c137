//! Seccomp filters under which a program runs, and what they do to the runtime's system calls.
//!
//! A filter that exists when the program starts cannot be read, and trying a call may be fatal. What is
//! known:
//!
//! - How many filters a process has (`/proc/self/status`; the loader has opened, read and closed files
//!   before).
//! - That the supervisor has tried every call under its own filters ([`Shared::proven_filters`]). Filters are
//!   inherited and never removed, so a process of its tree with the same number has the same filters.
//! - What a filter would answer that a managed process installs through the C library: it is interpreted
//!   first, with every call of the runtime, and with all values for arguments that are not known.
//!
//! With any other filter the process is not managed.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use memfold_shared::calls::{CALLS, Call, USERFAULTFD};
use memfold_shared::filters::{BY_DEVICE_ONLY, Status};
use memfold_shared::page::{Shared, Slot};

use crate::kernel::sys::{self, nr, o};

/// The message about a process that is not managed for this reason.
pub const WORDS: &str = "it was started under a seccomp filter that may kill it for memfold's system calls: memfold makes none, and this process is not managed";

/// The status of this process; `None` where there is no `/proc`.
pub fn own_status() -> Option<Status> {
    let file = sys::open(c"/proc/self/status", o::RDONLY | o::CLOEXEC).ok()?;
    let status = Status::read(|buffer| sys::read(file, buffer).unwrap_or(0));
    sys::close(file);
    status
}

/// What is known about the filters of this process. The slot passes it on to programs that the process
/// becomes.
static KNOWN: AtomicU32 = AtomicU32::new(0);
/// See [`is_free`].
static IS_FREE: AtomicBool = AtomicBool::new(false);

/// See [`may_show`].
static MAY_SHOW: AtomicBool = AtomicBool::new(false);

/// Called at the start of a program. `None` if the runtime's calls may be harmful; otherwise whether the call
/// `userfaultfd` is harmless, too.
pub fn allow(shared: &Shared, status: Status) -> Option<bool> {
    if status.mode == 0 {
        IS_FREE.store(true, Relaxed);
        MAY_SHOW.store(true, Relaxed);
        return Some(true);
    }
    let count = status.count?;
    let is_own = |slot: &&Slot| slot.pid.load(Acquire) == status.pid;
    let slot = shared.live_slots().find(is_own).map_or(0, |slot| slot.filters.load(Relaxed));
    let proven = shared.proven_filters.load(Relaxed);
    let known = [proven, slot].into_iter().find(|known| known & !BY_DEVICE_ONLY == count)?;
    KNOWN.store(known, Relaxed);
    MAY_SHOW.store(known == proven, Relaxed);
    Some(known & BY_DEVICE_ONLY == 0)
}

/// Whether there is no filter at all: there was none at the start, and none was installed.
pub fn is_free() -> bool {
    IS_FREE.load(Relaxed)
}

/// Records that there may be a filter from now on.
pub fn comes() {
    IS_FREE.store(false, Relaxed);
    MAY_SHOW.store(false, Relaxed);
}

/// Whether the calls of `TO_SHOW` may be made: there are no filters but those under which the supervisor has
/// tried them.
pub fn may_show() -> bool {
    MAY_SHOW.load(Relaxed)
}

/// Records in a process's slot what is known about its filters, since the process may continue as another
/// program.
pub fn note_in(slot: &Slot) {
    slot.filters.store(KNOWN.load(Relaxed), Relaxed);
}

/// Whether the call `userfaultfd` may be made.
pub fn userfaultfd_may_be_called() -> bool {
    KNOWN.load(Relaxed) & BY_DEVICE_ONLY == 0
}

/// A filter that is about to be installed and is harmless to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Harmless {
    count: u32,
}

impl Harmless {
    /// Reads a filter, the `sock_fprog` that the kernel is going to get, into a buffer for [`MOST_STEPS`].
    pub fn read(program: usize, place: &mut [usize]) -> Option<Self> {
        let mut head = [0usize; 2];
        // This fails if the address is invalid. The kernel will then refuse the filter.
        sys::read_own_memory(program, &mut head).ok()?;
        let (length, start) = (head[0] & 0xffff, head[1]);
        let steps = place.get_mut(..length)?;
        sys::read_own_memory(start, steps).ok()?;
        let by_device = match judge(steps)? {
            true => 0,
            false => BY_DEVICE_ONLY,
        };
        let status = own_status()?;
        let before = KNOWN.load(Relaxed);
        // The filters before it must be known as well.
        if status.mode != 0 && status.count != Some(before & !BY_DEVICE_ONLY) {
            return None;
        }
        let count = status.count? + 1;
        Some(Harmless { count: count | before & BY_DEVICE_ONLY | by_device })
    }

    /// Records that the filter was installed.
    pub fn installed(self, slot: &Slot) {
        KNOWN.store(self.count, Relaxed);
        MAY_SHOW.store(false, Relaxed);
        note_in(slot);
    }
}

/// The kernel's maximum number of steps.
pub const MOST_STEPS: usize = 4096;
/// Maximum number of states that are still to be followed, and of steps in total for one call: beyond that,
/// the filter counts as harmful.
const MOST_STATES: usize = 32;
const PATIENCE: u32 = 20_000;

/// `None` if a call of the runtime ends the process; otherwise whether `userfaultfd` is harmless, too.
fn judge(steps: &[usize]) -> Option<bool> {
    CALLS.iter().all(|call| is_harmless(steps, call)).then(|| is_harmless(steps, &USERFAULTFD))
}

/// A number, if it is known.
type Value = Option<u32>;

#[derive(Clone, Copy)]
struct State {
    at: usize,
    a: Value,
    x: Value,
    memory: [Value; 16],
}

fn is_harmless(steps: &[usize], call: &Call) -> bool {
    let mut states = [State { at: 0, a: Some(0), x: Some(0), memory: [Some(0); 16] }; MOST_STATES];
    let (mut count, mut left) = (1, PATIENCE);
    while count > 0 {
        count -= 1;
        let mut state = states[count];
        loop {
            left = left.saturating_sub(1);
            let Some(step) = steps.get(state.at).filter(|_| left > 0) else { return false };
            match follow(&mut state, *step as u64, call) {
                Then::Next => state.at += 1,
                Then::Jump(true_by, false_by, None) => {
                    let Some(place) = states.get_mut(count) else { return false };
                    *place = State { at: state.at + 1 + false_by, ..state };
                    count += 1;
                    state.at += 1 + true_by;
                }
                Then::Jump(true_by, false_by, Some(is)) => {
                    state.at += 1 + if is { true_by } else { false_by }
                }
                Then::Answer(answer) if is_survived(answer) => break,
                Then::Answer(_) | Then::Unknown => return false,
            }
        }
    }
    true
}

enum Then {
    Next,
    /// How far to jump if it is true, and how far if not; and whether it is true.
    Jump(usize, usize, Option<bool>),
    Answer(Value),
    Unknown,
}

/// Whether the caller survives: the call is allowed, logged, or answered by an error.
fn is_survived(answer: Value) -> bool {
    const ALLOW: u32 = 0x7fff_0000;
    const LOG: u32 = 0x7ffc_0000;
    const ERRNO: u32 = 0x0005_0000;
    answer.is_some_and(|answer| matches!(answer & 0xffff_0000, ALLOW | LOG | ERRNO))
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// A word of the data that the kernel shows to a filter.
fn shown(call: &Call, offset: u32) -> Value {
    match offset {
        0 => Some(call.number as u32),
        4 => Some(ARCHITECTURE),
        // The flags that make a thread are known; no flag that filters forbid is among them or is added.
        16 if call.number == nr::CLONE => Some(call.arguments[0] as u32),
        20 if call.number == nr::CLONE => Some(0),
        _ => None,
    }
}

/// Executes one step, as the kernel's documentation of classic BPF defines it: `code | true | false | k`.
fn follow(state: &mut State, step: u64, call: &Call) -> Then {
    let code = step as u16;
    let (true_by, false_by) = ((step >> 16) as u8 as usize, (step >> 24) as u8 as usize);
    let k = (step >> 32) as u32;
    let (kind, operand) = (code & 7, if code & 8 == 0 { Some(k) } else { state.x });
    match kind {
        0 | 1 => {
            let value = match code & 0xe0 {
                0x00 => Some(k),
                0x20 if kind == 0 => shown(call, k),
                0x60 => match state.memory.get(k as usize) {
                    Some(value) => *value,
                    None => return Then::Unknown,
                },
                0x80 => Some(64),
                _ => return Then::Unknown,
            };
            *(if kind == 0 { &mut state.a } else { &mut state.x }) = value;
        }
        2 | 3 => match state.memory.get_mut(k as usize) {
            Some(place) => *place = if kind == 2 { state.a } else { state.x },
            None => return Then::Unknown,
        },
        4 => state.a = calculate(code & 0xf0, state.a, operand),
        5 if code & 0xf0 == 0 => return Then::Jump(k as usize, k as usize, Some(true)),
        5 => {
            let test = |(a, b): (u32, u32)| match code & 0xf0 {
                0x10 => a == b,
                0x20 => a > b,
                0x30 => a >= b,
                _ => a & b != 0,
            };
            return Then::Jump(true_by, false_by, state.a.zip(operand).map(test));
        }
        6 => return Then::Answer(if code & 0x18 == 0x10 { state.a } else { Some(k) }),
        _ if code & 0xf8 == 0x80 => state.a = state.x,
        _ => state.x = state.a,
    }
    Then::Next
}

fn calculate(operation: u16, a: Value, b: Value) -> Value {
    let a = a?;
    if operation == 0x80 {
        return Some(a.wrapping_neg());
    }
    let b = b?;
    match operation {
        0x00 => Some(a.wrapping_add(b)),
        0x10 => Some(a.wrapping_sub(b)),
        0x20 => Some(a.wrapping_mul(b)),
        0x30 => a.checked_div(b),
        0x40 => Some(a | b),
        0x50 => Some(a & b),
        0x60 => a.checked_shl(b),
        0x70 => a.checked_shr(b),
        0x90 => a.checked_rem(b),
        0xa0 => Some(a ^ b),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const ERRNO: u32 = 0x0005_0001;

    fn step(code: u16, yes: u8, no: u8, k: u32) -> usize {
        (u64::from(code) | u64::from(yes) << 16 | u64::from(no) << 24 | u64::from(k) << 32) as usize
    }

    /// A filter that answers these calls with `answer`, and others with `rest`.
    fn filter(calls: &[usize], answer: u32, rest: u32) -> Vec<usize> {
        let mut steps = std::vec![step(0x20, 0, 0, 4), step(0x15, 1, 0, ARCHITECTURE), step(6, 0, 0, KILL)];
        steps.push(step(0x20, 0, 0, 0));
        for number in calls {
            steps.extend([step(0x15, 0, 1, *number as u32), step(6, 0, 0, answer)]);
        }
        steps.push(step(6, 0, 0, rest));
        steps
    }

    #[test]
    fn each_call_that_ends_the_process_is_noticed() {
        assert_eq!(judge(&filter(&[], KILL, ALLOW)), Some(true));
        assert_eq!(judge(&filter(&[nr::USERFAULTFD], KILL, ALLOW)), Some(false));
        assert_eq!(judge(&filter(&[nr::USERFAULTFD], ERRNO, ALLOW)), Some(true));
        for call in &CALLS {
            assert_eq!(judge(&filter(&[call.number], KILL, ALLOW)), None, "{}", call.name);
            assert_eq!(judge(&filter(&[call.number], ERRNO, ALLOW)), Some(true), "{}", call.name);
        }
        // A list of allowed calls; 165 is mount, or unused.
        let all: Vec<usize> = CALLS.iter().map(|call| call.number).collect();
        assert_eq!(judge(&filter(&all, ALLOW, KILL)), Some(false));
        assert_eq!(judge(&filter(&[165], KILL, ALLOW)), Some(true));
    }

    #[test]
    fn arguments_that_are_not_known_may_be_anything() {
        // One ioctl request is fatal; so is a clone with the flag of a namespace.
        let with = |number: usize, test: usize| {
            let steps = [
                step(0x20, 0, 0, 0),
                step(0x15, 0, 3, number as u32),
                step(0x20, 0, 0, if number == nr::CLONE { 16 } else { 24 }),
                test,
                step(6, 0, 0, KILL),
                step(6, 0, 0, ALLOW),
            ];
            judge(&steps)
        };
        assert_eq!(with(nr::IOCTL, step(0x15, 0, 1, 0x5412)), None);
        assert_eq!(with(nr::CLONE, step(0x45, 0, 1, 0x1000_0000)), Some(true));
        assert_eq!(with(nr::CLONE, step(0x45, 0, 1, 0x100)), None);
    }

    #[test]
    fn nonsense_proves_nothing() {
        assert_eq!(judge(&[]), None);
        assert_eq!(judge(&[step(0x20, 0, 0, 0)]), None);
        assert_eq!(judge(&[step(0x05, 0, 0, u32::MAX)]), None);
        assert_eq!(judge(&[step(0x16, 0, 0, 0)]), None);
        let mut forks = Vec::new();
        (0..4000).for_each(|_| forks.extend([step(0x20, 0, 0, 24), step(0x15, 0, 0, 1)]));
        assert_eq!(judge(&forks), None);
        let mut x = 1u64;
        for _ in 0..2000 {
            let random: Vec<usize> = (0..20)
                .map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (x ^ x >> 29) as usize
                })
                .collect();
            judge(&random);
        }
    }

    #[test]
    fn the_own_status() {
        assert_eq!(own_status().map(|status| status.pid), Some(std::process::id()));
    }
}
