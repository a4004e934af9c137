//! Clean pages: restored for a reader, and not written since.
//!
//! A forked process shares its parent's compressed pages as it shares all memory. When it reads one, it gets a
//! resident copy of its own. If that were compressed again on eviction, each relative would end up with a
//! compressed copy of its own, and the tree would need more memory than without memfold. So as long as
//! relatives live, a page restored for a reader is write-protected and its blob stays in the store. If the page
//! is evicted before it is written, its entry names the same blob again: nothing is compressed, and no memory
//! is needed.
//!
//! ```text
//!   stored ──read──> clean: resident, protected ──evicted──> standby ──> stored: the same blob
//!                      └──written, discarded, unmapped or moved──> resident, blob freed
//! ```
//!
//! Invariants, under the order lock:
//! - A blob is kept only for a page that has been protected ever since it was restored. Any thread that
//!   lifts the protection frees the blob first. Any thread that protects pages for another reason first frees
//!   the blobs of unprotected ones (`keep_protected_only`).
//! - Nothing relies on that alone: at eviction the kernel must report the page as protected, too.
//! - Protection does not survive a fork. A child's inherited blobs are void (`births`), and are freed when their
//!   block is next used.
//! - `State::Pinned` here means that the page is on standby, where its contents no longer change.

mod blobs;
mod exchange;
pub mod recent;

use core::sync::atomic::{AtomicU32, Ordering::*};

use memfold::store::Ref;

use crate::kernel::addresses::PAGES;
use crate::pages::entry::{Entry, State};

/// The blobs kept for a block's clean pages. All zeros: none.
#[repr(C)]
pub struct Clean {
    /// `Forks::births` of the process that keeps them.
    births: AtomicU32,
    count: AtomicU32,
    blobs: [Entry; PAGES],
}

impl Clean {
    fn take(&self, index: usize) -> Option<Ref> {
        loop {
            let state = self.blobs[index].load();
            let (State::Stored(name) | State::Pinned(name)) = state else { return None };
            // The store may move the blob at any time.
            if self.blobs[index].replace(state, State::Empty) {
                self.count.fetch_sub(1, Relaxed);
                return Some(name);
            }
        }
    }
}
