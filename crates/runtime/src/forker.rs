//! Whose child is it? While a prepared fork (`fork.rs`) is under way, another thread may make a child by an
//! instruction of its own. Both cause the same message, and the messages do not say who forks.
//!
//! The kernel says it elsewhere. Each thread that forks waits twice: until its message is read, and then at the
//! gate (`gate.rs`). So after messages were read:
//!
//! | the thread of the prepared fork | and no message is left to be read | its child |
//! | --- | --- | --- |
//! | waits for an event inside of a clone | yes | is one of those whose messages were read: it waits at the gate |
//! | waits for an event inside of a clone | no | its message is perhaps still to be read |
//! | waits for something else outside of one | | is none of those |
//! | runs | | not known yet |
//!
//! It can't get past the gate meanwhile: who asks holds the order lock, without which nobody reads there.
//!
//! It may run for ever without a clone: it may spin for a lock of the other thread, which waits at the
//! gate. So it is not waited for long. Whoever can't be told from the prepared child gets its memory
//! like any other: what a prepared child has besides does no harm, the page is the truth there (`journal.rs`).

use core::sync::atomic::Ordering::*;

use crate::lock::Guard;
use crate::order::{Fault, Order};
use crate::runtime::Runtime;
use crate::sched;
use crate::sys::{self, Fd, nr};
use crate::task;
use crate::uffd::Message;

/// The thread of the prepared fork is waited for so long.
const PATIENCE_NS: u64 = 50_000_000;
/// Looks without a sleep between them: on its way to the gate it needs a few microseconds.
const QUICK_LOOKS: usize = 50;
const PAUSE_NS: u64 = 20_000;
/// Where a thread waits that the kernel holds until an event is read.
const WAITS_FOR_EVENT: &[u8] = b"userfaultfd_event_wait";

/// Children whose messages are read before it is known whose they are: at most.
const CHILDREN: usize = 8;

/// Userfaultfds of children that have not begun.
pub struct Unborn {
    fds: [Fd; CHILDREN],
    count: usize,
}

impl Unborn {
    /// One.
    pub fn of(child: Fd) -> Self {
        Unborn { fds: [child; CHILDREN], count: 1 }
    }

    /// All of them.
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

/// What the thread of the prepared fork does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forker {
    /// It is in a clone, and waits until an event is read.
    Waits,
    /// It is not in a clone, and waits for something.
    Elsewhere,
    /// It runs, or is about to.
    Runs,
    /// `/proc` does not say.
    Unknown,
}

impl Runtime {
    /// Whether the child of the prepared fork is among these; `None` if that stays open. Others whose messages are read meanwhile are added.
    pub fn is_prepared_among(&self, order: &mut Guard<'_, Order>, unborn: &mut Unborn) -> Option<bool> {
        let end = sys::now_ns() + PATIENCE_NS;
        for look in 0.. {
            let forker = look_at(self.forker.load(Relaxed));
            // After the look: a thread that waits has sent its message before.
            if !self.read_rest(order, unborn) {
                return None;
            }
            match forker {
                Forker::Waits => return Some(true),
                Forker::Elsewhere => return Some(false),
                // As if nobody else could be there. It can't be asked, so the kernel most likely has no such file.
                Forker::Unknown => return Some(true),
                Forker::Runs if sys::now_ns() > end => return None,
                Forker::Runs if look < QUICK_LOOKS => sched::yield_now(),
                Forker::Runs => sched::sleep(PAUSE_NS),
            }
        }
        None
    }

    /// Reads messages until none is left. `false` if there are too many.
    fn read_rest(&self, order: &mut Guard<'_, Order>, unborn: &mut Unborn) -> bool {
        while !unborn.is_full() && order.may_read() {
            self.settle_late(order);
            match self.uffd().next() {
                Some(Message::Fork { child }) => unborn.add(child),
                Some(Message::Fault { page, touch, tid }) => {
                    self.follow.note(tid);
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
    // In this order: from where it waits for an event it does not get away meanwhile.
    let (Some(place), Some(call)) =
        (task::read(tid, "wchan", &mut place), task::read(tid, "syscall", &mut call))
    else {
        return Forker::Unknown;
    };
    understand(place, call)
}

/// `place`: where in the kernel it waits, "0" if it does not, or if that is not told. `call`: the system call it is in.
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
        // -1: in no system call, so it waits for a page.
        return Forker::Elsewhere;
    }
    match place {
        b"0" => Forker::Runs,
        _ if place.starts_with(WAITS_FOR_EVENT) => Forker::Waits,
        // For another thread that changes mappings, or for memory.
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
        // In `munmap`; waiting for a page, in none.
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
        // It is on its way there.
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
