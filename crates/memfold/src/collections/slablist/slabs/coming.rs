//! An element on its way into a list.

use super::{Held, Slabs};
use crate::collections::slablist::element::Element;
use crate::collections::slablist::format::Format;
use crate::heap::{Error, Session};

/// An element that is about to be put into a leaf. Unless it arrives there, the node that it has if it is a long
/// one goes with this: after an error, and when a comparison of the program's panics while a place is looked for.
pub struct Coming<'e, E: ?Sized + Element> {
    session: &'e Session<'e>,
    held: Held<'e, E>,
    arrived: bool,
}

impl<'e, E: ?Sized + Element> Coming<'e, E> {
    #[inline(always)]
    pub fn new(session: &'e Session<'_>, element: &'e E) -> Result<Self, Error> {
        let held = E::Format::hold(session, Slabs::<E>::longest(session), element)?;
        Ok(Coming { session: session.borrowed(), held, arrived: false })
    }

    /// The element, as leaves keep it.
    #[inline(always)]
    pub fn held(&self) -> Held<'e, E> {
        self.held
    }

    /// It is in a leaf now.
    #[inline(always)]
    pub fn arrived(mut self) {
        self.arrived = true;
    }
}

impl<E: ?Sized + Element> Drop for Coming<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if E::Format::HAS_LONG && !self.arrived {
            E::Format::let_go(self.session, self.held);
        }
    }
}
