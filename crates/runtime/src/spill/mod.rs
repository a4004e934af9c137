//! Spilling: compressed data go to a tier beyond this machine's memory, if the user has named one.
//!
//! ```text
//!   store ── out.rs: a batch of sealed blocks ──> slot ──┐
//!                                                        ├── supervisor ── engine ── file, NBD, Redis
//!   page  <── fetch.rs: opened, decompressed <── slot ───┘                       │
//!                                         <── direct.rs ─────────────────────────┘
//! ```
//!
//! The page table entry of a spilled block names its batch and its place there; nothing else of it stays in
//! memory. Batches that contain blocks of the process are listed in a table of its own ([`Batches`]), which
//! counts the blocks: a batch without blocks is released. The supervisor deletes a batch when no process
//! holds it any more. A forked child holds the batches that its parent held; the supervisor is told before
//! the fork, so that the parent cannot release what the child will need.
//!
//! Invariants:
//! - A blob is freed only after the tier has acknowledged its batch, by the thread that has replaced the
//!   entry by the place on the tier.
//! - A thread that waits for the supervisor holds no lock and no pin, and does not count as serving a fault:
//!   a fork, an unmapping and other faults go on meanwhile. Such waits are possible during a fork, too,
//!   except for pages that were moved since the fork began (`serve_during_fork`).
//! - The supervisor identifies a process by its pid. Where the process has a different pid for the supervisor
//!   (a PID namespace), nothing is spilled.
//! - A block that is lost or does not open ends the process: it is never taken for data.

pub mod batches;
pub mod direct;
mod fetch;
mod fetcher;
mod gather;
mod out;
mod outgoing;
pub mod posts;
pub mod queue;
mod rewrite;
mod sparse;
pub mod state;

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::Ordering::*;

use batches::SpillLocation;
pub use fetcher::fetcher;
use memfold_shared::spill::{self as area, Area, For, kind, seal};
use memfold_spill::Sealer;
use posts::{fill, send_request};

use crate::kernel::sys::{self, o};
use crate::pages::entry::State;
use crate::runtime::Runtime;
use crate::spill::state::Spill;

impl Spill {
    /// Checks whether the server has ended without notice: from then on nothing is spilled, and no thread
    /// waits for an answer.
    pub fn look_for_server(&self) {
        if let Some(area) = self.area() {
            self.is_left_alone(area);
        }
    }

    /// Whether no process serves the area any more. The process that finds this out records it for all.
    fn is_left_alone(&self, area: &Area) -> bool {
        let server = area.server.load(Acquire);
        // In another namespace the number may belong to no process, or to another one.
        let has_ended = server != 0 && !self.is_foreign() && has_ended(server);
        // A successor announces itself before the server ends: in that case the exchange fails.
        if has_ended && area.server.compare_exchange(server, 0, AcqRel, Relaxed).is_ok() {
            area.is_open.store(0, Release);
        }
        area.server.load(Relaxed) == 0
    }

    /// The block at this location is no longer needed.
    pub fn release_location(&self, spot: SpillLocation) {
        self.pages.fetch_sub(1, Relaxed);
        self.batches.release(spot.batch);
    }

    /// Tells the supervisor that a program begins, or the runtime has ended: the process holds no batches,
    /// and waits for none.
    pub fn tell_spill_begins(&self) {
        if self.is_foreign() {
            self.tell(kind::FORGO, self.fork.load(Relaxed), 0);
        } else {
            self.tell(kind::BEGIN, 0, 0);
        }
    }

    /// Called before a fork, when no more batches are sent: tells the supervisor that the child will hold the
    /// batches of this process.
    pub fn tell_spill_of_fork(&self) {
        let Some(area) = self.area() else { return };
        if self.batches.any() {
            // Batches that were released are not for the child, which does not know them and would hold them
            // for its whole life.
            let released = self.out.lock().released();
            if let Some((post, taken)) = released {
                let _ = self.wait_for_answer(area, post, taken, || ());
            }
            // No other fork of the run has that number, not even one of the program that this process was
            // before.
            let number = area.next_batch.fetch_add(1, Relaxed);
            self.fork.store(number, Relaxed);
            self.tell(kind::FORK, number, 0);
        }
    }
}

