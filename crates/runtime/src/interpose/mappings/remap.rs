//! `mremap`: the kernel treats mappings that differ only in their registration as distinct. The program must
//! not see that.
//!
//! - A call that needs a single mapping fails with EFAULT where the runtime has registered only a part of it
//!   (memory was added next to a registered mapping). Registering all parts makes them one again, unless both
//!   have been written to meanwhile: then they are moved or grown one by one.
//! - Since Linux 6.17 a move to a fixed place may span several mappings, but no registered ones. When it
//!   fails at a registered one, the mappings before that stay moved. So this module makes such a move mapping
//!   by mapping, and the kernel never sees the whole request.

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::interpose::desk;
use crate::interpose::mappings::growth;
use crate::interpose::mappings::leaving;
use crate::interpose::mappings::ranges;
use crate::interpose::next::{Next, errno, is_managed, is_paging, keeping_errno, result, set_errno};
use crate::kernel::maps;
use crate::kernel::sys::{self, Errno, PAGE, o, prot};
use crate::runtime::RUNTIME;

const MAYMOVE: usize = 1;
const FIXED: usize = 2;
const DONTUNMAP: usize = 4;
const FAILED: usize = usize::MAX;
/// Maximum number of mappings to look at in one go.
const PIECES: usize = 64;
/// A range that moves is restored first if it is at most this fraction of the limit.
const PART: u64 = 8;
/// How many times to look again at a piece that turns out to be two.
const AGAIN: usize = 64;

static MREMAP: Next = Next::call_of(c"mremap", sys::nr::MREMAP);

/// All functions interposed here.
pub static ALL: [&Next; 1] = [&MREMAP];

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function. Only with `MREMAP_FIXED` is there a fifth argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: usize,
    old_bytes: usize,
    bytes: usize,
    flags: usize,
    new: usize,
) -> usize {
    let flags = flags as u32 as usize;
    // With `MREMAP_DONTUNMAP` the kernel checks this register, too, and might refuse other values.
    let new = if flags & FIXED != 0 { new } else { 0 };
    // SAFETY: the caller upholds the contract.
    unsafe { remap([old, old_bytes, bytes, flags, new], |given| MREMAP.call(given) as usize) }
}

/// Remaps memory, with the arguments of `mremap`, by `remap`.
///
/// # Safety
/// The same as for the system call.
#[inline(never)]
pub unsafe fn remap(given: [usize; 5], remap: impl Fn([usize; 5]) -> usize) -> usize {
    let [old, old_bytes, bytes, flags, new] = given;
    let now = || remap(given);
    if !is_managed() {
        return now();
    }
    let at = if is_paging() {
        let wanted = Move { old, old_bytes: whole(old_bytes), bytes: whole(bytes), flags, new };
        if flags & DONTUNMAP != 0 {
            leaving::note(old, old.saturating_add(whole(old_bytes)));
        }
        let whole_here = wanted.restore();
        if flags & DONTUNMAP != 0 {
            // The keeper and room may have been waited for longer than a move is remembered.
            leaving::note(old, old.saturating_add(whole(old_bytes)));
        }
        RUNTIME.pages.moving.fetch_add(1, SeqCst);
        // SAFETY: the caller upholds the contract.
        let at = unsafe { wanted.carry_out(now) };
        let own_mark = ranges::PROGRAM_DONTFORK.overlaps(old, old.saturating_add(wanted.old_bytes));
        if at != FAILED && RUNTIME.forks.pause.load(SeqCst) != 0 && !own_mark {
            // The mapping may have moved past the keeper, which is now making all mappings inheritable.
            RUNTIME.unmark(at, at.saturating_add(wanted.bytes));
        }
        RUNTIME.pages.moving.fetch_sub(1, SeqCst);
        if whole_here {
            keeping_errno(|| ranges::MOVING.remove(wanted.old, wanted.old + wanted.old_bytes));
        }
        at
    } else {
        now()
    };
    if at != FAILED && ranges::is_any() {
        keeping_errno(|| {
            let (from, to) = ((old, old + whole(old_bytes)), (at, at + whole(bytes)));
            ranges::moved(from, to, flags & DONTUNMAP != 0);
        });
    }
    if at != FAILED {
        growth::remapped(at, whole(old_bytes), whole(bytes));
    }
    at
}

struct Move {
    old: usize,
    old_bytes: usize,
    bytes: usize,
    flags: usize,
    new: usize,
}

