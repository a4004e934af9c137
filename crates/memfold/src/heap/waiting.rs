//! Parts of long nodes that could not be freed at once.
//!
//! A long node goes as a whole. One of its parts may have to stay for now, because a guard holds the same stripe, all frames are pinned, or the tier that it is on does not answer. It waits then
//! until another long node goes or gets shorter, a session ends, or the heap is saved.

use std::vec::Vec;

use super::core::locked;
use super::error::Error;
use super::handle::Handle;
use super::large::of_part;
use super::session::Session;

impl Session<'_> {
    /// Frees parts, given with their bytes, of a node that is gone or got shorter, and those that wait. None has to be freed again, whatever the result.
    pub(super) fn free_parts(&self, parts: Vec<(Handle, usize)>) -> Result<(), Error> {
        let mut waiting = std::mem::take(&mut locked(&self.core().large).waiting);
        waiting.extend(parts);
        let mut result = Ok(());
        let mut is_away = false;
        waiting.retain(|&(part, _)| {
            // One is enough to wait for a tier that does not answer.
            let freed = if is_away { Err(Error::Away) } else { self.free(part) };
            is_away |= freed == Err(Error::Away);
            match freed {
                Err(Error::Busy | Error::Pinned | Error::Limit | Error::OutOfMemory | Error::Away) => true,
                freed => {
                    result = result.and(freed.map_err(of_part));
                    false
                }
            }
        });
        locked(&self.core().large).waiting.append(&mut waiting);
        result
    }

    /// Frees parts that wait.
    pub(super) fn free_waiting(&self) {
        if !locked(&self.core().large).waiting.is_empty() {
            // They are of nodes of which nobody has a handle: nobody can be told.
            let _ = self.free_parts(Vec::new());
        }
    }
}
