//! Pins: nodes that stay in place, so that C can have pointers to them.
//!
//! A session of the heap that does nothing else holds them. Writing needs a session that has lent nothing, and
//! pins are lent for long.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use memfold::heap::Pin;

use crate::bound::Bound;
use crate::entry::Out;
use crate::error::{Code, Failure};
use crate::session::node::{handle, memfold_handle};
use crate::session::{Access, in_session, memfold_session};

/// What a session has pinned.
#[derive(Default)]
pub struct Pins {
    /// By handle. They are dropped before the session that they borrow.
    held: BTreeMap<memfold_handle, Held>,
    bound: Option<Bound>,
}

struct Held {
    pin: Pin<'static>,
    /// How often it was pinned.
    count: u64,
}

impl Pins {
    /// An error if the node is pinned.
    pub fn has_not(&self, node: memfold_handle) -> Result<(), Failure> {
        if self.held.contains_key(&node) {
            return Err(Failure::new(Code::Busy, "this session has pinned the node: unpin it first"));
        }
        Ok(())
    }
}

impl Access {
    /// Pins a node and uses the pin.
    fn pin<R>(
        &mut self,
        node: memfold_handle,
        then: impl FnOnce(&mut Pin<'static>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let handle = handle(node)?;
        let bound = match &mut self.pins.bound {
            Some(bound) => bound,
            none => none.insert(Bound::new(self.bound.seat())?),
        };
        // SAFETY: pins are kept in `held`, which is dropped before `bound`; and only this function uses that.
        let mut pin = unsafe { bound.session_static() }.pin(handle)?;
        match self.pins.held.get_mut(&node) {
            Some(held) => {
                let result = then(&mut held.pin)?;
                held.count += 1;
                Ok(result)
            }
            None => {
                let result = then(&mut pin)?;
                self.pins.held.insert(node, Held { pin, count: 1 });
                Ok(result)
            }
        }
    }
}

/// Pins a node for reading.
///
/// # Safety
/// A pointer can be written to `bytes`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_pin(
    session: *mut memfold_session,
    node: memfold_handle,
    bytes: *mut *const c_void,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(bytes) }?;
        out.set(open.pin(node, |pin| Ok(pin.as_ptr()))?.cast());
        Ok(())
    })
}

/// Pins a node for writing.
///
/// # Safety
/// A pointer can be written to `bytes`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memfold_pin_mut(
    session: *mut memfold_session,
    node: memfold_handle,
    bytes: *mut *mut c_void,
) -> c_int {
    in_session(session, |open| {
        // SAFETY: as promised.
        let out = unsafe { Out::new(bytes) }?;
        out.set(open.pin(node, |pin| Ok(pin.as_mut_ptr()?))?.cast());
        Ok(())
    })
}

/// Removes one pin.
#[unsafe(no_mangle)]
pub extern "C" fn memfold_unpin(session: *mut memfold_session, node: memfold_handle) -> c_int {
    in_session(session, |open| {
        let held = open.pins.held.get_mut(&node).ok_or(Code::NotPinned)?;
        held.count -= 1;
        if held.count == 0 {
            open.pins.held.remove(&node);
        }
        Ok(())
    })
}