/// The mappings of a range, one after another.
struct Pieces {
    list: [(usize, usize); PIECES],
    count: usize,
    /// They are adjacent, without a gap, and do not differ visibly.
    alike: bool,
}

impl Move {
    /// In a program with threads: makes the whole range resident, and keeps it so until it has moved. Evicted
    /// pages are found again through messages of the kernel, which may arrive in a different order than the
    /// changes happened (see `late.rs`); resident pages move with their mapping. Ranges that would take a
    /// large part of the limit are not restored.
    fn restore(&self) -> bool {
        let Some(end) = self.old.checked_add(self.old_bytes) else { return false };
        let limit = RUNTIME.shared().limit_bytes.load(Relaxed);
        if !RUNTIME.is_threaded() || self.old_bytes == 0 || self.old_bytes as u64 > limit / PART {
            return false;
        }
        keeping_errno(|| {
            ranges::MOVING.add(self.old, end);
            desk::let_evictions_end();
            RUNTIME.restore_range(self.old, end);
        });
        true
    }

    /// # Safety
    /// The same as for `mremap`; `now` makes the kernel's call.
    unsafe fn carry_out(&self, now: impl Fn() -> usize) -> usize {
        if self.may_take_several() && keeping_errno(moves_several_at_once) {
            let pieces = keeping_errno(|| Pieces::of(self.old, self.old + self.old_bytes));
            if let Some(pieces) = pieces.filter(|pieces| pieces.count > 1 && pieces.list[0].0 == self.old) {
                // SAFETY: the caller upholds the contract.
                return unsafe { self.by_pieces(pieces) };
            }
        }
        let before = errno();
        let at = now();
        if at != FAILED
            || errno() != Errno::FAULT
            || self.old_bytes == 0
            || self.old.checked_add(self.old_bytes).is_none()
        {
            return at;
        }
        let (start, end) = (self.old, self.old + self.old_bytes);
        let alike = Pieces::of(start, end).is_some_and(|pieces| pieces.alike);
        if !alike || !desk::unsplit(start, end) {
            set_errno(Errno::FAULT.0);
            return at;
        }
        set_errno(before.0);
        let again = now();
        if again != FAILED || errno() != Errno::FAULT {
            return again;
        }
        // Both have been written to: the kernel never merges them again.
        match keeping_errno(|| Pieces::of(start, end)).filter(|pieces| pieces.alike && pieces.count < PIECES)
        {
            // SAFETY: the caller upholds the contract.
            Some(pieces) => unsafe { self.as_if_one(&pieces) },
            None => again,
        }
    }

    /// For mappings that differ only because of the runtime, does what the kernel would have done for one.
    ///
    /// # Safety
    /// The same as for `mremap`.
    unsafe fn as_if_one(&self, pieces: &Pieces) -> usize {
        let Some(&(last, last_end)) = pieces.list[..pieces.count].last() else { return FAILED };
        let fixed = self.flags & FIXED != 0;
        if self.bytes < self.old_bytes
            || self.bytes == self.old_bytes && self.flags & DONTUNMAP == 0 && !fixed
        {
            return FAILED;
        }
        let grown = last_end - last + self.bytes - self.old_bytes;
        if !fixed && self.flags & DONTUNMAP == 0 {
            // SAFETY: the caller upholds the contract.
            let in_place = unsafe { sys::syscall(sys::nr::MREMAP, [last, last_end - last, grown, 0, 0, 0]) };
            match in_place {
                Ok(_) => return self.old,
                Err(error) if self.flags & MAYMOVE == 0 => return result(Err(error)) as usize,
                Err(_) => {}
            }
        }
        let to = if fixed {
            Ok(self.new)
        } else {
            sys::map_anonymous(self.bytes, prot::NONE).map(|at| at as usize)
        };
        let Ok(to) = to else { return result(Err(Errno::NOMEM)) as usize };
        let flags = MAYMOVE | FIXED | self.flags & DONTUNMAP;
        for &(from, end) in &pieces.list[..pieces.count] {
            let bytes = if from == last { grown } else { end - from };
            let place = to + (from - self.old);
            // SAFETY: the place was reserved, or the program chose it.
            let moved = unsafe { sys::syscall(sys::nr::MREMAP, [from, end - from, bytes, flags, place, 0]) };
            match moved {
                Ok(_) => {}
                Err(error) if from == self.old => {
                    if !fixed {
                        // SAFETY: reserved above, and still empty.
                        let _ = unsafe { sys::munmap(to, self.bytes) };
                    }
                    return result(Err(error)) as usize;
                }
                Err(_) => RUNTIME.fail("memory that the program moves could not be moved as a whole"),
            }
        }
        to
    }

