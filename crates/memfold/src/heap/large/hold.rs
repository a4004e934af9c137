//! Large nodes in one piece, while a guard or a pin holds them.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Large, State, Whole, of_part};
use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;
use crate::heap::sync::locked;
use crate::room::gather;

/// The session from which the guards of a large node came; they need it when they are dropped.
pub trait Holder {
    /// Marks the node changed, and makes sure that writing it back needs no more memory.
    fn will_change(&self, large: &Large) -> Result<(), Error>;
    /// Ends a guard's hold; `wrote` says whether it was a guard to write.
    fn let_go(&self, large: &Large, wrote: bool);
}

/// A guard's hold on a large node.
pub struct Held<'s> {
    large: Arc<Large>,
    holder: &'s dyn Holder,
    writes: bool,
}

impl Held<'_> {
    /// Marks the node changed.
    pub fn will_change(&self) -> Result<(), Error> {
        self.holder.will_change(&self.large)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.holder.let_go(&self.large, self.writes);
    }
}
impl Session<'_> {
    /// Makes the node one piece, to write it or to look at it.
    pub(crate) fn hold_large(
        &self,
        handle: Handle,
        writes: bool,
    ) -> Result<(Held<'_>, NonNull<u8>, usize), Error> {
        let core = self.core();
        let large = core.large(handle)?;
        let mut state = large.lock()?;
        if writes && state.guards > 0 {
            return Err(Error::Busy);
        }
        if state.whole.is_none() {
            let layout = Layout::from_size_align(state.len, core.options.alignment.max(8));
            let layout = layout.map_err(|_| Error::OutOfMemory)?;
            // SAFETY: no node is empty.
            let bytes = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::OutOfMemory)?;
            let whole = Whole { bytes, layout };
            // SAFETY: memory of that length, which nobody else knows of.
            let all = unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr(), state.len) };
            self.read_state(&state, 0, all)?;
            state.whole = Some(whole);
        }
        let len = state.len;
        let bytes = state.whole(0..len).ok_or(Error::Damaged)?;
        if writes {
            self.make_parts(&mut state)?;
            state.changed = true;
        }
        state.guards += 1;
        state.writing = writes;
        drop(state);
        Ok((Held { large, holder: self, writes }, bytes, len))
    }

    /// Writes a node that guards left in one piece back into its parts.
    pub(super) fn put_back(&self, state: &mut State) -> Result<(), Error> {
        if state.changed {
            let part = self.core().part();
            for number in 0..state.parts.len() {
                let span = state.span(number, part);
                let part = self.make_part(state, number)?;
                let Some(bytes) = state.whole(span.clone()) else { break };
                // SAFETY: within the node, which nobody writes: no guard is left.
                let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), span.len()) };
                match self.write_part(part, 0, bytes) {
                    // `bytes` is the whole content of the lost part.
                    Err(Error::Lost) => {
                        self.free(part).map_err(of_part)?;
                        state.parts[number] = None;
                        let part = self.make_part(state, number)?;
                        self.write_part(part, 0, bytes)?;
                    }
                    written => written?,
                }
            }
            state.changed = false;
        }
        if state.guards == 0 {
            state.whole = None;
        }
        Ok(())
    }

    /// Writes every large node that is still in one piece back into its parts, so that the parts have all of
    /// its content. No guard may live.
    pub(crate) fn put_all_back(&self) -> Result<(), Error> {
        self.free_waiting();
        let all = gather(locked(&self.core().large).all().cloned())?;
        all.iter().try_for_each(|large| self.put_back(&mut locked(&large.0)))
    }
}
impl Holder for Session<'_> {
    fn will_change(&self, large: &Large) -> Result<(), Error> {
        let mut state = locked(&large.0);
        if !state.freed {
            self.make_parts(&mut state)?;
            state.changed = true;
        }
        Ok(())
    }

    fn let_go(&self, large: &Large, wrote: bool) {
        let mut state = locked(&large.0);
        state.guards -= 1;
        state.writing &= !wrote;
        if state.guards == 0 {
            if state.freed {
                state.whole = None;
            } else {
                // If the copy can't be written back now, it remains the node.
                let _ = self.put_back(&mut state);
            }
        }
    }
}
