//! Sends threads through the doors of their processes (`memfold_shared::door`): the supervisor's side.
//!
//! It chooses a running thread, so that no system call is interrupted. If no thread runs, the process does
//! not grow. If such a process must get a keeper all the same, it chooses a thread that sleeps in a call that
//! the kernel restarts by itself after an interruption.

use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use memfold_proc::process;
use memfold_shared::door::{Area, DOORS, Door, MAGIC, NOBODY, packed_flags};
use memfold_shared::page::Slot;

use crate::sys;
use crate::sys::ptrace::{self, Registers, Stop, Tracee};

/// A running thread stops within microseconds, or on a busy machine when it next has a CPU. A thread that
/// takes longer than this is released later.
const STOPS: Duration = Duration::from_millis(2);
const POLL: Duration = Duration::from_micros(20);
/// A door is not reused before this time, in ns, because a thread may be delayed at its last instruction.
const REUSED_NS: u64 = 10_000_000_000;
/// The number of threads of a process that are asked to stop at the same time: fewer than there are doors.
const AT_ONCE: usize = 4;
/// Maximum number of threads of a process to look at.
const THREADS: usize = 64;
/// The code segment of 64-bit programs.
const USER_CODE: u64 = 0x33;
/// System calls that the kernel restarts after an interruption without a signal handler: `read`, `write`,
/// `poll`, `select`, `pause`, `nanosleep`, `wait4`, `rt_sigsuspend`, `futex`, `restart_syscall`,
/// `clock_nanosleep`, `waitid`, `pselect6`, `ppoll`.
const RESTARTED: [u64; 14] = [0, 1, 7, 23, 34, 35, 61, 130, 202, RESTART_SYSCALL, 230, 247, 270, 271];
const RESTART_SYSCALL: u64 = 219;

/// The result of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// A thread is going through the door.
    Yes,
    /// No thread was at a suitable place in time, or one is on its way.
    NotNow,
    /// All threads are stopped, or sleep where they must not be interrupted.
    Nobody,
    /// There is no door (yet), or this process may not trace the process, or another process traces it.
    No,
}

/// A thread that was asked to stop, so that it can be sent through a door.
struct Asked {
    tracee: Tracee,
    pid: i32,
    /// The address of the process's [`Door`].
    at: u64,
    /// The process grows, so the thread waits behind the door until the process's memory is managed.
    waits: bool,
}

/// Sends threads through doors; see the module.
pub struct Doors {
    /// Threads that have not stopped yet, and so cannot be released.
    waiting: Vec<Asked>,
}

impl Doors {
    /// Starts without threads.
    pub fn new() -> Self {
        Self { waiting: Vec::new() }
    }

    /// Whether no thread is waiting to be released.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Handles threads that have stopped meanwhile.
    pub fn go_on(&mut self) {
        for asked in std::mem::take(&mut self.waiting) {
            self.finish(asked);
        }
    }

    /// Sends a thread of a process through one of its doors: a running thread, or a sleeping one if
    /// `may_sleep`. If `waits`, the thread waits behind the door until the keeper has had its first look.
    pub fn send(&mut self, pid: i32, slot: &Slot, may_sleep: bool, waits: bool) -> Sent {
        let at = slot.door.load(Acquire);
        let Some(door) = read(pid, at) else { return Sent::No };
        if door.claim != NOBODY
            || door.busy.contains(&true)
            || self.waiting.iter().any(|asked| asked.pid == pid)
        {
            return Sent::NotNow;
        }
        let mut is_refused = false;
        let seize = |tid| match Tracee::seize(tid) {
            Ok(tracee) => tracee.interrupt().is_ok().then_some(Asked { tracee, pid, at, waits }),
            Err(error) => {
                is_refused |= error.raw_os_error() == Some(nix::libc::EPERM);
                None
            }
        };
        let chosen = choose(pid, may_sleep);
        let nobody = if chosen.is_empty() && may_sleep { Sent::Nobody } else { Sent::NotNow };
        let mut asked: Vec<Asked> = chosen.into_iter().filter_map(seize).collect();
        if asked.is_empty() {
            return if is_refused { Sent::No } else { nobody };
        }
        let (begin, mut sent) = (Instant::now(), false);
        while !asked.is_empty() && begin.elapsed() < STOPS {
            let (stopped, still): (Vec<_>, Vec<_>) =
                asked.into_iter().partition(|one| one.tracee.registers().is_some());
            asked = still;
            for one in stopped {
                sent |= self.finish(one);
            }
            std::thread::sleep(POLL);
        }
        self.waiting.append(&mut asked);
        if sent { Sent::Yes } else { Sent::NotNow }
    }

