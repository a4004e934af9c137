//! Tells the child of a prepared fork (`fork`) from one that another thread makes at the same time by an
//! instruction of its own. Both cause the same message, which does not say which thread forks.
//!
//! Each forking thread waits twice: until its message is read, and then at the gate (`gate.rs`). `/proc`
//! shows where the thread of the prepared fork is:
//!
//! | the thread | messages left to read | its child |
//! | --- | --- | --- |
//! | waits for an event, in a clone | none | is among those whose messages were read: it waits at the gate |
//! | waits for an event, in a clone | some | may be in a message that was not read yet |
//! | waits for anything else, not in a clone | | is not among them |
//! | runs | | is unknown yet |
//!
//! That thread cannot pass the gate meanwhile: the caller holds the order lock, without which no thread reads
//! the gate's messages.
//!
//! The thread may run without ever entering a clone: it may spin for a lock that the other thread, which
//! waits at the gate, holds. So the wait is bounded. A child that cannot be told from the prepared one gets
//! its memory like any other. That does the prepared child no harm: where a page is resident, its entry is
//! ignored (`journal.rs`).

use core::sync::atomic::Ordering::*;

use crate::kernel::procfs;
use crate::kernel::sched;
use crate::kernel::sys::{self, Fd, nr};
use crate::kernel::uffd::Message;
use crate::memory::lock::Guard;
use crate::pages::events::order::{Fault, Order};
use crate::runtime::Runtime;

/// How long to wait for the thread of the prepared fork, in ns.
const PATIENCE_NS: u64 = 50_000_000;
/// Number of looks without a sleep between them: the thread's way to the gate takes a few microseconds.
const QUICK_LOOKS: usize = 50;
const PAUSE_NS: u64 = 20_000;
/// The kernel function in which a thread waits until its message is read.
const WAITS_FOR_EVENT: &[u8] = b"userfaultfd_event_wait";

/// Maximum number of messages to read before it is known which children they are about.
const CHILDREN: usize = 8;

/// Userfaultfds of children that have not begun.
pub struct Unborn {
    fds: [Fd; CHILDREN],
    count: usize,
}

impl Unborn {
    /// A single child.
    pub fn of(child: Fd) -> Self {
        Unborn { fds: [child; CHILDREN], count: 1 }
    }

    /// All children.
    pub fn all(&self) -> &[Fd] {
        &self.fds[..self.count]
    }

    fn add(&mut self, child: Fd) {
        self.fds[self.count] = child;
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.count == CHILDREN
    }
}

/// What the thread of the prepared fork is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forker {
    /// It is in a clone, and waits until an event is read.
    Waits,
    /// It is not in a clone, and waits for something else.
    Elsewhere,
    /// It is running, or about to run.
    Runs,
    /// `/proc` does not say.
    Unknown,
}

impl Runtime {
    /// Whether the child of the prepared fork is among these; `None` if that cannot be known. Children whose
    /// messages are read meanwhile are added.
    pub fn is_prepared_among(&self, order: &mut Guard<'_, Order>, unborn: &mut Unborn) -> Option<bool> {
        let end = sys::now_ns() + PATIENCE_NS;
        for look in 0.. {
            let forker = look_at(self.forks.forker.load(Relaxed));
            // This comes after the look: a thread that was seen waiting has already sent its message.
            if !self.read_rest(order, unborn) {
                return None;
            }
            match forker {
                Forker::Waits => return Some(true),
                Forker::Elsewhere => return Some(false),
                // The kernel has no such file, or it may not be read. Most likely no other thread forks.
                Forker::Unknown => return Some(true),
                Forker::Runs if sys::now_ns() > end => return None,
                Forker::Runs if look < QUICK_LOOKS => sched::yield_now(),
                Forker::Runs => sched::sleep(PAUSE_NS),
            }
        }
        None
    }

    /// Reads messages until there are no more. `false` if there are too many.
    fn read_rest(&self, order: &mut Guard<'_, Order>, unborn: &mut Unborn) -> bool {
        while !unborn.is_full() && order.may_read() {
            self.settle_late(order);
            match self.next_message() {
                Some(Message::Fork { child }) => unborn.add(child),
                Some(Message::Fault { page, touch, tid }) => {
                    self.faults.follow.note(tid);
                    self.keep(order, Fault { page, touch });
                }
                Some(event) => self.write_down(order, event),
                None => return true,
            }
        }
        false
    }
}

fn look_at(tid: u32) -> Forker {
    let (mut place, mut call) = ([0u8; 64], [0u8; 128]);
    // The order matters: a thread that waits for an event does not leave that state meanwhile.
    let (Some(place), Some(call)) =
        (procfs::read(tid, "wchan", &mut place), procfs::read(tid, "syscall", &mut call))
    else {
        return Forker::Unknown;
    };
    understand(place, call)
}

/// `place`: the kernel function in which it waits, or "0". `call`: the system call that it is in.
fn understand(place: &[u8], call: &[u8]) -> Forker {
    #[cfg(target_arch = "x86_64")]
    const CLONES: [usize; 3] = [nr::CLONE, nr::CLONE3, 57];
    #[cfg(target_arch = "aarch64")]
    const CLONES: [usize; 2] = [nr::CLONE, nr::CLONE3];
    let number = call.split(|byte| matches!(byte, b' ' | b'\n')).next().unwrap_or_default();
    if number == b"running" {
        return Forker::Runs;
    }
    let number = core::str::from_utf8(number).ok().and_then(|number| number.parse::<isize>().ok());
    let Some(number) = number else { return Forker::Unknown };
    if !CLONES.iter().any(|clone| *clone as isize == number) {
        // -1: it is not in a system call, so it waits for a page.
        return Forker::Elsewhere;
    }
    match place {
        b"0" => Forker::Runs,
        _ if place.starts_with(WAITS_FOR_EVENT) => Forker::Waits,
        // It waits for another thread that changes mappings, or for memory.
        _ => Forker::Runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_only_inside_of_a_clone() {
        let clone = std::format!("{} 0x1200011 0x0 0x0 0x7f0000000990 0x0", nr::CLONE);
        let event = b"userfaultfd_event_wait_completion";
        assert_eq!(understand(event, clone.as_bytes()), Forker::Waits);
        assert_eq!(understand(b"0", clone.as_bytes()), Forker::Runs);
        assert_eq!(understand(b"rwsem_down_write_slowpath", clone.as_bytes()), Forker::Runs);
        assert_eq!(understand(b"0", b"running\n"), Forker::Runs);
        // In `munmap`; then waiting for a page, in no system call.
        assert_eq!(understand(event, b"11 0x1200011 0x0"), Forker::Elsewhere);
        assert_eq!(understand(b"handle_userfault", b"-1 0x7fff557e17a7 0x7fedf7923da8\n"), Forker::Elsewhere);
        assert_eq!(understand(b"", b""), Forker::Unknown);
    }

    #[test]
    fn a_thread_that_sleeps_is_elsewhere() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(sys::gettid()).unwrap();
            wait.recv().ok();
        });
        let tid = receive.recv().unwrap();
        // The thread is on its way there.
        let asleep = (0..10_000).any(|_| {
            sched::sleep(PAUSE_NS);
            look_at(tid) == Forker::Elsewhere
        });
        assert!(asleep);
        drop(end);
        thread.join().unwrap();
        assert_eq!(look_at(u32::MAX), Forker::Unknown);
    }
}
