//! An element on its way into a list.

use super::{Held, Slabs};
use crate::collections::slablist::format::Element;
use crate::collections::slablist::format::Format;
use crate::heap::{Error, Session};

/// An element that is about to be put into a leaf. If it does not arrive there, its node, if it is a long
/// one, is freed when this is dropped: after an error, and if a comparison of the program panics during the
/// search for its place.
pub struct PendingElement<'e, E: ?Sized + Element> {
    session: &'e Session<'e>,
    held: Held<'e, E>,
    arrived: bool,
}

impl<'e, E: ?Sized + Element> PendingElement<'e, E> {
    #[inline(always)]
    pub fn new(session: &'e Session<'_>, element: &'e E) -> Result<Self, Error> {
        let held = E::Format::hold(session, Slabs::<E>::longest(session), element)?;
        Ok(PendingElement { session: session.borrowed(), held, arrived: false })
    }

    /// The element, as leaves store it.
    #[inline(always)]
    pub fn held(&self) -> Held<'e, E> {
        self.held
    }

    /// Notes that it is in a leaf now.
    #[inline(always)]
    pub fn arrived(mut self) {
        self.arrived = true;
    }
}

impl<E: ?Sized + Element> Drop for PendingElement<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if E::Format::HAS_LONG && !self.arrived {
            E::Format::let_go(self.session, self.held);
        }
    }
}