    /// Sends a thread through a door if it has stopped, and releases it. Returns whether it goes through.
    fn finish(&mut self, asked: Asked) -> bool {
        let Asked { tracee, pid, at, .. } = &asked;
        let (pid, at) = (*pid, *at);
        let Some((there, why)) = tracee.registers().and_then(|there| Some((there, tracee.stop()?))) else {
            // A thread that is released before it has stopped could stop for a signal first, and the signal
            // would be lost.
            if is_alive(tracee) {
                self.waiting.push(asked);
            }
            return false;
        };
        if let Stop::Signal(number) = why {
            asked.tracee.let_go(number);
            return false;
        }
        // Meanwhile the process may have got a keeper, or have executed another program.
        let door = read(pid, at).filter(|door| door.claim == NOBODY && !is_at_door(&door.doors, there.rip));
        let sent = door.is_some_and(|door| {
            // Each of the threads that were stopped together gets its own door.
            let Some(number) = door.free(sys::now_ns()) else { return false };
            let area = at + Door::area_offset(number) as u64;
            redirect(&asked, there, door.doors[number], area)
        });
        asked.tracee.let_go(0);
        sent
    }
}

/// The relevant contents of a process's [`Door`].
struct Found {
    claim: u32,
    doors: [u64; DOORS],
    /// A thread is on its way through it.
    busy: [bool; DOORS],
    /// When a thread was last sent through it; 0: never.
    sent_ns: [u64; DOORS],
}

impl Found {
    /// A door whose area no thread can still be reading.
    fn free(&self, now: u64) -> Option<usize> {
        let is_over = |sent: u64| sent == 0 || now.saturating_sub(sent) > REUSED_NS;
        (0..DOORS).find(|number| !self.busy[*number] && is_over(self.sent_ns[*number]))
    }
}

/// Whether a thread that continues at `rip` is in one of the doors, which are adjacent and equally long.
fn is_at_door(doors: &[u64; DOORS], rip: u64) -> bool {
    let last = doors[DOORS - 1];
    (doors[0]..=last + (last - doors[DOORS - 2])).contains(&rip)
}