    /// Whether this is a move that the kernel makes for several mappings, and would not refuse from the
    /// outset.
    fn may_take_several(&self) -> bool {
        let fixed = self.flags & !DONTUNMAP == MAYMOVE | FIXED;
        let sound = self.old.is_multiple_of(PAGE) && self.new.is_multiple_of(PAGE) && self.bytes != 0;
        let ends = (self.old.checked_add(self.bytes), self.new.checked_add(self.bytes));
        let (Some(old_end), Some(new_end)) = ends else { return false };
        fixed && sound && self.old_bytes == self.bytes && (old_end <= self.new || new_end <= self.old)
    }

    /// # Safety
    /// The same as for `mremap`.
    unsafe fn by_pieces(&self, mut pieces: Pieces) -> usize {
        let end = self.old + self.old_bytes;
        let mut again = 0;
        loop {
            let mut next = end;
            let mut split = false;
            for &(from, to) in &pieces.list[..pieces.count] {
                let place = self.new + (from - self.old);
                // The C library's function is just this call; every piece is the whole or a part of one
                // mapping.
                // SAFETY: the caller upholds the contract.
                let moved = unsafe {
                    sys::syscall(sys::nr::MREMAP, [from, to - from, to - from, self.flags, place, 0])
                };
                if moved == Err(Errno::FAULT) && again < AGAIN {
                    // The runtime has just registered a part of it: it is two mappings.
                    (next, split, again) = (from, true, again + 1);
                    break;
                }
                if moved.is_err() {
                    return result(moved) as usize;
                }
                next = to;
            }
            if !split && (pieces.count < PIECES || next >= end) {
                return self.new;
            }
            match keeping_errno(|| Pieces::of(next, end)) {
                Some(more) => pieces = more,
                None => return result(Err(Errno::NOMEM)) as usize,
            }
        }
    }
}

impl Pieces {
    /// The first mappings in the range; `None` if they cannot be listed.
    fn of(start: usize, end: usize) -> Option<Self> {
        let fd = sys::open(c"/proc/thread-self/maps", o::RDONLY | o::CLOEXEC).ok()?;
        let mut found = Pieces { list: [(0, 0); PIECES], count: 0, alike: true };
        let (mut buffer, mut at, mut permissions) = ([0u8; 4096], start, None);
        let listed = maps::for_each(fd, &mut buffer, |mapping| {
            let (from, to) = (mapping.start.max(start), mapping.end.min(end));
            if from >= to {
                return;
            }
            found.alike &= from == at
                && mapping.is_private_anonymous()
                && permissions.is_none_or(|others| others == mapping.permissions);
            (at, permissions) = (to, Some(mapping.permissions));
            if let Some(place) = found.list.get_mut(found.count) {
                *place = (from, to);
                found.count += 1;
            }
        });
        sys::close(fd);
        found.alike &= at == end && found.count > 1;
        listed.is_ok().then_some(found)
    }
}

/// Whether the kernel moves several mappings at once: tried once, with two fresh ones that no other code
/// knows.
fn moves_several_at_once() -> bool {
    const UNKNOWN: u32 = 0;
    const NO: u32 = 1;
    const YES: u32 = 2;
    static ANSWER: AtomicU32 = AtomicU32::new(UNKNOWN);
    match ANSWER.load(Relaxed) {
        UNKNOWN => {
            let able = try_two().unwrap_or(false);
            ANSWER.store(if able { YES } else { NO }, Relaxed);
            able
        }
        known => known == YES,
    }
}

fn try_two() -> sys::Result<bool> {
    let from = sys::map_anonymous(4 * PAGE, prot::NONE)? as usize;
    let to = from + 2 * PAGE;
    // SAFETY: all of it is a fresh mapping that no other code knows. Addresses that the kernel has unmapped
    // may belong to another thread at once, so only addresses that are certainly mapped are unmapped. A
    // kernel that refuses may or may not have unmapped the target: then two pages of address space may stay
    // behind.
    unsafe {
        sys::mprotect(from, PAGE, prot::READ)?;
        let able = sys::mremap_to(from, 2 * PAGE, to, false).is_ok();
        sys::munmap(if able { to } else { from }, 2 * PAGE)?;
        Ok(able)
    }
}

/// A length, rounded up to whole pages as the kernel does.
fn whole(bytes: usize) -> usize {
    bytes.wrapping_add(PAGE - 1) & !(PAGE - 1)
}