impl Runtime {
    /// Sets up spilling, if it is wanted. Called before anything is evicted.
    pub fn prepare_spill(&self) -> sys::Result<()> {
        let Some(area) = self.spill.area() else { return Ok(()) };
        self.spill.direct.open(area, &self.arena);
        if self.spill.sealer().is_some() {
            return Ok(());
        }
        self.spill.out.lock().prepare(&self.arena)?;
        let place = self.arena.reserve(size_of::<Sealer>(), align_of::<Sealer>()).ok_or(sys::Errno::NOMEM)?;
        let words = area.key.each_ref().map(|word| word.load(Relaxed));
        let sealer = if area.seal.load(Relaxed) == seal::ENCRYPTED {
            let mut key = [0; 32];
            for (to, word) in key.chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            Sealer::encrypting(&key)
        } else {
            Sealer::checking(words[0])
        };
        let place = place as *mut Sealer;
        // SAFETY: fresh exclusive memory of the right size and alignment.
        unsafe { place.write(sealer) };
        self.spill.sealer.store(place, Release);
        Ok(())
    }

    /// Called in the child: claims the batches that were set aside for it.
    pub fn claim_spilled(&self, parent: u32) {
        let number = self.spill.fork.load(Relaxed);
        let Some(area) = self.spill.area().filter(|area| area.server.load(Relaxed) != 0) else { return };
        if sys::getppid() == 0 {
            // The child is in another PID namespace, where its pid may be that of another process of the run.
            // The batches set aside for it stay set aside meanwhile.
            self.spill.pid.store(area::FOREIGN | number as u32 & (area::FOREIGN / 2 - 1), Relaxed);
            return;
        }
        self.spill.pid.store(self.process.pid.load(Relaxed), Relaxed);
        if number != 0 {
            self.spill.tell(kind::CLAIM, number, parent);
        } else if let Some((number, taken)) = area.take(self.spill.pid(), For::Put) {
            fill(&area.posts[number], kind::HERE, 0, 0, 0);
            send_request(area, number, taken);
        }
    }

    /// In a child that could not claim its batches: fetches all spilled pages. From now on nothing more is
    /// spilled.
    pub fn leave_spill(&'static self) {
        if !self.spill.is_foreign() {
            return;
        }
        if self.spill.fork.load(Relaxed) != 0 {
            self.restore_matching_in_place(|state| matches!(state, State::Spilled(_)));
            self.spill.tell_spill_begins();
        }
        self.spill.area.store(core::ptr::null_mut(), Release);
        self.say(FOREIGN_WORDS);
    }
}

/// The message about a process whose pid differs from the one by which the supervisor knows it.
pub const FOREIGN_WORDS: &str = "it is in a PID namespace of its own: none of its memory is spilled";

/// Whether this process and the server of the area know each other by the same pids.
pub fn is_in_namespace_of(area: &Area) -> bool {
    let wanted = area.namespace.load(Relaxed);
    let own = sys::open(c"/proc/self/ns/pid", o::RDONLY | o::CLOEXEC).map(|file| {
        let own = sys::inode(file);
        sys::close(file);
        own
    });
    wanted == 0 || own == Ok(wanted)
}

/// Whether a process has ended, even if its parent has not collected its status yet.
fn has_ended(pid: u32) -> bool {
    let mut path = sys::Text::new();
    let _ = write!(path, "/proc/{pid}/stat\0");
    let mut text = [0u8; 512];
    let read = CStr::from_bytes_until_nul(path.as_str().as_bytes())
        .map_err(|_| sys::Errno::INVAL)
        .and_then(|path| sys::open(path, o::RDONLY | o::CLOEXEC));
    let Ok(file) = read else { return sys::is_gone(pid) };
    let length = sys::read(file, &mut text).unwrap_or(0);
    sys::close(file);
    if length == 0 {
        return sys::is_gone(pid);
    }
    // The name in parentheses may hold anything.
    let text = &text[..length];
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}
