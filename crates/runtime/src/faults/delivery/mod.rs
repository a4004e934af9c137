//! Delivery of faults: how a touch of a page that is not resident is noticed, and how the thread that touched it goes
//! on. What is done about it is `../serving`, which knows no more of this than [`Delivery`].
//!
//! Today there is one: messages of userfaultfd, which threads of their own read (`handlers.rs`); `follow.rs` says
//! which of them listen, and on which CPU.

pub mod follow;
pub mod handlers;

use crate::kernel::sys::{PAGE, Result};
use crate::kernel::uffd::{Message, Uffd};

/// A way in which faults are delivered.
///
/// All pages are whole and aligned. What fails leaves everything as it is: the errors are those of the ioctls of
/// userfaultfd(2), of which `AGAIN` says that a change of mappings has to be read first, and `EXIST` that there is a
/// page already.
pub trait Delivery {
    /// The next touch, or change of mappings, that nobody has taken yet.
    fn next(&self) -> Option<Message>;

    /// Places a copy of these bytes at pages that are missing, `protected` against writing. The bytes that were
    /// placed.
    ///
    /// # Safety
    /// `from` can be read, and holds what the program expects at these pages.
    unsafe fn place(&self, page: usize, from: *const u8, bytes: usize, protected: bool) -> Result<usize>;

    /// Places zeros at pages that are missing. The bytes that were placed.
    ///
    /// # Safety
    /// The program expects zeros there.
    unsafe fn place_zeros(&self, page: usize, bytes: usize) -> Result<usize>;

    /// Lets the program write to pages that were protected.
    fn allow_writes(&self, page: usize, bytes: usize) -> Result<()>;

    /// Lets threads go on that wait for one of these pages. They touch it again.
    fn resume(&self, page: usize, bytes: usize);

    /// The same for all pages there are.
    fn resume_all(&self);

    /// The same for one page.
    fn resume_at(&self, page: usize) {
        self.resume(page, PAGE);
    }
}

impl Delivery for Uffd {
    fn next(&self) -> Option<Message> {
        Uffd::next(self)
    }

    unsafe fn place(&self, page: usize, from: *const u8, bytes: usize, protected: bool) -> Result<usize> {
        // SAFETY: as the caller says.
        unsafe { self.copy_as(page, from, bytes, protected) }
    }

    unsafe fn place_zeros(&self, page: usize, bytes: usize) -> Result<usize> {
        // SAFETY: as the caller says.
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
