//! Which handlers listen for faults.
//!
//! Every message wakes all listening handlers, and waking a handler on another CPU costs more than restoring
//! the page. So while nearly all faults come from one thread, one handler listens, bound to the CPU on which
//! that thread runs. When faults come from several threads, all handlers listen, each bound to a CPU of its
//! own. There are half as many handlers as CPUs. With one per CPU and two threads faulting on two CPUs, the
//! second handler was mostly woken in vain and cost a quarter of the run time. Waking it only when the first
//! was busy (exclusive epoll) still took a tenth more CPU time and saved no wall time.
//!
//! ```text
//!   threads of the last faults   | 7 7 7 7 9 7 7 7 .. |   every WINDOW faults:
//!   most are of one              -> one listens, on its CPU
//!   they are not                 -> all listen
//! ```

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*};

use crate::kernel::procfs;
use crate::kernel::sys::{self, Fd};

/// Maximum number of fault handlers.
pub const HANDLERS: usize = 4;
/// Faults between two decisions.
const WINDOW: usize = 64;
/// One thread has nearly all faults of a window if the others together have at most this many.
const OTHERS: usize = 6;
const NOWHERE: i32 = -1;

/// See the module.
pub struct Follow {
    tids: [AtomicU32; WINDOW],
    count: AtomicU32,
    spread: AtomicBool,
    /// The CPU on which the thread with nearly all faults runs.
    cpu: AtomicI32,
    /// One descriptor per handler; a write to it wakes the handler.
    calls: [AtomicI32; HANDLERS],
}

impl Follow {
    /// At first one handler listens, on any CPU.
    pub const fn new() -> Self {
        Follow {
            tids: [const { AtomicU32::new(0) }; WINDOW],
            count: AtomicU32::new(0),
            spread: AtomicBool::new(false),
            cpu: AtomicI32::new(NOWHERE),
            calls: [const { AtomicI32::new(-1) }; HANDLERS],
        }
    }

    /// Makes the descriptors, before the handlers start. The descriptors are in the table of the runtime's
    /// threads, so only those threads may call this.
    pub fn open(&self) -> sys::Result<()> {
        for call in &self.calls {
            call.store(sys::eventfd()?.0, Relaxed);
        }
        Ok(())
    }

    /// Closes the descriptors. No handler may be running.
    pub fn close(&self) {
        for call in &self.calls {
            let call = call.swap(-1, Relaxed);
            if call >= 0 {
                sys::close(Fd(call));
            }
        }
    }

    /// Starts anew in a forked child, which has none of the descriptors.
    pub fn after_fork(&self) {
        self.calls.iter().for_each(|call| call.store(-1, Relaxed));
        self.spread.store(false, Relaxed);
        self.cpu.store(NOWHERE, Relaxed);
    }

    /// The descriptor that wakes handler `number`.
    pub fn call(&self, number: usize) -> Fd {
        Fd(self.calls[number].load(Relaxed))
    }

    /// Wakes all handlers, listening or not.
    pub fn call_all(&self) {
        for number in 0..HANDLERS {
            let _ = sys::write(self.call(number), &1u64.to_ne_bytes());
        }
    }

    /// Whether all handlers listen.
    pub fn is_spread(&self) -> bool {
        self.spread.load(Relaxed)
    }

    /// Whether handler `number` is to listen.
    pub fn listens(&self, number: usize) -> bool {
        number == 0 || self.is_spread()
    }

    /// The CPU for handler `number`; `own` is the CPU that belongs to it.
    pub fn cpu_for(&self, number: usize, own: usize) -> usize {
        if number == 0 { self.cpu_near(own) } else { own }
    }

    /// The CPU on which the thread with nearly all faults runs; `own` if there is no such thread.
    pub fn cpu_near(&self, own: usize) -> usize {
        self.cpu().unwrap_or(own)
    }

    /// The CPU on which the thread with nearly all faults runs, if there is such a thread.
    pub fn cpu(&self) -> Option<usize> {
        usize::try_from(self.cpu.load(Relaxed)).ok().filter(|_| !self.is_spread())
    }

    /// Notes a fault of a thread. Called by the handler that has read it.
    pub fn note(&self, tid: u32) {
        let number = self.count.fetch_add(1, Relaxed) as usize;
        self.tids[number % WINDOW].store(tid, Relaxed);
        if number % WINDOW == WINDOW - 1 {
            self.decide();
        }
    }

    #[cold]
    fn decide(&self) {
        // Majority vote: pairs of different threads cancel out, so a thread with more than half of the faults
        // remains.
        let (mut most, mut left) = (0, 0);
        let tids = || self.tids.iter().map(|tid| tid.load(Relaxed));
        for tid in tids() {
            match (left, tid == most) {
                (0, _) => (most, left) = (tid, 1),
                (_, true) => left += 1,
                (_, false) => left -= 1,
            }
        }
        let others = tids().filter(|tid| *tid != most).count();
        if others > OTHERS {
            if !self.spread.swap(true, Relaxed) {
                self.call_all();
            }
            return;
        }
        self.cpu.store(cpu_of(most).map_or(NOWHERE, |cpu| cpu as i32), Relaxed);
        self.spread.store(false, Relaxed);
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self::new()
    }
}

/// The CPU on which a thread of this process ran last.
fn cpu_of(tid: u32) -> Option<u32> {
    let mut text = [0u8; 512];
    processor(procfs::read(tid, "stat", &mut text)?)
}

/// Field 39 of `stat`, the 37th after the name in brackets.
fn processor(text: &[u8]) -> Option<u32> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let field = text[end + 1..].split(|byte| *byte == b' ').nth(37)?;
    core::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listens_until_faults_come_from_several() {
        let follow = Follow::new();
        let own = sys::gettid();
        let window = |tids: [u32; 2], every: usize| {
            (0..WINDOW).for_each(|i| follow.note(tids[usize::from(i % every == 0)]));
            (follow.listens(0), follow.listens(1))
        };
        assert_eq!(window([own, own], 2), (true, false));
        let cpu = follow.cpu_for(0, 4711);
        assert!(cpu < 4096, "{cpu}");
        assert_eq!(follow.cpu_for(1, 4711), 4711);
        assert_eq!(window([own, own + 1], 16), (true, false));
        assert_eq!(window([own, own + 1], 4), (true, true));
        assert_eq!(follow.cpu_for(0, 4711), 4711);
        assert_eq!(window([own + 1, own], 16), (true, false));
    }

    #[test]
    fn the_cpu_of_a_thread_is_found() {
        assert!(cpu_of(sys::gettid()).is_some_and(|cpu| cpu < 4096));
        assert_eq!(cpu_of(u32::MAX), None);
        let line = b"12 (a ) b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 17 7 0 0";
        assert_eq!(processor(line), Some(7));
        assert_eq!(processor(b"12 (x) R 1"), None);
    }
}