/// Reads a process's door; `None` if there is none, or the process has executed another program.
fn read(pid: i32, at: u64) -> Option<Found> {
    let mut bytes = [0u8; size_of::<Door>()];
    if at == 0 || !ptrace::read_memory(pid, at, &mut bytes) {
        return None;
    }
    let word = |offset: usize| {
        bytes.get(offset..offset + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    (word(offset_of!(Door, magic)) == MAGIC).then(|| Found {
        claim: word(offset_of!(Door, claim)) as u32,
        doors: std::array::from_fn(|number| word(offset_of!(Door, doors) + number * 8)),
        busy: std::array::from_fn(|number| word(Door::area_offset(number) + offset_of!(Area, busy)) != 0),
        sent_ns: std::array::from_fn(|number| word(Door::area_offset(number) + offset_of!(Area, sent_ns))),
    })
}

/// Chooses threads that run or wait for a CPU. It is unknown which of them has one; the first to reach its
/// door starts the keeper. If there are none and `may_sleep`, chooses a thread that sleeps in a restarted
/// call.
fn choose(pid: i32, may_sleep: bool) -> Vec<i32> {
    let (mut running, mut sleeper) = (Vec::new(), None);
    for tid in process::threads(pid).take(THREADS) {
        match process::thread_state(pid, tid) {
            Some(b'R') if running.len() < AT_ONCE => running.push(tid),
            Some(b'S') if may_sleep && sleeper.is_none() && sleeps_well(pid, tid) => sleeper = Some(tid),
            _ => {}
        }
    }
    if running.is_empty() { sleeper.into_iter().collect() } else { running }
}

fn sleeps_well(pid: i32, tid: i32) -> bool {
    process::system_call(pid, tid).is_some_and(|number| RESTARTED.contains(&number))
}

/// Whether the thread may still stop.
fn is_alive(tracee: &Tracee) -> bool {
    process::stat(tracee.tid()).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X'))
}

/// Lets a stopped thread continue at the door, if it is at a suitable place.
fn redirect(asked: &Asked, mut registers: Registers, door: u64, area: u64) -> bool {
    let Asked { tracee, pid, waits, .. } = asked;
    let (pid, waits) = (*pid, *waits);
    if registers.cs != USER_CODE || !is_outside_sequence(tracee, pid) {
        return false;
    }
    let Some(then) = goes_on(&registers, waits) else { return false };
    // Write the door's data before the thread can reach it.
    if !ptrace::write_memory(pid, area, &bytes_of(&then)) {
        return false;
    }
    registers.rip = door;
    // The kernel must not restart a system call, because the thread does that behind the door.
    registers.orig_rax = u64::MAX;
    let sent = tracee.set_registers(registers).is_ok();
    if !sent {
        ptrace::write_memory(pid, area, &[0; size_of::<Area>()]);
    }
    sent
}

fn bytes_of(then: &Area) -> [u8; size_of::<Area>()] {
    let Area { rip, flags, rax, rcx, rdx, rsi, rdi, r8, r10, r11, mask, busy, sent_ns, waits } = *then;
    let mut bytes = [0; size_of::<Area>()];
    let words = [rip, flags, rax, rcx, rdx, rsi, rdi, r8, r10, r11, mask, busy, sent_ns, waits];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

/// The state in which the thread continues behind the door: the same in which the kernel would let it
/// continue after this stop.
fn goes_on(registers: &Registers, waits: bool) -> Option<Area> {
    const SYSCALL_BYTES: u64 = 2;
    let mut then = Area {
        rip: registers.rip,
        flags: packed_flags(registers.eflags),
        rax: registers.rax,
        rcx: registers.rcx,
        rdx: registers.rdx,
        rsi: registers.rsi,
        rdi: registers.rdi,
        r8: registers.r8,
        r10: registers.r10,
        r11: registers.r11,
        mask: 0,
        busy: 1,
        sent_ns: sys::now_ns(),
        waits: u64::from(waits),
    };
    if registers.orig_rax as i64 >= 0 {
        match (registers.rax as i64).wrapping_neg() {
            // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND.
            512..=514 => (then.rax, then.rip) = (registers.orig_rax, registers.rip - SYSCALL_BYTES),
            // ERESTART_RESTARTBLOCK.
            516 => (then.rax, then.rip) = (RESTART_SYSCALL, registers.rip - SYSCALL_BYTES),
            515 => return None,
            // The call is done.
            _ => {}
        }
    }
    Some(then)
}

/// Whether the thread is outside of restartable sequences. Inside one, the kernel would not know of the
/// interruption.
fn is_outside_sequence(tracee: &Tracee, pid: i32) -> bool {
    const CURRENT: u64 = 8;
    let mut current = [0; 8];
    match tracee.restartable_sequence() {
        None => false,
        Some(0) => true,
        Some(at) => ptrace::read_memory(pid, at + CURRENT, &mut current) && current == [0; 8],
    }
}

/// Whether threads can be sent through doors. Tries this on a child that waits for something.
pub fn are_possible(child: i32) -> bool {
    let Ok(tracee) = Tracee::seize(child) else { return false };
    if tracee.interrupt().is_err() {
        return false;
    }
    // Wait as long as it takes: the child cannot be released before it has stopped.
    while tracee.registers().is_none() {
        if !is_alive(&tracee) {
            return false;
        }
        std::thread::sleep(POLL);
    }
    let works = tracee.restartable_sequence().is_some() && tracee.stop() == Some(Stop::Asked);
    tracee.let_go(0);
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_reused_when_no_thread_can_be_in_it() {
        let mut found = Found { claim: NOBODY, doors: [0; DOORS], busy: [false; DOORS], sent_ns: [0; DOORS] };
        let now = 5 * REUSED_NS;
        assert_eq!(found.free(now), Some(0));
        found.busy[0] = true;
        found.sent_ns[1] = now - REUSED_NS;
        assert_eq!(found.free(now), Some(2));
        found.sent_ns = [now; DOORS];
        assert_eq!(found.free(now), None);
        assert_eq!(found.free(now + REUSED_NS + 1), Some(1));
    }

    #[test]
    fn a_thread_goes_on_as_the_kernel_would_let_it() {
        let registers = |rax: i64, orig_rax: u64| {
            // SAFETY: the structure consists of numbers, which may be zero.
            let mut registers: Registers = unsafe { std::mem::zeroed() };
            (registers.rip, registers.rax, registers.orig_rax) = (1000, rax as u64, orig_rax);
            goes_on(&registers, false).map(|then| (then.rip, then.rax))
        };
        // Not in a system call, whatever is in the register; after a call that succeeded; after one that
        // failed.
        assert_eq!(registers(-512, u64::MAX), Some((1000, -512i64 as u64)));
        assert_eq!(registers(7, 61), Some((1000, 7)));
        assert_eq!(registers(-4, 61), Some((1000, -4i64 as u64)));
        for (error, rax) in [(512, 61), (513, 61), (514, 61), (516, RESTART_SYSCALL)] {
            assert_eq!(registers(-error, 61), Some((998, rax)));
        }
    }
}
