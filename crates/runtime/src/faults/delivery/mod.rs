//! Delivery of faults: how a touch of a page that is not resident is noticed, and how the thread that touched
//! it goes on. `../serving` serves the fault; of this module it knows only the trait [`Delivery`].
//!
//! There is one implementation today: messages of userfaultfd, which threads of the runtime read
//! (`handlers.rs`); `follow.rs` decides which of them listen, and on which CPU.
//!
//! Some code still bypasses the trait, and another implementation has to replace it:
//! `pages/events/reading.rs` wakes threads while it applies events, `handlers.rs` polls the descriptor,
//! `spill/gather.rs` and `reclaim/dense.rs` wake the threads that wait for one of their pins, and mappings
//! are registered and probed in `kernel/uffd.rs`. A search for `uffd()` finds the rest: pages are placed in
//! `reclaim/incompressible.rs`, and moved or protected in `reclaim/evict/moved.rs`, `reclaim/copies.rs` and
//! `pages/clean/exchange.rs`. If the faulting thread itself serves the fault,
//! [`Delivery::next`] returns only changes of mappings. That thread may hold any lock of the program, so the
//! rule in `../mod.rs` has to be proved anew.

pub mod follow;
pub mod handlers;

use crate::kernel::sys::{PAGE, Result};
use crate::kernel::uffd::{Message, Uffd};

/// A way in which faults are delivered.
///
/// All ranges are whole, aligned pages. A call that fails changes nothing. The errors are those of the ioctls
/// of userfaultfd(2): `AGAIN` means that a change of mappings has to be read first, and `EXIST` that a page
/// is resident already.
pub trait Delivery {
    /// The next touch, or change of mappings, that no thread has taken yet.
    fn next(&self) -> Result<Message>;

    /// Places a copy of these bytes at pages that are missing, write-protected if `protected`. Returns how
    /// many bytes were placed.
    ///
    /// # Safety
    /// `from` can be read, and holds what the program expects at these pages.
    unsafe fn place(&self, page: usize, from: *const u8, bytes: usize, protected: bool) -> Result<usize>;

    /// Places zeros at pages that are missing. Returns how many bytes were placed.
    ///
    /// # Safety
    /// The program expects zeros there.
    unsafe fn place_zeros(&self, page: usize, bytes: usize) -> Result<usize>;

    /// Lets the program write to pages that were protected.
    fn allow_writes(&self, page: usize, bytes: usize) -> Result<()>;

    /// Wakes threads that wait for one of these pages. They touch it again.
    fn resume(&self, page: usize, bytes: usize);

    /// The same for all pages.
    fn resume_all(&self);

    /// The same for one page.
    fn resume_at(&self, page: usize) {
        self.resume(page, PAGE);
    }
}

impl Delivery for Uffd {
    fn next(&self) -> Result<Message> {
        Uffd::next(self)
    }

    unsafe fn place(&self, page: usize, from: *const u8, bytes: usize, protected: bool) -> Result<usize> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.copy_as(page, from, bytes, protected) }
    }

    unsafe fn place_zeros(&self, page: usize, bytes: usize) -> Result<usize> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.zero(page, bytes) }
    }

    fn allow_writes(&self, page: usize, bytes: usize) -> Result<()> {
        self.protect(page, bytes, false)
    }

    fn resume(&self, page: usize, bytes: usize) {
        self.wake(page, bytes);
    }

    fn resume_all(&self) {
        self.wake_all();
    }
}
